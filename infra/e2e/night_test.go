package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// night is the story: what its steps leave for the later ones.
type night struct {
	*region
	// first is the date whose runs only report, and tick that on which the policies
	// delete, in their second version.
	first, tick time.Time
	took        time.Duration // of the first deployment
	drill       chan outcome  // nil unless it is under way
	stopDrill   context.CancelFunc
}

// end ends a drill that is under way, which is a process of its own.
func (n *night) end(t *testing.T) {
	if n.drill == nil {
		return
	}
	n.stopDrill()
	o := <-n.drill
	t.Logf("the drill so far:\n%s%s", o.out, o.diagnostics)
}

// deploysFirst deploys the first version of every policy. Its schedules are two hours
// old: nothing fires.
func (n *night) deploysFirst(ctx context.Context, t *testing.T) {
	n.first = time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Minute)
	for _, name := range []string{exports, uploads, reports, digests} {
		n.writePolicy(t, name, 1, n.first)
	}
	n.keepVersions(ctx, t)
	n.build(ctx, t)
	n.bootstrap(ctx, t)
	start := time.Now()
	n.deploy(ctx, t)
	n.repair(ctx, t, true)
	n.took = time.Since(start)
}

// keepVersions makes the bucket of uploads one that keeps versions and knows Object Lock.
func (n *night) keepVersions(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := n.buckets.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket: aws.String(uploadsBucket), VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
	})
	if err == nil {
		err = n.lock(ctx, uploadsBucket, "", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// refusesLiteral starts enqueue asynchronously, as the scheduler does, with the very
// input of the template, into which nobody has put an instant. The product refuses it
// at every try, and Lambda lays it among the schedules' dead letters.
func (n *night) refusesLiteral(ctx context.Context, t *testing.T) {
	input := ""
	for _, id := range n.template.of("AWS::Scheduler::Schedule") {
		text, _ := in(n.template.Resources[id].Properties, "Target", "Input").(string)
		if strings.Contains(text, instantLiteral) && strings.Contains(text, exports) {
			input = text
		}
	}
	if input == "" {
		t.Fatal("no schedule of the template has the scheduler put the instant into its input")
	}
	_, err := n.functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &n.outputs.Enqueue, InvocationType: lambdatypes.InvocationTypeEvent, Payload: []byte(input)})
	if err != nil {
		t.Fatal(err)
	}
	name := contract.StackName(stage) + "-schedule-dead-letters"
	queue, err := n.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the tick lies among the schedules' dead letters", 20*time.Second, time.Second/5, func() (bool, error) {
		depth, err := n.depth(ctx, *queue.QueueUrl)
		return depth == 1, err
	})
	if runs, err := n.ledger.OpenRuns(ctx); err != nil || len(runs) > 0 {
		t.Errorf("it has opened %d runs (%v)", len(runs), err)
	}
}

// depth is how many messages of a queue wait.
func (n *night) depth(ctx context.Context, queue string) (int, error) {
	waiting := sqstypes.QueueAttributeNameApproximateNumberOfMessages
	out, err := n.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &queue, AttributeNames: []sqstypes.QueueAttributeName{waiting}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out.Attributes[string(waiting)])
}

// doctor asks the operator's tool whether everything of the deployment is as it should
// be. What ministack can not answer it calls skipped.
func (n *night) doctor(ctx context.Context, t *testing.T) {
	o := n.expunge(ctx, "doctor")
	var seen struct {
		Sums  map[string]int
		Lines []struct{ Area, What, State, Text string }
	}
	if err := json.Unmarshal([]byte(o.out), &seen); err != nil {
		t.Fatalf("%v:\n%s%s", err, o.out, o.diagnostics)
	}
	for _, line := range seen.Lines {
		switch line.State {
		case "problem":
			t.Errorf("%s, %s: %s", line.Area, line.What, line.Text)
		case "warning", "skipped":
			t.Logf("%s: %s, %s: %s", line.State, line.Area, line.What, line.Text)
		}
	}
	if o.status != 0 || seen.Sums["ok"] < 30 {
		t.Errorf("it ends with status %d after %v", o.status, seen.Sums)
	}
}

