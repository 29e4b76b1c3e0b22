package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// repeats: a page that was delivered again has one outcome for each item all the same.
// The stop condition is a side effect without a key.
func (v *review) repeats(ctx context.Context, q *reviewRow) {
	ended, again, wrongSums := 0, 0, 0
	for _, o := range v.pages {
		if o.page.State != job.Completed || o.page.Candidates == 0 {
			continue
		}
		ended++
		if o.page.Fence > 1 {
			again++
		}
		if o.page.Counts.Sum()+o.page.Moved != o.page.Planned || o.page.Planned > 0 && o.page.Receipt == "" {
			wrongSums++
		}
	}
	if ended == 0 {
		q.missing("no page with objects has ended yet: nothing has been repeated, and nothing was done once")
		return
	}
	if wrongSums > 0 {
		q.missing(report.Count(wrongSums, "page") + " of " + report.Group(int64(ended)) + " ended without exactly one outcome for each item")
	}
	q.found(report.Count(ended, "page") + " ended, each with one outcome for each item and one receipt; " + report.Group(int64(again)) + " of them were claimed more than once.")
	v.conditions(ctx, q)
}

// conditions looks at what a delete was held to, in the newest receipt that has one.
func (v *review) conditions(ctx context.Context, q *reviewRow) {
	o, ok := v.newest(func(o observed) bool {
		return o.page.Counts[job.Deleted]+o.page.Counts[job.DeletedMarkerOnly] > 0
	})
	if !ok {
		q.found("Nothing was deleted yet: these runs only reported.")
		return
	}
	name := receipt.Name(receipt.Receipt, o.run.ID, o.page.ID, o.page.Receipt)
	document, err := v.document(ctx, name)
	if err != nil {
		q.unknown("the receipt of page "+string(o.page.ID), err)
		return
	}
	deletes, bare := 0, 0
	for _, l := range document.Lines {
		if l.Outcome.Deletes() {
			deletes++
			if l.Proof == "" || l.ETag == "" && l.Version == "" {
				bare++
			}
		}
	}
	if bare > 0 {
		q.missing(report.Count(bare, "delete") + " of page " + string(o.page.ID) + " were held to no ETag and no version")
		return
	}
	q.found("Page " + string(o.page.ID) + ": each of its " + report.Count(deletes, "delete") + " was held to an ETag or a version, and says by what it is proved.")
}

// newest returns the newest of the pages that a question is about.
func (v *review) newest(about func(observed) bool) (newest observed, ok bool) {
	for _, o := range v.pages {
		if about(o) && (!ok || o.page.SettledAt.After(newest.page.SettledAt)) {
			newest, ok = o, true
		}
	}
	return newest, ok
}

func (v *review) document(ctx context.Context, name string) (receipt.Document, error) {
	data, err := v.r.evidence.Get(ctx, name)
	if err != nil {
		return receipt.Document{}, err
	}
	return receipt.Verify(name, data)
}

// explains: one page can be told from its command to its receipt. The stop condition is
// a missing payload or attempt history.
func (v *review) explains(ctx context.Context, q *reviewRow) {
	o, ok := v.newest(func(o observed) bool { return o.page.Receipt != "" })
	if !ok {
		q.missing("no page has left a receipt yet")
		return
	}
	p := o.page
	command := job.NewCommand(o.run, p)
	if read, err := job.Decode(command.Encode()); err != nil || read != command {
		q.missing("the command of page " + string(p.ID) + " can not be rebuilt from the ledger")
	} else {
		q.found("Page " + string(p.ID) + ": its command is rebuilt from the ledger, byte for byte, and names its run, its policy version and its tenant.")
	}
	if p.Attempts < 1 || p.BornAt.IsZero() || p.LeaseEnd.IsZero() {
		q.missing("the attempts of page " + string(p.ID) + " are not on record")
	} else {
		q.found("Its attempts are on record: " + fmt.Sprint(p.Attempts) + ", the last under a lease until " + instant(p.LeaseEnd) + "; every event in the logs has its id as job_id.")
	}
	document, err := v.document(ctx, receipt.Name(receipt.Receipt, o.run.ID, p.ID, p.Receipt))
	if err != nil {
		q.unknown("its receipt", err)
		return
	}
	if _, err := v.document(ctx, receipt.Name(receipt.Plan, o.run.ID, p.ID, document.Header.Plan)); err != nil {
		q.unknown("the plan that its receipt answers", err)
		return
	}
	q.found("Its plan and its receipt are whole, with a reason for each of " + report.Count(len(document.Lines), "item") + ".")
}

