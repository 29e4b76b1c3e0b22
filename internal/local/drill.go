package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// drill is one trouble that is rehearsed: what is there, what goes wrong, and what
// must be true once everything is quiet. Every invariant must hold besides.
type drill struct {
	// id is the requirement that asks for it.
	id, name, text string
	// alone plays a drill that needs no region of processes, and the rest is empty.
	alone    func(context.Context) Drilled
	policies []string
	seed     []batch
	play     func(ctx context.Context, r *rehearsal) error
	check    func(r *rehearsal, f invariant.Facts)
}

// rehearsal is a drill being played, on a region of its own.
type rehearsal struct {
	*Cloud
	mu sync.Mutex
	// trouble is when something went wrong first.
	trouble time.Time
	wrong   []string
}

// went notes that something went wrong now; the first is what recovery counts from.
func (r *rehearsal) went() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble.IsZero() {
		r.trouble = time.Now()
	}
}

// want notes what is not as it should be.
func (r *rehearsal) want(holds bool, format string, args ...any) {
	if !holds {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// Drilled is what became of a drill.
type Drilled struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Text     string   `json:"text"`
	Holds    bool     `json:"holds"`
	Wrong    []string `json:"wrong,omitzero"`
	Recovery string   `json:"recovery"`
}

// drillsAtOnce is how many drills are played side by side: they wait for leases and
// visibility timeouts most of the time.
const drillsAtOnce = 7

// Drill plays every drill on the embedded AWS, or only the one with the id, and writes
// a table of the verdicts. It reports whether all hold.
func Drill(ctx context.Context, functions, only string, out io.Writer) (bool, error) {
	all := slices.DeleteFunc(drills(), func(d drill) bool { return only != "" && d.id != only })
	if len(all) == 0 {
		return false, fmt.Errorf("there is no drill %q: make drill plays all, and its table names them", only)
	}
	results := make([]Drilled, len(all))
	broken := make([]error, len(all))
	places := make(chan struct{}, drillsAtOnce)
	var playing sync.WaitGroup
	for i, d := range all {
		playing.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			results[i], broken[i] = d.perform(ctx, functions)
		})
	}
	playing.Wait()
	holds := true
	t := table.NewWriter()
	t.AppendHeader(table.Row{"drill", "what goes wrong", "verdict", "recovered in"})
	for _, r := range results {
		verdict := "holds"
		if !r.Holds {
			holds, verdict = false, "VIOLATED"
		}
		t.AppendRow(table.Row{r.ID + " " + r.Name, r.Text, verdict, r.Recovery})
	}
	fmt.Fprintln(out, t.Render())
	for _, r := range results {
		for _, text := range r.Wrong {
			fmt.Fprintf(out, "%s %s: %s\n", r.ID, r.Name, text)
		}
	}
	return holds, errors.Join(broken...)
}

// perform plays one drill.
func (d drill) perform(ctx context.Context, functions string) (Drilled, error) {
	if d.alone != nil {
		return d.alone(ctx), nil
	}
	done := Drilled{ID: d.id, Name: d.name, Text: d.text}
	fail := func(err error) (Drilled, error) {
		return done, fmt.Errorf("drill %s %s: %w", d.id, d.name, err)
	}
	folder, err := os.MkdirTemp("", "expunge-drill-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the system clears what is left of its temporary folder
	var policies []policy.Policy
	for _, text := range d.policies {
		p, err := policy.Parse("policy.yaml", []byte(text))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, p.Name+".yaml"), []byte(text), 0o600)
		}
		if err != nil {
			return fail(err)
		}
		policies = append(policies, p)
	}
	cloud, err := OpenCloud(ctx, CloudOptions{Region: policies[0].Region, Policies: policies, Functions: functions, PolicyFiles: folder})
	if err != nil {
		return fail(err)
	}
	defer cloud.Close()
	r := &rehearsal{Cloud: cloud}
	for _, b := range d.seed {
		if err := cloud.Seed(b); err != nil {
			return fail(err)
		}
	}
	if err := d.play(ctx, r); err != nil {
		return fail(err)
	}
	facts, err := cloud.Facts(ctx)
	if err != nil {
		return fail(err)
	}
	for _, i := range invariant.Check(facts) {
		r.want(i.Holds, "%s: %s", i.ID, i.Detail)
	}
	d.check(r, facts)
	done.Wrong, done.Holds, done.Recovery = r.wrong, len(r.wrong) == 0, r.recovery(facts)
	return done, nil
}

// recovery is how long after the first trouble the last page ended, or became a dead
// letter that an operator can see.
func (r *rehearsal) recovery(f invariant.Facts) string {
	var last time.Time
	for _, p := range f.Pages {
		for _, at := range []time.Time{p.SettledAt, p.Death.LetterAt} {
			if at.After(last) {
				last = at
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble.IsZero() {
		r.wrong = append(r.wrong, "the trouble never came")
		return "-"
	}
	return max(last.Sub(r.trouble), 0).Round(100 * time.Millisecond).String()
}

// outcomes adds up the outcomes of all pages.
func outcomes(f invariant.Facts) job.Counts {
	var c job.Counts
	for _, p := range f.Pages {
		c = c.Plus(p.Totals().Counts)
	}
	return c
}

// events counts the events of a name.
func (r *rehearsal) events(name audit.Name) int {
	n := 0
	for _, e := range r.Log.Events() {
		if e.Event == name {
			n++
		}
	}
	return n
}

// reasons returns the reasons of the dead letters, sorted.
func reasons(f invariant.Facts) []job.Reason {
	var all []job.Reason
	for _, l := range f.Letters {
		all = append(all, l.Reason)
	}
	slices.SortFunc(all, func(a, b job.Reason) int { return cmp.Compare(a, b) })
	return all
}
