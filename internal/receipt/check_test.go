package receipt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// Encode and Decode share one check; TestDecodeIsStrict shows that Decode makes it.
func TestEncodeRefuses(t *testing.T) {
	const headerLine, itemLine = 1, 3
	type document = receipt.Document
	plan := func() document {
		return document{Header: header(receipt.Plan), Lines: []receipt.Line{planned("a"), planned("b"), planned("c")}}
	}
	answer := func() document {
		return document{Header: header(receipt.Receipt), Lines: []receipt.Line{
			settled("a", job.Deleted, job.Answered), settled("b", job.Deleted, job.Inferred), settled("c", job.NoOutcome, ""),
		}}
	}
	report := func() document {
		d := answer()
		d.Header.Mode = job.ReportOnly
		for i := range d.Lines {
			d.Lines[i].Outcome, d.Lines[i].Proof = job.WouldDelete, ""
		}
		return d
	}
	for _, good := range []document{plan(), answer(), report()} {
		if _, _, err := good.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		of    func() document
		line  int
		spoil func(h *receipt.Header, l *receipt.Line)
	}{
		{"kind", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Kind = "manifest" }},
		{"schema", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Schema = 2 }},
		{"run", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.RunID = "r" }},
		{"page", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.PageID = "" }},
		{"tenant", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Tenant = ".." }},
		{"policy", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Policy = "" }},
		{"policy version", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.PolicyVersion = 0 }},
		{"policy hash", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.PolicySHA256 = strings.Repeat("A", 64) }},
		{"mode", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Mode = "" }},
		{"bucket", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Bucket = "" }},
		{"cutoff", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Cutoff = time.Time{} }},
		{"cutoff out of range", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Cutoff = h.Cutoff.AddDate(9000, 0, 0) }},
		{"fence", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Fence = 0 }},
		{"epoch", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.HoldEpoch = -1 }},
		{"code version", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.CodeVersion = "a\nb" }},
		{"narrows", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Narrows = "x" }},
		{"a receipt narrows", answer, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Narrows = hashA }},
		{"a plan answers", plan, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Plan = hashA }},
		{"a receipt answers nothing", answer, headerLine, func(h *receipt.Header, _ *receipt.Line) { h.Plan = "" }},

		{"no key", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Key = "" }},
		{"order", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Key = "Z" }},
		{"twice", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Key = "a" }},
		{"size", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Size = -1 }},
		{"marker with a size", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Marker = true }},
		{"etag not UTF-8", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.ETag = "\xff" }},
		{"hold not UTF-8", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) {
			l.Decision, l.HoldID = receipt.Held, "\xff"
		}},
		{"time out of range", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Modified = l.Modified.AddDate(-3000, 0, 0) }},
		{"no decision", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision = "" }},
		{"no reason", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Reason = "" }},
		{"a sentence for a reason", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Reason = "too old" }},
		{"as young as the cutoff", plan, itemLine, func(h *receipt.Header, l *receipt.Line) { l.Modified = h.Cutoff }},
		{"deletes what is held", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.HoldID = "h" }},
		{"veto without a hold", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision, l.SettleAt = receipt.Veto, old }},
		{"veto without a time", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision, l.HoldID = receipt.Veto, "h" }},
		{"a delete that waits", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.SettleAt = old }},
		{"outcome in a plan", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome = job.Changed }},
		{"proof in a plan", plan, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Proof = job.Answered }},

		{"unknown outcome", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome, l.Proof = 200, "" }},
		{"no proof", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Proof = "" }},
		{"marker without proof", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome, l.Proof = job.DeletedMarkerOnly, "" }},
		{"unknown proof", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Proof = "sworn" }},
		{"proof of nothing", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome = job.NoOutcome }},
		{"proof of absence", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome = job.AlreadyAbsent }},
		{"held and deleted", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision = receipt.Held }},
		{"retained and deleted", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision = receipt.Retained }},
		{"moved and deleted", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision = receipt.Moved }},
		{"moved and failed", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) {
			l.Decision, l.Outcome, l.Proof = receipt.Moved, job.Failed, ""
		}},
		{"report-only word", answer, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome, l.Proof = job.WouldDelete, "" }},
		{"report-only deletion", report, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Outcome, l.Proof = job.Deleted, job.Answered }},
		{"report-only marker", report, itemLine, func(_ *receipt.Header, l *receipt.Line) {
			l.Outcome, l.Proof = job.DeletedMarkerOnly, job.Inferred
		}},
		{"report-only proof", report, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Proof = job.Answered }},
		{"would delete what is held", report, itemLine, func(_ *receipt.Header, l *receipt.Line) { l.Decision = receipt.Held }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.of()
			c.spoil(&d.Header, &d.Lines[itemLine-2])
			hash, data, err := d.Encode()
			if !failure.Is(err, failure.Bug) || hash != "" || data != nil {
				t.Fatalf("%q, %d bytes, %v", hash, len(data), err)
			}
			if e, ok := errors.AsType[*receipt.LineError](err); !ok || e.Line != c.line {
				t.Errorf("error is %v, want line %d", err, c.line)
			}
		})
	}
}