// regional: nothing that takes part lies in another region. The stop condition is a
// redrive that changes the region.
func (v *review) regional(ctx context.Context, q *reviewRow) {
	region := v.r.outputs.Region
	named := map[string]string{}
	for _, t := range []string{v.r.outputs.PageTopic, v.r.outputs.TicketTopic} {
		if t != "" {
			named["topic "+t] = regionOf(t)
		}
	}
	for what, url := range map[string]string{"pages": v.r.outputs.PagesQueue, "report pages": v.r.outputs.ReportQueue, "dead letters": v.r.outputs.LettersQueue} {
		all, err := v.r.queueAttributes(ctx, url)
		if err != nil {
			q.unknown("the queue of "+what, classify("look at the queue", err))
			continue
		}
		named["the queue of "+what] = regionOf(all["QueueArn"])
		if target := all["RedrivePolicy"]; target != "" {
			var to struct {
				Target string `json:"deadLetterTargetArn"`
			}
			_ = json.Unmarshal([]byte(target), &to) // what does not read names no region
			named["where "+what+" die"] = regionOf(to.Target)
		}
	}
	for _, f := range v.r.functions() {
		c, err := v.r.configuration(ctx, f.name)
		if err != nil {
			q.unknown("function "+f.name, classify("look at the function", err))
			continue
		}
		named["function "+f.name] = regionOf(aws.ToString(c.FunctionArn))
	}
	v.buckets(ctx, q, named)
	v.located(q, region, named)
	for _, o := range v.pages {
		if o.run.Region != region {
			q.missing("run " + string(o.run.ID) + " belongs to " + o.run.Region)
			return
		}
	}
	q.found("A command names its region, and a redrive refuses every other one.")
}

// regionOf is the region in an ARN.
func regionOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 {
		return ""
	}
	return parts[3]
}

// buckets asks where the evidence and the artifacts lie.
func (v *review) buckets(ctx context.Context, q *reviewRow, named map[string]string) {
	names := []string{v.r.outputs.Evidence}
	policies, err := v.r.records.PolicyNames(ctx)
	if err != nil {
		q.unknown("the policies", err)
	}
	for _, name := range policies {
		p, err := v.r.records.LatestPolicy(ctx, name)
		if err != nil {
			q.unknown("policy "+name, err)
			continue
		}
		if !slices.Contains(names, p.Bucket) {
			names = append(names, p.Bucket)
		}
	}
	store := newReader(v.r.config)
	for _, name := range names {
		out, err := store.GetBucketLocation(ctx, &awss3.GetBucketLocationInput{Bucket: &name})
		if err != nil {
			q.unknown("bucket "+name, classify("look at the bucket", err))
			continue
		}
		named["bucket "+name] = bucketRegion(out)
	}
}

// located says which of the named things lie elsewhere.
func (v *review) located(q *reviewRow, region string, named map[string]string) {
	var elsewhere []string
	for what, is := range named {
		if is != region {
			elsewhere = append(elsewhere, what+" is in "+orNowhere(is))
		}
	}
	slices.Sort(elsewhere)
	for _, text := range elsewhere {
		q.missing(text + ", and the deployment in " + region)
	}
	if len(elsewhere) == 0 {
		q.found(report.Group(int64(len(named))) + " queues, functions, topics and buckets were asked where they are: " + region + ".")
	}
}

func orNowhere(region string) string {
	if region == "" {
		return "a place that it does not name"
	}
	return region
}

