package local

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

var update = flag.Bool("update", false, "rewrite what the stories expect")

// TestStories plays testdata/*.txtar. A story is a script: it seeds a region, lets
// something go wrong, and says what an operator finds afterwards.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Values[teller{}] = &story{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"region": tell((*story).region), "put": tell((*story).put), "overwrite": tell((*story).overwrite),
			"deny": tell((*story).deny), "hold": tell((*story).hold), "release": tell((*story).release),
			"brake": tell((*story).brake), "unbrake": tell((*story).unbrake),
			"tick": tell((*story).tick), "send": tell((*story).send), "duplicate": tell((*story).duplicate),
			"strike": tell((*story).strike), "slow": tell((*story).slow), "deliver": tell((*story).deliver),
			"clock": tell((*story).clock), "reconcile": tell((*story).reconcile), "drain": tell((*story).drain),
			"pages": tell((*story).pages), "runs": tell((*story).runs), "objects": tell((*story).objects),
			"receipts": tell((*story).receipts), "letters": tell((*story).letters), "events": tell((*story).events),
			"invariants": tell((*story).invariants), "unpin": tell((*story).unpin),
		},
	})
}

// teller is the key under which a script keeps its story.
type teller struct{}

// story is the state of one script.
type story struct {
	*World
	ctx     context.Context
	out     io.Writer
	read    func(name string) string
	strikes []*strike
	seen    int // events already told
}

// strike is a fate for the n-th write of an operation.
type strike struct {
	op   string
	left int
	fate fate
}

func tell(do func(*story, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		s, ok := ts.Value(teller{}).(*story)
		if !ok {
			ts.Fatalf("the script has no story")
		}
		s.ctx, s.out = context.Background(), ts.Stdout()
		s.read = func(name string) string { return ts.ReadFile(name) }
		switch err := do(s, args); {
		case err != nil && !neg:
			ts.Fatalf("%v", err)
		case err == nil && neg:
			ts.Fatalf("succeeded, and should not")
		}
	}
}

// region INSTANT POLICY-FILE...: a region on a clock, with deployed policies.
func (s *story) region(args []string) error {
	at, err := time.Parse(time.RFC3339, args[0])
	if err != nil {
		return err
	}
	var policies []policy.Policy
	for _, name := range args[1:] {
		p, err := policy.Parse(name, []byte(s.read(name)))
		if err != nil {
			return err
		}
		policies = append(policies, p)
	}
	s.World, err = New(Options{Region: policies[0].Region, AsOf: at, Policies: policies})
	if err != nil {
		return err
	}
	s.Ledger.Hook, s.Queue.Hook, s.Store.Hook = s.hook, s.hook, s.hook
	return nil
}

func (s *story) hook(op string, apply func() error) error {
	for _, k := range s.strikes {
		if k.op != op || k.left == 0 {
			continue
		}
		if k.left--; k.left > 0 {
			continue
		}
		if k.fate.applied {
			_ = apply() // it happened; the answer is lost
		}
		if k.fate.crash {
			runtime.Goexit()
		}
		return failure.New(failure.Network, op, "injected")
	}
	return apply()
}

// strike OP before|after error|crash [N]: what happens to the N-th such write.
func (s *story) strike(args []string) error {
	n := 1
	if len(args) > 3 {
		n, _ = strconv.Atoi(args[3])
	}
	s.strikes = append(s.strikes, &strike{args[0], n, fate{applied: args[1] == "after", crash: args[2] == "crash"}})
	return nil
}

// put BUCKET AGE KEY...: objects of ten bytes; an age is a number of days or a duration.
func (s *story) put(args []string) error {
	age, err := parseAge(args[1])
	if err != nil {
		return err
	}
	for _, key := range args[2:] {
		if _, err := s.Store.Put(args[0], job.Item{Key: key, ETag: "v1", Size: 10, Modified: s.Clock.Now().Add(-age)}); err != nil {
			return err
		}
	}
	return nil
}

func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(text)
}

// overwrite BUCKET KEY: somebody uploads other bytes now.
func (s *story) overwrite(args []string) error {
	_, err := s.Store.Put(args[0], job.Item{Key: args[1], ETag: "v2", Size: 11, Modified: s.Clock.Now()})
	return err
}

// deny BUCKET KEY: the store refuses to delete it.
func (s *story) deny(args []string) error { return s.Store.DenyKey(args[0], args[1]) }

// hold ID TENANT SCOPE [VALUE]
func (s *story) hold(args []string) error {
	h := hold.Hold{ID: args[0], Tenant: args[1], Scope: hold.Scope(args[2]), PlacedAt: s.Clock.Now()}
	if len(args) > 3 {
		h.Value = args[3]
	}
	_, err := s.Ledger.PlaceHold(s.ctx, h)
	return err
}

// release ID TENANT
func (s *story) release(args []string) error {
	return s.Ledger.ReleaseHold(s.ctx, args[1], args[0], s.Clock.Now())
}

// brake POLICY
func (s *story) brake(args []string) error {
	return s.Ledger.SetBrake(s.ctx, job.Brake{Policy: args[0], Reason: "story", At: s.Clock.Now()})
}

// unbrake POLICY
func (s *story) unbrake(args []string) error {
	return s.Ledger.ReleaseBrake(s.ctx, job.Brake{Policy: args[0]})
}

// tick POLICY [INSTANT]: the schedule fires.
func (s *story) tick(args []string) error {
	at := s.Clock.Now()
	if len(args) > 1 {
		var err error
		if at, err = time.Parse(time.RFC3339, args[1]); err != nil {
			return err
		}
	}
	r, err := s.Tick(s.ctx, args[0], at)
	fmt.Fprintf(s.out, "%s\n", r.State)
	return err
}

