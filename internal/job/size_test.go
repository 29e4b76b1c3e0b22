package job_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/job"
)

// largest is a page with every field at its largest at once, which no page is:
// an item that counts a thousand items, has died twice and is redriven.
func largest() job.Page {
	at := time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	id, sha := strings.Repeat("f", 32), strings.Repeat("f", 64)
	return job.Page{
		ID: job.PageID(id), Run: job.RunID(id), Tenant: strings.Repeat("t", 128), Kind: job.RangePage, Rev: 9999,
		After: strings.Repeat("a", 1024), Through: strings.Repeat("a", 1024), Parent: job.PageID(id),
		Examined: 10000, Candidates: 1000, State: job.Completed, Owner: id, Fence: 999, Attempts: 15, Spent: 10, RestartedAt: at, Braked: true,
		RedriveID: job.RedriveID(id), Abandoned: true, SettledAt: at,
		LeaseEnd: at, QuietAt: at, BornAt: at, FirstFailure: at, LastClass: "unknown_policy", RetryAt: at, NextDue: at,
		Intent:  job.Intent{Plan: sha, Epoch: 99999, Fence: 999, Deletes: 1000},
		Receipt: sha, Counts: counts(91, 91, 91, 91, 91, 91, 91, 91, 91, 91), Bytes: 5 << 50, Planned: 1000, Moved: 25,
		Death: job.Death{Reason: job.ReasonUnsupportedSchema, At: at, LetterAt: at},
	}
}

func sizeWithout(t *testing.T, p job.Page, fields ...string) int {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]jsontext.Value{}
	if err := json.Unmarshal(b, &row); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if _, there := row[f]; !there {
			t.Fatalf("a page has no field %s", f)
		}
		delete(row, f)
	}
	if b, err = json.Marshal(row); err != nil {
		t.Fatal(err)
	}
	return len(b)
}

// A page's row stays about 1 KB, so that placing a hold can read every page of a
// tenant (F19). Here every field has its largest value at once; a page that was
// given up, parked and split off is none that was completed. The bounds of its range
// may take it over: they are keys.
func TestPageRowIsSmall(t *testing.T) {
	p := largest()
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not set: give it its largest value", v.Type().Field(i).Name)
		}
	}
	if n := sizeWithout(t, p, "After", "Through", "Run", "Tenant"); n > 1152 {
		t.Errorf("%d bytes beside the row's keys", n)
	}
	t.Logf("%d bytes of JSON beside the row's keys, %d with run and tenant",
		sizeWithout(t, p, "After", "Through", "Run", "Tenant"), sizeWithout(t, p, "After", "Through"))
}
