package artifact

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/job"
)

// history is an answer of ListObjectVersions. The SDK sorts it into two lists,
// of versions and of markers, and with that loses which version lies under which
// marker: times are whole seconds and do not tell. So it is read here.
type history struct {
	XMLName       xml.Name `xml:"ListVersionsResult"`
	IsTruncated   *bool
	EncodingType  types.EncodingType
	NextKeyMarker string
	NextVersionID string        `xml:"NextVersionIdMarker"`
	Lines         []historyLine `xml:",any"` // and every other element
}

type historyLine struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	ETag         string
	Size         int64
	LastModified time.Time
}

func (l historyLine) item() job.Item {
	return job.Item{
		Key: l.Key, Version: l.VersionID, ETag: l.ETag, Size: l.Size, Modified: l.LastModified.UTC(),
		Marker: l.XMLName.Local == "DeleteMarker",
	}
}

// versions asks for one page of versions and markers.
func (s *S3Lister) versions(ctx context.Context, q job.Query, at place) ([]job.Item, place, error) {
	if at == (place{}) {
		at.mark = q.After
	}
	return s.history(ctx, opList, q.Bucket, q.Prefix, at)
}

// history asks for the versions after a place, the newest of a key first.
func (s *S3Lister) history(ctx context.Context, op, bucket, prefix string, at place) ([]job.Item, place, error) {
	var body []byte
	_, err := s.lists.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{
		Bucket: &bucket, Prefix: given(prefix), KeyMarker: given(at.mark), VersionIdMarker: given(at.version),
		EncodingType: types.EncodingTypeUrl, RequestPayer: s.payer,
	}, func(o *s3.Options) { o.APIOptions = append(o.APIOptions, wholeBody(&body)) })
	if err != nil {
		return nil, place{}, classify(op, err)
	}
	var h history
	if xml.Unmarshal(body, &h) != nil || h.IsTruncated == nil || h.EncodingType != types.EncodingTypeUrl {
		return nil, place{}, distrusted(op)
	}
	var items []job.Item
	for _, l := range h.Lines {
		if l.XMLName.Local != "Version" && l.XMLName.Local != "DeleteMarker" {
			continue
		}
		item := l.item()
		item.Key, err = url.QueryUnescape(l.Key)
		if err != nil || item.Key == "" || item.Version == "" || item.Modified.IsZero() || item.ETag == "" && !item.Marker {
			return nil, place{}, distrusted(op)
		}
		items = append(items, item)
	}
	next := place{version: h.NextVersionID}
	next.mark, err = url.QueryUnescape(h.NextKeyMarker)
	if err != nil || *h.IsTruncated != (next.mark != "") {
		return nil, place{}, distrusted(op)
	}
	return items, next, nil
}

// wholeBody reads the body of a successful answer to its end, so that one that is
// cut off is an error of the connection, which the SDK tries again. With keep it
// stays here, and the SDK has nothing to decode.
func wholeBody(keep *[]byte) func(*middleware.Stack) error {
	read := middleware.DeserializeMiddlewareFunc("WholeBody",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			response, ok := out.RawResponse.(*smithyhttp.Response)
			if err != nil || !ok || response.StatusCode != http.StatusOK {
				return out, metadata, err
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close() // it has been read to its end, or failed
			if err != nil {
				err = &smithyhttp.RequestSendError{Err: err}
			}
			if keep != nil {
				*keep, body = body, nil
			}
			response.Body = io.NopCloser(bytes.NewReader(body))
			return out, metadata, err
		})
	return func(stack *middleware.Stack) error { return stack.Deserialize.Add(read, middleware.After) }
}
