package enqueue

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/worker"
)

// sendLog keeps the messages that were sent.
type sendLog struct {
	sender
	messages []job.Message
}

func (l *sendLog) Send(ctx context.Context, mode job.Mode, messages []job.Message) ([]string, error) {
	l.messages = append(l.messages, messages...)
	return l.sender.Send(ctx, mode, messages)
}

// states returns how many pages of the run are in each state.
func (r *region) states(run job.Run) map[job.PageState]int {
	states := map[job.PageState]int{}
	for _, p := range r.chain(run) {
		states[p.State]++
	}
	return states
}

func TestSQ16RefusedEntriesStayPlanned(t *testing.T) {
	r := newRegion(t, parse(t), sized(1, 1))
	r.put(31*day, keys("exports/a/", 10)...)
	entry := 0
	r.queue.Reject = func(string) bool { entry++; return entry == 3 || entry == 7 }
	run := r.start(tick)
	for i, p := range r.chain(run) {
		want := job.Sent
		if i == 2 || i == 6 {
			want = job.Planned
		}
		if p.State != want {
			t.Errorf("page %d is %s, want %s", i+1, p.State, want)
		}
		if !p.NextDue.Equal(noon.Add(r.Settings.Overdue())) {
			t.Errorf("page %d is due at %v", i+1, p.NextDue)
		}
	}
	r.messages(8)
	var incomplete []audit.Event
	for _, e := range r.log.Events() {
		if e.Event == audit.BatchEntriesRefused {
			incomplete = append(incomplete, e)
		}
	}
	if len(incomplete) != 1 || incomplete[0].Count != 2 || incomplete[0].RunID != run.ID || incomplete[0].TenantID != "a" {
		t.Errorf("events %+v", incomplete)
	}
	if r.count(audit.Enqueued) != 8 {
		t.Errorf("%d events of accepted pages", r.count(audit.Enqueued))
	}
}

func TestEveryEntryRefusedForEver(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1", "exports/b/1")
	r.queue.Reject = func(string) bool { return true }
	run := r.start(tick)
	if run.State != job.Released || r.states(run)[job.Planned] != 2 || r.count(audit.BatchEntriesRefused) != 2 {
		t.Errorf("%s, %v", run.State, r.states(run))
	}
	r.messages(0)
}

