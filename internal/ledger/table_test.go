package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/emulator"
	emulated "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/ledger/ledgertest"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// openTable returns a ledger in a fresh table of the embedded AWS. Its calls meet
// the faults, and a read that is not strongly consistent fails the test.
func openTable(t *testing.T, faults wire.Faults) *ledger.Table {
	t.Helper()
	return tableAt(t, emulator.New(wire.Wall{}, func(c wire.Call) wire.Fate {
		if weak(c) {
			t.Errorf("%s without ConsistentRead", c.Operation)
		}
		return faults.Of(c)
	}, emulated.New(wire.Wall{})))
}

// tableAt returns a ledger in a fresh table of a server.
func tableAt(t *testing.T, h http.Handler) *ledger.Table {
	t.Helper()
	config := configOf(t, h)
	if _, err := dynamodb.NewFromConfig(config.Config).CreateTable(t.Context(), ledger.Schema("ledger")); err != nil {
		t.Fatal(err)
	}
	return ledger.NewTable(config, "ledger")
}

func configOf(t *testing.T, h http.Handler) sdk.Config {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	return limits.Configure(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// weak reports a read that may be of the past. Only the index can not be read in
// another way, and it is only ever asked where to look.
func weak(c wire.Call) bool {
	var in struct {
		ConsistentRead bool
		IndexName      string
		RequestItems   map[string]struct{ ConsistentRead bool }
	}
	switch c.Operation {
	case "GetItem", "Query", "BatchGetItem":
	default:
		return false
	}
	if json.Unmarshal(c.Body, &in) != nil {
		return true
	}
	for _, table := range in.RequestItems {
		if !table.ConsistentRead {
			return true
		}
	}
	return !in.ConsistentRead && in.IndexName == "" && len(in.RequestItems) == 0
}

func TestTable(t *testing.T) {
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Ledger { return openTable(t, nil) })
}

// A write that only met another transaction has not happened, and what was read of its
// refusal must not say that it had, or that it never can (DB-08).
func TestDB08_AnotherTransactionIsNoAnswer(t *testing.T) {
	busy := false
	l := openTable(t, func(c wire.Call) (f wire.Fate) {
		switch {
		case busy && c.Operation == "PutItem":
			f.Error = wire.Bad("TransactionConflictException", "")
		case busy && c.Operation == "TransactWriteItems":
			f.Error = wire.Bad("TransactionCanceledException", "")
			f.Error.Fields = map[string]any{"CancellationReasons": []map[string]string{{"Code": "None"}, {"Code": "TransactionConflict"}}}
		}
		return f
	})
	l.Pause = func(context.Context, time.Duration) error { return nil }
	p, err := policy.Parse("policy.yaml", []byte(busyPolicy))
	check(t, err)
	for what, write := range map[string]func() error{
		"an order": func() error { return l.PutEntry(t.Context(), audit.Entry{Act: audit.RedriveApplied, At: instant}) },
		"a run": func() error {
			_, _, err := l.OpenRun(t.Context(), job.Run{ID: "run", Rev: 1, State: job.Scanning})
			return err
		},
		"a policy": func() error { return l.PublishPolicy(t.Context(), p) },
	} {
		busy = true
		if err := write(); !failure.Is(err, failure.Conflict) {
			t.Errorf("%s: %v", what, err)
		}
		busy = false
		for range 2 {
			check(t, write())
		}
	}
}

const busyPolicy = `name: files
version: 1
region: eu-west-1
bucket: bucket
keys: files/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "01:30", zone: UTC, catch_up: true}
limits: {max_objects: 10, max_share: 1, max_growth: 100, max_rate: 50000}
versions: current
`

// TestAnswersThatProveNothing: to the SDK an empty answer is one that says nothing
// is there, or that it is done. No hold, no brake and no page is that.
func TestAnswersThatProveNothing(t *testing.T) {
	for _, body := range []string{"", "{}", "null", `{"Count":0,"Items":[]}`, `{"Responses":{},"UnprocessedKeys":{}}`} {
		l := ledger.NewTable(configOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			_, _ = io.WriteString(w, body)
		})), "ledger")
		for name, call := range calls(l) {
			if err := call(t.Context()); !failure.Is(err, failure.Network) {
				t.Errorf("%q: %s: %v", body, name, err)
			}
		}
	}
	short := `{"Count":1,"ScannedCount":1,"ConsumedCapacity":{"TableName":"ledger","CapacityUnits":1}}`
	l := ledger.NewTable(configOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, short) })), "ledger")
	if _, err := l.Holds(t.Context(), "school-4"); !failure.Is(err, failure.Network) {
		t.Errorf("an answer that counts more rows than it has: %v", err)
	}
}

