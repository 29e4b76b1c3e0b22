package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func s3Locks() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"Object Lock: legal hold ON -> version delete AccessDenied; plain delete -> marker S3-17", s3LegalHold},
		{"Object Lock: GOVERNANCE retention denies, bypass allows; COMPLIANCE denies", s3Retention},
		{"Object Lock: a retention can be extended and not weakened", s3Weakening},
		{"Object Lock: the bucket's default retention protects what is put S3-17", s3DefaultRetention},
		{"Object Lock: not in a bucket without it", s3Unlockable},
	}
}

func (c *s3Suite) hold(t *testing.T, b, key string, status types.ObjectLockLegalHoldStatus) {
	t.Helper()
	must(c.PutObjectLegalHold(t.Context(), &s3.PutObjectLegalHoldInput{
		Bucket: &b, Key: &key, LegalHold: &types.ObjectLockLegalHold{Status: status},
	}))(t)
}

func (c *s3Suite) retain(t *testing.T, b, key string, mode types.ObjectLockRetentionMode, until time.Time) error {
	t.Helper()
	_, err := c.PutObjectRetention(t.Context(), &s3.PutObjectRetentionInput{
		Bucket: &b, Key: &key, Retention: &types.ObjectLockRetention{Mode: mode, RetainUntilDate: &until},
	})
	return err
}

func (c *s3Suite) destroy(t *testing.T, b, key string, version *string, bypass bool) error {
	t.Helper()
	_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: &key, VersionId: version, BypassGovernanceRetention: &bypass})
	return err
}

func s3LegalHold(t *testing.T, c *s3Suite) {
	b := c.locking(t)
	v := c.put(t, b, "k", "1")
	if aws.ToString(v.VersionId) == "" {
		t.Fatal("a bucket with Object Lock keeps no versions")
	}
	c.hold(t, b, "k", types.ObjectLockLegalHoldStatusOn)
	if got := c.body(t, b, "k", v.VersionId); got != "1" {
		t.Fatalf("the hold overwrote the object: %q", got)
	}
	g := must(c.GetObjectLegalHold(t.Context(), &s3.GetObjectLegalHoldInput{Bucket: &b, Key: aws.String("k")}))(t)
	if g.LegalHold == nil || g.LegalHold.Status != types.ObjectLockLegalHoldStatusOn {
		t.Errorf("the hold is %+v", g.LegalHold)
	}
	wantCode(t, c.destroy(t, b, "k", v.VersionId, false), "AccessDenied")
	wantCode(t, c.destroy(t, b, "k", v.VersionId, true), "AccessDenied")
	out := must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("k"), VersionId: v.VersionId}))(t)
	if len(out.Errors) != 1 || aws.ToString(out.Errors[0].Code) != "AccessDenied" {
		t.Errorf("in bulk: %+v", out)
	}
	d := must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if !aws.ToBool(d.DeleteMarker) {
		t.Error("a plain delete lays no marker over a held object")
	}
	if got := c.body(t, b, "k", v.VersionId); got != "1" {
		t.Errorf("under the marker lies %q", got)
	}
}

func s3Retention(t *testing.T, c *s3Suite) {
	b := c.locking(t)
	v := c.put(t, b, "k", "1")
	if err := c.retain(t, b, "k", types.ObjectLockRetentionModeGovernance, time.Now().Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.destroy(t, b, "k", v.VersionId, false), "AccessDenied")
	if err := c.destroy(t, b, "k", v.VersionId, true); err != nil {
		t.Errorf("bypass: %v", err)
	}
	until := time.Now().Add(3 * time.Second)
	o := must(c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &b, Key: aws.String("c"), Body: strings.NewReader("1"),
		ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until,
	}))(t)
	wantCode(t, c.destroy(t, b, "c", o.VersionId, true), "AccessDenied")
	h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("c")}))(t)
	if h.ObjectLockMode != types.ObjectLockModeCompliance {
		t.Errorf("head says mode %q", h.ObjectLockMode)
	}
	time.Sleep(time.Until(until) + 500*time.Millisecond)
	if err := c.destroy(t, b, "c", o.VersionId, false); err != nil {
		t.Errorf("after the retention: %v", err)
	}
}

func s3Weakening(t *testing.T, c *s3Suite) {
	b := c.locking(t)
	c.put(t, b, "k", "1")
	day := time.Now().Add(24 * time.Hour)
	for _, step := range []struct {
		until  time.Time
		denied bool
	}{{day, false}, {day.Add(time.Hour), false}, {day, true}} {
		err := c.retain(t, b, "k", types.ObjectLockRetentionModeGovernance, step.until)
		if step.denied {
			wantCode(t, err, "AccessDenied")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	got := must(c.GetObjectRetention(t.Context(), &s3.GetObjectRetentionInput{Bucket: &b, Key: aws.String("k")}))(t)
	if got.Retention.Mode != types.ObjectLockRetentionModeGovernance || got.Retention.RetainUntilDate.Before(day.Add(time.Hour-time.Second)) {
		t.Errorf("the retention is %+v", got.Retention)
	}
}

func s3DefaultRetention(t *testing.T, c *s3Suite) {
	b := c.locking(t)
	must(c.PutObjectLockConfiguration(t.Context(), &s3.PutObjectLockConfigurationInput{
		Bucket: &b, ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule:              &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1)}},
		},
	}))(t)
	got := must(c.GetObjectLockConfiguration(t.Context(), &s3.GetObjectLockConfigurationInput{Bucket: &b}))(t)
	if r := got.ObjectLockConfiguration.Rule; r == nil || aws.ToInt32(r.DefaultRetention.Days) != 1 {
		t.Errorf("the configuration is %+v", got.ObjectLockConfiguration)
	}
	v := c.put(t, b, "k", "1")
	wantCode(t, c.destroy(t, b, "k", v.VersionId, false), "AccessDenied")
	h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if h.ObjectLockMode != types.ObjectLockModeGovernance || h.ObjectLockRetainUntilDate == nil {
		t.Errorf("head says %q until %v", h.ObjectLockMode, h.ObjectLockRetainUntilDate)
	}
}

func s3Unlockable(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	c.put(t, b, "k", "1")
	_, err := c.GetObjectLockConfiguration(t.Context(), &s3.GetObjectLockConfigurationInput{Bucket: &b})
	wantCode(t, err, "ObjectLockConfigurationNotFoundError")
	wantCode(t, c.retain(t, b, "k", types.ObjectLockRetentionModeGovernance, time.Now().Add(time.Hour)), "InvalidRequest")
	b = c.locking(t)
	c.put(t, b, "k", "1")
	_, err = c.GetObjectLegalHold(t.Context(), &s3.GetObjectLegalHoldInput{Bucket: &b, Key: aws.String("k")})
	wantCode(t, err, "NoSuchObjectLockConfiguration")
	_, err = c.GetObjectRetention(t.Context(), &s3.GetObjectRetentionInput{Bucket: &b, Key: aws.String("k")})
	wantCode(t, err, "NoSuchObjectLockConfiguration")
}
