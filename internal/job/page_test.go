package job_test

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

var now = time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)

func in(d time.Duration) time.Time { return now.Add(d) }

// counts returns so many items of each outcome, in the order of the outcomes.
func counts(n ...int) (c job.Counts) {
	for i, v := range n {
		c[job.Deleted+job.Outcome(i)] = v
	}
	return c
}

// base is a page in a state with every field set and its lease over.
func base(s job.PageState) job.Page {
	return job.Page{
		ID: "page", Run: "run", Tenant: "school-42", Kind: job.RangePage, Rev: 7, After: "a", Through: "z", Parent: "parent",
		Examined: 40, Candidates: 30, State: s, Owner: "old", Fence: 3, Attempts: 4, Spent: 1, RestartedAt: in(-2 * time.Hour),
		LeaseEnd: in(-time.Second), QuietAt: in(15 * time.Minute), BornAt: in(-time.Hour), FirstFailure: in(-30 * time.Minute),
		LastClass: failure.Throttled, RetryAt: in(-2 * time.Minute), NextDue: in(-time.Minute),
		Intent:  job.Intent{Plan: "plan", Epoch: 2, Fence: 2, Deletes: 20},
		Receipt: "receipt", Counts: counts(5), Bytes: 100, Planned: 25, Moved: 1,
		Death: job.Death{Reason: job.ReasonAge, At: in(-3 * time.Hour), LetterAt: in(-3*time.Hour + 1)},
	}
}

var settled = job.Settled{Receipt: "next", Counts: counts(9, 1), Bytes: 300, Planned: 11, Moved: 2, At: now}

func settle(p *job.Page) {
	p.Receipt, p.Counts, p.Bytes, p.Planned, p.Moved = "next", counts(9, 1), 300, 11, 2
}

func end(p *job.Page) {
	settle(p)
	p.SettledAt = now
}

// methods are all that move a page. changes is what the row has afterwards
// besides the state and the revision; everything else must be as it was.
var methods = []struct {
	name    string
	event   job.PageEvent
	do      func(job.Page) (job.Page, error)
	changes func(p *job.Page)
}{
	{"Send", job.EventSend, func(p job.Page) (job.Page, error) { return p.Send(in(time.Hour)) },
		func(p *job.Page) { p.NextDue = in(time.Hour) }},
	{"Claim", job.EventClaim, func(p job.Page) (job.Page, error) { return p.Claim("new", now, in(time.Minute), in(time.Hour)) },
		func(p *job.Page) {
			p.Owner, p.Fence, p.Attempts = "new", 4, 5
			p.LeaseEnd, p.NextDue = in(time.Minute), in(time.Hour)
		}},
	{"Intend", job.EventIntend, func(p job.Page) (job.Page, error) { return p.Intend("smaller", 5, 10, 11, 20*time.Minute) },
		func(p *job.Page) {
			p.Intent = job.Intent{Plan: "smaller", Epoch: 5, Fence: 3, Deletes: 10}
			p.Planned, p.QuietAt = 11, in(20*time.Minute-time.Second)
		}},
	{"Complete", job.EventComplete, func(p job.Page) (job.Page, error) { return p.Complete(settled) }, end},
	{"Retry", job.EventRetry, func(p job.Page) (job.Page, error) {
		return p.Retry(settled, failure.Network, now, in(time.Minute), in(time.Hour))
	}, func(p *job.Page) {
		settle(p)
		p.LastClass, p.RetryAt, p.NextDue = failure.Network, in(time.Minute), in(time.Hour)
	}},
	{"Retry, a wait", job.EventRetry, func(p job.Page) (job.Page, error) {
		return p.Retry(settled, "", now, in(time.Minute), in(time.Hour))
	}, func(p *job.Page) {
		settle(p)
		p.Attempts, p.RetryAt, p.NextDue = 3, in(time.Minute), in(time.Hour)
	}},
	{"Park", job.EventPark, func(p job.Page) (job.Page, error) { return p.Park("new", now) },
		func(p *job.Page) { p.NextDue, p.Braked = now, true }},
	{"Die", job.EventDie, func(p job.Page) (job.Page, error) {
		return p.Die("new", job.ReasonAttempts, failure.Network, settled, now)
	}, func(p *job.Page) {
		settle(p)
		p.LastClass, p.Death = failure.Network, job.Death{Reason: job.ReasonAttempts, At: now}
	}},
	{"Redrive", job.EventRedrive, func(p job.Page) (job.Page, error) { return p.Redrive("plan", now, in(time.Hour)) },
		func(p *job.Page) {
			p.RedriveID = "plan"
			p.Spent, p.RestartedAt = 4, now
			p.RetryAt, p.NextDue = now, in(time.Hour)
		}},
	{"Abandon", job.EventRedrive, func(p job.Page) (job.Page, error) { return p.Abandon(now, in(time.Hour)) },
		func(p *job.Page) {
			p.Abandoned = true
			p.Spent, p.RestartedAt = 4, now
			p.RetryAt, p.NextDue = now, in(time.Hour)
		}},
	{"Discard", job.EventDiscard, func(p job.Page) (job.Page, error) {
		p.Intent, p.Abandoned = job.Intent{}, true
		return p.Discard(settled)
	}, func(p *job.Page) {
		end(p)
		p.Intent, p.Abandoned = job.Intent{}, true
	}},
	{"Void", job.EventVoid, func(p job.Page) (job.Page, error) { return p.Void(now) }, func(p *job.Page) { p.SettledAt = now }},
	{"Lettered", "", func(p job.Page) (job.Page, error) { return p.Lettered(now) },
		func(p *job.Page) { p.Death.LetterAt = now }},
}

