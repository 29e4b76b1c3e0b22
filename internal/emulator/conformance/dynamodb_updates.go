package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func dynamoUpdates() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("UpdateItem: ADD number, SET if_not_exists, arithmetic, REMOVE", (*dynamoSuite).updateForms),
		dynamoCheck("UpdateItem: list_append(if_not_exists(l, :e), :x)", (*dynamoSuite).appendOrCreate),
		dynamoCheck("UpdateItem: list_append(l, :x) on existing list", (*dynamoSuite).appendToList),
		dynamoCheck("UpdateItem: SET nested map path and REMOVE nested", (*dynamoSuite).nestedPaths),
		dynamoCheck("UpdateItem: ADD/DELETE string set", (*dynamoSuite).setMembers),
		dynamoCheck("UpdateItem: ReturnValues UPDATED_NEW returns only the updated", (*dynamoSuite).updatedNew),
		dynamoCheck("UPDATED_OLD / ALL_OLD hold the value before", (*dynamoSuite).updatedOld),
		dynamoCheck("names #s/#st/#status (prefixes) x50 deterministic", (*dynamoSuite).prefixNames),
		dynamoCheck("UpdateItem without condition creates; with attribute_exists refuses", (*dynamoSuite).upsert),
		dynamoCheck("UpdateItem: REMOVE of several list elements goes by the old indexes", (*dynamoSuite).removeElements),
	}
}

func (c *dynamoSuite) updateForms(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "n", valueN(5), "oldv", valueS("x"), "keep", valueS("k"))
	expression := "SET v = if_not_exists(v, :one), keep = if_not_exists(keep, :one), m = n + :one, d = :one - n REMOVE oldv ADD n :one"
	row, err := c.update(t, p, "b", expression, attributes{":one": valueN(1)})
	if err != nil {
		t.Fatal(err)
	}
	for attribute, want := range map[string]string{"n": "6", "v": "1", "keep": "k", "m": "6", "d": "-4", "oldv": "<none>"} {
		if got := plain(row[attribute]); got != want {
			t.Errorf("%s is %s, want %s", attribute, got, want)
		}
	}
}

func (c *dynamoSuite) appendOrCreate(t *testing.T) {
	p := name("p")
	c.put(t, p, "b")
	for want := 1; want <= 3; want++ {
		row, err := c.update(t, p, "b", "SET hist = list_append(if_not_exists(hist, :e), :x)", attributes{":e": valueL(), ":x": valueL(valueS("h"))})
		if err != nil {
			t.Fatal(err)
		}
		if got := listLength(row["hist"]); got != want {
			t.Errorf("length %d, want %d", got, want)
		}
	}
}

func (c *dynamoSuite) appendToList(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "l", valueL(valueS("0")))
	row, err := c.update(t, p, "b", "SET l = list_append(l, :v)", placeholder(valueL(valueS("h"))))
	if err != nil {
		t.Fatal(err)
	}
	if got := listLength(row["l"]); got != 2 {
		t.Errorf("length %d, want 2", got)
	}
}

func (c *dynamoSuite) nestedPaths(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "m", valueM(attributes{"x": valueS("1"), "y": valueS("2")}))
	row, err := c.update(t, p, "b", "SET #m.#x = :v REMOVE #m.#y", placeholder(valueS("9")), named("#m", "m", "#x", "x", "#y", "y"))
	if err != nil {
		t.Fatal(err)
	}
	m, ok := row["m"].(*types.AttributeValueMemberM)
	if !ok || len(m.Value) != 1 || plain(m.Value["x"]) != "9" {
		t.Errorf("m is %v", row["m"])
	}
	if stray, ok := row["m.x"]; ok {
		t.Errorf("stray attribute m.x: %v", stray)
	}
	_, err = c.update(t, p, "b", "SET nothere.x = :v", placeholder(valueS("9")))
	wantCode(t, err, "ValidationException")
}

