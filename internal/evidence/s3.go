package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// S3 keeps evidence as objects of one bucket, under their names.
//
// A name is written under the condition that it is free, which also makes the
// SDK's own retries safe: one that finds what an earlier attempt wrote finds its
// own bytes. That nobody else replaces or removes an object is the bucket's
// affair: its policy and its Object Lock.
type S3 struct {
	client *s3.Client
	limits sdk.Settings
	bucket string
}

// NewS3 returns a store in the bucket. It needs s3:PutObject, s3:GetObject and
// s3:ListBucket.
func NewS3(config sdk.Config, bucket string) *S3 {
	return &S3{
		limits: config.Settings, bucket: bucket,
		client: s3.NewFromConfig(config.Config, func(o *s3.Options) {
			o.UsePathStyle = config.BaseEndpoint != nil // an endpoint of one's own has no host name for each bucket
		}),
	}
}

// conflicts is how often a write is sent that meets another for the same name.
const conflicts = 3

// Put keeps data under name. A name is written once: equal bytes again are nil,
// other bytes are failure.Invalid and change nothing.
func (s *S3) Put(ctx context.Context, name string, data []byte) error {
	if err := checkCall(ctx, opPut, name); err != nil {
		return err
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	var err error
	for range conflicts {
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: &name, Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"),
			// S3 keeps it with the object, and refuses bytes that do not have it.
			ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		})
		if code(err) != "ConditionalRequestConflict" {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case code(err) != "PreconditionFailed":
		return classifyS3(opPut, err)
	}
	stored, err := s.read(ctx, opPut, name)
	if err != nil {
		return err
	}
	return settle(stored, data)
}

// Get returns the bytes kept under name, or failure.Absent.
func (s *S3) Get(ctx context.Context, name string) ([]byte, error) {
	if err := checkCall(ctx, opGet, name); err != nil {
		return nil, err
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	return s.read(ctx, opGet, name)
}

func (s *S3) read(ctx context.Context, op, name string) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &name})
	if code(err) == "NoSuchKey" {
		return nil, absent()
	}
	if err != nil {
		return nil, classifyS3(op, err)
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	if err != nil {
		return nil, classifyS3(op, err)
	}
	return data, nil
}

// List returns, in ascending order of their bytes, at most limit names that
// begin with prefix and come after after; fewer only when there are no more.
func (s *S3) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	if err := checkList(ctx, limit); err != nil {
		return nil, err
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket}
	if prefix != "" {
		in.Prefix = &prefix
	}
	if after != "" {
		in.StartAfter = &after
	}
	var names []string
	for len(names) < limit {
		in.MaxKeys = aws.Int32(int32(min(limit-len(names), 1000))) //nolint:gosec // at most 1,000
		out, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, classifyS3(opList, err)
		}
		// The SDK takes an empty body for an empty answer.
		if out.KeyCount == nil || out.IsTruncated == nil || int(*out.KeyCount) != len(out.Contents) || *out.IsTruncated != (out.NextContinuationToken != nil) {
			return nil, failure.New(failure.Network, opList, "the answer is not whole")
		}
		for _, o := range out.Contents {
			if name := aws.ToString(o.Key); ValidName(name) { // others are not ours
				names = append(names, name)
			}
		}
		if in.ContinuationToken = out.NextContinuationToken; !*out.IsTruncated {
			break
		}
	}
	return names, nil
}

// code returns the code of an error of S3, "" for any other and for nil.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// classifyS3 gives an error of the SDK its class, and words of ours: those of S3
// and of the SDK may hold a name.
func classifyS3(op string, err error) error {
	for _, over := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, over) {
			return failure.Wrap(failure.Network, op, over)
		}
	}
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if !answered || code(err) == "" { // the SDK makes a response without a status of a lost connection too
		return failure.New(failure.Network, op, "no answer")
	}
	return failure.New(classOf(code(err), response.HTTPStatusCode()), op, "status "+strconv.Itoa(response.HTTPStatusCode()))
}

// classOf is the class of a refusal. A bucket that is not there, or elsewhere, is
// a fault of the deployment: nothing that is retried helps.
func classOf(code string, status int) failure.Class {
	switch {
	case code == "SlowDown" || status == http.StatusTooManyRequests:
		return failure.Throttled
	case code == "ConditionalRequestConflict" || code == "OperationAborted":
		return failure.Conflict
	// Signed with what is old by now: it heals by itself.
	case code == "ExpiredToken" || code == "RequestTimeTooSkewed" || code == "RequestExpired" || code == "RequestTimeout":
		return failure.Network
	case status == http.StatusForbidden || status == http.StatusUnauthorized ||
		status == http.StatusNotFound || status == http.StatusMovedPermanently:
		return failure.Forbidden
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return failure.Network
	default:
		return failure.Bug
	}
}
