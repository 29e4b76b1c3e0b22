package worker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// end is what becomes of a message and its page.
type end struct {
	state    job.PageState
	attempts int
	reason   job.Reason // of the dead letter, "" for none
}

// TestDisposition_EveryClassAtEveryStep fails each step with each class. The
// rules: before the claim nothing is counted; after it the attempt is, and the
// page waits; a lasting refusal of the store is a dead letter at once; what is
// not on record is quarantined; nothing is acknowledged without one of these ends.
func TestDisposition_EveryClassAtEveryStep(t *testing.T) {
	waits, counted := end{job.Sent, 0, ""}, end{job.Retrying, 1, ""}
	refused := map[failure.Class]end{failure.Forbidden: {job.Dead, 1, job.ReasonForbidden}}
	for _, step := range []struct {
		op     string
		every  end
		except map[failure.Class]end
		setup  setup
	}{
		{op: "run", every: waits, except: map[failure.Class]end{failure.Absent: {job.Sent, 0, job.ReasonUnknownRun}}},
		{op: "page", every: waits, except: map[failure.Class]end{failure.Absent: {job.Sent, 0, job.ReasonUnknownPage}}},
		{op: "policy", every: waits, except: map[failure.Class]end{failure.UnknownPolicy: {job.Dead, 0, job.ReasonUnknownPolicy}}},
		{op: "page:claimed", every: waits},
		{op: "brakes", every: counted},
		{op: "epoch", every: counted},
		{op: "holds", every: counted},
		{op: "list", every: counted, except: refused},
		{op: "put:plan", every: counted},
		{op: "intend", every: counted, except: map[failure.Class]end{failure.Conflict: {job.Retrying, 0, ""}}},
		{op: "delete", every: counted, except: refused},
		{op: "standing", every: counted, except: refused, setup: setup{versioned: true}},
		{op: "put:receipt", every: counted},
		{op: "complete", every: counted},
	} {
		for _, c := range failure.Classes() {
			t.Run(step.op+" "+string(c), func(t *testing.T) {
				step.setup.keys = []string{"a"}
				w := newWorld(t, step.setup)
				w.each(step.op, failing(class(c)))
				w.invoke()
				want, excepted := step.except[c]
				if !excepted {
					want = step.every
				}
				p := w.row()
				if p.State != want.state || p.Attempts != want.attempts {
					t.Errorf("%s after %d attempts, want %+v", p.State, p.Attempts, want)
				}
				if want == counted && p.LastClass != c {
					t.Errorf("class %s", p.LastClass)
				}
				w.wantEnd(want.reason)
				if want.reason != "" {
					return
				}
				w.each(step.op, nil)
				w.drain()
				if p := w.row(); p.State != job.Completed || len(w.queue.PeekLetters()) != 0 {
					t.Errorf("in the end %s, %d dead letters", p.State, len(w.queue.PeekLetters()))
				}
			})
		}
	}
}

// wantEnd checks that a message went with its dead letter, or stayed without one.
func (w *world) wantEnd(reason job.Reason) {
	w.t.Helper()
	if reason == "" {
		w.wantLetters()
	} else {
		w.wantLetters(reason)
	}
	if gone := w.acked == 1; gone != (reason != "") {
		w.t.Errorf("%d acknowledged, dead letter %q", w.acked, reason)
	}
}

// TestDisposition_ALetterThatCanNotBeWritten keeps the message (SQ-11, R122),
// whatever the class, and says so (R71); the next delivery writes it.
func TestDisposition_ALetterThatCanNotBeWritten(t *testing.T) {
	for _, c := range failure.Classes() {
		for name, h := range map[string]handler{"refused": failing(class(c)), "written, answer lost": func(apply func() error) error { _ = apply(); return class(c) }} {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.each("list", failing(class(failure.Forbidden)))
			w.on("dead-letter", h)
			w.invoke()
			if p := w.row(); p.State != job.Dead || !p.Death.LetterAt.IsZero() || w.acked != 0 {
				t.Errorf("%s %s: %+v, %d acknowledged", c, name, p, w.acked)
			}
			w.wantUnlettered(c, w.row().ID)
			w.drain()
			if p := w.row(); p.Death.LetterAt.IsZero() || w.acked != 1 || len(w.queue.PeekLetters()) == 0 {
				t.Errorf("%s %s: %+v, %d acknowledged", c, name, p, w.acked)
			}

			w = newWorld(t, setup{})
			w.receive(10)
			w.post(job.Message{ID: "bad", Body: []byte("{")})
			w.on("dead-letter", h)
			w.invoke()
			if w.acked != 0 {
				t.Errorf("%s %s: a malformed message was acknowledged without its letter", c, name)
			}
			w.wantUnlettered(c, "")
			w.drainLetters(1 + map[bool]int{true: 1}[name != "refused"])
		}
	}
}