func TestEveryMethodInEveryState(t *testing.T) {
	for _, m := range methods {
		for _, s := range job.PageStates() {
			before := base(s)
			next, allowed := s.On(m.event)
			if m.name == "Lettered" {
				next, allowed = job.Dead, s == job.Dead
			}
			got, err := m.do(before)
			if !allowed {
				if !failure.Is(err, failure.Conflict) || got.State != s || got.Rev != before.Rev {
					t.Errorf("%s in %s: %v, state %s, revision %d", m.name, s, err, got.State, got.Rev)
				}
				continue
			}
			want := before
			want.State, want.Rev = next, 8
			m.changes(&want)
			if err != nil || got != want {
				t.Errorf("%s in %s: %v\ngot  %+v\nwant %+v", m.name, s, err, got, want)
			}
			if before != base(s) {
				t.Errorf("%s in %s changed what it was called on", m.name, s)
			}
		}
	}
	for _, e := range job.PageEvents() {
		found := false
		for _, m := range methods {
			found = found || m.event == e
		}
		if !found {
			t.Errorf("no method for %s", e)
		}
	}
}

func TestFirstFailureIsTheFirst(t *testing.T) {
	fresh := base(job.Claimed)
	fresh.FirstFailure = time.Time{}
	for name, c := range map[string]struct {
		page job.Page
		do   func(job.Page) (job.Page, error)
		want time.Time
	}{
		"a failure sets it":           {fresh, func(p job.Page) (job.Page, error) { return p.Retry(settled, failure.Bug, now, now, now) }, now},
		"a wait is no failure":        {fresh, func(p job.Page) (job.Page, error) { return p.Retry(settled, "", now, now, now) }, time.Time{}},
		"death sets it":               {fresh, func(p job.Page) (job.Page, error) { return p.Die("old", "", "", settled, now) }, now},
		"a later failure keeps it":    {base(job.Claimed), func(p job.Page) (job.Page, error) { return p.Retry(settled, failure.Bug, now, now, now) }, in(-30 * time.Minute)},
		"a later death keeps it":      {base(job.Claimed), func(p job.Page) (job.Page, error) { return p.Die("old", "", "", settled, now) }, in(-30 * time.Minute)},
		"a redrive does not clear it": {base(job.Dead), func(p job.Page) (job.Page, error) { return p.Redrive("plan", now, now) }, in(-30 * time.Minute)},
	} {
		if got, err := c.do(c.page); err != nil || !got.FirstFailure.Equal(c.want) {
			t.Errorf("%s: %v, %v", name, got.FirstFailure, err)
		}
	}
}

func TestLeaseIsLiveUntilItsEnd(t *testing.T) {
	for _, s := range job.PageStates() {
		held := s == job.Claimed || s == job.Intended
		for left, live := range map[time.Duration]bool{time.Minute: true, 1: true, 0: false, -1: false, -time.Hour: false} {
			p := base(s)
			p.LeaseEnd = in(left)
			if got := p.LeaseLive(now); got != (live && held) {
				t.Errorf("%s with %v left: live %v", s, left, got)
			}
		}
	}
}