func TestMessagesNameTheirTenantAsGroupAndAreTheRecordedCommand(t *testing.T) {
	log := &sendLog{}
	r := newRegion(t, parse(t), func(c *Config) { log.sender, c.Sender = c.Sender, log })
	r.put(31*day, "exports/a/1", "exports/a-b/1", "exports/school-42/1")
	run := r.start(tick)
	pages := r.chain(run)
	if len(log.messages) != len(pages) {
		t.Fatalf("%d messages", len(log.messages))
	}
	for i, m := range log.messages {
		c, err := job.Decode(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		p := pages[i]
		if m.Group != p.Tenant || m.ID != string(p.ID) || c != job.NewCommand(run, p) {
			t.Errorf("message %+v of page %+v", m, p)
		}
		if bytes.Contains(m.Body, []byte("exports/")) {
			t.Error("a key stands in a message")
		}
	}
}

// SQ-17: a message is small whatever the keys are, so no batch is over the limit.
func TestSQ17PageOfTheLongestKeys(t *testing.T) {
	tenant := "t" + strings.Repeat("x", 127)
	prefix := "exports/" + tenant + "/"
	longest := func(n int) []string {
		all := make([]string, n)
		for i := range all {
			rest := 1024 - len(prefix) - 4
			all[i] = fmt.Sprintf("%s%04d%s%s", prefix, i, strings.Repeat("\u20ac", rest/3), strings.Repeat("x", rest%3))
		}
		return all
	}
	r := newRegion(t, parse(t))
	r.put(31*day, longest(5000)...)
	for i := range 10 {
		r.put(31*day, fmt.Sprintf("exports/%s%d/x", tenant[:126], i))
	}
	run := r.start(tick)
	if run.Candidates != 5010 || run.Examined != 5010 {
		t.Errorf("%d candidates of %d", run.Candidates, run.Examined)
	}
	if pages := r.chain(run); len(pages) != 15 || r.states(run)[job.Sent] != 15 {
		t.Errorf("%d pages, %v", len(pages), r.states(run))
	}
	sum := 0
	for _, body := range r.messages(15) {
		sum = max(sum, len(body))
	}
	if sum > 600 || 10*job.MaxCommandBytes > queue.MaxBytes {
		t.Errorf("a message of %d bytes", sum)
	}
}

// SQ-12: every page's message is sent from here. A worker has nothing to send
// with, so no chain of messages can grow through the queue.
func TestSQ12SixtyPagesFanOutFlat(t *testing.T) {
	r := newRegion(t, parse(t), sized(10, 100))
	r.put(31*day, keys("exports/a/", 600)...)
	run := r.start(tick)
	if r.states(run)[job.Sent] != 60 {
		t.Errorf("%v", r.states(run))
	}
	bodies := r.messages(60)
	slices.SortFunc(bodies, bytes.Compare)
	if len(slices.CompactFunc(bodies, bytes.Equal)) != 60 {
		t.Error("a message twice")
	}
	for i := range reflect.TypeFor[worker.Config]().NumField() {
		f := reflect.TypeFor[worker.Config]().Field(i)
		if f.Type.Kind() != reflect.Interface {
			continue
		}
		if _, can := f.Type.MethodByName("Send"); can {
			t.Errorf("a worker could send through %s", f.Name)
		}
	}
}

// The batch was taken in, its answer was lost: the pages stay planned and will be
// sent again, which is harmless; that they are never sent would not be.
func TestLostAnswerOfASend(t *testing.T) {
	for _, s := range strikes {
		t.Run(s.String(), func(t *testing.T) {
			r := newRegion(t, parse(t), sized(1, 1))
			r.put(31*day, keys("exports/a/", 25)...)
			batches := 0
			r.queue.Hook = func(op string, apply func() error) error {
				if batches++; batches == 2 {
					return s.hit(op, apply)
				}
				return apply()
			}
			var err error
			if died := process(func() { _, err = r.Start(context.Background(), r.deadline(), tick) }); died != s.crash {
				t.Fatalf("died %t", died)
			}
			if !s.crash && !failure.Is(err, failure.Network) {
				t.Errorf("%v", err)
			}
			run := r.onlyRun()
			sent := map[string]bool{}
			for _, body := range r.messages(map[bool]int{true: 20, false: 10}[s.applied]) {
				c, _ := job.Decode(body)
				sent[string(c.PageID)] = true
			}
			for _, p := range r.chain(run) {
				if p.State == job.Sent && !sent[string(p.ID)] {
					t.Error("a page is noted as sent and was not")
				}
			}
			// After a crash nothing was noted, not even about the first batch.
			if n, want := r.states(run)[job.Sent], map[bool]int{true: 0, false: 10}[s.crash]; n != want {
				t.Errorf("%d pages noted as sent, want %d", n, want)
			}
			if r.count(audit.BatchEntriesRefused) != map[bool]int{true: 0, false: 1}[s.crash] {
				t.Error("send_incomplete")
			}
		})
	}
}

// A worker can be faster than the note that its page was sent.
func TestWorkerThatWasFaster(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	r.queue.Hook = func(_ string, apply func() error) error {
		err := apply()
		run := r.onlyRun()
		p := r.ledger.AllPages(run.ID)[0]
		claimed, cerr := p.Claim("w", noon, noon.Add(time.Minute), noon.Add(time.Hour))
		if cerr != nil {
			t.Error(cerr)
		}
		if cerr = r.ledger.SwapPage(context.Background(), claimed); cerr != nil {
			t.Error(cerr)
		}
		return err
	}
	run := r.start(tick)
	if r.states(run)[job.Claimed] != 1 {
		t.Errorf("%v", r.states(run))
	}
}

// Time that does not suffice for all messages leaves the rest planned.
func TestSendStopsAtItsDeadline(t *testing.T) {
	r := newRegion(t, parse(t), sized(1, 1))
	r.put(31*day, keys("exports/a/", 250)...)
	r.put(31*day, keys("exports/b/", 5)...)
	batches := 0
	r.queue.Hook = func(_ string, apply func() error) error {
		if batches++; batches == 15 {
			r.clock.advance(time.Minute)
		}
		return apply()
	}
	run := r.start(tick)
	if s := r.states(run); s[job.Sent] != 200 || s[job.Planned] != 55 {
		t.Errorf("%v", s)
	}
	r.messages(200)
}

// A run that another enqueuer released meanwhile is sent once, by either.
func TestPagesThatAreSentAlreadyAreNotSentAgain(t *testing.T) {
	r := newRegion(t, parse(t), sized(1, 1))
	r.put(31*day, keys("exports/a/", 5)...)
	run := r.start(tick)
	r.messages(5)
	if err := r.send(t.Context(), r.deadline(), run); err != nil {
		t.Error(err)
	}
	r.messages(5)
}