// calls is every call of a ledger.
func calls(l *ledger.Table) map[string]func(context.Context) error {
	at := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	run := job.Run{ID: "r", Rev: 2, Policy: "exports", Version: 1, State: job.Released, Scheduled: at}
	page := job.Page{ID: "p", Run: "r", Tenant: "school-4", Rev: 2, State: job.Claimed, NextDue: at, After: "a"}
	brake := job.Brake{Policy: "exports"}
	return map[string]func(context.Context) error{
		"PublishPolicy": func(ctx context.Context) error {
			return l.PublishPolicy(ctx, policy.Policy{Name: "exports", Version: 1})
		},
		"Policy":       func(ctx context.Context) error { _, err := l.Policy(ctx, "exports", 1); return err },
		"OpenRun":      func(ctx context.Context) error { _, _, err := l.OpenRun(ctx, run); return err },
		"Run":          func(ctx context.Context) error { _, err := l.Run(ctx, "r"); return err },
		"SwapRun":      func(ctx context.Context) error { return l.SwapRun(ctx, run) },
		"OpenRuns":     func(ctx context.Context) error { _, err := l.OpenRuns(ctx); return err },
		"ClosedRuns":   func(ctx context.Context) error { _, err := l.ClosedRuns(ctx, "exports", 3); return err },
		"Record":       func(ctx context.Context) error { return l.Record(ctx, run, &page) },
		"Record none":  func(ctx context.Context) error { return l.Record(ctx, run, nil) },
		"Page":         func(ctx context.Context) error { _, err := l.Page(ctx, "r", "school-4", "p"); return err },
		"PageByID":     func(ctx context.Context) error { _, err := l.PageByID(ctx, "p"); return err },
		"Look":         func(ctx context.Context) error { _, _, err := l.Look(ctx, "r", "school-4", "p"); return err },
		"SwapPage":     func(ctx context.Context) error { return l.SwapPage(ctx, page) },
		"SwapPages":    func(ctx context.Context) error { return l.SwapPages(ctx, []job.Page{page}) },
		"Intend":       func(ctx context.Context) error { return l.Intend(ctx, page, 1) },
		"Complete":     func(ctx context.Context) error { return l.Complete(ctx, page, nil) },
		"Tenants":      func(ctx context.Context) error { _, err := l.Tenants(ctx, "r"); return err },
		"Pages":        func(ctx context.Context) error { _, err := l.Pages(ctx, "r", "school-4", nil, 10); return err },
		"DeadPages":    func(ctx context.Context) error { _, err := l.DeadPages(ctx, nil, 10); return err },
		"AwaitingRuns": func(ctx context.Context) error { _, err := l.AwaitingRuns(ctx); return err },
		"RecentRuns":   func(ctx context.Context) error { _, err := l.RecentRuns(ctx, "exports", 3); return err },
		"PolicyNames":  func(ctx context.Context) error { _, err := l.PolicyNames(ctx); return err },
		"LatestPolicy": func(ctx context.Context) error { _, err := l.LatestPolicy(ctx, "exports"); return err },
		"RunsOf":       func(ctx context.Context) error { _, err := l.RunsOf(ctx, "school-4"); return err },
		"ReadRuns":     func(ctx context.Context) error { _, err := l.ReadRuns(ctx, []job.RunID{"r"}); return err },
		"PageAt":       func(ctx context.Context) error { _, err := l.PageAt(ctx, "r", "school-4", "k"); return err },
		"Approval":     func(ctx context.Context) error { _, err := l.Approval(ctx, "exports"); return err },
		"Approve":      func(ctx context.Context) error { return l.Approve(ctx, policy.Approval{Policy: "exports", Rev: 1}) },
		"Watch":        func(ctx context.Context) error { _, err := l.Watch(ctx, "exports"); return err },
		"SwapWatch":    func(ctx context.Context) error { return l.SwapWatch(ctx, job.Watch{Policy: "exports", Rev: 1}) },
		"PutEntry":     func(ctx context.Context) error { return l.PutEntry(ctx, audit.Entry{At: at}) },
		"Entries":      func(ctx context.Context) error { _, err := l.Entries(ctx, at, at.Add(1), 3); return err },
		"PutRedrive": func(ctx context.Context) error {
			return l.PutRedrive(ctx, job.NewRedrive("eu-central-1", at, at, "", nil), nil)
		},
		"Redrive":         func(ctx context.Context) error { _, err := l.Redrive(ctx, "m"); return err },
		"RedrivePages":    func(ctx context.Context) error { _, err := l.RedrivePages(ctx, "m"); return err },
		"SwapRedrive":     func(ctx context.Context) error { return l.SwapRedrive(ctx, job.Redrive{ID: "m", Rev: 2}) },
		"OpenRedrives":    func(ctx context.Context) error { _, err := l.OpenRedrives(ctx); return err },
		"AutoRedrive":     func(ctx context.Context) error { _, err := l.AutoRedrive(ctx); return err },
		"SwapAutoRedrive": func(ctx context.Context) error { return l.SwapAutoRedrive(ctx, job.AutoRedrive{Rev: 1}) },
		"OpenPages":       func(ctx context.Context) error { _, err := l.OpenPages(ctx, nil, 10); return err },
		"Epoch":           func(ctx context.Context) error { _, err := l.Epoch(ctx, "school-4"); return err },
		"Holds":           func(ctx context.Context) error { _, err := l.Holds(ctx, "school-4"); return err },
		"PlaceHold": func(ctx context.Context) error {
			_, err := l.PlaceHold(ctx, hold.Hold{ID: "h", Tenant: "school-4", Scope: hold.Tenant, PlacedAt: at})
			return err
		},
		"ReleaseHold":  func(ctx context.Context) error { return l.ReleaseHold(ctx, "school-4", "h", at) },
		"Brakes":       func(ctx context.Context) error { _, err := l.Brakes(ctx); return err },
		"SetBrake":     func(ctx context.Context) error { return l.SetBrake(ctx, brake) },
		"ReleaseBrake": func(ctx context.Context) error { return l.ReleaseBrake(ctx, brake) },
	}
}