// Who may take a page from a live lease, and from one that is over.
func TestOwnerRules(t *testing.T) {
	claim := func(p job.Page, owner string) (job.Page, error) { return p.Claim(owner, now, in(time.Minute), now) }
	park := func(p job.Page, owner string) (job.Page, error) { return p.Park(owner, now) }
	die := func(p job.Page, owner string) (job.Page, error) {
		return p.Die(owner, job.ReasonAge, failure.Network, settled, now)
	}
	for _, c := range []struct {
		name     string
		do       func(job.Page, string) (job.Page, error)
		state    job.PageState
		owner    string
		left     time.Duration
		allowed  bool
		attempts int // of 4 before
	}{
		{"claim", claim, job.Claimed, "other", 1, false, 0},
		{"claim", claim, job.Claimed, "old", 1, false, 0}, // a claim's name is used once, so this is another one
		{"claim", claim, job.Intended, "other", 1, false, 0},
		{"claim", claim, job.Claimed, "other", 0, true, 5},
		{"claim", claim, job.Intended, "other", 0, true, 5},
		{"claim", claim, job.Retrying, "other", time.Hour, true, 5}, // the lease was given back

		{"park", park, job.Claimed, "old", 1, true, 3},
		{"park", park, job.Claimed, "old", 0, true, 3},
		{"park", park, job.Claimed, "other", 1, false, 0},
		{"park", park, job.Claimed, "", 1, false, 0},
		{"park", park, job.Claimed, "other", 0, true, 4},
		{"park", park, job.Intended, "old", 1, false, 0}, // its deletes may be under way
		{"park", park, job.Intended, "other", 1, false, 0},
		{"park", park, job.Intended, "old", 0, true, 4},
		{"park", park, job.Intended, "other", 0, true, 4},
		{"park", park, job.Retrying, "old", time.Hour, true, 4},
		{"park", park, job.Planned, "", time.Hour, true, 4},

		{"die", die, job.Claimed, "old", 1, true, 4},
		{"die", die, job.Intended, "old", 1, true, 4},
		{"die", die, job.Claimed, "other", 1, false, 0},
		{"die", die, job.Claimed, "", 1, false, 0},
		{"die", die, job.Intended, "other", 1, false, 0},
		{"die", die, job.Intended, "", 1, false, 0},
		{"die", die, job.Claimed, "", 0, true, 4},
		{"die", die, job.Intended, "other", 0, true, 4},
		{"die", die, job.Sent, "", time.Hour, true, 4},
	} {
		p := base(c.state)
		p.LeaseEnd = in(c.left)
		got, err := c.do(p, c.owner)
		switch {
		case !c.allowed && (!failure.Is(err, failure.Conflict) || got != p):
			t.Errorf("%s of %s by %q with %v left: %v, %+v", c.name, c.state, c.owner, c.left, err, got)
		case c.allowed && (err != nil || got.Attempts != c.attempts):
			t.Errorf("%s of %s by %q with %v left: %v, %d attempts", c.name, c.state, c.owner, c.left, err, got.Attempts)
		}
	}
}

// S19 and F14: the first intent names at most the recorded candidates, a later
// one at most what the one before it named.
func TestIntentOnlyShrinks(t *testing.T) {
	open := base(job.Claimed)
	open.Intent = job.Intent{}
	none := base(job.Claimed)
	none.Intent.Deletes = 0
	for _, c := range []struct {
		name    string
		page    job.Page
		deletes int
		fits    bool
	}{
		{"first, all candidates", open, 30, true},
		{"first, one more", open, 31, false},
		{"first, none", open, 0, true},
		{"later, the same", base(job.Claimed), 20, true},
		{"later, fewer", base(job.Claimed), 1, true},
		{"later, none", base(job.Claimed), 0, true},
		{"later, one more, though the candidates allow it", base(job.Claimed), 21, false},
		{"after none, one", none, 1, false},
		{"after none, none", none, 0, true},
	} {
		got, err := c.page.Intend("next", 9, c.deletes, 25, time.Minute)
		switch {
		case !c.fits && (!failure.Is(err, failure.Bug) || got != c.page):
			t.Errorf("%s: %v, %+v", c.name, err, got.Intent)
		case c.fits && (err != nil || got.Intent != job.Intent{Plan: "next", Epoch: 9, Fence: 3, Deletes: c.deletes}):
			t.Errorf("%s: %v, %+v", c.name, err, got.Intent)
		}
	}
}

func TestQuietTimeNeverDecreases(t *testing.T) {
	for _, c := range []struct {
		name    string
		quiet   time.Time
		deletes int
		want    time.Time
	}{
		{"the first intent sets it", time.Time{}, 1, in(16*time.Minute - time.Second)},
		{"a later end moves it", in(16*time.Minute - 2*time.Second), 1, in(16*time.Minute - time.Second)},
		{"an earlier end does not", in(time.Hour), 1, in(time.Hour)},
		{"an intent without deletes sends nothing", time.Time{}, 0, time.Time{}},
		{"an intent without deletes leaves it", in(time.Minute), 0, in(time.Minute)},
	} {
		p := base(job.Claimed)
		p.QuietAt = c.quiet
		got, err := p.Intend("next", 1, c.deletes, 25, 16*time.Minute)
		if err != nil || !got.QuietAt.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, err, got.QuietAt, c.want)
		}
	}
}

