package artifact

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// TestStanding walks the shapes that the versions of one key can have, the oldest
// first. P is the planned upload, E the same bytes later, O other bytes, M a marker.
func TestStanding(t *testing.T) {
	at := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
	planned := job.Item{Key: "k", ETag: "e", Size: 1, Modified: at}
	kinds := map[rune]version{
		'P': {etag: "e", size: 1, modified: at},
		'E': {etag: "e", size: 1, modified: at.Add(time.Second)},
		'O': {etag: "o", size: 1, modified: at.Add(time.Second)},
		'S': {etag: "e", size: 2, modified: at}, // another size under the same ETag
		'M': {marker: true, modified: at.Add(time.Second)},
	}
	for shape, want := range map[string]struct {
		standing job.Standing
		marker   uint64
	}{
		"M":   {job.Erased, 0},
		"PM":  {job.UnderMarker, 0},
		"OPM": {job.UnderMarker, 0},
		"PMM": {job.UnderMarker, 0}, // a stranger's marker above ours
		"PMO": {job.UnderMarker, 0},
		"PME": {job.UnderMarker, 0},
		// Both lie under a marker. Ours is the later one if the look came before E.
		"PMEM": {job.Restored, 4},
		"PMOM": {job.UnderMarker, 0},
		"PEM":  {job.Restored, 3},
		"EM":   {job.Restored, 2},
		"PEMM": {job.Restored, 3},
		"PEMO": {job.Replaced, 0}, // what the marker hid is history in any case
		"PO":   {job.Replaced, 0},
		"PE":   {job.Replaced, 0},
		"P":    {job.Replaced, 0}, // somebody took the marker away
		"POM":  {job.Replaced, 0},
		"PSM":  {job.Replaced, 0},
		"O":    {job.Replaced, 0},
		"E":    {job.Replaced, 0},
		"OM":   {job.Erased, 0},
		"SM":   {job.Erased, 0},
		"PPM":  {job.UnderMarker, 0}, // twice within one second of the store's clock
	} {
		var versions []version
		for _, kind := range shape {
			v := kinds[kind]
			v.seq = uint64(len(versions) + 1)
			versions = append(versions, v)
		}
		if got, marker := standing(versions, planned); got != want.standing || marker != want.marker {
			t.Errorf("%s: standing %d and marker %d, want %d and %d", shape, got, marker, want.standing, want.marker)
		}
	}
}