func TestVersionsOfOneKey(t *testing.T) {
	version := func(key, version string) receipt.Line {
		return with(planned(key), func(l *receipt.Line) { l.Version = version })
	}
	d := receipt.Document{Header: header(receipt.Plan), Lines: []receipt.Line{
		version("a", "3"), version("a", "1"), version("a", "2"), version("b", "1"),
	}}
	if _, _, err := d.Encode(); err != nil {
		t.Error(err)
	}
	d.Lines[2].Version = "3"
	if _, _, err := d.Encode(); err == nil {
		t.Error("a version listed twice was accepted")
	}
}

func TestParseName(t *testing.T) {
	run, page := job.RunID(strings.Repeat("1", 32)), job.PageID(strings.Repeat("2", 32))
	for _, kind := range []receipt.Kind{receipt.Plan, receipt.Receipt} {
		name := receipt.Name(kind, run, page, hashA)
		want := receipt.Parts{Kind: kind, RunID: run, PageID: page, Hash: hashA}
		if got, err := receipt.ParseName(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for what, bad := range map[string]string{
			"empty":       "",
			"slash first": "/" + name,
			"slash last":  name + "/",
			"no suffix":   strings.TrimSuffix(name, ".gz"),
			"more suffix": name + ".gz",
			"kind":        strings.Replace(name, string(kind), "manifest", 1),
			"upper case":  strings.ToUpper(name),
			"short hash":  strings.Replace(name, hashA, hashA[1:], 1),
			"long hash":   strings.Replace(name, hashA, hashA+"a", 1),
			"no hex":      strings.Replace(name, hashA, "g"+hashA[1:], 1),
			"climbs":      strings.Replace(name, string(run), "..", 1),
			"too deep":    strings.Replace(name, "/", "/x/", 1),
			"no page":     strings.Replace(name, string(page)+"/", "", 1),
			"newline":     name + "\n",
		} {
			if _, err := receipt.ParseName(bad); !failure.Is(err, failure.Invalid) {
				t.Errorf("%s: %q gives %v", what, bad, err)
			}
		}
	}
}

func TestTotals(t *testing.T) {
	answer, report, plan := documents()["receipt"], documents()["receipt-report-only"], documents()["plan"]
	got := answer.Totals()
	want := job.Totals{Candidates: 14, Bytes: 4 * 4096} // 01, 02, 13 and the first version of 14
	for _, o := range []job.Outcome{
		job.DeletedMarkerOnly, job.AlreadyAbsent, job.Changed, job.Superseded, job.Held, job.Retained, job.Refused, job.Failed,
	} {
		want.Counts[o] = 1
	}
	want.Counts[job.Deleted] = 5
	if got != want {
		t.Errorf("receipt: %+v, want %+v", got, want)
	}
	if open := got.Candidates - got.Counts.Sum(); open != 1 {
		t.Errorf("%d items without an outcome, want 1", open)
	}
	want = job.Totals{Candidates: 2, Bytes: 4096}
	want.Counts[job.WouldDelete], want.Counts[job.Changed] = 1, 1
	if got := report.Totals(); got != want {
		t.Errorf("report-only: %+v, want %+v", got, want)
	}
	if got := plan.Totals(); got != (job.Totals{Candidates: 4}) {
		t.Errorf("plan: %+v", got)
	}
	if plan.Deletes() != 2 || plan.Count(receipt.Held) != 1 || answer.Count(receipt.Moved) != 1 {
		t.Errorf("deletes %d, held %d, moved %d", plan.Deletes(), plan.Count(receipt.Held), answer.Count(receipt.Moved))
	}
}

func TestSubset(t *testing.T) {
	wide := receipt.Document{Header: header(receipt.Plan), Lines: []receipt.Line{
		planned("a"), planned("b"),
		with(planned("c"), func(l *receipt.Line) { l.Decision, l.HoldID = receipt.Held, "h" }),
		with(planned("d"), func(l *receipt.Line) { l.Version = "1" }),
	}}
	narrow := func(change func(d *receipt.Document)) receipt.Document {
		d := receipt.Document{Header: wide.Header, Lines: append([]receipt.Line(nil), wide.Lines...)}
		d.Header.Fence, d.Header.HoldEpoch, d.Header.Narrows = 2, 9, hashA
		change(&d)
		return d
	}
	veto := func(l *receipt.Line) { l.Decision, l.HoldID, l.SettleAt = receipt.Veto, "h", old }
	for _, c := range []struct {
		name   string
		want   bool
		change func(d *receipt.Document)
	}{
		{"equal", true, func(*receipt.Document) {}},
		{"nothing left", true, func(d *receipt.Document) { d.Lines = nil }},
		{"one vetoed", true, func(d *receipt.Document) { veto(&d.Lines[0]) }},
		{"another zone", true, func(d *receipt.Document) { d.Lines[0].Modified = old.In(time.FixedZone("", 60)) }},
		{"another reason", true, func(d *receipt.Document) { d.Lines[0].Reason = "still_expired" }},
		{"a key more, not deleted", true, func(d *receipt.Document) { veto(&d.Lines[1]); d.Lines[1].Key = "bb" }},
		{"a key more", false, func(d *receipt.Document) { d.Lines = append(d.Lines, planned("e")) }},
		{"one that was held", false, func(d *receipt.Document) { d.Lines[2].Decision = receipt.Delete }},
		{"twice", false, func(d *receipt.Document) { d.Lines = append(d.Lines, d.Lines[0]) }},
		{"another etag", false, func(d *receipt.Document) { d.Lines[0].ETag = `"x"` }},
		{"another size", false, func(d *receipt.Document) { d.Lines[0].Size++ }},
		{"another time", false, func(d *receipt.Document) { d.Lines[0].Modified = old.Add(1) }},
		{"another version", false, func(d *receipt.Document) { d.Lines[3].Version = "2" }},
		{"the version with another etag", false, func(d *receipt.Document) { d.Lines[3].ETag = `"x"` }},
		{"no version", false, func(d *receipt.Document) { d.Lines[3].Version = "" }},
		{"another run", false, func(d *receipt.Document) { d.Header.RunID = job.RunID(strings.Repeat("3", 32)) }},
		{"a split-off page", true, func(d *receipt.Document) { d.Header.PageID = job.PageID(strings.Repeat("3", 32)) }},
		{"another tenant", false, func(d *receipt.Document) { d.Header.Tenant = "school-4" }},
		{"another bucket", false, func(d *receipt.Document) { d.Header.Bucket = "b" }},
	} {
		if got := receipt.Subset(narrow(c.change), wide); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
