package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// needs is a request and the action that AWS wants its sender to have.
type needs struct {
	action, how string
	ask         func(c *awss3.Client, o stored) error
}

// stored is an object in a bucket with locks.
type stored struct{ bucket, key, etag, version *string }

func aboutBuckets(t *testing.T) []needs {
	ctx := t.Context()
	return []needs{
		{"ListBucket", "", func(c *awss3.Client, o stored) error {
			_, err := c.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: o.bucket})
			return err
		}},
		{"ListBucket", "in the first form", func(c *awss3.Client, o stored) error {
			_, err := c.ListObjects(ctx, &awss3.ListObjectsInput{Bucket: o.bucket})
			return err
		}},
		{"ListBucket", "to see that there is a bucket", func(c *awss3.Client, o stored) error {
			_, err := c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: o.bucket})
			return err
		}},
		{"ListBucket", "to be told that a key is absent", func(c *awss3.Client, o stored) error {
			_, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: o.bucket, Key: aws.String("absent")})
			if code(err) == "NotFound" {
				return nil
			}
			return err
		}},
		{"ListBucketVersions", "", func(c *awss3.Client, o stored) error {
			_, err := c.ListObjectVersions(ctx, &awss3.ListObjectVersionsInput{Bucket: o.bucket})
			return err
		}},
		{"GetBucketLocation", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetBucketLocation(ctx, &awss3.GetBucketLocationInput{Bucket: o.bucket})
			return err
		}},
		{"GetBucketVersioning", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: o.bucket})
			return err
		}},
		{"GetBucketObjectLockConfiguration", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: o.bucket})
			return err
		}},
		{"GetEncryptionConfiguration", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetBucketEncryption(ctx, &awss3.GetBucketEncryptionInput{Bucket: o.bucket})
			return err
		}},
		{"GetBucketPublicAccessBlock", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetPublicAccessBlock(ctx, &awss3.GetPublicAccessBlockInput{Bucket: o.bucket})
			return err
		}},
		{"GetBucketRequestPayment", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetBucketRequestPayment(ctx, &awss3.GetBucketRequestPaymentInput{Bucket: o.bucket})
			return err
		}},
		{"DeleteBucket", "", func(c *awss3.Client, o stored) error {
			_, err := c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: o.bucket})
			if code(err) == "BucketNotEmpty" {
				return nil
			}
			return err
		}},
	}
}

