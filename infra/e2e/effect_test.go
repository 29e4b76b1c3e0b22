package e2e

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// count is how many objects the customers have.
func (n *night) count(ctx context.Context, t *testing.T) (all int) {
	t.Helper()
	for _, bucket := range []string{exportsBucket, uploadsBucket, reportsBucket, digestsBucket} {
		all += n.below(ctx, t, bucket, "")
	}
	return all
}

// below is how many objects a bucket has below a prefix.
func (n *night) below(ctx context.Context, t *testing.T, bucket, prefix string) int {
	t.Helper()
	out, err := n.buckets.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	if err != nil || aws.ToBool(out.IsTruncated) {
		t.Fatalf("list %s: %v", bucket, err)
	}
	return len(out.Contents)
}

// exact expects a number of objects below a prefix.
func (n *night) exact(ctx context.Context, t *testing.T, bucket, prefix string, want int) {
	t.Helper()
	if got := n.below(ctx, t, bucket, prefix); got != want {
		t.Errorf("%d objects lie below %s, want %d", got, prefix, want)
	}
}

// page is the one page that a tenant has in the run of a policy on the tick's date.
func (n *night) page(ctx context.Context, t *testing.T, name, tenant string) job.Page {
	t.Helper()
	pages, err := n.ledger.Pages(ctx, job.ScheduledRunID(home, name, n.tick), tenant, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if p.Kind == job.RangePage {
			return p
		}
	}
	t.Fatalf("%s has no page in the run of %s", tenant, name)
	return job.Page{}
}

// settles looks at what became of the batch: one page without trouble, one with holds,
// two that are denied, one with an object that the store locks, one that comes back
// because the store is busy, and a message that is no page.
func (n *night) settles(ctx context.Context, t *testing.T) {
	until(ctx, t, "the page of the busy store is given back", 60*time.Second, time.Second/5, func() (bool, error) {
		return n.page(ctx, t, exports, busy).State == job.Retrying, nil
	})
	if refused := n.front.keepBusy(""); refused == 0 {
		t.Error("the busy store was never asked")
	}
	for tenant, want := range map[string]job.PageState{plain: job.Completed, held: job.Completed, blocked: job.Dead, mired: job.Dead} {
		until(ctx, t, "the page of "+tenant+" has ended", 60*time.Second, time.Second/5, func() (bool, error) {
			return n.page(ctx, t, exports, tenant).State == want, nil
		})
	}
	n.exact(ctx, t, exportsBucket, "exports/"+plain+"/csv/export-", 0)
	n.exact(ctx, t, exportsBucket, "exports/"+plain+"/csv/recent-", 90)
	n.exact(ctx, t, exportsBucket, caseFolder, 10)
	n.exact(ctx, t, exportsBucket, "exports/"+held+"/csv/export-", 1)
	n.exact(ctx, t, exportsBucket, oneOfThem, 1)
	n.exact(ctx, t, exportsBucket, "exports/"+blocked+"/", 10)
	n.exact(ctx, t, exportsBucket, "exports/"+mired+"/", 10)
	if p := n.page(ctx, t, exports, held); p.Counts[job.Held] != 11 || p.Counts[job.Deleted] != 9 {
		t.Errorf("of the tenant with holds: %v", p.Counts)
	}

	// Reconcile would send a lost message again after Settings.Overdue, 36 s here: this one
	// is not lost but was given back by name, out of a batch whose others were settled.
	until(ctx, t, "the page of the store that was busy has ended", 20*time.Second, time.Second/2, func() (bool, error) {
		return n.page(ctx, t, exports, busy).State == job.Completed, nil
	})
	if p := n.page(ctx, t, exports, busy); p.Attempts < 2 || p.Counts[job.Deleted] != 10 {
		t.Errorf("the page of the store that was busy: %d attempts, %v", p.Attempts, p.Counts)
	}
	n.exact(ctx, t, exportsBucket, "exports/"+busy+"/", 0)
	n.exact(ctx, t, uploadsBucket, "uploads/"+school+"/essay-", 1)
	n.exact(ctx, t, uploadsBucket, lockedKey, 1)
	n.exact(ctx, t, uploadsBucket, "uploads/"+school+"/recent-", 20)
}

// reportsOnly looks at the policy that only reports: its run is closed, and nothing of
// it is gone.
func (n *night) reportsOnly(ctx context.Context, t *testing.T) {
	run := n.closed(ctx, t, digests, n.tick, 60*time.Second, true)
	if run.Mode != job.ReportOnly || run.Totals.Counts[job.WouldDelete] != 20 || run.Totals.Counts.Sum() != 20 {
		t.Errorf("the run is %s, with %v", run.Mode, run.Totals.Counts)
	}
	n.exact(ctx, t, digestsBucket, "digests/", 40)
}

// dlq is what lies dead, as the operator's tool shows it.
func (n *night) dlq(ctx context.Context, t *testing.T, status int) redrive.Inspection {
	t.Helper()
	var seen struct{ Inspection redrive.Inspection }
	if err := json.Unmarshal([]byte(n.must(ctx, t, status, "dlq")), &seen); err != nil {
		t.Fatal(err)
	}
	return seen.Inspection
}

