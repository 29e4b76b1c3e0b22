package sqs

import (
	"fmt"
	"net/http"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxEntries is the most entries of one batch.
const maxEntries = 10

// failedEntry is one entry of a batch that was not done.
type failedEntry struct {
	ID          string `json:"Id"`
	SenderFault bool
	Code        string
	Message     string
}

func failedAs(id string, err *wire.Error) failedEntry {
	return failedEntry{ID: id, SenderFault: err.Status < http.StatusInternalServerError, Code: plainCode(err), Message: err.Message}
}

// batchAnswer is the answer to every batch: good, whatever its entries came to.
type batchAnswer struct {
	Successful []any
	Failed     []failedEntry `json:",omitempty"`
}

// batch carries out the entries one by one. part returns an entry's id and what is
// to be done about it. The fault hook is asked under the region's lock: it must not
// call the service.
func batch[E any](c *call, entries []E, part func(*E) (id string, do func() (any, *wire.Error))) (any, *wire.Error) {
	if err := checkEntries(entries, part); err != nil {
		return nil, err
	}
	answer := batchAnswer{Successful: []any{}}
	for i := range entries {
		id, do := part(&entries[i])
		result, err := any(nil), fault(c.fate.Entries, id)
		if err == nil {
			result, err = do()
		}
		if err == nil {
			err = fault(c.fate.EntriesAfter, id)
		}
		if err != nil {
			answer.Failed = append(answer.Failed, failedAs(id, err))
			continue
		}
		answer.Successful = append(answer.Successful, result)
	}
	return answer, nil
}

// fault asks the fault hook about an entry.
func fault(hook func(id string) *wire.Error, id string) *wire.Error {
	if hook == nil {
		return nil
	}
	return hook(id)
}

func checkEntries[E any](entries []E, part func(*E) (string, func() (any, *wire.Error))) *wire.Error {
	switch n := len(entries); {
	case n == 0:
		return wire.Bad("EmptyBatchRequest", "There should be at least one entry in the request.")
	case n > maxEntries:
		return wire.Bad("TooManyEntriesInBatchRequest", fmt.Sprintf("Maximum number of entries per request are %d. You have sent %d.", maxEntries, n))
	}
	seen := map[string]bool{}
	for i := range entries {
		id, _ := part(&entries[i])
		if !isName(id, 80) {
			return wire.Bad("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		if seen[id] {
			return wire.Bad("BatchEntryIdsNotDistinct", "Id "+id+" repeated.")
		}
		seen[id] = true
	}
	return nil
}
