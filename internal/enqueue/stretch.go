package enqueue

import (
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// tally counts listed items up to and including the key through.
type tally struct {
	through                         string
	examined, unmatched, candidates int
}

func (t tally) plus(u tally) tally {
	return tally{u.through, t.examined + u.examined, t.unmatched + u.unmatched, t.candidates + u.candidates}
}

// stretch is the part of the scan that is not recorded yet. It belongs to one
// tenant, or to none, and ends between two keys: the versions of the current key
// are counted apart, in key, and join what is done when the next key begins.
type stretch struct {
	tenant    string
	done, key tally
}

func (s *stretch) empty() bool { return s.done.examined+s.key.examined == 0 }

// close ends the current key and reports whether what is done must be recorded
// before anything else: it has reached a limit, or the key would take it over
// one. A single key with more versions than a page holds fills a page of its own,
// and what is over waits for the next run (F15).
func (s *stretch) close(items, listed int) bool {
	both := s.done.plus(s.key)
	switch {
	case s.key.examined == 0:
	case s.done.examined > 0 && (both.candidates > items || both.examined > listed):
		return true
	default:
		both.candidates = min(both.candidates, items)
		s.done, s.key = both, tally{}
	}
	return s.done.candidates >= items || s.done.examined >= listed
}

// rest returns what remains after done was recorded: the key that did not fit.
func (s *stretch) rest() *stretch { return &stretch{tenant: s.tenant, key: s.key} }

// add counts an item of the tenant, "" for none.
func (s *stretch) add(item job.Item, tenant string, d policy.Decision) {
	s.tenant = tenant
	s.key.through = item.Key
	s.key.examined++
	switch {
	case tenant == "":
		s.key.unmatched++
	case d.Candidate:
		s.key.candidates++
	}
}