// rehearses: a drill with a transient and a terminal case has passed lately. The stop
// condition is that only production offers a realistic test.
func (v *review) rehearses(ctx context.Context, q *reviewRow) {
	since := v.now.Add(-v.r.settings.DrillLife)
	entries, err := v.r.records.Entries(ctx, since, v.now.Add(v.r.settings.ClockSkew), 10_000)
	if err != nil {
		q.unknown("the orders", err)
		return
	}
	i := slices.IndexFunc(entries, func(e audit.Entry) bool { return e.Act == audit.DrillPassed || e.Act == audit.DrillFailed })
	if i < 0 {
		q.missing("no drill is on record since " + instant(since))
		return
	}
	e := entries[i]
	if e.Act == audit.DrillFailed {
		q.missing("the last drill failed, " + span(v.now.Sub(e.At)) + " ago")
		return
	}
	kept, err := v.drill(ctx, e)
	if err != nil {
		q.unknown("what the last drill has shown", err)
		return
	}
	q.found("A drill of " + kept.Policy + " passed " + span(v.now.Sub(e.At)) + " ago: from the order to move the page back to its end it took " +
		plainSeconds(kept.RecoverySeconds) + " s.")
	q.found("It had a transient failure, which was redriven, and a terminal one, which stayed quarantined: " + report.Count(len(kept.Checks), "check") + ".")
}

// drill reads the report of a drill from the evidence.
func (v *review) drill(ctx context.Context, e audit.Entry) (d redrive.DrillReport, err error) {
	run, err := v.r.records.Run(ctx, e.RunID)
	if err != nil {
		return d, err
	}
	data, err := v.r.evidence.Get(ctx, redrive.DrillName(run))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil || !d.Passed || d.Run != e.RunID {
		return d, fmt.Errorf("the report is not the drill's")
	}
	return d, nil
}

// meets: what is open is younger than its objective, and a dead letter outlives the
// window in which it is recovered. The stop condition is a shorter retention.
func (v *review) meets(ctx context.Context, q *reviewRow) {
	v.retention(ctx, q)
	v.ages(ctx, q)
	within, ended := 0, 0
	for _, o := range v.pages {
		if o.page.State == job.Completed && o.page.Attempts > 0 {
			ended++
			if o.page.SettledAt.Sub(o.page.RunnableAt(o.run)) <= v.r.settings.Objective {
				within++
			}
		}
	}
	if ended > 0 {
		q.found(fmt.Sprintf("%s of %s ended within %s of when they could run.", report.Group(int64(within)), report.Count(ended, "page"), span(v.r.settings.Objective)))
	}
}

// retention compares how long messages are kept with how long a recovery may take: the
// longest that the source keeps one, and then the time to decide.
func (v *review) retention(ctx context.Context, q *reviewRow) {
	letters, err := v.r.queueAttributes(ctx, v.r.outputs.LettersQueue)
	if err != nil {
		q.unknown("the dead letters", classify("look at the queue", err))
		return
	}
	window := 7 * v.r.settings.AgeCeiling // a week: the time that contract leaves to operators
	dead := attributeSeconds(letters, "MessageRetentionPeriod")
	for what, url := range map[string]string{"pages": v.r.outputs.PagesQueue, "report pages": v.r.outputs.ReportQueue} {
		all, err := v.r.queueAttributes(ctx, url)
		if err != nil {
			q.unknown("the queue of "+what, classify("look at the queue", err))
			return
		}
		if source := attributeSeconds(all, "MessageRetentionPeriod"); dead < source+window {
			q.missing(fmt.Sprintf("dead letters are kept for %s; %s for %s and the recovery window of %s together are longer", span(dead), what, span(source), span(window)))
			return
		}
	}
	q.found("Dead letters are kept for " + span(dead) + ": the queues' own retention and a recovery window of " + span(window) + " fit into it. A page is rebuilt from the ledger even after that.")
}

// ages looks at the oldest page that waits for a worker, and the oldest that waits for
// an operator.
func (v *review) ages(ctx context.Context, q *reviewRow) {
	oldest, dead := time.Duration(0), time.Duration(0)
	for _, o := range v.pages {
		switch {
		case o.page.State.Open() && o.run.State == job.Released:
			oldest = max(oldest, v.now.Sub(o.page.RunnableAt(o.run)))
		case o.page.State == job.Dead:
			dead = max(dead, v.now.Sub(o.page.Death.At))
		}
	}
	if oldest >= v.r.settings.Objective {
		q.missing("the oldest open page waits for " + span(oldest) + ", longer than the objective of " + span(v.r.settings.Objective))
	} else {
		q.found("The oldest open page waits for " + span(oldest) + "; the objective is " + span(v.r.settings.Objective) + ".")
	}
	if dead >= v.r.settings.DeadLetterRetention {
		q.missing("a page is dead for " + span(dead) + ", longer than its letter is kept: nobody has decided about it")
	} else if dead > 0 {
		q.found("The oldest dead page waits for " + span(dead) + ".")
	}
}
