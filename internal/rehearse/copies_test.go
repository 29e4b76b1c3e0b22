package rehearse

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/contract"
	kept "github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// tray is a small world and the copies that lie over it.
type tray struct {
	t      *testing.T
	ledger *ledger.Memory
	store  *artifact.Memory
	page   job.Page
	*copies
}

func newTray(t *testing.T, versioned bool) *tray {
	t.Helper()
	r := &tray{t: t, ledger: ledger.NewMemory(), store: artifact.NewMemory(func() time.Time { return noon })}
	run := job.Run{ID: job.ScheduledRunID("eu-west-1", "exports", noon), Region: "eu-west-1", State: job.Scanning, Mode: job.Enforce}
	_, _, err := r.ledger.OpenRun(t.Context(), run)
	r.must(err)
	r.page = job.Page{ID: job.RangePageID(run.ID, "acme", ""), Run: run.ID, Tenant: "acme", Kind: job.RangePage, State: job.Planned, Candidates: 2}
	next, err := run.Advance(job.Stretch{}, &r.page)
	r.must(err)
	r.must(r.ledger.Record(t.Context(), next, &r.page))
	r.must(r.store.CreateBucket("bucket", versioned))
	for _, key := range []string{"a", "b", "c"} {
		r.put(key, "e")
	}
	config := Config{Records: r.ledger, Holds: r.ledger, Artifacts: r.store, Evidence: &kept.Memory{}, Settings: contract.Production(), Now: noon}
	r.copies, err = open(t.Context(), config, run.ID, "acme", r.page.ID, AsThingsAre)
	r.must(err)
	return r
}

func (r *tray) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *tray) put(key, etag string) job.Item {
	r.t.Helper()
	item, err := r.store.Put("bucket", job.Item{Key: key, ETag: etag, Size: 1, Modified: noon})
	r.must(err)
	return item
}

// names lists the copies, with their ETags.
func (r *tray) names(versions bool) (all []string) {
	r.t.Helper()
	listing, err := r.List(r.t.Context(), job.Query{Bucket: "bucket", Versions: versions})
	r.must(err)
	for _, item := range listing.Items {
		all = append(all, item.Key+" "+item.ETag)
	}
	return all
}

func (r *tray) remove(items ...job.Item) []job.Answer {
	r.t.Helper()
	answers, err := r.Delete(r.t.Context(), job.Deletion{Bucket: "bucket", Items: items})
	r.must(err)
	return answers
}

// TestCopies_WhatIsDeletedIsGoneFromThemOnly, and what is uploaded there since is
// another object.
func TestCopies_WhatIsDeletedIsGoneFromThemOnly(t *testing.T) {
	for _, versioned := range []bool{false, true} {
		r := newTray(t, versioned)
		gone, left := job.Gone, job.Erased
		if versioned {
			gone, left = job.Marked, job.UnderMarker
		}
		listing, err := r.List(t.Context(), job.Query{Bucket: "bucket"})
		r.must(err)
		a, b, c := listing.Items[0], listing.Items[1], listing.Items[2]
		changed, absent := c, job.Item{Key: "x", ETag: "e"}
		changed.ETag = "other"
		if got := r.remove(a, b, changed, absent); !slices.Equal(got, []job.Answer{gone, gone, job.Differs, job.NotThere}) {
			t.Errorf("versioned %v: answers %v", versioned, got)
		}
		if got := r.remove(a); got[0] != job.NotThere {
			t.Errorf("versioned %v: once more: %v", versioned, got)
		}
		r.put("b", "new")
		if got := r.names(false); !slices.Equal(got, []string{"b new", "c e"}) {
			t.Errorf("versioned %v: left %v", versioned, got)
		}
		standings, err := r.Standing(t.Context(), "bucket", []job.Item{absent, a})
		r.must(err)
		if !slices.Equal(standings, []job.Standing{job.Erased, left}) {
			t.Errorf("versioned %v: standings %v", versioned, standings)
		}
		if len(r.store.Effects()) != 0 || !r.store.Has("bucket", "a") || !slices.Equal(r.deletes, []job.Item{a, b}) {
			t.Errorf("versioned %v: deleted %v, really %v", versioned, r.deletes, r.store.Effects())
		}
	}
}

