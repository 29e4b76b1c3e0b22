package receipt

import (
	"strconv"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/job"
)

// LineError says which line of a document is wrong. It quotes nothing of it.
type LineError struct {
	// Line counts from 1, the header; 0 is the document as a whole.
	Line int
	Text string
	// Newer says that the document was written by newer code: nothing is wrong
	// with it, and a newer reader will understand it.
	Newer bool
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return "line " + strconv.Itoa(e.Line) + ": " + e.Text
}

// itemLine is the line number of the item with the given index.
func itemLine(index int) int { return index + 2 }

// check reports the first thing that a document of ours never says.
func (d Document) check() *LineError {
	if text := d.Header.check(); text != "" {
		return &LineError{Line: 1, Text: text}
	}
	if len(d.Lines) > MaxLines {
		return &LineError{Line: itemLine(MaxLines), Text: "more than " + strconv.Itoa(MaxLines) + " items"}
	}
	for i := range d.Lines {
		l := &d.Lines[i]
		text := l.check(&d.Header)
		if text == "" {
			text = d.order(i)
		}
		if text != "" {
			return &LineError{Line: itemLine(i), Text: text}
		}
	}
	return nil
}

// order checks item i against the ones before it. Versions of one key have no
// order of their own that every store shares, so among them only a repetition is
// wrong.
func (d Document) order(i int) string {
	for j := i - 1; j >= 0; j-- {
		switch {
		case d.Lines[j].Key > d.Lines[i].Key:
			return "keys do not ascend"
		case d.Lines[j].Key < d.Lines[i].Key:
			return ""
		case d.Lines[j].Version == d.Lines[i].Version:
			return "the item is listed twice"
		}
	}
	return ""
}

func (h *Header) check() string {
	plan, receipt := h.Kind == Plan, h.Kind == Receipt
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"kind", plan || receipt},
		{"schema", h.Schema == Schema},
		{"run_id", isHex(string(h.RunID), 32)},
		{"page_id", isHex(string(h.PageID), 32)},
		{"tenant", job.ValidTenant(h.Tenant)},
		{"policy", isText(h.Policy)},
		{"policy_version", h.PolicyVersion >= 1},
		{"policy_sha256", isHex(h.PolicySHA256, 64)},
		{"mode", h.Mode == job.Enforce || h.Mode == job.ReportOnly},
		{"bucket", isText(h.Bucket)},
		{"cutoff", !h.Cutoff.IsZero()},
		{"fence", h.Fence >= 1},
		{"hold_epoch", h.HoldEpoch >= 0},
		{"code_version", isText(h.CodeVersion)},
		{"narrows", h.Narrows == "" || plan && isHex(h.Narrows, 64)},
		{"plan", plan && h.Plan == "" || receipt && isHex(h.Plan, 64)},
	} {
		if !f.ok {
			return f.name + " is missing or not of its form"
		}
	}
	return ""
}

func (l *Line) check(h *Header) string {
	switch {
	case l.Key == "":
		return "key is missing"
	case l.Size < 0:
		return "size is negative"
	case l.Marker && l.Size != 0:
		return "a delete marker has no size"
	case !isWord(l.Reason):
		return "reason is missing or not a short word"
	case l.Decision != Veto && !l.SettleAt.IsZero():
		return "only a veto waits"
	case h.Kind == Plan && (l.Outcome != job.NoOutcome || l.Proof != ""):
		return "a plan has no outcomes"
	}
	if text := l.checkDecision(h); text != "" {
		return text
	}
	return l.checkOutcome(h)
}

func (l *Line) checkDecision(h *Header) string {
	switch l.Decision {
	case Delete:
		// Level 1 of the delete path, told again by the evidence itself.
		if !l.Modified.Before(h.Cutoff) {
			return "a deletion is not before the cutoff"
		}
		if l.HoldID != "" {
			return "a deletion names a hold"
		}
	case Veto:
		if l.HoldID == "" || l.SettleAt.IsZero() {
			return "a veto needs its hold and when it may be settled"
		}
	case Held, Retained:
	case Moved:
		if l.Outcome != job.NoOutcome {
			return "a moved item has its outcome elsewhere"
		}
	default:
		return "unknown decision"
	}
	return ""
}

func (l *Line) checkOutcome(h *Header) string {
	switch {
	case l.Outcome != job.NoOutcome && l.Outcome.String() == "":
		return "unknown outcome"
	case l.Outcome.Deletes() && l.Proof != job.Answered && l.Proof != job.Inferred:
		return "a deletion without proof"
	case !l.Outcome.Deletes() && l.Proof != "":
		return "proof of a deletion that is none"
	case l.Outcome.Deletes() && h.Mode != job.Enforce:
		return "a deletion in a report-only run"
	case l.Outcome == job.WouldDelete && h.Mode != job.ReportOnly:
		return "a report-only outcome in an enforcing run"
	case (l.Outcome.Deletes() || l.Outcome == job.WouldDelete) && l.Decision != Delete && l.Decision != Veto:
		return "a deletion that no plan decided"
	}
	return ""
}

// isText accepts any short text without control characters.
func isText(s string) bool {
	if len(s) < 1 || len(s) > 256 || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func isWord(s string) bool {
	if len(s) < 1 || len(s) > 40 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
