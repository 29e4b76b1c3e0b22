package report

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// Options say how the text is written.
type Options struct {
	// Color marks the verdict and the headings: for a terminal whose owner did not
	// set NO_COLOR.
	Color bool
	// Evidence is where plans and receipts are, File where this report is kept as
	// JSON. "" leaves the line out.
	Evidence, File string
}

const (
	width      = 120 // columns of the text
	topTenants = 20  // tenants in the table; all are in the JSON
	topLetters = 10  // dead letters listed for one reason
)

// The colours of a terminal.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[1;31m"
	green = "\x1b[32m"
	amber = "\x1b[33m"
	plain = "\x1b[0m"
)

// WriteText tells people what the report says, in at most 120 columns but for
// the paths in opts. It quotes no control character of what it was given.
func WriteText(w io.Writer, r Report, opts Options) error {
	t := &sheet{r: r, opts: opts}
	t.headline()
	t.runs()
	t.guard()
	t.tenants()
	t.letters()
	t.places()
	t.verdict()
	_, err := io.WriteString(w, t.b.String())
	return err
}

// sheet is the text while it is written.
type sheet struct {
	b    strings.Builder
	r    Report
	opts Options
}

func (t *sheet) line(parts ...string) {
	for _, p := range parts {
		t.b.WriteString(p)
	}
	t.b.WriteByte('\n')
}

// heading starts a section.
func (t *sheet) heading(s string) {
	t.line()
	t.line(t.paint(bold, s))
}

func (t *sheet) paint(color, s string) string {
	if !t.opts.Color {
		return s
	}
	return color + s + plain
}

func (t *sheet) headline() {
	sum := t.r.Totals
	t.line(t.paint(bold, "Expunge, as of "+t.r.AsOf.Format(time.RFC3339Nano)))
	switch {
	case len(t.r.Runs) == 0:
		t.line("No run.")
	case t.r.Mode == job.Enforce:
		t.line("Deleted ", count(sum.Deleted, "item"), " and reclaimed ", human(sum.BytesReclaimed), " (", group(sum.BytesReclaimed), " bytes).")
		if sum.DeletedMarkerOnly > 0 {
			t.line("Hid ", count(sum.DeletedMarkerOnly, "item"), " under a delete marker: the bytes remain, and a marker is not erasure.")
		}
	case sum.WouldDelete > 0:
		t.line("Deleted nothing. Report-only runs would delete ", count(sum.WouldDelete, "item"), " and reclaim ",
			human(sum.BytesWouldReclaim), " (", group(sum.BytesWouldReclaim), " bytes).")
	default:
		t.line("Deleted nothing.")
	}
	if n := t.r.RefusedNames; n > 0 {
		t.line(count(n, "name"), " took no part: no possible key (not valid UTF-8, or longer than 1,024 bytes), or not readable.")
	}
}

func (t *sheet) runs() {
	if len(t.r.Runs) == 0 {
		return
	}
	t.heading("Runs")
	g := grid{columns: []column{
		{head: "policy", max: 28}, {head: "mode"}, {head: "state"}, {head: "cutoff"},
		{head: "examined", right: true}, {head: "unmatched", right: true}, {head: "candidates", right: true},
	}}
	for _, run := range t.r.Runs {
		g.row(version(run), clean(string(run.Mode)), clean(strings.ReplaceAll(string(run.State), "_", " ")), run.Cutoff.Format(time.RFC3339Nano),
			group(int64(run.Examined)), group(int64(run.Unmatched)), group(int64(run.Candidates)))
	}
	t.grid(g)
}

// grid writes a table, and those of its columns that do not fit in a table below.
func (t *sheet) grid(g grid) {
	for i, part := range g.fit(width) {
		if i > 0 {
			t.line()
		}
		t.b.WriteString(part.render())
	}
}

// version names the policy version of a run.
func version(run Run) string { return clean(run.Policy) + "@" + strconv.Itoa(run.Version) }

// guard says what the guard found, one sentence to a line.
func (t *sheet) guard() {
	first := true
	for _, run := range t.r.Runs {
		for i, finding := range run.Guard {
			if first {
				t.heading("Guard")
				first = false
			}
			if i == 0 {
				t.b.WriteString(wrap(version(run)+", run "+clean(string(run.RunID))+", "+consequence(run)+":", "", width))
			}
			t.b.WriteString(wrap(clean(finding), "  ", width))
		}
	}
}