// wantUnlettered fails unless one event says that a dead letter could not be written,
// and of which page it is.
func (w *world) wantUnlettered(c failure.Class, page job.PageID) {
	w.t.Helper()
	events := w.events(audit.Retried)
	if len(events) != 1 || events[0].FailureClass != c || events[0].Operation == "" || events[0].MessageID == "" || events[0].JobID != page {
		w.t.Errorf("R71: %s: %+v", c, events)
	}
}

// TestR71_ALetterOfARefusedRedriveThatCanNotBeWritten: the same of a dead page that was
// moved around the gates.
func TestR71_ALetterOfARefusedRedriveThatCanNotBeWritten(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.on("list", failing(class(failure.Forbidden)))
	w.drain()
	w.clock.advance(day)
	w.queue.NativeRedrive(w.run.Mode)
	w.on("dead-letter", failing(class(failure.Network)))
	w.invoke()
	w.wantUnlettered(failure.Network, w.row().ID)
	w.drain()
	w.wantLetters(job.ReasonForbidden)
}

// TestDisposition_AResumeWithoutItsEvidence deletes nothing: what was decided, and
// what was answered, is not known.
func TestDisposition_AResumeWithoutItsEvidence(t *testing.T) {
	for _, at := range []string{"get:plan", "get:receipt"} {
		for _, c := range failure.Classes() {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			w.slow("b", 99)
			w.invoke()
			w.slow("b", 0)
			w.sent = nil
			w.on(at, failing(class(c)))
			w.drainUntil(job.Retrying)
			w.wantSent()
			if p := w.row(); p.Attempts != 2 || p.LastClass != c || w.acked != 0 {
				t.Errorf("%s %s: %+v", at, c, p)
			}
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered"})
		}
	}
}

// TestDisposition_AVisibilityThatCanNotBeChanged is no reason to acknowledge: the
// message comes back at the queue's own.
func TestDisposition_AVisibilityThatCanNotBeChanged(t *testing.T) {
	for _, c := range failure.Classes() {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("list", failing(class(failure.Network)))
		w.each("delay", failing(class(c)))
		w.invoke()
		at, _ := w.queue.NextVisible(w.run.Mode)
		if w.acked != 0 || !at.Equal(noon.Add(w.config.Settings.Visibility())) {
			t.Errorf("%s: %d acknowledged, visible at %v", c, w.acked, at)
		}
		w.drain()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	}
}

// TestDisposition_EveryReasonHasItsWay: each reason of the closed list, and the
// class of letter it makes.
func TestDisposition_EveryReasonHasItsWay(t *testing.T) {
	body := func(mutate func(*job.Command)) func(*world) {
		return func(w *world) {
			c := job.NewCommand(w.run, w.row())
			mutate(&c)
			w.alone(c.Encode())
		}
	}
	ways := map[job.Reason]func(*world){
		job.ReasonMalformed:         func(w *world) { w.receive(10); w.post(job.Message{ID: "m", Body: []byte(" ")}) },
		job.ReasonUnsupportedSchema: body(func(c *job.Command) { c.Schema = 0 }),
		job.ReasonNewerSchema:       body(func(c *job.Command) { c.Schema = 2 }),
		job.ReasonUnknownRun:        body(func(c *job.Command) { c.RunID = "00000000000000000000000000000000" }),
		job.ReasonUnknownPage:       body(func(c *job.Command) { c.PageID = "00000000000000000000000000000000" }),
		job.ReasonUnknownPolicy:     body(func(c *job.Command) { c.PolicyVersion = 2 }),
		job.ReasonWrongRegion:       body(func(c *job.Command) { c.Region = "us-east-1" }),
		job.ReasonWrongQueue:        func(w *world) { w.config.Mode = job.ReportOnly },
		job.ReasonHashMismatch:      body(func(c *job.Command) { c.Hash = "00000000000000000000000000000000" }),
		job.ReasonOutsidePolicy: func(w *world) {
			w.config.Decide = yes
			w.config.Artifacts = offering{taps{w}, []job.Item{{Key: "exports/acme2/a", ETag: "e", Modified: expired}}}
		},
		job.ReasonForbidden: func(w *world) { w.must(w.store.Deny(bucket, root)) },
		job.ReasonAttempts:  func(w *world) { w.each("list", failing(class(failure.Network))) },
		job.ReasonAge:       func(w *world) { w.each("list", failing(asking(13*time.Hour))) },
	}
	for _, reason := range job.Reasons() {
		t.Run(string(reason), func(t *testing.T) {
			way := ways[reason]
			if way == nil {
				t.Fatal("no test leads to this reason")
			}
			w := newWorld(t, setup{keys: []string{"a"}})
			way(w)
			w.drainLetters(1)
			w.wantLetters(reason)
			w.wantLeft("a")
			redrivable := slices.Contains([]job.Reason{job.ReasonForbidden, job.ReasonAttempts, job.ReasonAge, job.ReasonNewerSchema}, reason)
			if got := reason.Class() == job.Redrivable; got != redrivable {
				t.Errorf("redrivable %v, want %v", got, redrivable)
			}
			l := w.queue.PeekLetters()[0].Letter
			if l.FirstAt.IsZero() || l.FailedAt.IsZero() || l.Region == "" {
				t.Errorf("the letter says %+v", l)
			}
		})
	}
	if len(ways) != len(job.Reasons()) {
		t.Errorf("%d ways for %d reasons", len(ways), len(job.Reasons()))
	}
}

