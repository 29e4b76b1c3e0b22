package hold_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
)

var now = time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)

func TestCovers(t *testing.T) {
	const key = "exports/school-42/a/b"
	for _, c := range []struct {
		name   string
		scope  hold.Scope
		value  string
		key    string
		covers bool
	}{
		{"tenant", hold.Tenant, "", key, true},
		{"tenant, whatever its value", hold.Tenant, "other", key, true},
		{"tenant, no key", hold.Tenant, "", "", true},

		{"prefix", hold.Prefix, "exports/school-42/a/", key, true},
		{"prefix that ends inside a name covers more", hold.Prefix, "exports/school-42/a", "exports/school-42/ab", true},
		{"prefix that is the key", hold.Prefix, key, key, true},
		{"prefix longer than the key", hold.Prefix, key + "c", key, false},
		{"prefix of the neighbour", hold.Prefix, "exports/school-4/", key, false},
		{"prefix in another case", hold.Prefix, "Exports/", key, false},
		{"prefix that stands later", hold.Prefix, "school-42/", key, false},
		{"empty prefix covers nothing", hold.Prefix, "", key, false},
		{"empty prefix, no key", hold.Prefix, "", "", false},
		{"prefix of opaque bytes", hold.Prefix, "a\xff", "a\xff\x00", true},
		{"prefix in another Unicode form", hold.Prefix, "\u00e9", "e\u0301", false},

		{"item", hold.Item, key, key, true},
		{"item beside", hold.Item, key, key + "c", false},
		{"item above", hold.Item, "exports/school-42/a", key, false},
		{"item in another case", hold.Item, "EXPORTS/school-42/a/b", key, false},

		{"no scope protects", "", "", key, true},
		{"an unknown scope protects", "bucket", "other", key, true},
		{"a scope in another case is unknown", "Item", "other", key, true},
	} {
		if got := (hold.Hold{Scope: c.scope, Value: c.value}).Covers(c.key); got != c.covers {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		set   hold.Set
		epoch int64
		want  bool
	}{
		{nil, 0, true},
		{nil, 1, false},
		{hold.Set{{Epoch: 1}}, 1, true},
		{hold.Set{{Epoch: 1}}, 2, false},
		{hold.Set{{Epoch: 2}, {Epoch: 1}}, 2, true},
		{hold.Set{{Epoch: 3, ReleasedAt: now}}, 2, true}, // placed after the epoch was read
	} {
		if got := c.set.Reaches(c.epoch); got != c.want {
			t.Errorf("%+v reaches %d: %v", c.set, c.epoch, got)
		}
	}
}

func TestActive(t *testing.T) {
	if !(hold.Hold{PlacedAt: now}).Active() || (hold.Hold{ReleasedAt: now}).Active() {
		t.Error("a hold is in force until it is released")
	}
}

func placed(id string, epoch int64) hold.Hold {
	return hold.Hold{ID: id, Scope: hold.Item, Value: "k", Epoch: epoch, PlacedAt: now}
}

func released(id string, epoch int64) hold.Hold {
	h := placed(id, epoch)
	h.ReleasedAt = now.Add(time.Hour)
	return h
}

func elsewhere(h hold.Hold) hold.Hold {
	h.Value = "other"
	return h
}

// F4, S18: a hold that was placed since the intent vetoes it, released or not; one
// that was released before the intent does not come back.
func TestVetoing(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   hold.Set
		epoch int64
		want  string // the hold, "" for none
	}{
		{"no holds", nil, 0, ""},
		{"in force, placed since", hold.Set{placed("h", 5)}, 4, "h"},
		{"in force, placed before: the intent must not stand", hold.Set{placed("h", 4)}, 4, "h"},
		{"in force, placed long before", hold.Set{placed("h", 1)}, 9, "h"},
		{"F4 released, placed since", hold.Set{released("h", 5)}, 4, "h"},
		{"released, placed before", hold.Set{released("h", 4)}, 4, ""},
		{"released, placed long before", hold.Set{released("h", 1)}, 4, ""},
		{"released, of an intent without holds", hold.Set{released("h", 1)}, 0, "h"},
		{"elsewhere", hold.Set{elsewhere(placed("h", 5)), elsewhere(released("i", 6))}, 4, ""},
		{"the one that covers, not the first", hold.Set{elsewhere(placed("h", 5)), released("i", 4), released("j", 5)}, 4, "j"},
		{"one of many in force", hold.Set{released("h", 1), released("i", 2), placed("j", 3)}, 4, "j"},
	} {
		got, vetoed := c.set.Vetoing("k", c.epoch)
		if vetoed != (c.want != "") || got.ID != c.want {
			t.Errorf("%s: %v %q", c.name, vetoed, got.ID)
		}
	}
}

func TestCovering(t *testing.T) {
	for _, c := range []struct {
		name string
		set  hold.Set
		want string
	}{
		{"no holds", nil, ""},
		{"in force", hold.Set{placed("h", 1)}, "h"},
		{"released", hold.Set{released("h", 1)}, ""},
		{"elsewhere", hold.Set{elsewhere(placed("h", 1))}, ""},
		{"one released, one in force", hold.Set{released("h", 1), placed("i", 2)}, "i"},
		{"one elsewhere, one that covers", hold.Set{elsewhere(placed("h", 1)), placed("i", 2)}, "i"},
	} {
		got, covered := c.set.Covering("k")
		if covered != (c.want != "") || got.ID != c.want {
			t.Errorf("%s: %v %q", c.name, covered, got.ID)
		}
	}
}

// Whatever covers a key now also vetoes, under any epoch: the check at the intent
// can not be weaker than the one at the decision.
func TestVetoingIsNeverWeakerThanCovering(t *testing.T) {
	for _, h := range []hold.Hold{
		placed("h", 3), released("h", 3), elsewhere(placed("h", 3)),
		{ID: "h", Scope: hold.Tenant, Epoch: 3}, {ID: "h", Scope: hold.Prefix, Value: "k", Epoch: 3}, {ID: "h", Scope: "new", Epoch: 3},
	} {
		for epoch := range int64(6) {
			_, covered := hold.Set{h}.Covering("k")
			if _, vetoed := (hold.Set{h}).Vetoing("k", epoch); covered && !vetoed {
				t.Errorf("%+v covers and does not veto at epoch %d", h, epoch)
			}
		}
	}
}

// A scope that is added must be entered in the table of TestCovers.
func TestScopesAreThree(t *testing.T) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "hold.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	scopes := 0
	ast.Inspect(syntax, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if name, named := spec.Type.(*ast.Ident); named && name.Name == "Scope" {
				scopes++
			}
		}
		return true
	})
	if scopes != 3 {
		t.Errorf("%d scopes", scopes)
	}
}
