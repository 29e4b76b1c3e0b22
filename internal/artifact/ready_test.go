package artifact_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// A bucket that no run could list is found out before there is a run, with its cause.
func TestS3Ready(t *testing.T) {
	const region = "us-east-1"
	denied := func(action string) func(*testing.T, *cloud, string) {
		return func(t *testing.T, c *cloud, bucket string) {
			_, err := c.stranger.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: &bucket, Policy: aws.String(
				`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"` + action + `","Resource":["arn:aws:s3:::` + bucket + `","arn:aws:s3:::` + bucket + `/*"]}]}`)})
			must(t, err)
		}
	}
	pays := func(t *testing.T, c *cloud, bucket string) { must(t, c.service.SetRequesterPays(bucket, true)) }
	for name, c := range map[string]struct {
		spoil   func(*testing.T, *cloud, string)
		options artifact.S3Options
		region  string
		want    failure.Class
		text    string
	}{
		"ready":                            {nil, artifact.S3Options{}, region, "", ""},
		"the policy's region is not ours":  {nil, artifact.S3Options{}, "eu-west-1", failure.Invalid, "in another region"},
		"may not be listed":                {denied("s3:ListBucket*"), artifact.S3Options{}, region, failure.Forbidden, "does not allow it"},
		"nothing but listing is allowed":   {denied("s3:Get*"), artifact.S3Options{}, region, "", ""},
		"S3-23 requester pays":             {pays, artifact.S3Options{}, region, failure.Forbidden, "requester pays"},
		"S3-23 requester pays, and we say": {pays, artifact.S3Options{RequesterPays: true}, region, "", ""},
		"S3-23 requester pays, unseen": {func(t *testing.T, c *cloud, bucket string) {
			pays(t, c, bucket)
			denied("s3:GetBucketRequestPayment")(t, c, bucket)
		}, artifact.S3Options{}, region, failure.Forbidden, "does not allow it"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, c.options)
			bucket := cloud.Bucket(t, true)
			if c.spoil != nil {
				c.spoil(t, cloud, bucket)
			}
			for _, versions := range []bool{false, true} {
				err := cloud.store.Ready(t.Context(), job.Query{Bucket: bucket, Prefix: "exports/", Versions: versions}, c.region)
				if failure.Of(err) != c.want || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("versions %v: got %v", versions, err)
				}
				if err != nil && strings.Contains(err.Error(), bucket) {
					t.Errorf("the error names the bucket: %v", err)
				}
			}
		})
	}
}

func TestS3ReadyElsewhere(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	frankfurt := awss3.New(c.stranger.Options(), func(o *awss3.Options) { o.Region = "eu-central-1" })
	bucket := aws.String("in-frankfurt")
	_, err := frankfurt.CreateBucket(t.Context(), &awss3.CreateBucketInput{
		Bucket: bucket, CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: "eu-central-1"},
	})
	must(t, err)
	if err := c.store.Ready(t.Context(), job.Query{Bucket: *bucket, Prefix: "a/"}, "us-east-1"); failure.Of(err) != failure.Invalid || !strings.Contains(err.Error(), "another region") {
		t.Errorf("got %v", err)
	}
}

// A service that is busy or silent says nothing about the bucket: the look is made
// again by whoever needs it.
func TestS3ReadyPatience(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket := c.Bucket(t, false)
	for code, want := range map[string]failure.Class{"SlowDown": failure.Throttled, "InternalError": failure.Network} {
		c.meet(func(wire.Call) wire.Fate { return wire.Fate{Error: &wire.Error{Status: 503, Code: code}} })
		if err := c.store.Ready(t.Context(), job.Query{Bucket: bucket, Prefix: "a/"}, "us-east-1"); failure.Of(err) != want {
			t.Errorf("%s: got %v", code, err)
		}
	}
}
