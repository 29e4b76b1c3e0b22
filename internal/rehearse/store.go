package rehearse

import (
	"context"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// store is the real store without what the rehearsal has deleted.
type store struct {
	copies *copies
	gone   map[job.Ref]removal
	// deletes are the removals in order.
	deletes []job.Item
	// refused are the items that the store is known to refuse.
	refused map[job.Ref]bool
	// asked is the last query: the range of the page.
	asked job.Query
	// beside is the standing of a current object, which tells whether the bucket keeps
	// versions; none while nobody has asked.
	beside job.Standing
}

// removal is an item that was deleted, and what remains of it.
type removal struct {
	item job.Item
	left job.Standing
}

// List reads through, without what was deleted.
func (s *store) List(ctx context.Context, q job.Query) (job.Listing, error) {
	s.asked = q
	s.asked.Token = ""
	real, err := s.copies.real.Artifacts.List(ctx, q)
	if err != nil {
		return job.Listing{}, s.copies.seen(err, failure.Absent)
	}
	listing := job.Listing{Token: real.Token}
	for _, item := range real.Items {
		if r, gone := s.gone[item.Ref()]; !gone || !r.item.Same(item) {
			listing.Items = append(listing.Items, item)
		}
	}
	return listing, nil
}

// Delete answers as the store would, by what stands there now.
func (s *store) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	current, err := s.current(ctx, d.Items)
	if err != nil {
		return nil, err
	}
	answers := make([]job.Answer, len(d.Items))
	for i, item := range d.Items {
		if answers[i], err = s.answer(ctx, d.Bucket, item, current); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// current lists the items again that the page's range has under these names.
func (s *store) current(ctx context.Context, items []job.Item) (map[job.Ref]job.Item, error) {
	wanted := make(map[job.Ref]bool, len(items))
	q := s.asked
	q.Through = ""
	for _, item := range items {
		wanted[item.Ref()] = true
		q.Through = max(q.Through, item.Key)
	}
	found := make(map[job.Ref]job.Item, len(items))
	for {
		listing, err := s.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, item := range listing.Items {
			if wanted[item.Ref()] {
				found[item.Ref()] = item
			}
		}
		if q.Token = listing.Token; q.Token == "" || len(found) == len(wanted) {
			return found, nil
		}
	}
}

// answer is what the store would say about one item, and takes it away accordingly.
func (s *store) answer(ctx context.Context, bucket string, item job.Item, current map[job.Ref]job.Item) (job.Answer, error) {
	stands, there := current[item.Ref()]
	switch {
	case s.refused[item.Ref()]:
		return job.Denied, nil
	case item.Version != "":
		if there {
			s.remove(item, job.Erased)
		}
		return job.GoneByVersion, nil // which an absent version answers too
	case !there:
		return job.NotThere, nil
	case !item.Same(stands):
		return job.Differs, nil
	}
	keeps, err := s.keepsVersions(ctx, bucket, stands)
	switch {
	case err != nil:
		return job.NoAnswer, err
	case keeps:
		s.remove(item, job.UnderMarker)
		return job.Marked, nil
	default:
		s.remove(item, job.Erased)
		return job.Gone, nil
	}
}

func (s *store) remove(item job.Item, left job.Standing) {
	s.gone[item.Ref()] = removal{item, left}
	s.deletes = append(s.deletes, item)
}

// keepsVersions asks once for the standing of an object that is current: only in a
// bucket without versions nothing is on record of it.
func (s *store) keepsVersions(ctx context.Context, bucket string, current job.Item) (bool, error) {
	if s.beside == job.NoStanding {
		standings, err := s.look(ctx, bucket, []job.Item{current})
		if err != nil {
			return false, err
		}
		s.beside = standings[0]
	}
	return s.beside != job.Erased, nil
}

// Standing answers for what was deleted here, and otherwise looks. A marker that
// the worker would take away stays.
func (s *store) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings := make([]job.Standing, len(items))
	var ask []job.Item
	var at []int
	for i, item := range items {
		if r, gone := s.gone[item.Ref()]; gone {
			standings[i] = r.left
		} else {
			ask, at = append(ask, item), append(at, i)
		}
	}
	if len(ask) == 0 {
		return standings, nil
	}
	real, err := s.look(ctx, bucket, ask)
	if err != nil {
		return nil, err
	}
	for i, st := range real {
		standings[at[i]] = st
	}
	return standings, nil
}

func (s *store) look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings, err := s.copies.real.Artifacts.Look(ctx, bucket, items)
	if err == nil && len(standings) != len(items) {
		err = failure.New(failure.Bug, "look at versions", "the store did not answer for every item")
	}
	return standings, s.copies.seen(err, failure.Absent)
}
