package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	lambdago "github.com/aws/aws-lambda-go/lambda"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// proven is a region that has shown everything that a review asks for.
func proven(t *testing.T) *region {
	t.Helper()
	r := stage(t)
	for _, name := range []string{r.outputs.Worker, r.outputs.ReportWorker, r.outputs.Reconcile} {
		r.register(name, lambdago.NewHandler(func(context.Context) error { return nil }))
	}
	r.kept(r.outputs.LettersQueue, contract.Production().DeadLetterRetention)
	r.ok(drillArgs("--wait")...)
	r.reconcile()
	r.now.at = time.Now().UTC()
	return r
}

// kept sets for how long a queue keeps its messages.
func (r *region) kept(url string, d time.Duration) {
	r.t.Helper()
	_, err := awssqs.NewFromConfig(r.sdk.Config).SetQueueAttributes(r.t.Context(), &awssqs.SetQueueAttributesInput{
		QueueUrl: &url, Attributes: map[string]string{"MessageRetentionPeriod": plainSeconds(d.Seconds())},
	})
	must(r.t, err)
}

// R131 to R135: every question is answered by evidence of this deployment.
func TestReviewGo(t *testing.T) {
	r := proven(t)
	golden(t, "review", reviewMask(r.ok("review")))
	golden(t, "review-json", reviewMask(r.ok("review", "--json")))
}

// reviewMask masks what differs from run to run.
func reviewMask(s said) string {
	text := drillMask(s)
	for _, words := range []string{"passed ", "it took ", "waits for "} {
		text = maskAfter(text, words)
	}
	return text
}

// maskAfter masks the word behind each occurrence.
func maskAfter(text, words string) string {
	parts := strings.Split(text, words)
	for i := 1; i < len(parts); i++ {
		end := strings.IndexAny(parts[i], " .;\n")
		parts[i] = "SPAN" + parts[i][end:]
	}
	return strings.Join(parts, words)
}

// reviewSaid is what a machine reads.
type reviewSaid struct{ Rows []reviewRow }