// reportsFirst starts the first date of the policies that enforce, with what the
// scheduler would have sent. Nobody has approved them, so their runs only report,
// through the twin of the worker; reconcile closes them, started by its schedule alone.
func (n *night) reportsFirst(ctx context.Context, t *testing.T) {
	before := n.count(ctx, t)
	for _, name := range []string{exports, uploads, reports} {
		n.invoke(ctx, t, n.outputs.Enqueue, map[string]string{"policy": name, "scheduled": n.first.Format(time.RFC3339)}, nil)
		n.must(ctx, t, 0, "start", name, n.first.Format(time.RFC3339)) // the same run, whoever starts it
	}
	for _, name := range []string{exports, uploads, reports} {
		run := n.closed(ctx, t, name, n.first, 100*time.Second, false)
		if run.Mode != job.ReportOnly || len(run.Ratchet) == 0 || run.Totals.Counts[job.WouldDelete] == 0 {
			t.Errorf("the run of %s is %s for %v, with %v", name, run.Mode, run.Ratchet, run.Totals.Counts)
		}
	}
	if after := n.count(ctx, t); after != before {
		t.Errorf("there were %d objects, and are %d", before, after)
	}
}

// closed waits until reconcile has closed and sealed a run. nudge starts reconcile, as
// an operator can, so that nobody waits for its schedule's minute.
func (n *night) closed(ctx context.Context, t *testing.T, name string, at time.Time, limit time.Duration, nudge bool) (run job.Run) {
	t.Helper()
	until(ctx, t, "the run of "+name+" is closed and sealed", limit, 2*time.Second, func() (bool, error) {
		if nudge {
			n.invoke(ctx, t, n.outputs.Reconcile, struct{}{}, nil)
		}
		found, err := n.ledger.Run(ctx, job.ScheduledRunID(home, name, at))
		run = found
		return run.State == job.Closed && run.Seal != job.Seal{}, err
	})
	return run
}