func TestCopies_AVersionGoesByItsId(t *testing.T) {
	r := newTray(t, true)
	old := r.put("a", "two")
	r.put("a", "three")
	absent := old
	absent.Version = "v99"
	_ = r.names(true)
	if got := r.remove(old, absent); !slices.Equal(got, []job.Answer{job.GoneByVersion, job.GoneByVersion}) {
		t.Errorf("answers %v", got)
	}
	if got := r.names(true); !slices.Equal(got, []string{"a three", "a e", "b e", "c e"}) || len(r.deletes) != 1 {
		t.Errorf("left %v, deleted %v", got, r.deletes)
	}
}

// TestCopies_ALookIsTakenOverSeveralAnswers of a listing.
func TestCopies_ALookIsTakenOverSeveralAnswers(t *testing.T) {
	r := newTray(t, false)
	r.store.PageSize = 1
	_ = r.names(false)
	b, c := job.Item{Key: "b", ETag: "e", Size: 1, Modified: noon}, job.Item{Key: "c", ETag: "e", Size: 1, Modified: noon}
	if got := r.remove(b, c); !slices.Equal(got, []job.Answer{job.Gone, job.Gone}) {
		t.Errorf("answers %v", got)
	}
}

// TestCopies_AreWrittenAsTheLedgerIs: on the row that was read and no other, under
// the epoch of the plan, and with children that nobody has.
func TestCopies_AreWrittenAsTheLedgerIs(t *testing.T) {
	r := newTray(t, false)
	claimed, err := r.page.Claim("o", noon, noon.Add(time.Minute), noon)
	r.must(err)
	refused := func(what string, err error) {
		t.Helper()
		if !failure.Is(err, failure.Conflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	later := claimed
	later.Rev++
	refused("a later row", r.SwapPage(t.Context(), later))
	other := claimed
	other.ID = "other"
	refused("another page", r.SwapPage(t.Context(), other))
	r.must(r.SwapPage(t.Context(), claimed))
	refused("the same row again", r.SwapPage(t.Context(), claimed))

	intended, err := claimed.Intend("plan", 0, 1, 1, time.Minute)
	r.must(err)
	_, err = r.ledger.PlaceHold(t.Context(), hold.Hold{ID: "h", Tenant: "acme", Scope: hold.Tenant})
	r.must(err)
	refused("an intent under an epoch that is over", r.Intend(t.Context(), intended, 0))
	r.must(r.Intend(t.Context(), intended, 1))

	completed, err := intended.Complete(job.Settled{Planned: 1, Moved: 1})
	r.must(err)
	child := job.Page{ID: "child", Run: r.page.Run, Tenant: "acme", Kind: job.ItemPage}
	taken := r.page
	refused("a child that is there", r.Complete(t.Context(), completed, []job.Page{child, taken}))
	if r.row() != intended || len(r.born) != 0 {
		t.Errorf("a refused completion left %+v and %v", r.row(), r.born)
	}
	r.must(r.Complete(t.Context(), completed, []job.Page{child}))
	refused("twice", r.Complete(t.Context(), completed, nil))
	if page, err := r.ledger.Page(context.Background(), r.page.Run, "acme", r.page.ID); err != nil || page != r.page || r.row() != completed {
		t.Errorf("really %+v, %v; in the copies %+v", page, err, r.row())
	}
}

// TestCopies_TimeIsTheirOwn: a worker that waits lets it pass.
func TestCopies_TimeIsTheirOwn(t *testing.T) {
	r := newTray(t, false)
	r.must(r.Sleep(t.Context(), time.Minute))
	r.must(r.Sleep(t.Context(), -time.Hour))
	if got := r.Now(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("now %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r.Sleep(ctx, time.Second) == nil {
		t.Error("a sleep outlasts its context")
	}
}
