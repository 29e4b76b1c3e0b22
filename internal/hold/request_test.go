package hold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// object writes a request with one field of its good form replaced; "" takes it away.
func object(act string, fields map[string]string, name, value string) string {
	var members []string
	for _, field := range []string{"id", "tenant", "scope", "value", "by", "reason", "other"} {
		v, ok := fields[field]
		if field == name {
			v, ok = value, value != ""
		}
		if ok {
			members = append(members, fmt.Sprintf("%q:%s", field, v))
		}
	}
	return fmt.Sprintf(`{%q:{%s}}`, act, strings.Join(members, ","))
}

func TestDecode(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	good := map[string]map[string]string{
		"place":   {"id": `"h-1"`, "tenant": `"acme"`, "scope": `"item"`, "value": `"exports/acme/a"`, "by": `"counsel"`, "reason": `"case 2291"`},
		"ask":     {"id": `"h-1"`, "tenant": `"acme"`},
		"release": {"id": `"h-1"`, "tenant": `"acme"`, "by": `"counsel"`, "reason": `"closed"`},
		"list":    {"tenant": `"acme"`},
	}
	names := []string{long(1), long(64), `"A.b_c-9"`, `"."`}
	notNames := []string{"", `""`, `" "`, `"a/b"`, `"a b"`, `"é"`, `"a\u0000"`, long(65), "7", "null"}
	tenants, notTenants := []string{`"a"`, long(128), `"school-42"`}, []string{"", `""`, `".."`, `"-a"`, `"a/b"`, long(129), "null", "[]"}
	reasons, notReasons := []string{`"12345"`, `"ééééé"`, long(200)}, []string{"", `""`, `"1234"`, `" 12345"`, `"12345 "`, `"123\n45"`, long(201), "null"}
	for _, c := range []struct {
		acts, field string
		good, bad   []string
	}{
		{"place ask release list", "tenant", tenants, notTenants},
		{"ask release", "id", names, notNames},
		{"place", "id", append(names, ""), notNames[2 : len(notNames)-2]},
		{"place release", "by", []string{`"x"`, `"arn:aws:iam::1:role/x"`, long(256)}, []string{"", `""`, `" x"`, `"x\ty"`, long(257), "null"}},
		{"place release", "reason", reasons, notReasons},
		{"place", "scope", []string{`"item"`, `"prefix"`}, []string{"", `""`, `"Item"`, `"bucket"`, `"tenant"`, "null"}}, // a tenant has no value
		{"place", "value", []string{`"a"`, `" "`, `"a\u0000b"`, `"é"`, long(1024)}, []string{"", `""`, long(1025), "null", "7"}},
		{"place ask release list", "other", nil, []string{`"x"`, "null"}},
		{"ask release list", "value", nil, []string{`"x"`}},
		{"ask list", "by", nil, []string{`"x"`}},
	} {
		for _, act := range strings.Fields(c.acts) {
			for _, v := range c.good {
				if _, err := hold.Decode([]byte(object(act, good[act], c.field, v))); err != nil {
					t.Errorf("%s %s %.80s: %v", act, c.field, v, err)
				}
			}
			for _, v := range c.bad {
				_, err := hold.Decode([]byte(object(act, good[act], c.field, v)))
				if !failure.Is(err, failure.Invalid) {
					t.Errorf("%s %s %.80s: %v", act, c.field, v, err)
				} else if v != "" && v != `""` && v != "7" && v != "null" && v != "[]" && v != `"x"` && c.field != "other" && !strings.Contains(err.Error(), c.field) {
					t.Errorf("%s %s %.80s: the error does not name the field: %v", act, c.field, v, err)
				}
			}
		}
	}
	whole := good["place"]
	whole["scope"] = `"tenant"`
	if r, err := hold.Decode([]byte(object("place", whole, "value", ""))); err != nil || r.Place.Scope != hold.Tenant {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDecodeRefusesWhatIsNoRequest(t *testing.T) {
	for _, payload := range []string{
		"", "null", "{}", "[]", `"list"`, "{", `{"list":{"tenant":"acme"}} {}`, `{"list":null}`, `{"list":[]}`, `{"List":{"tenant":"acme"}}`,
		`{"list":{"Tenant":"acme"}}`, `{"list":{"tenant":"acme","tenant":"acme"}}`, `{"list":{"tenant":"acme"},"list":{"tenant":"acme"}}`,
		`{"list":{"tenant":"acme"},"ask":{"tenant":"acme","id":"h"}}`, `{"list":{"tenant":"acme"},"other":{}}`, "{\"list\":{\"tenant\":\"ac\xffme\"}}",
		`{"list":{"tenant":"acme"}` + strings.Repeat(" ", 16<<10) + "}",
	} {
		if r, err := hold.Decode([]byte(payload)); !failure.Is(err, failure.Invalid) {
			t.Errorf("%.80s: %+v, %v", payload, r, err)
		}
	}
}

// The longest request there is, every character of it escaped, is read; and what the
// tool encodes is what the step decodes.
func TestTheLongestRequest(t *testing.T) {
	escaped := func(n int) string { return `"` + strings.Repeat(`\u0041`, n) + `"` }
	payload := fmt.Sprintf(`{"place":{"id":%s,"tenant":%s,"scope":"item","value":%s,"by":%s,"reason":%s}}`,
		escaped(64), escaped(128), escaped(1024), escaped(256), escaped(200))
	r, err := hold.Decode([]byte(payload))
	if err != nil || len(r.Place.Value) != 1024 {
		t.Fatalf("%v", err)
	}
	again, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := hold.Decode(again); err != nil || *s.Place != *r.Place {
		t.Errorf("%s: %v", again, err)
	}
}

// A bad request is told what is wrong and leaves nothing behind.
func TestABadRequestChangesNothing(t *testing.T) {
	w := newScripted(t, "a")
	answer, err := w.keeper(w.process()).Handle(t.Context(), noon, []byte(`{"place":{"tenant":"acme","scope":"tenant","by":"me","reason":"no"}}`))
	if answer != nil || !failure.Is(err, failure.Invalid) || !strings.Contains(err.Error(), "reason") || len(w.calls) != 0 {
		t.Errorf("%v, %v, calls %v", answer, err, w.calls)
	}
}

// FuzzDecode: what is accepted is exactly one order in its alphabets, what is not is
// refused without being quoted.
func FuzzDecode(f *testing.F) {
	for _, payload := range []string{
		`{"place":{"id":"h-1","tenant":"acme","scope":"item","value":"exports/acme/a","by":"counsel","reason":"case 2291"}}`,
		`{"place":{"tenant":"acme","scope":"tenant","by":"counsel","reason":"case 2291"}}`, `{"ask":{"id":"h-1","tenant":"acme"}}`,
		`{"release":{"id":"h-1","tenant":"acme","by":"counsel","reason":"closed"}}`, `{"list":{"tenant":"acme"}}`, `{"list":{"tenant":".."}}`,
		`{"list":{"tenant":"acme"},"ask":{"id":"h-1","tenant":"acme"}}`, `{"LIST":{"tenant":"acme"}}`, `{"list":null}`, `{"list":{"tenant":"acme"}}{}`, "null", "",
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := hold.Decode(payload)
		if err != nil {
			if !failure.Is(err, failure.Invalid) || len(payload) > 40 && strings.Contains(err.Error(), string(payload)) {
				t.Errorf("%v", err)
			}
			return
		}
		var tenants []string
		if r.Place != nil {
			tenants = append(tenants, r.Place.Tenant)
			if (r.Place.Scope == hold.Tenant) != (r.Place.Value == "") || r.Place.By == "" || r.Place.Reason == "" {
				t.Errorf("%+v", *r.Place)
			}
		}
		if r.Ask != nil {
			tenants = append(tenants, r.Ask.Tenant)
		}
		if r.Release != nil {
			tenants = append(tenants, r.Release.Tenant)
			if r.Release.By == "" || r.Release.ID == "" {
				t.Errorf("%+v", *r.Release)
			}
		}
		if r.List != nil {
			tenants = append(tenants, r.List.Tenant)
		}
		if len(tenants) != 1 || !job.ValidTenant(tenants[0]) {
			t.Errorf("%s is accepted for %q", payload, tenants)
		}
	})
}
