package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	reconcilehandler "github.com/expunge-aws/expunge/functions/reconcile/handler"
	redrivehandler "github.com/expunge-aws/expunge/functions/redrive/handler"
	workerhandler "github.com/expunge-aws/expunge/functions/worker/handler"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// These tests play a deployment of this release, N, and of the next, N+1, on one
// region, with messages under way. The handlers are the functions' own, bytes in and
// bytes out. N+1 is not written yet, so it is N behind a boundary: what leaves it
// carries the next schema number, and it understands that number and N's.

const (
	// thisForm and nextForm are how a command's body begins, of N and of N+1.
	thisForm, nextForm = `{"schema":1,`, `{"schema":2,`
	// newKey ends the stored form of a policy that uses a key which only N+1 knows.
	newKey = `,"zeal":true}`
)

const releasedYAML = `name: exports
version: 1
region: eu-west-1
bucket: exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "04:00", zone: UTC}
limits: {max_share: 1}
`

// boundary is what makes N out of N+1: it rewrites what the SDK is given to send, and
// what it has received.
type boundary struct{ commands, policies bool }

func (b boundary) install(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("next-release", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		b.send(in.Parameters)
		out, meta, err := next.HandleInitialize(ctx, in)
		b.receive(out.Result)
		return out, meta, err
	}), middleware.Before)
}

func (b boundary) send(in any) {
	switch in := in.(type) {
	case *sqs.SendMessageBatchInput:
		for i, e := range in.Entries {
			in.Entries[i].MessageBody = b.command(e.MessageBody, thisForm, nextForm)
		}
	case *sqs.SendMessageInput:
		in.MessageBody = b.command(in.MessageBody, thisForm, nextForm)
		hash := in.MessageAttributes["body_sha256"]
		hash.StringValue = aws.String(sha(*in.MessageBody))
		in.MessageAttributes["body_sha256"] = hash
	case *dynamodb.TransactWriteItemsInput:
		for _, w := range in.TransactItems {
			if doc, ok := policyRow(w.Put); ok && b.policies && strings.Contains(doc, `"version":2`) {
				w.Put.Item["doc"] = &ddbtypes.AttributeValueMemberS{Value: strings.TrimSuffix(doc, "}") + newKey}
			}
		}
	}
}

func (b boundary) receive(out any) {
	switch out := out.(type) {
	case *sqs.ReceiveMessageOutput:
		for i, m := range out.Messages {
			out.Messages[i].Body = b.command(m.Body, nextForm, thisForm)
			if hash, ok := m.MessageAttributes["body_sha256"]; ok {
				hash.StringValue = aws.String(sha(*out.Messages[i].Body))
				m.MessageAttributes["body_sha256"] = hash
			}
		}
	case *dynamodb.GetItemOutput:
		b.read(out.Item)
	case *dynamodb.QueryOutput:
		for _, item := range out.Items {
			b.read(item)
		}
	}
}

// command exchanges a schema number, where the body is a command of that number.
func (b boundary) command(body *string, from, to string) *string {
	if rest, ok := strings.CutPrefix(*body, from); ok && b.commands {
		return aws.String(to + rest)
	}
	return body
}

func (b boundary) read(item map[string]ddbtypes.AttributeValue) {
	if doc, ok := item["doc"].(*ddbtypes.AttributeValueMemberS); ok && b.policies {
		if rest, ok := strings.CutSuffix(doc.Value, newKey); ok {
			doc.Value = rest + "}"
		}
	}
}

func policyRow(put *ddbtypes.Put) (doc string, ok bool) {
	if put == nil {
		return "", false
	}
	pk, _ := put.Item[contract.LedgerPartitionKey].(*ddbtypes.AttributeValueMemberS)
	row, _ := put.Item["doc"].(*ddbtypes.AttributeValueMemberS)
	if pk == nil || row == nil || !strings.HasPrefix(pk.Value, "policy#") {
		return "", false
	}
	return row.Value, true
}

