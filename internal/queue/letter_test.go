package queue

import (
	"maps"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// SQS takes ten attributes, none of them empty, and tenants and keys stand in none.
func TestLetterAttributes(t *testing.T) {
	at := time.Date(2026, 12, 1, 6, 0, 0, 500, time.FixedZone("CET", 3600))
	attrs, err := letterAttributes(job.Letter{
		Body: []byte("x"), Reason: job.ReasonOutsidePolicy, RunID: "run", PageID: "page", Policy: "exports", Version: 12,
		Region: "eu-west-1", Attempts: 2, FirstAt: at, FailedAt: at,
	})
	want := map[string]string{
		"reason": "outside_policy", "class": "quarantined", "run_id": "run", "page_id": "page", "policy": "exports@12",
		"region": "eu-west-1", "attempts": "2", "first_at": "2026-12-01T05:00:00.0000005Z", "failed_at": "2026-12-01T05:00:00.0000005Z",
		"body_sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
	}
	if err != nil || !maps.Equal(attrs, want) || len(attrs) > 10 {
		t.Errorf("got %v, %v", attrs, err)
	}
	attrs, err = letterAttributes(job.Letter{Body: []byte("x"), Reason: job.ReasonMalformed})
	if err != nil || len(attrs) != 4 {
		t.Errorf("nothing known: got %v, %v", attrs, err)
	}
}

func TestDamagedLetters(t *testing.T) {
	body := []byte("x")
	for name, spoil := range map[string]func(map[string]string){
		"reason":         func(a map[string]string) { a[attrReason] = "because" },
		"no reason":      func(a map[string]string) { delete(a, attrReason) },
		"version":        func(a map[string]string) { a[attrPolicy] = "exports@new" },
		"no version":     func(a map[string]string) { a[attrPolicy] = "exports" },
		"attempts":       func(a map[string]string) { a[attrAttempts] = "many" },
		"no attempts":    func(a map[string]string) { delete(a, attrAttempts) },
		"first":          func(a map[string]string) { a[attrFirst] = "yesterday" },
		"failed":         func(a map[string]string) { a[attrFailed] = "1" },
		"another's hash": func(a map[string]string) { a[attrBody] = bodyHash([]byte("y")) },
		"no hash":        func(a map[string]string) { delete(a, attrBody) },
	} {
		at := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
		attrs, err := letterAttributes(job.Letter{Body: body, Reason: job.ReasonAge, Policy: "exports", Version: 1, FirstAt: at, FailedAt: at})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := readLetter(body, attrs); !ok {
			t.Fatal("a good letter does not read")
		}
		spoil(attrs)
		if l, ok := readLetter(body, attrs); ok || string(l.Body) != "x" {
			t.Errorf("%s: read as %+v", name, l)
		}
	}
}

func TestWholeSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second,
		MaxDelay - 1: MaxDelay, MaxDelay: MaxDelay, 1 << 62: MaxDelay,
	} {
		if got := wholeSeconds(wait); got != want {
			t.Errorf("%v: %v, want %v", wait, got, want)
		}
	}
}

func TestBatchSize(t *testing.T) {
	msgs := func(sizes ...int) (all []job.Message) {
		for _, n := range sizes {
			all = append(all, job.Message{Body: make([]byte, n)})
		}
		return all
	}
	for _, c := range []struct {
		msgs []job.Message
		want int
	}{
		{nil, 0},
		{msgs(MaxBytes), 1},
		{msgs(MaxBytes-1, 1), 2},
		{msgs(MaxBytes-1, 2), 1},
		{msgs(MaxBytes/2, MaxBytes/2, 1), 2},
		{make([]job.Message, MaxBatch), MaxBatch},
		{make([]job.Message, MaxBatch+1), MaxBatch},
	} {
		if got := batchSize(c.msgs); got != c.want {
			t.Errorf("%d messages: %d in a batch, want %d", len(c.msgs), got, c.want)
		}
	}
}
