package local

import (
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

const exportsYAML = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: Europe/Berlin}
limits: {max_share: 1, max_rate: 50000}
`

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func parse(t testing.TB, yaml string) policy.Policy {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newWorld(t testing.TB, policies ...policy.Policy) *World {
	t.Helper()
	w, err := New(Options{Region: "eu-west-1", AsOf: noon, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// put stores an object of the age.
func (w *World) put(t testing.TB, bucket, key string, age time.Duration) job.Item {
	t.Helper()
	item, err := w.Store.Put(bucket, job.Item{Key: key, ETag: "etag-" + key, Size: 10, Modified: noon.Add(-age)})
	if err != nil {
		t.Fatal(err)
	}
	return item
}

const day = 24 * time.Hour

func TestExpiredGoAndTheRestStays(t *testing.T) {
	p := parse(t, exportsYAML)
	w := newWorld(t, p)
	for i := range 2500 {
		w.put(t, p.Bucket, fmt.Sprintf("exports/acme/%05d.csv", i), 31*day)
	}
	w.put(t, p.Bucket, "exports/acme/young.csv", 29*day)
	w.put(t, p.Bucket, "exports/README", 99*day)
	r, err := w.Tick(t.Context(), "exports", noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, _ := w.Ledger.Run(t.Context(), r.RunID)
	t.Logf("%+v", run)
	for _, e := range w.Log.Events() {
		t.Logf("%+v", e)
	}
	if run.State != job.Closed || run.Totals.Counts[job.Deleted] != 2500 {
		t.Errorf("run %s deleted %d", run.State, run.Totals.Counts[job.Deleted])
	}
	left := 0
	for range w.Store.Objects(p.Bucket) {
		left++
	}
	if left != 2 {
		t.Errorf("%d objects left, want 2", left)
	}
}
