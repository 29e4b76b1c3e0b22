package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
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

// The embedded metric format: CloudWatch drops what is not exactly of it.
func TestMeasureWritesTheEmbeddedFormat(t *testing.T) {
	var b bytes.Buffer
	audit.NewLines(&b).Measure(audit.Measurement{Time: now, Metric: contract.OldestOpenPageAge, Service: "reconcile", Policy: "exports", Value: 12.5})
	want := `{"OldestOpenPageAge":12.5,"_aws":{"CloudWatchMetrics":[{"Namespace":"Expunge","Dimensions":[["service","policy"]],` +
		`"Metrics":[{"Name":"OldestOpenPageAge","Unit":"Seconds"}]}],"Timestamp":1772937000250},"policy":"exports","service":"reconcile"}` + "\n"
	if b.String() != want {
		t.Errorf("got  %swant %s", b.String(), want)
	}
	b.Reset()
	audit.NewLines(&b).Measure(audit.Measurement{Time: now, Metric: contract.TotalsMismatches, Service: "reconcile"})
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct{ Dimensions [][]string }
		} `json:"_aws"`
	}
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || len(line.AWS.CloudWatchMetrics[0].Dimensions[0]) != 1 {
		t.Errorf("a metric of the region has one dimension: %s %v", b.String(), err)
	}
}