func sha(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// release is the functions of one release.
type release struct {
	boundary
	enqueue, worker, reconcile, redrive lambda.Handler
}

// deployment is a region whose release changes under its messages.
type deployment struct {
	t *testing.T
	*hourglass
	log   *audit.Log
	acked int // messages
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	h, err := newHourglass(t.Context(), noon.AddDate(10, 0, 0), releasedYAML)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	d := &deployment{t: t, hourglass: h, log: &audit.Log{}}
	s := contract.Production()
	_, err = sqs.NewFromConfig(h.parts.SDK.Config).SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &h.parts.PagesQueue, Attributes: map[string]string{
			"VisibilityTimeout": fmt.Sprint(int(s.Visibility().Seconds())),
			"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, h.letters.ARN(), s.MaxReceives),
		},
	})
	d.must(err)
	objects := map[string]time.Duration{}
	for _, tenant := range []string{"acme", "globex", "initech"} {
		for i := range 4 {
			objects[fmt.Sprintf("exports/%s/old-%d", tenant, i)] = 40 * day
			objects[fmt.Sprintf("exports/%s/new-%d", tenant, i)] = day
		}
	}
	d.must(h.put("exports", objects))
	return d
}

func (d *deployment) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// deploy wires the functions of a release with its policy file.
func (d *deployment) deploy(b boundary, file string) *release {
	d.t.Helper()
	p := d.parts
	p.SDK.APIOptions = append(slices.Clone(p.SDK.APIOptions), b.install)
	p.Queue = queue.NewSQS(p.SDK, queue.URLs{Enforce: p.PagesQueue, ReportOnly: p.ReportQueue, Letters: p.LettersQueue})
	p.Queue.Worker = job.Enforce
	p.Ledger = ledger.NewTable(p.SDK, tableName)
	p.Audit, p.Gauges = d.log, d.log
	folder := fstest.MapFS{"exports.yaml": {Data: []byte(file)}}
	enqueue, err := enqueuehandler.New(p, folder)
	d.must(err)
	worker, err := workerhandler.New(p)
	d.must(err)
	reconcile, err := reconcilehandler.New(p, folder)
	d.must(err)
	redrive, err := redrivehandler.New(p)
	d.must(err)
	return &release{b, lambda.NewHandler(enqueue), lambda.NewHandler(worker), lambda.NewHandler(reconcile), lambda.NewHandler(redrive)}
}

// start moves the clock to the next scheduled instant and lets the release's enqueue
// send the run.
func (d *deployment) start(r *release) job.RunID {
	d.t.Helper()
	at := d.clock.Now().UTC().Truncate(day).Add(day + 4*time.Hour)
	d.clock.Advance(at.Sub(d.clock.Now()))
	_, err := d.invoke(d.t.Context(), r.enqueue, map[string]string{"policy": "exports", "scheduled": at.Format(time.RFC3339)})
	d.must(err)
	return job.ScheduledRunID(d.region, "exports", at)
}

// play lets time pass: messages go to the worker as they show, and reconcile runs at
// its period. Either may be of another release than the other.
func (d *deployment) play(worker, reconcile *release, span time.Duration) {
	d.t.Helper()
	end, every := d.clock.Now().Add(span), contract.Production().ReconcileEvery
	tick := d.clock.Now().Add(every)
	for d.clock.Now().Before(end) {
		at, ok := d.pages.NextVisible()
		if !ok || at.After(tick) {
			at = tick
		}
		d.clock.Advance(max(0, at.Sub(d.clock.Now())))
		d.deliver(worker)
		if !d.clock.Now().Before(tick) {
			_, err := d.invoke(d.t.Context(), reconcile.reconcile, map[string]string{})
			d.must(err)
			tick = d.clock.Now().Add(every)
		}
	}
}