// Each question stops alone, and says why.
func TestReviewStops(t *testing.T) {
	page := func(change func(*job.Page)) func(*region) {
		return func(r *region) {
			entries, err := r.ledger.Entries(r.t.Context(), old, r.now.at.AddDate(0, 0, 1), 100)
			must(r.t, err)
			for _, e := range entries {
				if e.Act != audit.DrillPassed {
					continue
				}
				p, err := r.ledger.Page(r.t.Context(), e.RunID, e.TenantID, e.PageID)
				must(r.t, err)
				change(&p)
				p.Rev++
				must(r.t, r.ledger.SwapPage(r.t.Context(), p))
			}
		}
	}
	drop := func(prefix string) func(*region) {
		return func(r *region) {
			out, err := r.s3c().ListObjectsV2(r.t.Context(), &awss3.ListObjectsV2Input{Bucket: &r.outputs.Evidence, Prefix: &prefix})
			must(r.t, err)
			for _, o := range out.Contents {
				_, err := r.s3c().DeleteObject(r.t.Context(), &awss3.DeleteObjectInput{Bucket: &r.outputs.Evidence, Key: o.Key})
				must(r.t, err)
			}
		}
	}
	order := func(act audit.Name, after time.Duration) func(*region) {
		return func(r *region) {
			must(r.t, r.ledger.PutEntry(r.t.Context(), audit.Entry{At: r.now.at.Add(after), Act: act, Region: regionName, By: "ana", Reason: "a rehearsal"}))
		}
	}
	for name, c := range map[string]struct {
		spoil func(*region)
		id    string
		text  string
	}{
		"R131 an item without an outcome":    {page(func(p *job.Page) { p.Counts[job.Deleted]-- }), "R131", "without exactly one outcome for each item"},
		"R131 a receipt that is gone":        {drop(string(receipt.Receipt)), "R131", "could not be looked at"},
		"R132 a receipt that is gone":        {drop(string(receipt.Receipt)), "R132", "could not be looked at"},
		"R132 a plan that is gone":           {drop(string(receipt.Plan)), "R132", "the plan that its receipt answers could not be looked at"},
		"R132 no attempts on record":         {page(func(p *job.Page) { p.Attempts = 0 }), "R132", "are not on record"},
		"R133 a topic elsewhere":             {func(r *region) { r.outputs.PageTopic = "arn:aws:sns:us-east-1:000000000000:page"; r.up() }, "R133", "is in us-east-1, and the deployment in eu-west-1"},
		"R133 a bucket elsewhere":            {func(r *region) { r.bucketElsewhere() }, "R133", "bucket acme-photos is in us-east-1"},
		"R133 a function that is not told":   {func(r *region) { r.meet(refusing("lambda", "", http.StatusForbidden, "AccessDeniedException")) }, "R133", "could not be looked at"},
		"R134 no drill lately":               {func(r *region) { r.now.at = r.now.at.AddDate(0, 0, 31) }, "R134", "no drill is on record since"},
		"R134 the last drill failed":         {order(audit.DrillFailed, time.Minute), "R134", "the last drill failed"},
		"R134 an entry without its evidence": {order(audit.DrillPassed, time.Minute), "R134", "what the last drill has shown could not be looked at"},
		"R134 evidence that is gone":         {drop("drills/"), "R134", "what the last drill has shown could not be looked at"},
		"R135 retention below the window":    {func(r *region) { r.kept(r.outputs.LettersQueue, 10*24*time.Hour) }, "R135", "dead letters are kept for 10d"},
		"R135 the queue is not told":         {func(r *region) { r.meet(refusing("sqs", "", http.StatusForbidden, "AccessDenied")) }, "R135", "could not be looked at"},
		"R135 a page past the objective":     {func(r *region) { r.latePage() }, "R135", "longer than the objective of 15m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a redrive takes a second of the wall clock
			r := proven(t)
			c.spoil(r)
			s := r.ends(exitWrong, "stop: ", "review", "--json", "--days=60")
			r.meet(nil)
			var a reviewSaid
			must(t, json.Unmarshal([]byte(s.out), &a))
			found := false
			for _, row := range a.Rows {
				if (row.Verdict == stop) != (len(row.Missing) > 0) {
					t.Errorf("%+v", row)
				}
				found = found || row.ID == c.id && strings.Contains(strings.Join(row.Missing, "\n"), c.text)
			}
			if !found {
				t.Errorf("%s", s.out)
			}
		})
	}
}

// A region in which nothing has happened yet answers no question but where it is.
func TestReviewOfNothing(t *testing.T) {
	r := newRegion(t, time.Now().UTC())
	s := r.ends(exitWrong, "questions without an answer", "review")
	for _, want := range []string{"no page with objects has ended yet", "no page has left a receipt yet", "no drill is on record"} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is not told:\n%s", want, s.out)
		}
	}
	r.ends(exitUsage, "--days is 1 to 365", "review", "--days=0")
}

// bucketElsewhere publishes a policy whose bucket lies in another region than it says.
func (r *region) bucketElsewhere() {
	r.t.Helper()
	_, err := awss3.New(r.s3c().Options(), func(o *awss3.Options) { o.Region = "us-east-1" }).CreateBucket(r.t.Context(), &awss3.CreateBucketInput{Bucket: ptr("acme-photos")})
	must(r.t, err)
	r.publish(changed(r.t, exportsPolicy, "name: exports", "name: photos", "acme-exports", "acme-photos"))
}

// latePage leaves a released run with a page that nobody takes.
func (r *region) latePage() {
	r.t.Helper()
	m := &morning{region: r}
	run := m.begin("exports", r.now.at.Add(-time.Hour))
	run, _ = m.record(run, "acme-eu", "", 10)
	m.swap(run.Release(r.now.at.Add(-time.Hour), nil, "", ""))(&run)
}
