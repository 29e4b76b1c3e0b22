package job_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/job"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bytesOf(t *testing.T, digits string) string {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestReleasedIdentities pins what ledgers, queues and evidence already hold. The
// file was computed by another program from the description of the identities.
func TestReleasedIdentities(t *testing.T) {
	var golden struct {
		Never string `json:"never edited"`
		Runs  []struct {
			Region    string    `json:"region"`
			Policy    string    `json:"policy"`
			Scheduled string    `json:"scheduled"`
			ID        job.RunID `json:"id"`
		} `json:"runs"`
		Requests []struct {
			Region    string    `json:"region"`
			Policy    string    `json:"policy"`
			RequestID string    `json:"request_id"`
			ID        job.RunID `json:"id"`
		} `json:"requests"`
		Ranges []struct {
			Run    job.RunID  `json:"run"`
			Tenant string     `json:"tenant"`
			After  string     `json:"after_hex"`
			ID     job.PageID `json:"id"`
		} `json:"ranges"`
		Items []struct {
			Run     job.RunID  `json:"run"`
			Tenant  string     `json:"tenant"`
			Key     string     `json:"key_hex"`
			Version string     `json:"version"`
			ID      job.PageID `json:"id"`
		} `json:"items"`
	}
	if err := json.Unmarshal(read(t, "v1-identities.json"), &golden, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	for _, g := range golden.Runs {
		if got := job.ScheduledRunID(g.Region, g.Policy, instantOf(t, g.Scheduled)); got != g.ID {
			t.Errorf("run %+v is now %s", g, got)
		}
	}
	for _, g := range golden.Requests {
		if got := job.RequestRunID(g.Region, g.Policy, g.RequestID); got != g.ID {
			t.Errorf("request %+v is now %s", g, got)
		}
	}
	for _, g := range golden.Ranges {
		if got := job.RangePageID(g.Run, g.Tenant, bytesOf(t, g.After)); got != g.ID {
			t.Errorf("range %+v is now %s", g, got)
		}
	}
	for _, g := range golden.Items {
		if got := job.ItemPageID(g.Run, g.Tenant, job.Ref{Key: bytesOf(t, g.Key), Version: g.Version}); got != g.ID {
			t.Errorf("item %+v is now %s", g, got)
		}
	}
	if n := len(golden.Runs) + len(golden.Requests) + len(golden.Ranges) + len(golden.Items); n != 21 {
		t.Errorf("%d identities on record", n)
	}
}

// Parts that read the same when they are joined are different identities.
func TestIdentitiesDoNotCollide(t *testing.T) {
	at := instantOf(t, "2026-03-08T02:30:00Z")
	scheduled := at.Format(time.RFC3339Nano)
	run := job.ScheduledRunID("eu", "exports", at)
	seen := map[string]string{}
	for _, c := range []struct{ what, id string }{
		{"run", string(run)},
		{"run, border moved left", string(job.ScheduledRunID("euexports", "", at))},
		{"run, border moved right", string(job.ScheduledRunID("", "euexports", at))},
		{"run, one byte over the border", string(job.ScheduledRunID("eue", "xports", at))},
		{"request named like an instant", string(job.RequestRunID("eu", "exports", scheduled))},
		{"request, border moved", string(job.RequestRunID("eu", "exports"+scheduled, ""))},
		{"range", string(job.RangePageID(run, "school-4", "2"))},
		{"range of the neighbour", string(job.RangePageID(run, "school-42", ""))},
		{"range, all in the start", string(job.RangePageID(run, "", "school-42"))},
		{"range with NUL", string(job.RangePageID(run, "school-4", "\x002"))},
		{"range with NUL at the border", string(job.RangePageID(run, "school-4\x00", "2"))},
		{"range of no run", string(job.RangePageID("", string(run)+"school-4", "2"))},
		{"item", string(job.ItemPageID(run, "school-4", job.Ref{Key: "2"}))},
		{"item with a version", string(job.ItemPageID(run, "school-4", job.Ref{Key: "2", Version: "v"}))},
		{"item, version in the key", string(job.ItemPageID(run, "school-4", job.Ref{Key: "2v"}))},
		{"item, key in the version", string(job.ItemPageID(run, "school-4", job.Ref{Version: "2v"}))},
	} {
		if other, taken := seen[c.id]; taken {
			t.Errorf("%s and %s are both %s", c.what, other, c.id)
		}
		seen[c.id] = c.what
	}
}

func TestRunIDDependsOnTheInstantAlone(t *testing.T) {
	at := instantOf(t, "2026-03-08T02:30:00Z")
	want := job.ScheduledRunID("eu-central-1", "exports", at)
	for _, zone := range []*time.Location{time.FixedZone("", 3600), time.FixedZone("NST", -12600), time.FixedZone("", 14*3600)} {
		if got := job.ScheduledRunID("eu-central-1", "exports", at.In(zone)); got != want {
			t.Errorf("in %v: %s, want %s", at.In(zone), got, want)
		}
	}
	if job.ScheduledRunID("eu-central-1", "exports", at.Add(time.Nanosecond)) == want {
		t.Error("another instant is the same run")
	}
}
