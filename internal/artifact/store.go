package artifact

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const (
	// MaxItems is the most items of one Deletion and of one Listing, as S3 allows:
	// https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
	MaxItems = 1000
	// MaxKeyBytes is the longest key in bytes of UTF-8:
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
	MaxKeyBytes = 1024
)

// Store is what every kind of artifact store offers. A call is made once and
// never retried inside; an error of any method is classified (package failure)
// and means that the call as a whole gave no answer.
//
// An unknown bucket is failure.Absent. It says nothing about the items.
type Store interface {
	// List returns the items of the query in byte order of their keys, at most
	// MaxItems, and with q.Versions every version and marker, the newest of a key
	// first. Item.Version is set only with q.Versions; "null" names the one version
	// of an object in an unversioned bucket. A token of another query, or one that
	// the store no longer knows, is failure.Invalid: start again after the last key.
	List(ctx context.Context, q job.Query) (job.Listing, error)

	// Delete removes the items, each under its condition, and returns one answer
	// for each in the order of d.Items.
	//
	// Without Version the condition is the ETag of the current object: Gone, or
	// Marked in a versioned bucket; NotThere when the key is absent or marked
	// already; Differs when another ETag stands there. With Version exactly that
	// version goes, GoneByVersion, which an absent version answers too. A locked
	// version is Locked; a marker can be laid over it all the same.
	//
	// Nothing is sent, and the error is failure.Invalid, for no items or more than
	// MaxItems, an item that comes twice, a key that is empty or too long, and an
	// item with neither version nor ETag. At or after d.NotAfter the call is refused
	// with failure.Conflict before any effect.
	Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error)

	// Standing says what remains of items that are no longer current: ones that
	// Delete answered with Marked, or that a later look did not find. The answers
	// are parallel to the items. A marker that our condition may have laid over
	// equal bytes uploaded later is removed again (job.Restored); any other marker
	// is left alone. An error says nothing, and asking again is safe.
	Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)

	// Look answers what Standing would, and removes nothing: job.Restored then means
	// that Standing would take the marker away. An item that is the current one is
	// job.Erased in a bucket that never kept versions, and otherwise job.Replaced.
	Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)
}

// check refuses a deletion that must not be sent.
func check(d job.Deletion, now time.Time) error {
	const op = "delete items"
	if len(d.Items) == 0 || len(d.Items) > MaxItems {
		return failure.New(failure.Invalid, op, "a call takes 1 to "+strconv.Itoa(MaxItems)+" items, not "+strconv.Itoa(len(d.Items)))
	}
	seen := make(map[job.Ref]struct{}, len(d.Items))
	for i, item := range d.Items {
		if fault := uncheckable(item); fault != "" {
			return failure.New(failure.Invalid, op, "item "+strconv.Itoa(i)+" "+fault)
		}
		seen[item.Ref()] = struct{}{}
	}
	if len(seen) != len(d.Items) {
		return failure.New(failure.Invalid, op, "an item comes twice")
	}
	if !d.NotAfter.After(now) {
		return failure.New(failure.Conflict, op, "the claim's right to delete is over")
	}
	return nil
}

// uncheckable says why the store could not check a condition on the item, "" if
// it can. The ETag "*" would match any object.
func uncheckable(item job.Item) string {
	switch {
	case item.Key == "":
		return "has no key"
	case len(item.Key) > MaxKeyBytes:
		return "has a key over " + strconv.Itoa(MaxKeyBytes) + " bytes"
	case item.Version == "" && (item.ETag == "" || item.ETag == "*"):
		return "has neither version nor ETag"
	default:
		return ""
	}
}
