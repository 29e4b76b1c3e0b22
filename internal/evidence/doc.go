// Package evidence keeps plans and receipts in a write-once store and reads them back.
//
// A document is worth something as evidence only if nobody can replace it, so a
// store knows no other write than the first one of a name: a second writer of
// the same bytes is told that all is well, a second writer of other bytes is
// refused (E4). Documents are named by the hash of their bytes, so the refusal
// never happens to honest writers; it is an alarm, not a race.
//
// A store does not look inside. What bytes mean, and whether they are the ones
// that a name promises, is package receipt's to say.
//
// All stores make the same promises, and evidencetest holds them to it:
//
//   - a name appears at once with all its bytes or not at all, also after a crash;
//   - what was put is read and listed by everyone from then on;
//   - bytes handed in or out are copies;
//   - every error has a class of package failure.
package evidence

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
)

// MaxName is the longest name, in bytes: S3's limit. One segment has at most
// 255, the limit of file systems.
const (
	MaxName    = 1024
	maxSegment = 255
)

// ValidName reports whether name can be kept. It has directories of [a-z0-9_-]
// and, last, a file of [a-z0-9_-] with at least one extension of [a-z0-9_-]:
// "plan/0b5e/77c1/9f2d.jsonl.gz". So no name is another's directory, climbs out,
// hides, or differs from another in case alone.
func ValidName(name string) bool {
	if len(name) > MaxName {
		return false
	}
	segments := strings.Split(name, "/")
	file := strings.Split(segments[len(segments)-1], ".")
	if len(file) < 2 || len(segments[len(segments)-1]) > maxSegment {
		return false
	}
	for _, s := range append(segments[:len(segments)-1], file...) {
		if !validPart(s) {
			return false
		}
	}
	return true
}

func validPart(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= maxSegment
}

const (
	opPut  = "put evidence"
	opGet  = "get evidence"
	opList = "list evidence"
)

// checkCall refuses what no store may act on.
func checkCall(ctx context.Context, op, name string) error {
	if !ValidName(name) {
		return failure.New(failure.Invalid, op, "not a name of evidence")
	}
	return failure.Wrap(failure.Network, op, ctx.Err())
}

func checkList(ctx context.Context, limit int) error {
	if limit < 1 {
		return failure.New(failure.Invalid, opList, "limit must be at least 1")
	}
	return failure.Wrap(failure.Network, opList, ctx.Err())
}

// settle answers a put of a name that is taken.
func settle(stored, data []byte) error {
	if bytes.Equal(stored, data) {
		return nil
	}
	return failure.New(failure.Invalid, opPut, "other bytes are kept under this name")
}

func absent() error { return failure.New(failure.Absent, opGet, "no such evidence") }

// page sorts names and cuts them to what a list answers.
func page(names []string, limit int) []string {
	slices.Sort(names)
	return names[:min(limit, len(names))]
}