func (c *dynamoSuite) setMembers(t *testing.T) {
	p := name("p")
	for _, member := range []string{"a", "b", "a"} {
		if _, err := c.update(t, p, "b", "ADD tags :v", placeholder(valueSS(member))); err != nil {
			t.Fatal(err)
		}
	}
	row, err := c.update(t, p, "b", "DELETE tags :v", placeholder(valueSS("a")))
	if err != nil {
		t.Fatal(err)
	}
	if set, ok := row["tags"].(*types.AttributeValueMemberSS); !ok || !slices.Equal(set.Value, []string{"b"}) {
		t.Errorf("tags are %v", row["tags"])
	}
	if row, err = c.update(t, p, "b", "DELETE tags :v", placeholder(valueSS("b"))); err != nil || row["tags"] != nil {
		t.Errorf("an empty set stays: %v, %v", row["tags"], err)
	}
}

func returning(values types.ReturnValue) func(*dynamodb.UpdateItemInput) {
	return func(in *dynamodb.UpdateItemInput) { in.ReturnValues = values }
}

func (c *dynamoSuite) updatedNew(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "x", valueS("1"), "y", valueS("2"))
	got, err := c.update(t, p, "b", "SET x = :v", placeholder(valueS("9")), returning(types.ReturnValueUpdatedNew))
	if err != nil || len(got) != 1 || plain(got["x"]) != "9" {
		t.Errorf("got %v, %v", got, err)
	}
}

func (c *dynamoSuite) updatedOld(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "x", valueS("1"), "y", valueS("2"))
	got, err := c.update(t, p, "b", "SET x = :v", placeholder(valueS("9")), returning(types.ReturnValueAllOld))
	if err != nil || len(got) != 4 || plain(got["x"]) != "1" {
		t.Errorf("ALL_OLD: %v, %v", got, err)
	}
	got, err = c.update(t, p, "b", "SET x = :v, z = :v", placeholder(valueS("10")), returning(types.ReturnValueUpdatedOld))
	if err != nil || len(got) != 1 || plain(got["x"]) != "9" {
		t.Errorf("UPDATED_OLD: %v, %v", got, err)
	}
}

func (c *dynamoSuite) prefixNames(t *testing.T) {
	p := name("p")
	for i := range 50 {
		sk := fmt.Sprint(i)
		c.put(t, p, sk, "state", valueS("open"), "started", valueN(1), "status", valueS("new"))
		row, err := c.update(t, p, sk, "SET #status = :d, #st = :n",
			attributes{":d": valueS("done"), ":n": valueN(2), ":o": valueS("open"), ":one": valueN(1)},
			onlyIf("#s = :o AND #st = :one"), named("#s", "state", "#st", "started", "#status", "status"))
		if err != nil || plain(row["status"]) != "done" || plain(row["started"]) != "2" || len(row) != 5 {
			t.Fatalf("round %d: %v, %v", i, row, err)
		}
	}
}

func (c *dynamoSuite) upsert(t *testing.T) {
	p := name("p")
	if _, err := c.update(t, p, "1", "SET x = :v", placeholder(valueS("1"))); err != nil {
		t.Fatal(err)
	}
	if c.get(t, p, "1") == nil {
		t.Error("not created")
	}
	_, err := c.update(t, p, "2", "SET x = :v", placeholder(valueS("1")), onlyIf("attribute_exists(pk)"))
	wantCode(t, err, "ConditionalCheckFailedException")
	if c.get(t, p, "2") != nil {
		t.Error("created although the condition failed")
	}
}

func (c *dynamoSuite) removeElements(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "l", valueL(valueS("0"), valueS("1"), valueS("2"), valueS("3")))
	row, err := c.update(t, p, "b", "REMOVE l[0], l[2] SET l[9] = :v", placeholder(valueS("new")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := elements(row["l"]), []string{"1", "3", "new"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
