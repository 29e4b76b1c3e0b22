package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// List implements Store. A page costs the page and two searches, however large
// the bucket is.
func (m *Memory) List(ctx context.Context, q job.Query) (job.Listing, error) {
	const op = "list items"
	if err := over(ctx, op); err != nil {
		return job.Listing{}, err
	}
	var answer job.Listing
	err := m.Hook.Do("list", func() error {
		return m.with(op, q.Bucket, func(b *bucketState) (err error) {
			answer, err = m.list(b, q)
			return err
		})
	})
	if err != nil {
		return job.Listing{}, err
	}
	return answer, nil
}

func (m *Memory) list(b *bucketState, q job.Query) (job.Listing, error) {
	size := MaxItems
	if m.PageSize > 0 && m.PageSize < size {
		size = m.PageSize
	}
	var last *position
	if q.Token != "" {
		p, err := readToken(q, m.generation)
		if err != nil {
			return job.Listing{}, err
		}
		last = &p
	}
	var answer job.Listing
	answer.Items, last = b.page(q, last, size)
	if last != nil {
		answer.Token = writeToken(q, m.generation, *last)
	}
	return answer, nil
}

// page returns the items after last, at most size, and where to go on: nil when
// nothing is left.
func (b *bucketState) page(q job.Query, last *position, size int) (items []job.Item, next *position) {
	start := max(q.Prefix, q.After)
	if last != nil {
		start = max(start, last.key)
	}
	var end position
	for e := range b.index.from(start) {
		if q.After != "" && e.key <= q.After {
			continue
		}
		if !strings.HasPrefix(e.key, q.Prefix) || q.Through != "" && e.key > q.Through {
			return items, nil
		}
		resumed := last != nil && e.key == last.key
		oldest := 0
		if !q.Versions {
			if resumed || e.newest().marker {
				continue
			}
			oldest = len(e.versions) - 1
		}
		for i := len(e.versions) - 1; i >= oldest; i-- {
			v := e.versions[i]
			if resumed && v.seq >= last.seq {
				continue
			}
			if len(items) == size {
				return items, &end
			}
			end = position{e.key, v.seq}
			if q.Versions {
				items = append(items, v.named(e.key))
			} else {
				items = append(items, v.item(e.key))
			}
		}
	}
	return items, nil
}

// A token is the hash of its query, the generation, and the last position:
// a place among the keys, which stays where it is when keys go (S3-25).
const queryHashBytes = 8

func queryHash(q job.Query) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t", q.Bucket, q.Prefix, q.After, q.Through, q.Versions))
	return sum[:queryHashBytes]
}

func writeToken(q job.Query, generation uint64, p position) string {
	raw := queryHash(q)
	raw = binary.AppendUvarint(raw, generation)
	raw = binary.AppendUvarint(raw, p.seq)
	return base64.RawURLEncoding.EncodeToString(append(raw, p.key...))
}

func readToken(q job.Query, generation uint64) (position, error) {
	refuse := func(text string) (position, error) {
		return position{}, failure.New(failure.Invalid, "list items", text)
	}
	raw, err := base64.RawURLEncoding.DecodeString(q.Token)
	if err != nil || len(raw) < queryHashBytes || string(raw[:queryHashBytes]) != string(queryHash(q)) {
		return refuse("the token is not of this query")
	}
	raw = raw[queryHashBytes:]
	issued, n := binary.Uvarint(raw)
	if n <= 0 || issued != generation {
		return refuse("the token is stale")
	}
	raw = raw[n:]
	seq, n := binary.Uvarint(raw)
	if n <= 0 {
		return refuse("the token is not of this query")
	}
	return position{key: string(raw[n:]), seq: seq}, nil
}