// send FILE: a message body that no step of ours wrote.
func (s *story) send(args []string) error {
	_, err := s.Queue.Send(s.ctx, job.Enforce, []job.Message{{ID: args[0], Group: "stray", Body: []byte(s.read(args[0]))}})
	return err
}

// duplicate N: the next N receives leave their message visible.
func (s *story) duplicate(args []string) error {
	n, err := strconv.Atoi(args[0])
	s.Queue.Duplicate(n)
	return err
}

// slow BUCKET-KEY N: the store asks to slow down for a key, N times.
func (s *story) slow(args []string) error {
	left, err := strconv.Atoi(args[1])
	s.Store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if item.Key == args[0] && left > 0 {
			left--
			return job.Slow, false
		}
		return job.NoAnswer, false
	}
	return err
}

// unpin POLICY: the ledger forgets a policy, as one restored from a backup does.
func (s *story) unpin(args []string) error {
	for _, r := range s.Ledger.Runs() {
		if r.Policy == args[0] {
			r.Version, r.Rev = 9, r.Rev+1
			return s.Ledger.SwapRun(s.ctx, r)
		}
	}
	return fmt.Errorf("no run of %s", args[0])
}

// deliver: one poll of the queue and one invocation.
func (s *story) deliver([]string) error {
	crashes, before := s.Crashes, s.Queue.Stats()
	n, err := s.Deliver(s.ctx, job.Enforce)
	after := s.Queue.Stats()
	died := ""
	if s.Crashes > crashes {
		died = ", and the process died"
	}
	fmt.Fprintf(s.out, "%d delivered, %d acknowledged%s\n", n, after.Acked-before.Acked, died)
	return err
}

// clock DURATION: time passes and nobody works.
func (s *story) clock(args []string) error {
	d, err := time.ParseDuration(args[0])
	s.Clock.Advance(d)
	return err
}

// reconcile: one pass.
func (s *story) reconcile([]string) error {
	did, err := s.Reconcile(s.ctx)
	fmt.Fprintf(s.out, "resumed %d, resent %d, buried %d, letters %d, closed %d\n", did.Resumed, did.Resent, did.Buried, did.Letters, did.Closed)
	return err
}

// drain: everybody works until nothing is left to do.
func (s *story) drain([]string) error { return s.Drain(s.ctx) }

// runs: every run.
func (s *story) runs([]string) error {
	for _, r := range s.Ledger.Runs() {
		fmt.Fprintf(s.out, "%s@%d %s %s, cutoff %s, %d candidates%s\n", r.Policy, r.Version, r.Mode, r.State,
			r.Cutoff.Format(time.RFC3339), r.Candidates, words(r.Totals.Counts))
		for _, trip := range r.Trips {
			fmt.Fprintf(s.out, "  guard: %s\n", trip)
		}
	}
	return nil
}

// pages: every page, by tenant.
func (s *story) pages([]string) error {
	for _, r := range s.Ledger.Runs() {
		for _, p := range s.Ledger.AllPages(r.ID) {
			fmt.Fprintf(s.out, "%s %s %s, attempt %d%s", p.Tenant, p.Kind, p.State, p.Attempts, words(p.Totals().Counts))
			if p.Death.Reason != "" {
				fmt.Fprintf(s.out, ", %s", p.Death.Reason)
			}
			fmt.Fprintln(s.out)
		}
	}
	return nil
}

func words(c job.Counts) string {
	var b strings.Builder
	for _, o := range job.Outcomes() {
		if c[o] > 0 {
			fmt.Fprintf(&b, ", %s %d", o, c[o])
		}
	}
	return b.String()
}

// objects BUCKET: what is still there.
func (s *story) objects(args []string) error {
	for item := range s.Store.Objects(args[0]) {
		fmt.Fprintln(s.out, item.Key)
	}
	return nil
}

// receipts: every line of the receipts that count.
func (s *story) receipts([]string) error {
	for _, r := range s.Ledger.Runs() {
		for _, p := range s.Ledger.AllPages(r.ID) {
			if p.Receipt == "" {
				continue
			}
			name := receipt.Name(receipt.Receipt, r.ID, p.ID, p.Receipt)
			data, err := s.Evidence.Get(s.ctx, name)
			if err != nil {
				return err
			}
			doc, err := receipt.Verify(name, data)
			if err != nil {
				return err
			}
			for _, l := range doc.Lines {
				fmt.Fprintf(s.out, "%s: %s %s, %s %s\n", l.Key, l.Decision, l.Reason, l.Outcome, l.Proof)
			}
		}
	}
	return nil
}

// letters: the dead letters.
func (s *story) letters([]string) error {
	for _, d := range s.Queue.PeekLetters() {
		fmt.Fprintf(s.out, "%s %s, attempt %d\n", d.Letter.Reason, d.Letter.Reason.Class(), d.Letter.Attempts)
	}
	return nil
}

// events: what was told since the last time.
func (s *story) events([]string) error {
	all := s.Log.Events()
	for _, e := range all[s.seen:] {
		fmt.Fprint(s.out, e.Event)
		for _, part := range []string{e.TenantID, string(e.Reason), string(e.FailureClass)} {
			if part != "" {
				fmt.Fprintf(s.out, " %s", part)
			}
		}
		fmt.Fprintln(s.out)
	}
	s.seen = len(all)
	return nil
}

// invariants: every one of them holds.
func (s *story) invariants([]string) error {
	facts, err := s.Facts(s.ctx)
	if err != nil {
		return err
	}
	for _, r := range invariant.Check(facts) {
		if !r.Holds {
			err = errors.Join(err, fmt.Errorf("%s: %s", r.ID, r.Detail))
		}
	}
	return err
}
