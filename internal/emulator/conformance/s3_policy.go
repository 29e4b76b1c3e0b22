package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func s3Policies() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"bucket policy: put, read back, removed, and none is NoSuchBucketPolicy", s3PolicyKept},
		{"bucket policy: a denied prefix, alone and per key in bulk, until it is fixed", s3PolicyPrefix},
		{"bucket policy: a Deny of the caller by name", s3PolicyCaller},
		{"bucket policy: a conditional delete needs GetObject too", s3PolicyCondition},
		{"bucket policy: a denied version, and a denied list", s3PolicyOthers},
		{"bucket policy: mistakes are MalformedPolicy, and the old one stays", s3PolicyMistakes},
		{"a bucket nobody configured: region, payer, encryption, public access, versions, locks", s3Unconfigured},
	}
}

// s3Deny is a policy of one statement.
func s3Deny(principal any, resource string, actions ...string) string {
	text, _ := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
		"Sid": "conformance", "Effect": "Deny", "Principal": principal, "Action": actions, "Resource": "arn:aws:s3:::" + resource,
	}}}) // texts always marshal
	return string(text)
}

// heard waits until what is known everywhere is what was said last of a policy: at
// AWS a while, anywhere else no more than a moment.
func (c *s3Suite) heard(ask func() bool) bool {
	if c.target.Endpoint == "" {
		return within(time.Minute, ask)
	}
	return within(time.Second, ask)
}

// deny puts a policy, which goes before the bucket does, and waits until the probe
// is denied.
func (c *s3Suite) deny(t *testing.T, b, policy string, probe func() error) {
	t.Helper()
	must(c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &b, Policy: &policy}))(t)
	t.Cleanup(func() { _ = c.unpolicy(b) })
	if !c.heard(func() bool { return probe() != nil }) {
		t.Fatal("nothing is denied")
	}
}

func (c *s3Suite) unpolicy(b string) error {
	_, err := c.DeleteBucketPolicy(background(), &s3.DeleteBucketPolicyInput{Bucket: &b})
	return err
}

// deletes probes with the delete of a key that is not there.
func (c *s3Suite) deletes(t *testing.T, b, key string) func() error {
	return func() error {
		_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: &key})
		return err
	}
}

func s3PolicyKept(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	get := func() (string, error) {
		out, err := c.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: &b})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.Policy), nil
	}
	_, err := get()
	wantCode(t, err, "NoSuchBucketPolicy")
	policy := s3Deny("*", b+"/a/*", "s3:GetObject")
	must(c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &b, Policy: &policy}))(t)
	text := must(get())(t)
	if !json.Valid([]byte(text)) || !strings.Contains(text, `"conformance"`) || !strings.Contains(text, b+"/a/*") {
		t.Errorf("the policy is %s", text)
	}
	if err := c.unpolicy(b); err != nil {
		t.Fatal(err)
	}
	if !c.heard(func() bool { _, err = get(); return err != nil }) {
		t.Fatal("the policy stays")
	}
	wantCode(t, err, "NoSuchBucketPolicy")
	if err := c.unpolicy(b); err != nil {
		t.Errorf("there was none any more: %v", err)
	}
}

func s3PolicyPrefix(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	for _, key := range []string{"a/1", "a/2", "b/1", "b/2"} {
		c.put(t, b, key, key)
	}
	c.deny(t, b, s3Deny("*", b+"/b/*", "s3:DeleteObject"), c.deletes(t, b, "b/absent"))
	out := must(c.bulk(t.Context(), b, false, s3Object("a/1"), s3Object("b/1"), s3Object("b/2")))(t)
	denied := func(e types.Error) bool { return aws.ToString(e.Code) == "AccessDenied" }
	if len(out.Deleted) != 1 || aws.ToString(out.Deleted[0].Key) != "a/1" || len(out.Errors) != 2 || !denied(out.Errors[0]) || !denied(out.Errors[1]) {
		t.Errorf("in bulk: %+v", out)
	}
	wantCode(t, c.deletes(t, b, "b/1")(), "AccessDenied")
	if err := c.deletes(t, b, "a/2")(); err != nil {
		t.Errorf("beside the prefix: %v", err)
	}
	if got := c.body(t, b, "b/1", nil); got != "b/1" {
		t.Errorf("what can not be deleted is read as %q", got)
	}
	c.wantKeys(t, b, "b/1", "b/2")
	if err := c.unpolicy(b); err != nil {
		t.Fatal(err)
	}
	if !c.heard(func() bool { return c.deletes(t, b, "b/1")() == nil }) {
		t.Error("it is denied without a policy")
	}
	if out := must(c.bulk(t.Context(), b, false, s3Object("b/2")))(t); len(out.Deleted) != 1 {
		t.Errorf("in bulk without a policy: %+v", out)
	}
	c.wantKeys(t, b)
}