func aboutObjects(t *testing.T) []needs {
	ctx := t.Context()
	get := func(c *awss3.Client, o stored) error {
		_, err := c.GetObject(ctx, &awss3.GetObjectInput{Bucket: o.bucket, Key: o.key, VersionId: o.version})
		return err
	}
	put := func(edit func(in *awss3.PutObjectInput, o stored)) func(*awss3.Client, stored) error {
		return func(c *awss3.Client, o stored) error {
			in := &awss3.PutObjectInput{Bucket: o.bucket, Key: o.key, Body: strings.NewReader("2"), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32}
			edit(in, o)
			_, err := c.PutObject(ctx, in)
			return err
		}
	}
	remove := func(edit func(in *awss3.DeleteObjectInput, o stored)) func(*awss3.Client, stored) error {
		return func(c *awss3.Client, o stored) error {
			in := &awss3.DeleteObjectInput{Bucket: o.bucket, Key: o.key}
			edit(in, o)
			_, err := c.DeleteObject(ctx, in)
			return err
		}
	}
	until := aws.Time(start.Add(time.Hour))
	return []needs{
		{"GetObject", "", func(c *awss3.Client, o stored) error { return get(c, stored{bucket: o.bucket, key: o.key}) }},
		{"GetObjectVersion", "", get},
		{"GetObjectVersionTagging", "", func(c *awss3.Client, o stored) error {
			_, err := c.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: o.bucket, Key: o.key, VersionId: o.version})
			return err
		}},
		{"PutObject", "", put(func(*awss3.PutObjectInput, stored) {})},
		{"PutObjectTagging", "with an upload", put(func(in *awss3.PutObjectInput, _ stored) { in.Tagging = aws.String("a=b") })},
		{"PutObjectRetention", "with an upload", put(func(in *awss3.PutObjectInput, _ stored) {
			in.ObjectLockMode, in.ObjectLockRetainUntilDate = types.ObjectLockModeGovernance, until
		})},
		{"PutObjectLegalHold", "with an upload", put(func(in *awss3.PutObjectInput, _ stored) {
			in.ObjectLockLegalHoldStatus = types.ObjectLockLegalHoldStatusOff
		})},
		{"GetObject", "for the condition of an upload", put(func(in *awss3.PutObjectInput, o stored) { in.IfMatch = o.etag })},
		{"DeleteObject", "", remove(func(*awss3.DeleteObjectInput, stored) {})},
		{"DeleteObject", "of whatever is there", remove(func(in *awss3.DeleteObjectInput, _ stored) { in.IfMatch = aws.String("*") })},
		{"GetObject", "for the condition of a delete", remove(func(in *awss3.DeleteObjectInput, o stored) { in.IfMatch = o.etag })},
		{"DeleteObjectVersion", "", remove(func(in *awss3.DeleteObjectInput, o stored) { in.VersionId = o.version })},
		{"BypassGovernanceRetention", "of a delete", remove(func(in *awss3.DeleteObjectInput, o stored) {
			in.VersionId, in.BypassGovernanceRetention = o.version, aws.Bool(true)
		})},
		{"PutObjectLegalHold", "", func(c *awss3.Client, o stored) error {
			_, err := c.PutObjectLegalHold(ctx, &awss3.PutObjectLegalHoldInput{
				Bucket: o.bucket, Key: o.key, LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff},
			})
			return err
		}},
		{"BypassGovernanceRetention", "of a retention", func(c *awss3.Client, o stored) error {
			_, err := c.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{
				Bucket: o.bucket, Key: o.key, BypassGovernanceRetention: aws.Bool(true),
				Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeGovernance, RetainUntilDate: until},
			})
			return err
		}},
	}
}

// Every request needs the actions by which AWS knows it: each of them can be denied,
// by its name and by a pattern, and what it does not need stops nothing.
func TestActions(t *testing.T) {
	for _, n := range append(aboutBuckets(t), aboutObjects(t)...) {
		t.Run(strings.TrimSuffix(n.action+" "+n.how, " "), func(t *testing.T) {
			b := open(t)
			o := stored{bucket: aws.String("locked"), key: aws.String("k")}
			if _, err := b.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: o.bucket, ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct{ denied, want string }{
				{"s3:" + n.action, "AccessDenied"}, {"S3:" + strings.ToLower(n.action[:3]) + "*t*", "AccessDenied"}, {"s3:*", "AccessDenied"}, {"*", "AccessDenied"},
				{"s3:DeleteObjectTagging", ""}, {"s3:PutBucketVersioning", ""},
			} {
				put, err := b.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: o.bucket, Key: o.key, Body: strings.NewReader("1")})
				if err != nil {
					t.Fatal(err)
				}
				o.etag, o.version = put.ETag, put.VersionId
				text := `{"Statement":{"Effect":"Deny","Principal":"*","Action":"` + c.denied + `","Resource":["arn:aws:s3:::locked","arn:aws:s3:::locked/*"]}}`
				if _, err := b.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: o.bucket, Policy: &text}); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if err := n.ask(b.Client, o); code(err) != c.want {
					t.Errorf("under a Deny of %s: %v, want %q", c.denied, err, c.want)
				}
				if _, err := b.DeleteBucketPolicy(t.Context(), &awss3.DeleteBucketPolicyInput{Bucket: o.bucket}); err != nil {
					t.Fatalf("the policy keeps itself: %v", err)
				}
			}
		})
	}
}
