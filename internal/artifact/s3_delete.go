package artifact

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// Delete implements Store: in one bulk delete, and one by one the items that a
// bulk delete can not name. The bulk goes first, so that an error of it is one of
// the whole call; a later error only leaves items without an answer.
func (s *S3) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	if err := check(d, s.now()); err != nil {
		return nil, err
	}
	if err := over(ctx, opDelete); err != nil {
		return nil, err
	}
	answers := make([]job.Answer, len(d.Items))
	var bulk, alone []int
	for i, item := range d.Items {
		if inXML(item.Key) {
			bulk = append(bulk, i)
		} else {
			alone = append(alone, i)
		}
	}
	if len(bulk) > 0 {
		if err := s.bulk(ctx, d, bulk, answers); err != nil {
			return nil, err
		}
	}
	for n, i := range alone {
		answer, err := s.single(ctx, d, d.Items[i])
		if err == nil {
			answers[i] = answer
			continue
		}
		if len(bulk)+n == 0 {
			return nil, err
		}
		answers[i] = job.Slow
		if failure.Of(err).Ambiguous() {
			answers[i] = job.Unsure
		}
		for _, unsent := range alone[n+1:] {
			answers[unsent] = job.Slow // nothing happened
		}
		break
	}
	return answers, nil
}

// inXML reports whether the key survives the way to S3 and back in XML. The SDK
// writes U+FFFD for what XML 1.0 forbids, which is another key (S3-05); and a
// parser reads a carriage return as a line feed, should S3 write one in its answer.
func inXML(key string) bool {
	return utf8.ValidString(key) && strings.IndexFunc(key, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' || r == '\ufffe' || r == '\uffff'
	}) < 0
}

// once are the options of a delete: sent once, and only in its time.
func (s *S3) once(end time.Time) func(*s3.Options) {
	return func(o *s3.Options) {
		o.Retryer = sdk.Once()
		o.APIOptions = append(o.APIOptions, sdk.SignBefore(s.now, end))
	}
}

// bulk deletes the items at the places, and answers there. Every item must be
// answered, by its name: an answer that leaves one out proves nothing (S3-01).
func (s *S3) bulk(ctx context.Context, d job.Deletion, at []int, answers []job.Answer) error {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	objects := make([]types.ObjectIdentifier, len(at))
	asked := make(map[job.Ref]int, len(at))
	for n, i := range at {
		item := &d.Items[i]
		asked[item.Ref()] = i
		if objects[n].Key = &item.Key; item.Version != "" {
			objects[n].VersionId = &item.Version
		} else {
			objects[n].ETag = &item.ETag
		}
	}
	out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &d.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(false)}, RequestPayer: s.payer,
	}, s.once(d.NotAfter))
	if err != nil {
		return classify(opDelete, err)
	}
	if len(out.Deleted)+len(out.Errors) != len(at) {
		return distrusted(opDelete)
	}
	answer := func(key, version *string, a job.Answer) bool {
		ref := job.Ref{Key: aws.ToString(key), Version: aws.ToString(version)}
		i, ok := asked[ref]
		delete(asked, ref)
		if ok {
			answers[i] = a
		}
		return ok
	}
	whole := true
	for _, o := range out.Deleted {
		whole = answer(o.Key, o.VersionId, gone(aws.ToString(o.VersionId), o.DeleteMarker)) && whole
	}
	for _, e := range out.Errors {
		whole = answer(e.Key, e.VersionId, refusal(aws.ToString(e.Code), aws.ToString(e.Message))) && whole
	}
	if !whole {
		return distrusted(opDelete)
	}
	return nil
}

// gone is the answer to a successful delete.
func gone(version string, marker *bool) job.Answer {
	switch {
	case version != "":
		return job.GoneByVersion
	case aws.ToBool(marker):
		return job.Marked
	default:
		return job.Gone
	}
}

// single deletes one item in a request of its own.
func (s *S3) single(ctx context.Context, d job.Deletion, item job.Item) (job.Answer, error) {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	in := &s3.DeleteObjectInput{Bucket: &d.Bucket, Key: &item.Key, RequestPayer: s.payer}
	if item.Version != "" {
		in.VersionId = &item.Version
	} else {
		in.IfMatch = &item.ETag
	}
	out, err := s.client.DeleteObject(ctx, in, s.once(d.NotAfter))
	if err != nil {
		return answerOf(opDelete, err)
	}
	return gone(item.Version, out.DeleteMarker), nil
}