// invoke calls a function as the AWS CLI would, and reads its answer.
func (n *night) invoke(ctx context.Context, t *testing.T, function string, request, answer any) {
	t.Helper()
	payload, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	if out.FunctionError != nil {
		t.Fatalf("%s says %s: %s", function, *out.FunctionError, out.Payload)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(out.Payload, answer); err != nil {
		t.Fatalf("%v: %s", err, out.Payload)
	}
}

// approves lets each policy delete, on the strength of the run that reported.
func (n *night) approves(ctx context.Context, t *testing.T) {
	for _, name := range []string{exports, uploads, reports} {
		run := string(job.ScheduledRunID(home, name, n.first))
		n.must(ctx, t, 3, "approve", name+"@1", "--run", run) // looks only
		n.must(ctx, t, 0, "approve", name+"@1", "--run", run, "--reason", "the report says what shall go")
	}
}

// updates deploys a second version of three policies, whose time of the day is the first
// minute after the deployment is surely over. When a run starts needs no new approval. Then the drill begins, on the
// policy that stays as it was.
func (n *night) updates(ctx context.Context, t *testing.T) {
	n.tick = time.Now().UTC().Add(n.took*3/2 + 10*time.Second).Truncate(time.Minute).Add(time.Minute)
	for _, name := range []string{exports, uploads, digests} {
		n.writePolicy(t, name, 2, n.tick)
	}
	n.deploy(ctx, t)
	n.repair(ctx, t, false)
	if left := time.Until(n.tick); left < 5*time.Second {
		t.Fatalf("the update has taken so long that the tick is in %s: this machine is too slow for the test", left.Round(time.Second))
	}
	n.drill = make(chan outcome, 1)
	ctx, n.stopDrill = context.WithCancel(ctx)
	go func() {
		n.drill <- n.expunge(ctx, "drill", "--tenant", test, "--policy", reports, "--reason", "rehearsal of the end-to-end test", "--wait", "--every=2s", "--timeout=5m")
	}()
}

// troubles places holds, has the bucket's policy deny the deletes of two tenants, has the
// store lock one object, and has it be busy for another tenant.
func (n *night) troubles(ctx context.Context, t *testing.T) {
	var status hold.Status
	place := map[string]any{"id": "case-17", "tenant": held, "scope": "prefix", "value": caseFolder, "by": "counsel", "reason": "litigation 17"}
	n.invoke(ctx, t, n.outputs.Hold, map[string]any{"place": place}, &status)
	if status.Answer != hold.Held {
		t.Fatalf("the hold says %s", status.Answer)
	}
	n.must(ctx, t, 0, "hold", "place", held, "--item", oneOfThem, "--reason", "asked for by the customer")

	deny := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Sid":"Mistake","Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":["arn:aws:s3:::%[1]s/exports/%[2]s/*","arn:aws:s3:::%[1]s/exports/%[3]s/*"]}]}`, exportsBucket, blocked, mired)
	if _, err := n.buckets.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: aws.String(exportsBucket), Policy: &deny}); err != nil {
		t.Fatal(err)
	}
	_, err := n.buckets.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{
		Bucket: aws.String(uploadsBucket), Key: aws.String(lockedKey), LegalHold: &s3types.ObjectLockLegalHold{Status: s3types.ObjectLockLegalHoldStatusOn},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.front.keepBusy("exports/" + busy + "/")
}

// ticks waits for the scheduler: at the tick's instant it opens the runs of three
// policies. The workers' mapping is switched off meanwhile, so that all pages of the
// tick and a message that is none come to one batch.
func (n *night) ticks(ctx context.Context, t *testing.T) {
	until(ctx, t, "the tick is near", 3*time.Minute, time.Second/5, func() (bool, error) {
		return time.Until(n.tick) < 2*time.Second, nil
	})
	mapping := n.switchMapping(ctx, t, false)
	until(ctx, t, "the scheduler has opened the runs", 30*time.Second, time.Second/2, func() (bool, error) {
		for _, name := range []string{exports, uploads, digests} {
			run, err := n.ledger.Run(ctx, job.ScheduledRunID(home, name, n.tick))
			if failure.Is(err, failure.Absent) || err == nil && run.State == job.Scanning {
				return false, nil
			}
			if err != nil || run.Version != 2 || run.State != job.Released {
				return false, fmt.Errorf("the run of %s is of version %d and %s (%w)", name, run.Version, run.State, err)
			}
		}
		return true, nil
	})
	until(ctx, t, "the pages wait", 10*time.Second, time.Second/5, func() (bool, error) {
		depth, err := n.depth(ctx, n.outputs.PagesQueue)
		return depth >= 6, err // five tenants of exports and one of uploads
	})
	n.forges(ctx, t)
	n.setMapping(ctx, t, mapping, true)
}

// notAPage is the body of a message that nobody should be able to send.
const notAPage = "this is no page"

// forges sends a message that is no page. The queue's policy refuses everybody but the
// functions, the account's root included; so root lifts it for the moment.
func (n *night) forges(ctx context.Context, t *testing.T) {
	t.Helper()
	queue, name := &n.outputs.PagesQueue, string(sqstypes.QueueAttributeNamePolicy)
	message := &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String(notAPage)}
	if _, err := n.queues.SendMessage(ctx, message); sdk.Code(err) != "AccessDenied" {
		t.Fatalf("the queue takes a message of somebody who is no function: %v", err)
	}
	was, err := n.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNamePolicy}})
	if err == nil {
		_, err = n.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: queue, Attributes: map[string]string{name: ""}})
	}
	if err == nil {
		_, err = n.queues.SendMessage(ctx, message)
	}
	if err == nil {
		_, err = n.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: queue, Attributes: map[string]string{name: was.Attributes[name]}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// switchMapping switches the mapping of the pages queue and returns its id.
func (n *night) switchMapping(ctx context.Context, t *testing.T, on bool) (id string) {
	t.Helper()
	out, err := n.functions.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: &n.outputs.Worker})
	if err != nil || len(out.EventSourceMappings) != 1 {
		t.Fatalf("the worker has %v mappings (%v)", out, err)
	}
	id = aws.ToString(out.EventSourceMappings[0].UUID)
	n.setMapping(ctx, t, id, on)
	return id
}

func (n *night) setMapping(ctx context.Context, t *testing.T, id string, on bool) {
	t.Helper()
	if _, err := n.functions.UpdateEventSourceMapping(ctx, &lambda.UpdateEventSourceMappingInput{UUID: &id, Enabled: &on}); err != nil {
		t.Fatal(err)
	}
}
