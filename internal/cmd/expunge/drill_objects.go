package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// uploader puts the objects of a drill that has none. It is the only call of this tool
// that writes to a bucket, and it is made only on --prepare.
type uploader interface {
	PutObject(ctx context.Context, in *awss3.PutObjectInput, options ...func(*awss3.Options)) (*awss3.PutObjectOutput, error)
}

// requestCutoff is the cutoff of a request at an instant: it deletes nothing that the
// next scheduled run would keep.
func requestCutoff(p policy.Policy, at time.Time) time.Time {
	cutoff := p.Cutoff(at)
	if next := p.Cutoff(p.Schedule.Next(at)); next.Before(cutoff) {
		return next
	}
	return cutoff
}

// expired counts the tenant's objects that a request would take. Without any there is
// nothing to drill on, and S3 lets nobody make an object older than it is.
func (l *drilling) expired(ctx context.Context) error {
	c, err := l.d.credentials(ctx, l.p.Region)
	if err != nil {
		return err
	}
	client := awss3.NewFromConfig(c.Config, func(o *awss3.Options) { o.UsePathStyle = c.BaseEndpoint != nil })
	listed, err := l.count(ctx, artifact.NewS3Lister(client, c.Settings))
	switch {
	case err != nil:
		return err
	case l.a.Expired > 0:
		l.step(report.Count(l.a.Expired, "expired object") + " of " + l.Tenant + " will be deleted, as in the next run of " + l.p.Name + ".")
		return nil
	case !l.Prepare:
		return wrong(l.Tenant+" has no expired object under "+l.p.Name+", of "+report.Count(listed, "object")+": nothing to drill on",
			l.d.command("drill", "--tenant="+l.Tenant, "--policy="+l.p.Name, "--reason="+l.Reason, "--prepare"))
	}
	return l.prepare(ctx, client)
}

// count lists the tenant's objects.
func (l *drilling) count(ctx context.Context, store lister) (listed int, err error) {
	p, cutoff := l.p, requestCutoff(l.p, l.d.Clock.Now())
	q := job.Query{Bucket: p.Bucket, Prefix: p.TenantPrefix(l.Tenant), Versions: p.Versions == policy.AllVersions}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return listed, err
		}
		for _, item := range page.Items {
			listed++
			if policy.Decide(policy.Facts{Policy: &p, Tenant: l.Tenant, Cutoff: cutoff, Item: item}).Delete {
				l.a.Expired++
			}
		}
		if q.Token = page.Token; q.Token == "" {
			return listed, nil
		}
	}
}

// prepare puts the objects, and ends the command: they are not old enough yet.
func (l *drilling) prepare(ctx context.Context, client uploader) error {
	now := l.d.Clock.Now().UTC()
	for i := range l.Objects {
		key := fmt.Sprintf("%sexpunge-drill-%s-%03d.txt", l.p.TenantPrefix(l.Tenant), now.Format("20060102t150405z"), i+1)
		in := &awss3.PutObjectInput{Bucket: &l.p.Bucket, Key: &key, Body: strings.NewReader("For a drill of Expunge: this may be deleted at any time.\n")}
		if _, err := client.PutObject(ctx, in); err != nil {
			return classify("put an object for the drill", err)
		}
	}
	from := expiry(l.p, now)
	l.step(report.Count(l.Objects, "object") + " for a drill lie under " + l.p.TenantPrefix(l.Tenant) + ".")
	return waits("the objects have expired from "+instant(from)+" on: start the drill then, or shortly before the policy's next run after that takes them",
		l.d.command("drill", "--tenant="+l.Tenant, "--policy="+l.p.Name, "--reason="+l.Reason, "--wait"))
}

// expiry returns from when on, to the hour, a request takes what was put at the instant.
func expiry(p policy.Policy, put time.Time) time.Time {
	at := put.AddDate(0, 0, p.RetentionDays).Truncate(time.Hour).Add(time.Hour)
	for !put.Before(requestCutoff(p, at)) {
		at = at.Add(time.Hour)
	}
	return at
}