// deliver hands out every visible message as the event source mapping does: what the
// worker does not name in its answer is deleted.
func (d *deployment) deliver(r *release) {
	d.t.Helper()
	for {
		got, err := d.pages.Receive(d.t.Context(), 10, 0)
		d.must(err)
		if len(got) == 0 {
			return
		}
		batch := events.SQSEvent{}
		for _, m := range got {
			body := *r.command(&m.Body, nextForm, thisForm)
			batch.Records = append(batch.Records, events.SQSMessage{MessageId: m.ID, ReceiptHandle: m.Handle, Body: body, Attributes: m.SystemAttributes()})
		}
		answer, err := d.invoke(d.t.Context(), r.worker, batch)
		d.must(err)
		var said events.SQSEventResponse
		d.must(json.Unmarshal(answer, &said))
		for _, m := range got {
			if !slices.Contains(said.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.ID}) {
				d.acked++
				d.must(d.pages.Delete(m.Handle))
			}
		}
	}
}

// ask puts a question to a release's redrive and decodes the answer.
func ask[A any](d *deployment, r *release, question any) (a A) {
	d.t.Helper()
	answer, err := d.invoke(d.t.Context(), r.redrive, question)
	d.must(err)
	d.must(json.Unmarshal(answer, &a))
	return a
}

// pagesOf returns the pages of a run that have candidates.
func (d *deployment) pagesOf(id job.RunID) (all []job.Page) {
	d.t.Helper()
	tenants, err := d.ledger.Tenants(d.t.Context(), id)
	d.must(err)
	for _, tenant := range tenants {
		some, err := d.ledger.Pages(d.t.Context(), id, tenant, nil, 100)
		d.must(err)
		all = append(all, some...)
	}
	return all
}

// wantUntouched: nothing is deleted, and no page has used up an attempt.
func (d *deployment) wantUntouched(id job.RunID, state job.PageState) {
	d.t.Helper()
	gone, err := d.effects("exports")
	d.must(err)
	if len(gone) != 0 {
		d.t.Errorf("deleted: %v", gone)
	}
	for _, p := range d.pagesOf(id) {
		if p.State != state || p.Attempts != 0 {
			d.t.Errorf("page of %s: %s after %d attempts, want %s after none", p.Tenant, p.State, p.Attempts, state)
		}
	}
}

// wantDone: the run is closed, each of its items has one outcome, and each page took
// one attempt.
func (d *deployment) wantDone(id job.RunID) {
	d.t.Helper()
	run, err := d.ledger.Run(d.t.Context(), id)
	d.must(err)
	if c := run.Totals.Counts; run.State != job.Closed || c[job.Deleted] != 12 || c.Sum() != 12 {
		d.t.Errorf("the run is %s with %v, want it closed with 12 deleted", run.State, c)
	}
	gone, err := d.effects("exports")
	d.must(err)
	if len(gone) != 12 || len(slices.Compact(gone)) != 12 || slices.ContainsFunc(gone, func(key string) bool { return strings.Contains(key, "new-") }) {
		d.t.Errorf("deleted: %v", gone)
	}
	for _, p := range d.pagesOf(id) {
		if p.Attempts != 1 {
			d.t.Errorf("page of %s: %d attempts", p.Tenant, p.Attempts)
		}
	}
	if n := d.pages.Counts(); n != (fakesqs.Counts{}) {
		d.t.Errorf("messages are left: %+v", n)
	}
}

// reasonsOf counts the dead letters by reason.
func (d *deployment) reasonsOf() map[string]int {
	all := map[string]int{}
	for _, m := range d.letters.Peek() {
		all[m.Attributes["reason"].StringValue]++
	}
	return all
}

// standings counts the dead letters by what a release says of them.
func (d *deployment) standings(r *release) map[redrive.Standing]int {
	d.t.Helper()
	all := map[redrive.Standing]int{}
	for _, l := range ask[redrive.Inspection](d, r, redrive.InspectRequest{Op: redrive.OpInspect}).Letters {
		all[l.Standing]++
	}
	return all
}