// consequence is what the findings mean for the run.
func consequence(run Run) string {
	switch {
	case run.State == job.AwaitingApproval:
		return "deletes nothing until somebody approves it"
	case run.State == job.Rejected:
		return "was rejected and deletes nothing"
	case run.Mode == job.ReportOnly:
		return "would have to be approved if it deleted"
	default:
		return "was approved"
	}
}

func (t *sheet) letters() {
	if len(t.r.DeadLetters) == 0 {
		return
	}
	t.heading("Dead letters: " + group(int64(len(t.r.DeadLetters))))
	for _, reason := range append(job.Reasons(), "") {
		var of []DeadLetter
		for _, d := range t.r.DeadLetters {
			if d.Reason == reason {
				of = append(of, d)
			}
		}
		if len(of) == 0 {
			continue
		}
		name := string(reason)
		if name == "" {
			name = "no reason given"
		}
		t.b.WriteString(wrap(name+" ("+string(of[0].Class)+"), "+group(int64(len(of)))+": "+advice(reason)+".", "", width))
		for _, d := range of[:min(len(of), topLetters)] {
			t.line("  ", letter(d))
		}
		if more := len(of) - topLetters; more > 0 {
			t.line("  and ", group(int64(more)), " more")
		}
	}
}

// letter names what is known about a dead letter.
func letter(d DeadLetter) string {
	if d.RunID == "" && d.PageID == "" {
		return "names no run"
	}
	s := "run " + clip(clean(string(d.RunID)), 32) + " page " + clip(clean(string(d.PageID)), 32)
	if d.Tenant != "" {
		s += " tenant " + clip(clean(d.Tenant), 20)
	}
	if d.Attempts > 0 {
		s += ", " + count(d.Attempts, "attempt")
	}
	return s
}

// advice is what an operator would do next.
func advice(r job.Reason) string {
	switch r {
	case job.ReasonForbidden:
		return "give the worker's role the permission that the store missed, then redrive"
	case job.ReasonAttempts, job.ReasonAge:
		return "see why the store did not answer, then redrive"
	case job.ReasonNewerSchema:
		return "reconcile sends its page again; discard it, or deploy the release that knows this schema and look again"
	case job.ReasonUnknownPolicy:
		return "publish the policy version that the run pins, or discard"
	case job.ReasonMalformed, job.ReasonUnsupportedSchema:
		return "find out who sent it; it is no command of ours and can be discarded"
	case job.ReasonUnknownRun, job.ReasonUnknownPage:
		return "find out who sent it; the ledger has no such page, unless it was restored from a backup"
	case job.ReasonWrongRegion, job.ReasonWrongQueue:
		return "find out who moved it here; its own queue has the page already"
	case job.ReasonHashMismatch:
		return "find out who changed it; the page itself is sent again by reconcile"
	case job.ReasonOutsidePolicy:
		return "compare the policy's key template with the page before anything else runs"
	default:
		return "the queue moved it after too many receives; reconcile sends the page again"
	}
}

func (t *sheet) places() {
	if t.opts.Evidence == "" && t.opts.File == "" {
		return
	}
	t.line()
	if t.opts.Evidence != "" {
		t.line("Plans and receipts: ", clean(t.opts.Evidence))
	}
	if t.opts.File != "" {
		t.line("All numbers:        ", clean(t.opts.File))
	}
}

// verdict ends the text, so that it is the last thing on a screen.
func (t *sheet) verdict() {
	var holding, idle []string
	bad := grid{columns: []column{{head: "violated"}, {head: "promise", max: 44}, {head: "found", max: 60}}}
	for _, i := range t.r.Invariants {
		switch {
		case !i.Holds:
			bad.row(clean(i.ID), clean(invariant.Meaning(i.ID)), clean(i.Detail))
		case i.Checked == 0:
			idle = append(idle, clean(i.ID))
		default:
			holding = append(holding, clean(i.ID))
		}
	}
	t.line()
	if t.r.Verdict == Holds {
		t.line("Verdict: ", t.paint(green, Holds), ". ", count(len(t.r.Invariants), "invariant"), " checked against what happened.")
	} else {
		t.line("Verdict: ", t.paint(red, Violated), ". ", count(len(bad.rows), "invariant"), " of ", strconv.Itoa(len(t.r.Invariants)), ":")
		t.b.WriteString(bad.render())
	}
	if len(holding) > 0 {
		t.b.WriteString(wrap("Hold: "+strings.Join(holding, " "), "", width))
	}
	if len(idle) > 0 {
		t.b.WriteString(wrap("Hold, with nothing to look at: "+strings.Join(idle, " "), "", width))
	}
	if t.r.Exit() == 3 {
		t.line(t.paint(amber, "A run awaits approval."))
	}
}