// TestDB09_KeysLeftUnreadAreAskedForAgain: a brake among them stops a page.
func TestDB09_KeysLeftUnreadAreAskedForAgain(t *testing.T) {
	refuse := &wire.Error{Code: "ProvisionedThroughputExceededException"}
	for _, c := range []struct {
		name  string
		left  func(id string) bool
		class failure.Class
	}{
		{"the brakes", func(id string) bool { return id == "1" }, failure.Absent}, // the page is not there
		{"every key", func(string) bool { return true }, failure.Throttled},
	} {
		var reads atomic.Int64
		l := openTable(t, func(call wire.Call) (f wire.Fate) {
			if call.Operation == "BatchGetItem" {
				reads.Add(1)
				f.Entries = func(id string) *wire.Error {
					if c.left(id) {
						return refuse
					}
					return nil
				}
			}
			return f
		})
		if err := l.SetBrake(t.Context(), job.Brake{Policy: "exports"}); err != nil {
			t.Fatal(err)
		}
		_, brakes, err := l.Look(t.Context(), "r", "school-4", "p")
		if !failure.Is(err, c.class) || (c.class == failure.Absent) != (len(brakes) == 1 && reads.Load() == 2) {
			t.Errorf("%s left unread: brakes %v after %d reads, %v", c.name, brakes, reads.Load(), err)
		}
	}
}

// TestDB10_AnEmptyAnswerWithMoreBehindItIsNotTheEnd: the holds of a tenant lie
// behind it.
func TestDB10_AnEmptyAnswerWithMoreBehindItIsNotTheEnd(t *testing.T) {
	service := emulator.New(wire.Wall{}, nil, emulated.New(wire.Wall{}))
	var empty atomic.Int64
	l := tableAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Query") || empty.Add(1) > 2 {
			service.ServeHTTP(w, r)
			return
		}
		var in struct{ ExpressionAttributeValues map[string]json.RawMessage }
		_ = json.Unmarshal(body, &in)
		_, _ = fmt.Fprintf(w, `{"Count":0,"Items":[],"ConsumedCapacity":{"CapacityUnits":0.5},"LastEvaluatedKey":{"pk":%s,"sk":%s}}`,
			in.ExpressionAttributeValues[":pk"], in.ExpressionAttributeValues[":kind"])
	}))
	if _, err := l.PlaceHold(t.Context(), hold.Hold{ID: "h", Tenant: "school-4", Scope: hold.Tenant}); err != nil {
		t.Fatal(err)
	}
	set, err := l.Holds(t.Context(), "school-4")
	if err != nil || len(set) != 1 || empty.Load() != 3 {
		t.Errorf("%d holds after %d questions, %v", len(set), empty.Load(), err)
	}
}
