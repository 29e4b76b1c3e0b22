package audit_test

import (
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
)

func TestEntryIsNamedByItsContent(t *testing.T) {
	e := audit.Entry{At: now, Act: audit.HoldPlaced, Region: "eu-central-1", By: "arn:aws:iam::1:user/ana", Reason: "case 7", HoldID: "h-1"}
	again := e
	if again.ID() != e.ID() || len(e.ID()) != 32 {
		t.Errorf("ids %s and %s", e.ID(), again.ID())
	}
	other := e
	other.Reason = "case 8"
	if other.ID() == e.ID() {
		t.Error("two orders have one id")
	}
}

// R101: who and why are for the ledger, and not for the log.
func TestEntrysLineNamesNobody(t *testing.T) {
	e := audit.Entry{At: now, Act: audit.BrakeSet, Region: "eu-central-1", By: "canary-by", Reason: "canary-reason", Override: "canary-override", Policy: "exports"}
	line := emit(e.Event())
	if strings.Contains(line, "canary") || !strings.Contains(line, `"event":"brake_set"`) || !strings.Contains(line, `"policy":"exports"`) {
		t.Error(line)
	}
}

// R89: an order without a reason is none.
func TestSignature(t *testing.T) {
	good := audit.Signature{By: "ana", Reason: "the role was mended"}
	for name, c := range map[string]struct {
		by, reason string
		ok         bool
	}{
		"good":                {good.By, good.Reason, true},
		"umlauts":             {"änne", "Schlüssel erneuert", true},
		"nobody":              {"", good.Reason, false},
		"no reason":           {good.By, "", false},
		"four characters":     {good.By, "abcd", false},
		"five":                {good.By, "abcde", true},
		"two hundred":         {good.By, strings.Repeat("ä", 200), true},
		"two hundred and one": {good.By, strings.Repeat("ä", 201), false},
		"blanks only":         {good.By, "       ", false},
		"a new line":          {good.By, "because\nof", false},
		"a line separator":    {good.By, "because\u2028of", false},
		"no UTF-8":            {good.By, "because\xff", false},
		"a long name":         {strings.Repeat("a", 257), good.Reason, false},
	} {
		err := audit.Signature{By: c.by, Reason: c.reason}.Check("test")
		if c.ok != (err == nil) || err != nil && !failure.Is(err, failure.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