// asking is a refusal for rate that says how long to wait.
func asking(d time.Duration) error {
	return &failure.Error{Class: failure.Throttled, Op: "injected", RetryAfter: d, Err: errors.New("slow down")}
}

// TestC3_TheLastAttemptIsTheLast: with a limit of n, n are executed and the n-th
// failure is the dead letter. A redrive grants n more, wherever the page fails.
func TestC3_TheLastAttemptIsTheLast(t *testing.T) {
	for _, limit := range []int{4, 5, 6} {
		for _, at := range []string{"list", "epoch", "put:plan", "delete", "put:receipt", "complete"} {
			w := newWorld(t, setup{keys: []string{"a"}, settings: attempts(limit)})
			w.each(at, failing(class(failure.Network)))
			for round := 1; round <= 2; round++ {
				w.drainLetters(round)
				if n, l := w.count("page:claimed"), w.queue.PeekLetters()[round-1].Letter; n != round*limit || l.Attempts != n || l.Reason != job.ReasonAttempts {
					t.Errorf("limit %d, %s: %d claims, the letter says %d and %s", limit, at, n, l.Attempts, l.Reason)
				}
				if round == 1 {
					w.redrive()
				}
			}
		}
	}
	t.Run("crashes count", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}, settings: attempts(5)})
		w.each("epoch", dieBefore)
		w.drainLetters(1)
		if n := w.count("page:claimed"); n != 5 {
			t.Errorf("%d claims", n)
		}
		w.wantLetters(job.ReasonAttempts)
	})
}

// TestAge_ThePageIsGivenUp a ceiling after its first failure, however few attempts
// it had.
func TestAge_ThePageIsGivenUp(t *testing.T) {
	for _, early := range []time.Duration{time.Minute, 0} {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.each("list", failing(class(failure.Network)))
		w.invoke()
		w.clock.reach(w.row().FirstFailure.Add(w.config.Settings.AgeCeiling - early))
		w.invoke()
		if p := w.row(); early > 0 && (p.State != job.Retrying || p.Attempts != 2) || early == 0 && (p.State != job.Dead || p.Attempts != 1) {
			t.Errorf("%v before its age: %s after %d attempts", early, p.State, p.Attempts)
		}
		if early == 0 {
			w.wantLetters(job.ReasonAge)
		}
	}
}

// TestAge_WhatHasNoAnswerHasFailed: the attempt that finds the page over its age
// says so of every item, as the last attempt does.
func TestAge_WhatHasNoAnswerHasFailed(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.slow("b", 9999)
	w.invoke()
	w.on("intend", before(func() {
		// The claim began before the ceiling and ends after it.
		w.clock.reach(w.row().FirstFailure.Add(w.config.Settings.AgeCeiling))
	}))
	w.clock.reach(w.row().FirstFailure.Add(w.config.Settings.AgeCeiling - time.Second))
	w.invoke()
	w.want(job.Dead, map[string]string{"a": "deleted answered", "b": "failed"})
}