func s3PolicyCaller(t *testing.T, c *s3Suite) {
	me := must(c.target.STSClient(home).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t)
	if strings.HasSuffix(aws.ToString(me.Arn), ":root") {
		t.Skip("nothing can be denied to the root user by name")
	}
	b := c.bucket(t)
	c.put(t, b, "k", "1")
	c.deny(t, b, s3Deny(map[string]any{"AWS": []string{*me.Arn}}, b+"/*", "s3:Delete*"), c.deletes(t, b, "absent"))
	wantCode(t, c.deletes(t, b, "k")(), "AccessDenied")
	c.wantKeys(t, b, "k")
}

func s3PolicyCondition(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	etag := c.put(t, b, "k", "1").ETag
	head := func() error {
		_, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k")})
		return err
	}
	c.deny(t, b, s3Deny("*", b+"/*", "s3:GetObject"), head)
	wantCode(t, head(), "Forbidden") // an answer to HEAD has no body, and so no code of its own
	_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: etag})
	wantCode(t, err, "AccessDenied")
	out := must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("k"), ETag: etag}))(t)
	if len(out.Errors) != 1 || aws.ToString(out.Errors[0].Code) != "AccessDenied" {
		t.Errorf("in bulk: %+v", out)
	}
	c.wantKeys(t, b, "k")
	if err := c.deletes(t, b, "k")(); err != nil {
		t.Errorf("without the condition: %v", err)
	}
}

func s3PolicyOthers(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v := c.put(t, b, "k", "1")
	list := func() error {
		_, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b})
		return err
	}
	c.deny(t, b, s3Deny("*", b, "s3:ListBucket"), list)
	wantCode(t, list(), "AccessDenied")
	_, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("absent")})
	wantCode(t, err, "Forbidden")
	c.deny(t, b, s3Deny("*", b+"/*", "s3:DeleteObjectVersion"), func() error { return c.destroy(t, b, "absent", v.VersionId, false) })
	wantCode(t, c.destroy(t, b, "k", v.VersionId, false), "AccessDenied")
	if err := c.deletes(t, b, "k")(); err != nil {
		t.Errorf("a marker: %v", err)
	}
}

func s3PolicyMistakes(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	good := s3Deny("*", b+"/a/*", "s3:GetObject")
	must(c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &b, Policy: &good}))(t)
	for what, policy := range map[string]string{
		"no JSON":                      "deny",
		"no statement":                 `{"Version":"2012-10-17"}`,
		"an unknown effect":            strings.Replace(good, `"Deny"`, `"Refuse"`, 1),
		"no principal":                 strings.Replace(good, `"Principal":"*",`, "", 1),
		"another bucket":               s3Deny("*", "x"+b+"/a/*", "s3:GetObject"),
		"an action of another service": s3Deny("*", b+"/a/*", "dynamodb:GetItem"),
		"a bucket's action on keys":    s3Deny("*", b+"/a/*", "s3:ListBucket"),
		"a key's action on the bucket": s3Deny("*", b, "s3:GetObject"),
	} {
		if _, err := c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &b, Policy: &policy}); err == nil {
			t.Errorf("%s was accepted", what)
		} else {
			wantCode(t, err, "MalformedPolicy")
		}
	}
	if out := must(c.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: &b}))(t); !strings.Contains(aws.ToString(out.Policy), b+"/a/*") {
		t.Errorf("the policy is %s", aws.ToString(out.Policy))
	}
}

func s3Unconfigured(t *testing.T, c *s3Suite) {
	b, ctx := c.bucket(t), t.Context()
	if got := must(c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b}))(t); aws.ToString(got.BucketRegion) != home {
		t.Errorf("the bucket is in %s", aws.ToString(got.BucketRegion))
	}
	if got := must(c.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: &b}))(t); got.LocationConstraint != "" {
		t.Errorf("its location is %s", got.LocationConstraint)
	}
	if got := must(c.GetBucketRequestPayment(ctx, &s3.GetBucketRequestPaymentInput{Bucket: &b}))(t); got.Payer != types.PayerBucketOwner {
		t.Errorf("%s pays", got.Payer)
	}
	if got := must(c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b}))(t); got.Status != "" {
		t.Errorf("versioning is %s", got.Status)
	}
	encryption := must(c.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: &b}))(t)
	if rules := encryption.ServerSideEncryptionConfiguration.Rules; len(rules) != 1 || rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm != types.ServerSideEncryptionAes256 {
		t.Errorf("the encryption is %+v", rules)
	}
	block := must(c.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &b}))(t).PublicAccessBlockConfiguration
	if got := fmt.Sprint(aws.ToBool(block.BlockPublicAcls), aws.ToBool(block.IgnorePublicAcls), aws.ToBool(block.BlockPublicPolicy), aws.ToBool(block.RestrictPublicBuckets)); got != "true true true true" {
		t.Errorf("public access is blocked by %s", got)
	}
	_, err := c.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &b})
	wantCode(t, err, "ObjectLockConfigurationNotFoundError")
}
