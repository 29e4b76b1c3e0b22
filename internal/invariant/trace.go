package invariant

import "github.com/expunge-aws/expunge/internal/job"

// spot is where an effect happened.
type spot struct{ bucket, key string }

// traces index the effects and keep what pages and receipts say about each.
type traces struct {
	first map[spot]int32 // the last effect at the spot; prev leads to the ones before
	list  []trace
	names []naming
}

// trace is what is known about one effect.
type trace struct {
	prev   int32 // another effect at the same spot, -1 for none
	names  int32 // where in names, -1 for none
	undone bool  // a wrong marker that was taken away again
	undo   bool  // takes a marker away, and is no delete
	told   told
	by     int32 // the page that told, -1 for none
}

// naming says that a page's plans decided the deletion.
type naming struct {
	next int32
	page int32
	// exact: the very upload, and not only equal bytes.
	exact bool
	// committed: an intent of the page names the plan.
	committed bool
	// epoch is the hold epoch of the plan that decided: the lowest of the chain. A
	// later plan keeps what was already deleted, whatever holds have come since.
	epoch int64
}

// told is what the best receipt line says about an effect, from worst to best.
type told uint8

const (
	untold    told = iota
	denied         // a settled page gives the item another outcome
	owed           // an open or dead page has not settled it
	replaced       // superseded
	concluded      // a deletion, inferred
	answered       // a deletion, answered
)

func newTraces(effects []Effect) traces {
	t := traces{first: make(map[spot]int32, len(effects)), list: make([]trace, len(effects))}
	for i := range effects {
		e := &effects[i]
		at := spot{e.Bucket, e.Item.Key}
		prev, ok := t.first[at]
		if !ok {
			prev = -1
		}
		t.list[i] = trace{prev: prev, names: -1, by: -1, undo: e.Restored}
		t.first[at] = int32(i)
		if !e.Restored {
			continue
		}
		for k := prev; k >= 0; k = t.list[k].prev {
			if m := &t.list[k]; effects[k].Marker && !m.undo && !m.undone && effects[k].Item.Version == e.Item.Version {
				m.undone = true
				break
			}
		}
	}
	return t
}

// matching yields the deletes that the condition of the planned item lets
// through: the exact version, or the ETag. Where one of them is the very upload,
// only such ones.
func (j *judge) matching(bucket string, planned *job.Item, yield func(i int32, exact bool)) {
	last, ok := j.traces.first[spot{bucket, planned.Key}]
	if !ok {
		return
	}
	anyExact := false
	for i := last; i >= 0; i = j.traces.list[i].prev {
		match, exact := through(planned, &j.Effects[i].Item)
		anyExact = anyExact || match && exact && !j.traces.list[i].undo
	}
	for i := last; i >= 0; i = j.traces.list[i].prev {
		match, exact := through(planned, &j.Effects[i].Item)
		if match && exact == anyExact && !j.traces.list[i].undo {
			yield(i, exact)
		}
	}
}

// through reports whether a delete of the planned item can have reached the found
// one, and whether that is the very upload.
func through(planned, found *job.Item) (match, exact bool) {
	if planned.Version != "" {
		match = planned.Version == found.Version
		return match, match
	}
	match = planned.ETag != "" && planned.ETag == found.ETag
	return match, match && planned.Size == found.Size && planned.Modified.Equal(found.Modified)
}

// name notes that a plan of the page decided the effect.
func (t *traces) name(effect int32, n naming) {
	e := &t.list[effect]
	for k := e.names; k >= 0; k = t.names[k].next {
		if old := &t.names[k]; old.page == n.page {
			old.exact = old.exact || n.exact
			old.committed = old.committed || n.committed
			old.epoch = min(old.epoch, n.epoch)
			return
		}
	}
	n.next = e.names
	e.names = int32(len(t.names)) //nolint:gosec // fewer plan lines than two billion
	t.names = append(t.names, n)
}

// tell keeps the best word about the effect.
func (t *traces) tell(effect int32, word told, page int32) {
	if e := &t.list[effect]; word > e.told {
		e.told, e.by = word, page
	}
}

// owner returns the page that an effect belongs to: the one whose receipt claims
// it, or else the first whose committed plan names it, the exact upload first; -1
// for none.
func (t *traces) owner(effect int) int32 {
	e := &t.list[effect]
	if e.told >= replaced {
		return e.by
	}
	best, rank := int32(-1), -1
	for k := e.names; k >= 0; k = t.names[k].next {
		n, r := &t.names[k], 0
		if n.committed {
			r += 2
		}
		if n.exact {
			r++
		}
		if r > rank || r == rank && n.page < best {
			best, rank = n.page, r
		}
	}
	return best
}
