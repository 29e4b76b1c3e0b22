package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// dynamoLedger is the checks of what the ledger leans on by itself, by the
// incidents they come from.
func dynamoLedger() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("a retried claim reads its own owner and generation in the failed condition DB-01", (*dynamoSuite).ownClaim),
		dynamoCheck("concurrent takeovers of an expired lease: one winner, generation + 1 DB-02", (*dynamoSuite).takeover),
		dynamoCheck("a fenced write of an old generation changes nothing DB-04", (*dynamoSuite).fence),
		dynamoCheck("a row past its time to live is still returned DB-05", (*dynamoSuite).expiredRow),
		dynamoCheck("unprocessed rows are listed, and sent again they all arrive DB-09", (*dynamoSuite).unprocessed),
		dynamoCheck("a consistent read sees what the index may not show yet DB-12", (*dynamoSuite).consistentRead),
	}
}

const claimExpression = "SET #o = :owner, gen = if_not_exists(gen, :zero) + :one, lease = :lease"

// claim writes a claim of the owner, if there is none or its lease is over.
func (c *dynamoSuite) claim(t *testing.T, p, owner string, now, lease int) (attributes, error) {
	return c.update(t, p, "claim", claimExpression, attributes{
		":owner": valueS(owner), ":zero": valueN(0), ":one": valueN(1), ":lease": valueN(lease), ":now": valueN(now),
	}, onlyIf("attribute_not_exists(lease) OR lease < :now"), named("#o", "owner"), func(in *dynamodb.UpdateItemInput) {
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	})
}

func (c *dynamoSuite) ownClaim(t *testing.T) {
	p := name("p")
	if _, err := c.claim(t, p, "w1", 100, 160); err != nil {
		t.Fatal(err)
	}
	_, err := c.claim(t, p, "w1", 101, 161) // the answer was lost, the SDK tries again
	if old := failedCondition(t, err).Item; plain(old["owner"]) != "w1" || plain(old["gen"]) != "1" || plain(old["lease"]) != "160" {
		t.Errorf("the stored claim reads %v", old)
	}
}

func (c *dynamoSuite) takeover(t *testing.T) {
	p := name("p")
	if _, err := c.claim(t, p, "dead", 100, 160); err != nil {
		t.Fatal(err)
	}
	var winners atomic.Int32
	for _, err := range racers(16, func(i int) error {
		row, err := c.claim(t, p, fmt.Sprint("w", i), 161, 220)
		if err == nil {
			winners.Add(1)
			if plain(row["gen"]) != "2" {
				return fmt.Errorf("generation %s", plain(row["gen"]))
			}
			return nil
		}
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) || plain(failed.Item["gen"]) != "2" {
			return fmt.Errorf("lost without the winner's row: %w", err)
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := winners.Load(); n != 1 {
		t.Errorf("%d winners", n)
	}
}

func (c *dynamoSuite) fence(t *testing.T) {
	p := name("p")
	for _, owner := range []string{"w1", "w2"} {
		if _, err := c.claim(t, p, owner, map[string]int{"w1": 100, "w2": 200}[owner], 160); err != nil {
			t.Fatal(err)
		}
	}
	finish := func(generation int) error {
		_, err := c.update(t, p, "claim", "SET outcome = :v", attributes{":v": valueS(fmt.Sprint(generation)), ":g": valueN(generation)}, onlyIf("gen = :g"))
		return err
	}
	wantCode(t, finish(1), "ConditionalCheckFailedException")
	if err := finish(2); err != nil {
		t.Fatal(err)
	}
	wantCode(t, finish(1), "ConditionalCheckFailedException")
	if got := plain(c.get(t, p, "claim")["outcome"]); got != "2" {
		t.Errorf("outcome of generation %s", got)
	}
}

func (c *dynamoSuite) expiredRow(t *testing.T) {
	table := c.newTable(t, types.ScalarAttributeTypeS)
	must(c.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: aws.Bool(true)},
	}))(t)
	must(c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: rowOf("a", "b", "exp", valueN(1))}))(t)
	out := must(c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: keyOf("a", "b"), ConsistentRead: aws.Bool(true)}))(t)
	if out.Item == nil {
		t.Error("gone at once")
	}
}

func (c *dynamoSuite) unprocessed(t *testing.T) {
	p := name("p")
	rows := rowsOf(p, "%03d", 60, nil)
	c.store(t, c.table, rows)
	if n := must(c.Query(t.Context(), c.partitionQuery(p)))(t).Count; n != 60 {
		t.Errorf("%d rows of 60", n)
	}
	left := map[string]types.KeysAndAttributes{c.table: {Keys: rows, ConsistentRead: aws.Bool(true)}}
	found := 0
	for len(left) > 0 {
		out := must(c.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: left}))(t)
		found += len(out.Responses[c.table])
		left = out.UnprocessedKeys
	}
	if found != 60 {
		t.Errorf("found %d rows of 60", found)
	}
}

func (c *dynamoSuite) consistentRead(t *testing.T) {
	p := name("p")
	for i := range 20 {
		c.put(t, p, "1", "n", valueN(i), "gpk", valueS(p), "gsk", valueS(fmt.Sprintf("2024-%02d", i)))
		if got := plain(c.get(t, p, "1")["n"]); got != fmt.Sprint(i) {
			t.Fatalf("read %s after writing %d", got, i)
		}
	}
	eventually(t, "the last write in the index", func() bool {
		rows := must(c.Query(t.Context(), c.dueQuery(p)))(t).Items
		return len(rows) == 1 && plain(rows[0]["gsk"]) == "2024-19"
	})
}