// TestR60_RetryAfterIsHonouredExactly; only the queue rounds, up to whole seconds.
func TestR60_RetryAfterIsHonouredExactly(t *testing.T) {
	for _, at := range []string{"list", "epoch", "delete"} {
		for _, ask := range []time.Duration{58*time.Second + 300*time.Millisecond, 2 * time.Minute, 40 * time.Minute} {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.on(at, failing(asking(ask)))
			w.invoke()
			p := w.row()
			if want := noon.Add(ask); !p.RetryAt.Equal(want) {
				t.Errorf("%s, %v: retry at %v, want %v", at, ask, p.RetryAt, want)
			}
			visible, _ := w.queue.NextVisible(w.run.Mode)
			if late := visible.Sub(p.RetryAt); late < 0 || late >= time.Second {
				t.Errorf("%s, %v: visible %v after it", at, ask, late)
			}
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered"})
		}
	}
	t.Run("inside the claim", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("delete", failing(asking(7*time.Second)))
		w.invoke()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
		if now := w.clock.Now(); !now.Equal(noon.Add(7 * time.Second)) {
			t.Errorf("sent again at %v", now)
		}
	})
	t.Run("before the claim", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("run", failing(asking(70*time.Second)))
		w.invoke()
		if at, _ := w.queue.NextVisible(w.run.Mode); !at.Equal(noon.Add(70 * time.Second)) {
			t.Errorf("visible at %v", at)
		}
	})
}

// TestR60_ACopyDoesNotComeEarly: another copy of the message waits as long.
func TestR60_ACopyDoesNotComeEarly(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.post(job.NewMessage(w.run, w.row()))
	w.on("list", failing(asking(2*time.Minute)))
	w.invoke()
	if at, _ := w.queue.NextVisible(w.run.Mode); w.count("page:claimed") != 1 || w.acked != 0 || !at.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("%d claims, %d acknowledged, visible at %v", w.count("page:claimed"), w.acked, at)
	}
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

func TestR124_ThrottledSeveralTimesThenSuccess(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	slow := failing(asking(90 * time.Second))
	w.on("delete", slow, slow, slow, slow)
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered"})
	if p := w.row(); p.Attempts != 5 || len(w.sent) != 5 {
		t.Errorf("%d attempts, %d calls", p.Attempts, len(w.sent))
	}
	w.wantLetters()
}

// TestBackoff_FullJitter: the limit doubles up to the cap, and the wait is drawn
// from all of it.
func TestBackoff_FullJitter(t *testing.T) {
	var limit time.Duration
	w := Worker{Config{Settings: contract.Production(), Jitter: func(l time.Duration) time.Duration { limit = l; return l - 1 }}}
	for n, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 5: 16 * time.Second,
		10: 512 * time.Second, 11: 15 * time.Minute, 21: 15 * time.Minute, 64: 15 * time.Minute, 1 << 40: 15 * time.Minute,
	} {
		if got := w.backoff(n, nil); limit != want || got != want-1 {
			t.Errorf("attempt %d: limit %v, wait %v, want %v", n, limit, got, want)
		}
	}
}

// TestBackoff_TheClaimsLimitsGrow with the attempts of the page, from the last
// redrive on.
func TestBackoff_TheClaimsLimitsGrow(t *testing.T) {
	var limits []time.Duration
	w := newWorld(t, setup{keys: []string{"a"}, config: func(c *Config) {
		c.Jitter = func(l time.Duration) time.Duration { limits = append(limits, l); return l - 1 }
	}})
	w.each("list", failing(class(failure.Network)))
	w.drain()
	w.redrive()
	w.invoke()
	s := time.Second
	if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, s}; !slices.Equal(limits, want) {
		t.Errorf("limits %v, want %v", limits, want)
	}
}

// TestVeto_WaitingCostsNoAttempt, not even of a page that has none left, and also
// beside an item that the store refuses for good.
func TestVeto_WaitingCostsNoAttempt(t *testing.T) {
	for name, play := range map[string]func(*world){
		"alone":                  func(w *world) { w.hold("h", hold.Tenant, "") },
		"beside a refused item":  func(w *world) { w.hold("h", hold.Item, root+"a"); w.must(w.store.DenyKey(bucket, root+"b")) },
		"on the last attempt":    func(w *world) { w.hold("h", hold.Tenant, "") },
		"beside what is settled": func(w *world) { w.hold("h", hold.Item, root+"b") },
	} {
		t.Run(name, func(t *testing.T) {
			limit := 5
			if name == "on the last attempt" {
				limit = 2
			}
			w := interrupted(t, setup{keys: []string{"a", "b", "c"}, settings: attempts(limit)})
			play(w)
			w.drainUntil(job.Retrying)
			if p := w.row(); p.Attempts != 1 || !p.RetryAt.Equal(p.QuietAt) && p.RetryAt.Before(noon.Add(16*time.Minute)) {
				t.Errorf("%d attempts, retry at %v", p.Attempts, p.RetryAt)
			}
			w.drain()
			if p := w.row(); p.State != job.Completed || p.Attempts != 2 || p.Counts[job.Held] == 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}