func (d *deployment) wantSchema(prefix string) {
	d.t.Helper()
	all := d.pages.Peek()
	for _, m := range all {
		if !strings.HasPrefix(m.Body, prefix) {
			d.t.Fatalf("a message begins with %.12q, want %q", m.Body, prefix)
		}
	}
	if len(all) != 3 {
		d.t.Fatalf("%d messages, want one for each tenant", len(all))
	}
}

// An upgrade finds N's messages in the queue, and N+1's workers take them, whichever
// release reconcile is of.
func TestUpgradeTakesTheMessagesInFlight(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		d := newDeployment(t)
		n, next := d.deploy(boundary{}, releasedYAML), d.deploy(boundary{commands: true}, releasedYAML)
		id := d.start(n)
		d.wantSchema(thisForm)
		reconcile := n
		if upgraded {
			reconcile = next
		}
		d.play(next, reconcile, 10*time.Minute)
		d.wantDone(id)
		if got := d.reasonsOf(); len(got) != 0 {
			t.Errorf("dead letters: %v", got)
		}
	}
}

// While an upgrade is under way, N+1's enqueue has sent messages that N's workers do
// not know. They are given back for longer than a release takes, and no attempt is
// counted; nothing is deleted and nothing is dead until a new worker takes them.
func TestUpgradeOldWorkersGiveBackWhatTheyDoNotKnow(t *testing.T) {
	d := newDeployment(t)
	n, next := d.deploy(boundary{}, releasedYAML), d.deploy(boundary{commands: true}, releasedYAML)
	id := d.start(next)
	d.wantSchema(nextForm)
	d.play(n, next, 45*time.Minute)
	d.wantUntouched(id, job.Sent)
	if got := d.reasonsOf(); len(got) != 0 || d.acked != 0 {
		t.Errorf("%d messages acknowledged, dead letters: %v", d.acked, got)
	}
	d.play(next, next, 15*time.Minute)
	d.wantDone(id)
	if got := d.reasonsOf(); len(got) != 0 {
		t.Errorf("dead letters: %v", got)
	}
}

