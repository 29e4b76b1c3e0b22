package artifact

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// S3 is a Store of general purpose buckets in one region.
//
// Listings and looks are retried by the SDK, a few times. A delete is sent once:
// whether it is sent again is for the caller, who knows what the answer means by
// then. Besides what its name says, List needs s3:ListBucket, or
// s3:ListBucketVersions with Versions; Delete s3:DeleteObject and, for the
// condition on an ETag, s3:GetObject, or s3:DeleteObjectVersion; Standing
// s3:GetBucketVersioning, s3:ListBucketVersions and, to take a wrong marker away,
// s3:DeleteObjectVersion.
type S3 struct {
	S3Lister
	client *s3.Client
	now    func() time.Time

	mu        sync.Mutex
	versioned map[string]bool // buckets that keep versions: none ever stops to
}

var _ Store = (*S3)(nil)

// ListClient is what listing asks of an S3 client. It names no call that could
// change anything, so that whoever holds an S3Lister can be shown to hold no way
// to delete.
type ListClient interface {
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput, options ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)
}

// S3Lister is the part of S3 that lists, for callers that must not be able to do
// more.
type S3Lister struct {
	lists  ListClient
	limits sdk.Settings
	payer  types.RequestPayer
}

// NewS3Lister returns a lister that asks the client, within the limits.
func NewS3Lister(client ListClient, limits sdk.Settings) *S3Lister {
	return &S3Lister{lists: client, limits: limits}
}

// S3Options are what S3 is told besides where it is. The zero value will do.
type S3Options struct {
	// RequesterPays says with every request that its sender pays, without which a
	// requester-pays bucket denies access (S3-23).
	RequesterPays bool
	// Now judges Deletion.NotAfter; nil is the machine's clock.
	Now func() time.Time
}

// NewS3 returns a store on the configuration.
func NewS3(config sdk.Config, options S3Options) *S3 {
	s := &S3{now: options.Now, versioned: map[string]bool{}}
	s.limits = config.Settings
	if s.now == nil {
		s.now = time.Now
	}
	if options.RequesterPays {
		s.payer = types.RequestPayerRequester
	}
	s.client = s3.NewFromConfig(config.Config, func(o *s3.Options) {
		o.UsePathStyle = config.BaseEndpoint != nil // an endpoint of one's own has no host name for each bucket
	})
	s.lists = s.client
	return s
}

// given is nil for an optional parameter that is not given.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List lists as Store says.
func (s *S3Lister) List(ctx context.Context, q job.Query) (job.Listing, error) {
	if err := over(ctx, opList); err != nil {
		return job.Listing{}, err
	}
	at, err := readPlace(q)
	if err != nil {
		return job.Listing{}, err
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	for {
		var items []job.Item
		var next place
		if q.Versions {
			items, next, err = s.versions(ctx, q, at)
		} else {
			items, next, err = s.objects(ctx, q, at)
		}
		if err != nil {
			return job.Listing{}, err
		}
		if err := inOrder(q, items); err != nil {
			return job.Listing{}, err
		}
		for i, item := range items {
			if q.Through != "" && item.Key > q.Through {
				return job.Listing{Items: items[:i]}, nil
			}
		}
		switch {
		case next == place{}:
			return job.Listing{Items: items}, nil
		case len(items) > 0:
			return job.Listing{Items: items, Token: next.token(q)}, nil
		}
		at = next // S3 may answer a page without a key that is not the last
	}
}

// objects asks for one page of current objects.
func (s *S3Lister) objects(ctx context.Context, q job.Query, at place) ([]job.Item, place, error) {
	out, err := s.lists.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &q.Bucket, Prefix: given(q.Prefix), StartAfter: given(q.After), ContinuationToken: given(at.mark),
		EncodingType: types.EncodingTypeUrl, RequestPayer: s.payer,
	}, func(o *s3.Options) { o.APIOptions = append(o.APIOptions, wholeBody(nil)) })
	if err != nil {
		return nil, place{}, classify(opList, err)
	}
	next := place{mark: aws.ToString(out.NextContinuationToken)}
	switch {
	// The SDK takes an empty body for an empty answer.
	case out.KeyCount == nil || out.IsTruncated == nil || int(*out.KeyCount) != len(out.Contents),
		*out.IsTruncated != (next != place{}), out.EncodingType != types.EncodingTypeUrl:
		return nil, place{}, distrusted(opList)
	}
	items := make([]job.Item, len(out.Contents))
	for i, o := range out.Contents {
		if o.Key == nil || o.ETag == nil || o.Size == nil || o.LastModified == nil {
			return nil, place{}, distrusted(opList)
		}
		key, err := url.QueryUnescape(*o.Key)
		if err != nil {
			return nil, place{}, distrusted(opList)
		}
		items[i] = job.Item{Key: key, ETag: *o.ETag, Size: *o.Size, Modified: o.LastModified.UTC()}
	}
	return items, next, nil
}

// inOrder refuses an answer with keys that were not asked for, or out of order: a
// scan that believed it would lose some.
func inOrder(q job.Query, items []job.Item) error {
	last := q.After
	for _, item := range items {
		after := item.Key > last || q.Versions && item.Key == last && last != q.After
		if !after || !strings.HasPrefix(item.Key, q.Prefix) {
			return distrusted(opList)
		}
		last = item.Key
	}
	return nil
}

func distrusted(op string) error {
	return failure.New(failure.Network, op, "the answer is not whole")
}

// place is where a listing goes on: with S3's continuation token, or after a
// version of a key.
type place struct{ mark, version string }

// token writes the place into a token of the query.
func (p place) token(q job.Query) string {
	raw := queryHash(q)
	raw = binary.AppendUvarint(raw, uint64(len(p.mark)))
	raw = append(raw, p.mark...)
	return base64.RawURLEncoding.EncodeToString(append(raw, p.version...))
}

// readPlace reads the query's token.
func readPlace(q job.Query) (place, error) {
	if q.Token == "" {
		return place{}, nil
	}
	foreign := failure.New(failure.Invalid, opList, "the token is not of this query")
	raw, err := base64.RawURLEncoding.DecodeString(q.Token)
	if err != nil || len(raw) < queryHashBytes || string(raw[:queryHashBytes]) != string(queryHash(q)) {
		return place{}, foreign
	}
	length, n := binary.Uvarint(raw[queryHashBytes:])
	if raw = raw[queryHashBytes+max(n, 0):]; n <= 0 || length > uint64(len(raw)) {
		return place{}, foreign
	}
	return place{string(raw[:length]), string(raw[length:])}, nil
}
