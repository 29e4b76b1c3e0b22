package worker

import (
	"bytes"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestF8_TheRunIsTheGate: a message that comes before the release, early or
// forged, does nothing, and one write lets the page run.
func TestF8_TheRunIsTheGate(t *testing.T) {
	for state, move := range map[job.RunState]func(job.Run) (job.Run, error){
		job.Scanning:         func(r job.Run) (job.Run, error) { return r, nil },
		job.AwaitingApproval: func(r job.Run) (job.Run, error) { return r.Await([]string{"too many"}) },
	} {
		t.Run(string(state), func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}, unreleased: true})
			next, err := move(w.run)
			w.must(err)
			if next.Rev != w.run.Rev {
				w.must(w.ledger.SwapRun(t.Context(), next))
			}
			w.run = next
			fresh := w.row()
			w.invoke()
			if w.acked != 1 || w.row() != fresh {
				t.Errorf("%d acknowledged, %+v", w.acked, w.row())
			}
			w.release()
			w.send()
			w.invoke()
			w.want(job.Completed, map[string]string{"a": "deleted answered"})
		})
	}
	t.Run("rejected", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}, unreleased: true})
		awaiting, err := w.run.Await(nil)
		w.must(err)
		w.must(w.ledger.SwapRun(t.Context(), awaiting))
		w.run, err = awaiting.Reject(noon, "no", "legal")
		w.must(err)
		w.must(w.ledger.SwapRun(t.Context(), w.run))
		w.invoke()
		w.want(job.Planned, nil)
		w.wantSent()
	})
}

// TestS7_AMessageCarriesNoAuthority: what differs from the record, in any field,
// is a dead letter with its reason; the page it names stays as it was.
func TestS7_AMessageCarriesNoAuthority(t *testing.T) {
	other := job.RangePageID("00000000000000000000000000000000", acme, "x")
	for _, c := range []struct {
		name, old, new string
		reason         job.Reason
	}{
		{"another region", `"region":"eu-west-1"`, `"region":"us-east-1"`, job.ReasonWrongRegion},
		{"an unknown run", `"run_id":"` + string(job.ScheduledRunID(region, "exports", noon)), `"run_id":"` + string(other), job.ReasonUnknownRun},
		{"an unknown page", `"page_id":"`, `"page_id":"00000000`, job.ReasonMalformed},
		{"another tenant", `"tenant_id":"acme"`, `"tenant_id":"acme2"`, job.ReasonUnknownPage},
		{"an unknown version", `"policy_version":1`, `"policy_version":9`, job.ReasonUnknownPolicy},
		{"another policy", `"policy":"exports"`, `"policy":"uploads"`, job.ReasonUnknownPolicy},
		{"another hash", `"hash":"`, `"hash":"0`, job.ReasonMalformed},
		{"an older schema", `"schema":1`, `"schema":0`, job.ReasonUnsupportedSchema},
		{"a repeated name", `"tenant_id":"acme"`, `"tenant_id":"acme","tenant_id":"acme2"`, job.ReasonMalformed},
		{"another case", `"tenant_id":"acme"`, `"tenant_id":"acme","TENANT_ID":"acme2"`, job.ReasonMalformed},
		{"an unknown name", `"schema":1`, `"schema":1,"presigned_url":"https://example.org"`, job.ReasonMalformed},
		{"a tenant above", `"tenant_id":"acme"`, `"tenant_id":".."`, job.ReasonMalformed},
		{"a null tenant", `"tenant_id":"acme"`, `"tenant_id":null`, job.ReasonMalformed},
		{"something after it", `}`, `}{}`, job.ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			body := job.NewCommand(w.run, w.row()).Encode()
			if bytes.Count(body, []byte(c.old)) != 1 {
				t.Fatalf("%s is not in %s once", c.old, body)
			}
			w.forged(bytes.Replace(body, []byte(c.old), []byte(c.new), 1), c.reason)
		})
	}
	t.Run("a hash of its own", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		forged := job.NewCommand(w.run, w.row())
		forged.Hash = "00000000000000000000000000000000"
		w.forged(forged.Encode(), job.ReasonHashMismatch)
	})
	t.Run("a page that is not there", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		forged := job.NewCommand(w.run, w.row())
		forged.PageID = other
		w.forged(forged.Encode(), job.ReasonUnknownPage)
	})
	t.Run("the other mode's queue", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}, config: func(c *Config) { c.Mode = job.ReportOnly }})
		w.forged(job.NewCommand(w.run, w.row()).Encode(), job.ReasonWrongQueue)
	})
}

// forged delivers only the body, and checks that it is quarantined and that
// nothing else happens.
func (w *world) forged(body []byte, reason job.Reason) {
	w.t.Helper()
	w.receive(10) // the page's own message waits
	w.post(job.Message{ID: "forged", Body: body})
	fresh := w.row()
	w.invoke()
	w.wantLetters(reason)
	w.wantSent()
	if reason.Class() != job.Quarantined || w.acked != 1 || w.row() != fresh {
		w.t.Errorf("%s letter, %d acknowledged, %+v", reason.Class(), w.acked, w.row())
	}
	if got := w.queue.PeekLetters()[0]; !bytes.Equal(got.Body, body) || got.Letter.FirstAt.IsZero() {
		w.t.Errorf("the letter is not the message: %+v", got.Letter)
	}
}