// After a downgrade nobody reads N+1's messages any more. Reconcile sends the pages
// again in N's form, and N does the work. The messages end as dead letters, of which N
// says that they are a later release's; once that is back they are stale copies, which
// a discard drops.
func TestDowngradeDoesTheWorkAndKeepsTheLetters(t *testing.T) {
	d := newDeployment(t)
	n, next := d.deploy(boundary{}, releasedYAML), d.deploy(boundary{commands: true}, releasedYAML)
	id := d.start(next)
	d.play(n, n, 20*time.Minute)
	if run, err := d.ledger.Run(t.Context(), id); err != nil || run.State != job.Closed {
		t.Errorf("20 minutes after the downgrade the run is %s, %v", run.State, err)
	}
	d.play(n, n, time.Hour)
	d.wantDone(id)
	if got := d.reasonsOf(); !maps.Equal(got, map[string]int{string(job.ReasonNewerSchema): 3}) {
		t.Errorf("dead letters: %v", got)
	}
	told := 0
	for _, e := range d.log.Events() {
		if e.Event == audit.DeadLettered && e.Reason == job.ReasonNewerSchema {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d dead letters are told of", told)
	}
	if got := d.standings(n); !maps.Equal(got, map[redrive.Standing]int{redrive.Newer: 3}) {
		t.Errorf("N says of the letters: %v", got)
	}
	d.swept(next, id)
}

// The same when the queue itself gives up, because N's workers had no time for it.
func TestDowngradeUntilTheQueueGivesUp(t *testing.T) {
	d := newDeployment(t)
	n, next := d.deploy(boundary{}, releasedYAML), d.deploy(boundary{commands: true}, releasedYAML)
	id := d.start(next)
	for range contract.Production().MaxReceives + 1 {
		_, err := d.pages.Receive(t.Context(), 10, 0)
		d.must(err)
		d.clock.Advance(contract.Production().Visibility())
	}
	if got := d.reasonsOf(); !maps.Equal(got, map[string]int{"": 3}) {
		t.Errorf("dead letters: %v", got)
	}
	if got := d.standings(n); !maps.Equal(got, map[redrive.Standing]int{redrive.Newer: 3}) {
		t.Errorf("N says of the letters: %v", got)
	}
	d.wantUntouched(id, job.Sent)
	d.play(next, next, 30*time.Minute)
	d.swept(next, id)
}

// swept: N+1 knows the letters again, and drops all of them for the one that is named.
func (d *deployment) swept(next *release, id job.RunID) {
	d.t.Helper()
	if got := d.standings(next); !maps.Equal(got, map[redrive.Standing]int{redrive.Stale: 3}) {
		d.t.Errorf("N+1 says of the letters: %v", got)
	}
	discards := ask[redrive.Discards](d, next, redrive.DiscardRequest{
		Op: redrive.OpDiscard, Signature: audit.Signature{By: "ana", Reason: "the upgrade is repeated"}, Messages: []string{d.letters.Peek()[0].ID},
	})
	if discards.Swept != 2 || len(discards.Letters) != 1 || discards.Letters[0].Result != redrive.Discarded || len(d.letters.Peek()) != 0 {
		d.t.Errorf("%+v, %d letters are left", discards, len(d.letters.Peek()))
	}
	d.wantDone(id)
}

// A policy version that uses a key which only N+1 knows was published before every
// function was N+1. An old worker makes its pages dead letters and deletes nothing;
// the old redrive moves none of them, and the new one all.
func TestUpgradePolicyKeyThatOldWorkersDoNotKnow(t *testing.T) {
	d := newDeployment(t)
	second := strings.Replace(releasedYAML, "version: 1", "version: 2", 1)
	n, next := d.deploy(boundary{}, releasedYAML), d.deploy(boundary{policies: true}, second)
	id := d.start(next)
	d.play(n, n, 20*time.Minute)
	d.wantUntouched(id, job.Dead)
	if got := d.reasonsOf(); !maps.Equal(got, map[string]int{string(job.ReasonUnknownPolicy): 3}) {
		t.Errorf("dead letters: %v", got)
	}
	if plan := ask[redrive.Plan](d, n, redrive.PlanRequest{Op: redrive.OpPlan}); plan.Moves != 0 || len(plan.Verdicts) != 3 {
		t.Errorf("N's redrive would move %d of %d pages", plan.Moves, len(plan.Verdicts))
	}
	plan := ask[redrive.Plan](d, next, redrive.PlanRequest{Op: redrive.OpPlan})
	if plan.Moves != 3 {
		t.Fatalf("N+1's redrive would move %d pages: %+v", plan.Moves, plan.Verdicts)
	}
	applied := ask[redrive.Applied](d, next, redrive.ApplyRequest{
		Op: redrive.OpApply, Token: plan.Token, Signature: audit.Signature{By: "ana", Reason: "every function is upgraded"},
	})
	if applied.Moved != 3 {
		t.Errorf("%+v", applied)
	}
	d.play(next, next, 15*time.Minute)
	d.wantDone(id)

	// Back on N with the file of before, the approval is still of the version that N
	// can not read: its runs only report, and say so.
	d.must(d.put("exports", map[string]time.Duration{"exports/acme/old-again": 40 * day}))
	id = d.start(n)
	run, err := d.ledger.Run(t.Context(), id)
	if err != nil || run.Mode != job.ReportOnly || len(run.Ratchet) == 0 || run.Candidates != 1 {
		t.Errorf("N's run is %s with %d candidates, and says %q: %v", run.Mode, run.Candidates, run.Ratchet, err)
	}
	if !slices.ContainsFunc(d.log.Events(), func(e audit.Event) bool { return e.Event == audit.VersionNotApproved }) {
		t.Error("nobody is told")
	}
}