// attempt claims a page and fails, or only waits.
func attempt(t *testing.T, p job.Page, class failure.Class) job.Page {
	t.Helper()
	p, err := p.Claim("worker", now, in(time.Minute), now)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.Retry(job.Settled{}, class, now, now, now); err != nil {
		t.Fatal(err)
	}
	return p
}

// executed counts the attempts until the page has expired.
func executed(t *testing.T, p job.Page, limit int) (job.Page, int) {
	t.Helper()
	for n := range 100 {
		if reason, over := p.Expired(now, limit, time.Hour); over {
			if reason != job.ReasonAttempts {
				t.Errorf("expired for %s", reason)
			}
			return p, n
		}
		p = attempt(t, attempt(t, p, ""), failure.Network) // a wait is no attempt
	}
	t.Fatal("never expires")
	return p, 0
}

// C3: max_attempts = n means n executed attempts, and n again after a redrive.
func TestC3MaxAttemptsAreExecuted(t *testing.T) {
	for _, limit := range []int{1, 4, 5, 6} {
		p, n := executed(t, job.Page{State: job.Sent}, limit)
		if n != limit || p.Attempts != limit {
			t.Errorf("limit %d: %d executed, %d counted", limit, n, p.Attempts)
		}
		for life := 2; life <= 3; life++ {
			dead, err := p.Die("", job.ReasonAttempts, failure.Network, job.Settled{}, now)
			if err != nil {
				t.Fatal(err)
			}
			redriven, err := dead.Redrive("plan", now, now)
			if err != nil {
				t.Fatal(err)
			}
			if p, n = executed(t, redriven, limit); n != limit || p.Attempts != life*limit || p.Tries() != limit {
				t.Errorf("limit %d, life %d: %d executed, %d counted in total", limit, life, n, p.Attempts)
			}
		}
	}
}

func TestAgeCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		failed, redriven time.Time
		over             bool
	}{
		"never failed":                    {time.Time{}, time.Time{}, false},
		"failed a ceiling ago":            {in(-time.Hour), time.Time{}, true},
		"failed almost a ceiling ago":     {in(-time.Hour + 1), time.Time{}, false},
		"failed long ago, redriven since": {in(-9 * time.Hour), in(-time.Minute), false},
		"redriven a ceiling ago":          {in(-9 * time.Hour), in(-time.Hour), true},
		"redriven, then failed":           {in(-time.Hour), in(-2 * time.Hour), true},
	} {
		reason, over := job.Page{FirstFailure: c.failed, RestartedAt: c.redriven, Attempts: 4}.Expired(now, 5, time.Hour)
		if over != c.over || over && reason != job.ReasonAge {
			t.Errorf("%s: %v %s", name, over, reason)
		}
	}
}

func TestSettlementComesBack(t *testing.T) {
	p, err := base(job.Claimed).Complete(settled)
	want := settled
	want.At = time.Time{}
	if err != nil || p.Settlement() != want || !p.SettledAt.Equal(now) {
		t.Errorf("%+v, %v", p.Settlement(), err)
	}
}

// F17: what an open intent has done is not known, so nobody discards over it.
func TestDiscardSettlesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		page func() job.Page
		ok   bool
	}{
		"dead with an open intent": {func() job.Page { return base(job.Dead) }, false},
		"dead, nothing intended":   {func() job.Page { p := base(job.Dead); p.Intent = job.Intent{}; return p }, true},
		"claimed":                  {func() job.Page { return base(job.Claimed) }, false},
		"claimed and abandoned":    {func() job.Page { p := base(job.Claimed); p.Abandoned = true; return p }, true},
	} {
		p := c.page()
		next, err := p.Discard(settled)
		if c.ok && (err != nil || next.State != job.Discarded) || !c.ok && (!failure.Is(err, failure.Conflict) || next.State != p.State) {
			t.Errorf("%s: %s, %v", name, next.State, err)
		}
	}
	nothing := base(job.Dead)
	nothing.Intent = job.Intent{}
	if _, err := nothing.Abandon(now, now); !failure.Is(err, failure.Conflict) {
		t.Errorf("a page without an intent was sent to be settled: %v", err)
	}
	abandoned, err := base(job.Dead).Abandon(now, now)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := abandoned.Die("", job.ReasonAge, "", settled, in(48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := dead.Redrive("plan", now, now); err != nil || again.Abandoned {
		t.Errorf("a redriven page is still given up: %v", err)
	}
}