// letters looks at what lies dead: the denied pages, and the message that is no page,
// which stays quarantined until somebody discards it.
func (n *night) letters(ctx context.Context, t *testing.T) {
	seen := n.dlq(ctx, t, 1)
	found := map[string]bool{}
	for _, p := range seen.Pages {
		if p.Policy == exports { // the drill's page may lie there too
			found[p.Tenant+" "+string(p.Death)] = true
		}
	}
	if len(found) != 2 || !found[blocked+" forbidden"] || !found[mired+" forbidden"] {
		t.Errorf("these pages lie dead: %v", found)
	}
	poison := ""
	for _, l := range seen.Letters {
		if l.Standing == redrive.Quarantined && l.Size == len(notAPage) {
			poison = l.MessageID
		}
	}
	if poison == "" {
		t.Fatalf("the message that is no page is not among %d letters", len(seen.Letters))
	}
	n.must(ctx, t, 0, "discard", poison, "--reason", "sent by the end-to-end test")
}

// redrives mends what the pages died of and brings them back: one by an invocation of
// the redrive function, as the AWS CLI makes it, and one by the operator's tool. Both
// wait for the gate of age.
func (n *night) redrives(ctx context.Context, t *testing.T) {
	if _, err := n.buckets.DeleteBucketPolicy(ctx, &s3.DeleteBucketPolicyInput{Bucket: aws.String(exportsBucket)}); err != nil {
		t.Fatal(err)
	}
	early := n.expunge(ctx, "redrive", "plan", "--tenant", mired)
	if early.status == 1 && !strings.Contains(early.out, `"age"`) {
		t.Errorf("another gate than that of age keeps the page:\n%s", early.out)
	}

	var plan redrive.Plan
	until(ctx, t, "a plan may move the denied page", 100*time.Second, 2*time.Second, func() (bool, error) {
		plan = redrive.Plan{}
		n.invoke(ctx, t, n.outputs.Redrive, map[string]any{"op": redrive.OpPlan, "tenant_id": blocked}, &plan)
		return plan.Moves == 1, nil
	})
	var applied redrive.Applied
	n.invoke(ctx, t, n.outputs.Redrive, map[string]any{"op": redrive.OpApply, "token": plan.Token, "by": "ana", "reason": "the bucket's policy is mended"}, &applied)
	if applied.Moved != 1 || !applied.Done {
		t.Errorf("applied: %+v", applied)
	}
	var other struct{ Plan redrive.Plan }
	if err := json.Unmarshal([]byte(n.must(ctx, t, 0, "redrive", "plan", "--tenant", mired)), &other); err != nil {
		t.Fatal(err)
	}
	n.must(ctx, t, 0, "redrive", "apply", other.Plan.Token, "--reason", "the bucket's policy is mended")

	for tenant, by := range map[string]job.RedriveID{blocked: plan.RedriveID, mired: other.Plan.RedriveID} {
		until(ctx, t, "the page of "+tenant+" has ended", 30*time.Second, time.Second/2, func() (bool, error) {
			return n.page(ctx, t, exports, tenant).State == job.Completed, nil
		})
		if p := n.page(ctx, t, exports, tenant); p.Counts[job.Deleted] != 10 || p.RedriveID != by {
			t.Errorf("the page of %s: %v, by the plan %s", tenant, p.Counts, p.RedriveID)
		}
		n.exact(ctx, t, exportsBucket, "exports/"+tenant+"/", 0)
	}
}

// closes waits until the runs are closed, and verifies the evidence of each: every
// candidate has one outcome, and the sealed manifest names every document.
func (n *night) closes(ctx context.Context, t *testing.T) {
	for name, want := range map[string]job.Counts{
		exports: {job.Deleted: 30 + 9 + 10 + 10 + 10, job.Held: 11},
		uploads: {job.Deleted: 9, job.Held: 1}, // by the store itself
		digests: {job.WouldDelete: 20},
	} {
		run := n.closed(ctx, t, name, n.tick, 60*time.Second, true)
		if run.Totals.Counts != want || run.Candidates != want.Sum() {
			t.Errorf("of %d candidates of %s: %v, want %v", run.Candidates, name, run.Totals.Counts, want)
		}
		for _, at := range []time.Time{n.first, n.tick} {
			if name == digests && at.Equal(n.first) {
				continue // that date was never started
			}
			n.must(ctx, t, 0, "verify", string(job.ScheduledRunID(home, name, at)))
		}
	}
	if seen := n.dlq(ctx, t, 0); len(seen.Pages) > 0 {
		t.Errorf("%d pages still lie dead", len(seen.Pages))
	}
	n.exact(ctx, t, exportsBucket, "", 90+10+1)
	n.exact(ctx, t, uploadsBucket, "", 20+1)
	for _, queue := range []string{n.outputs.PagesQueue, n.outputs.ReportQueue, n.outputs.LettersQueue} {
		until(ctx, t, "nothing waits in "+path.Base(queue), 30*time.Second, time.Second, func() (bool, error) {
			depth, err := n.depth(ctx, queue)
			return depth == 0, err
		})
	}
}

// drilled waits for the drill: the page of a test tenant has died, was brought back and
// has ended, and its report lies among the evidence.
func (n *night) drilled(ctx context.Context, t *testing.T) {
	o := <-n.drill
	n.drill = nil
	n.stopDrill()
	if o.status != 0 {
		t.Fatalf("it ends with status %d:\n%s%s", o.status, o.out, o.diagnostics)
	}
	n.exact(ctx, t, reportsBucket, "reports/"+test+"/report-", 0)
	n.exact(ctx, t, reportsBucket, "reports/"+test+"/recent-", 10)
	if drills := n.below(ctx, t, n.outputs.Evidence, "drills/"); drills == 0 {
		t.Error("the drill has left no report among the evidence")
	}
}