// TestSchema_ANewerOneWaitsForANewerWorker, for longer than a release takes to reach
// every function, and is a dead letter before the queue moves it without a reason.
func TestSchema_ANewerOneWaitsForANewerWorker(t *testing.T) {
	w := newWorld(t, setup{})
	w.alone([]byte(`{"schema":2,"what":"ever"}`))
	start := w.clock.Now()
	w.drainLetters(1)
	w.wantLetters(job.ReasonNewerSchema)
	if l := w.queue.PeekLetters()[0]; l.Receives != 0 || job.ReasonNewerSchema.Class() != job.Redrivable {
		t.Errorf("%+v", l)
	}
	if waited := w.clock.Now().Sub(start); waited < 45*time.Minute || w.acked != 1 || w.queue.Stats().Moved != 0 {
		t.Errorf("given up after %v, %d acknowledged, %d moved by the queue", waited, w.acked, w.queue.Stats().Moved)
	}
}

// alone posts the body and hides the page's own message for half a day.
func (w *world) alone(body []byte) {
	w.t.Helper()
	for _, d := range w.receive(10) {
		w.must(w.queue.Delay(w.t.Context(), d, 12*time.Hour))
	}
	w.post(job.Message{ID: "alone", Body: body})
}

// drainLetters polls until there are n dead letters, without waiting for a hidden
// message of the page.
func (w *world) drainLetters(n int) {
	w.t.Helper()
	for range 50 {
		if len(w.queue.PeekLetters()) == n {
			return
		}
		at, _ := w.queue.NextVisible(w.run.Mode)
		w.clock.reach(at)
		w.invoke()
	}
	w.t.Fatalf("%d dead letters, want %d", len(w.queue.PeekLetters()), n)
}

// TestF13_ABrakeBeforeTheClaimCostsNothing, however often the page comes by.
func TestF13_ABrakeBeforeTheClaimCostsNothing(t *testing.T) {
	for name, brake := range map[string]job.Brake{
		"region": {}, "policy": {Policy: "exports"}, "version": {Policy: "exports", Version: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.must(w.ledger.SetBrake(t.Context(), brake))
			for range 9 {
				w.invoke()
				w.send()
			}
			if p := w.row(); p.Attempts != 0 || p.Fence != 0 || w.count("page:claimed") != 0 || w.acked != 9 {
				t.Errorf("%+v, %d claims, %d acknowledged", p, w.count("page:claimed"), w.acked)
			}
			w.must(w.ledger.ReleaseBrake(t.Context(), brake))
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered"})
		})
	}
}

// TestF13_ABrakeBeforeTheIntentStopsIt gives the attempt back, however often.
func TestF13_ABrakeBeforeTheIntentStopsIt(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	for range 7 {
		w.on("put:plan", after(func() { w.must(w.ledger.SetBrake(t.Context(), job.Brake{})) }))
		w.invoke()
		w.want(job.Planned, nil)
		w.must(w.ledger.ReleaseBrake(t.Context(), job.Brake{}))
		w.send()
	}
	w.wantSent()
	if p := w.row(); p.Attempts != 0 || p.Intent != (job.Intent{}) || w.acked != 7 {
		t.Errorf("%+v, %d acknowledged", p, w.acked)
	}
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestF13_AnOpenIntentRestsUnderABrake, and goes on as a resume afterwards.
func TestF13_AnOpenIntentRestsUnderABrake(t *testing.T) {
	for _, at := range []string{"", "put:plan"} { // before its claim, and before its second intent
		w := interrupted(t, setup{keys: []string{"a"}})
		brake := func() { w.must(w.ledger.SetBrake(t.Context(), job.Brake{Policy: "exports"})) }
		if at == "" {
			brake()
		} else {
			w.on(at, after(brake))
		}
		w.clock.reach(noon.Add(w.config.Settings.Visibility()))
		w.invoke()
		w.wantSent()
		if p := w.row(); p.State != job.Planned || p.Attempts != 1 || p.Intent.Deletes != 1 {
			t.Errorf("%+v", p)
		}
		w.must(w.ledger.ReleaseBrake(t.Context(), job.Brake{Policy: "exports"}))
		w.send()
		w.drain()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	}
}

// TestF13_ABrakeThatCanNotBeReadIsNoPermission, before the claim or the intent.
func TestF13_ABrakeThatCanNotBeReadIsNoPermission(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.on("page", failing(class(failure.Network))) // the brakes come with the page
	w.invoke()
	if p := w.row(); p.Attempts != 0 || p.State != job.Sent || w.acked != 0 {
		t.Errorf("%+v", p)
	}
	w.on("brakes", failing(class(failure.Network)))
	w.clock.advance(w.config.Settings.Visibility())
	w.invoke()
	w.wantSent()
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestRD09_ADeadPageIsNotRevivedByItsMessage: somebody moved the letter back
// around the redrive gates.
func TestRD09_ADeadPageIsNotRevivedByItsMessage(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.each("list", failing(class(failure.Forbidden)))
	w.invoke()
	w.each("list", nil)
	dead := w.row()
	w.clock.advance(day)
	w.queue.NativeRedrive(w.run.Mode)
	w.drain()
	if w.row() != dead {
		t.Errorf("%+v became %+v", dead, w.row())
	}
	w.wantSent()
	w.wantLetters(job.ReasonForbidden)
	if n := len(w.events("cleanup_redrive_refused")); n != 1 {
		t.Errorf("%d refusals", n)
	}
}

// TestRD09_ACopyOfTheMessageThatDied was sent before the letter was written: it is
// no redrive, and goes without a second letter.
func TestRD09_ACopyOfTheMessageThatDied(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.post(job.NewMessage(w.run, w.row()))
	w.each("list", failing(class(failure.Forbidden)))
	w.drain()
	w.wantLetters(job.ReasonForbidden)
	if w.acked != 2 || len(w.events("cleanup_redrive_refused")) != 0 {
		t.Errorf("%d acknowledged, %d refusals", w.acked, len(w.events("cleanup_redrive_refused")))
	}
}
