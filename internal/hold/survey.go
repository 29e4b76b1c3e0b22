package hold

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const (
	// batch is how many rows one read of the ledger brings.
	batch = 100
	// maxListed is how many pages an answer lists, so that it stays below 1 MB.
	maxListed = 1000
)

// survey is one answer in the making. The hold was committed before it began, so
// whatever it reads is at least as new as the hold.
type survey struct {
	*Keeper
	deadline time.Time
	hold     Hold
	// now is when the survey began; a page is judged as of then.
	now    time.Time
	status Status
	// later are the pages that their rows alone do not settle. They come last, so
	// that evidence never takes the time that rows need.
	later   []pending
	grounds map[job.RunID]ground
}

// ground is where a tenant's artifacts are, by the policy version of a run.
type ground struct{ bucket, prefix string }

// pending is a page whose evidence must be read.
type pending struct {
	run  job.Run
	page job.Page
}

// survey says how far the hold reaches. It never fails: what can not be read is in
// flight for as long as anything decided before the hold can be.
func (k *Keeper) survey(ctx context.Context, deadline time.Time, h Hold) Status {
	s := &survey{Keeper: k, deadline: deadline, hold: h, now: k.now(), grounds: map[job.RunID]ground{}}
	s.status = Status{Hold: h.Record(), Complete: true, Listed: []Page{}}
	open, ended := s.allRuns(ctx)
	for _, run := range open {
		s.open(ctx, run)
	}
	for _, p := range s.later {
		s.add(p.run, p.page, s.settle(ctx, p))
	}
	if s.status.EndedRuns = len(ended); h.Scope == Item {
		s.history(ctx, ended)
	} else {
		s.aftermath(ctx, ended)
	}
	s.known(ctx, len(open)+len(ended))
	s.status.sum()
	return s.status
}

// allRuns returns the tenant's runs, newest first: those whose decisions may still take
// effect, and those that are history.
func (s *survey) allRuns(ctx context.Context) (open, ended []job.Run) {
	ids, err := s.Runs.RunsOf(ctx, s.hold.Tenant)
	if err != nil {
		s.unread()
	}
	var all []job.Run
	for some := range slices.Chunk(ids, batch) {
		runs, err := s.read(ctx, some)
		if err != nil {
			s.unread()
			break
		}
		all = append(all, runs...)
	}
	slices.SortFunc(all, func(a, b job.Run) int { return cmp.Or(b.Scheduled.Compare(a.Scheduled), cmp.Compare(b.ID, a.ID)) })
	for _, run := range all {
		if s.quiet(run) {
			ended = append(ended, run)
		} else {
			open = append(open, run)
		}
	}
	return open, ended
}

func (s *survey) read(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	if s.late(s.deadline) {
		return nil, errLate()
	}
	return s.Runs.ReadRuns(ctx, ids)
}

func errLate() error {
	return failure.New(failure.Throttled, "look at pages", "the invocation's time is over")
}

// quiet reports whether nothing that the run decided can take effect any more. A run
// may close while a request of its last page is still on its way.
func (s *survey) quiet(r job.Run) bool {
	over := r.State == job.Closed || r.State == job.Rejected
	return over && !s.now.Before(r.ClosedAt.Add(s.reach()))
}

// reach is how long after a decision it may take effect at the latest: the claim's
// whole invocation, and the life of a request signed at its end.
func (s *survey) reach() time.Duration {
	return s.Settings.FunctionTimeout + s.Settings.RequestLifetime
}

// unread notes that something of the ledger could not be read. Whatever it is, it
// was decided before the hold or can not be decided any more.
func (s *survey) unread() {
	s.status.Complete = false
	s.extend(s.now.Add(s.reach()))
}

// extend moves the answer's last instant.
func (s *survey) extend(t time.Time) {
	if t.After(s.status.Until) {
		s.status.Until = t
	}
}

// open looks at the pages of a run that are within the hold's scope.
func (s *survey) open(ctx context.Context, run job.Run) {
	if run.State == job.Scanning {
		s.status.ScanningRuns++
	}
	if s.hold.Scope == Item {
		pages, err := s.handling(ctx, run)
		if err != nil {
			s.unread()
		}
		for _, p := range pages {
			s.see(run, p, false)
		}
		return
	}
	below, inside, err := s.below(ctx, run)
	if err != nil {
		s.unread()
		return
	}
	if !inside {
		return
	}
	if err := s.walk(ctx, run, below, func(p job.Page, whole bool) { s.see(run, p, whole) }); err != nil {
		s.unread()
	}
}

// below returns the hold's prefix relative to the tenant's in this run, "" for all of
// it, and whether they meet at all.
func (s *survey) below(ctx context.Context, run job.Run) (rel string, inside bool, err error) {
	if s.hold.Scope != Prefix {
		return "", true, nil
	}
	g, err := s.ground(ctx, run)
	if err != nil {
		return "", false, err
	}
	if strings.HasPrefix(g.prefix, s.hold.Value) {
		return "", true, nil
	}
	rel, inside = strings.CutPrefix(s.hold.Value, g.prefix)
	return rel, inside, nil
}

// ground reads where the tenant's artifacts are, once for each run.
func (s *survey) ground(ctx context.Context, run job.Run) (ground, error) {
	if g, ok := s.grounds[run.ID]; ok {
		return g, nil
	}
	if s.late(s.deadline) {
		return ground{}, errLate()
	}
	bucket, prefix, err := s.Prefixes.TenantPrefix(ctx, run, s.hold.Tenant)
	if err == nil && prefix == "" {
		err = failure.New(failure.UnknownPolicy, "find prefix in run "+string(run.ID), "the policy does not work for the tenant that has pages")
	}
	if err != nil {
		return ground{}, err
	}
	s.grounds[run.ID] = ground{bucket, prefix}
	return s.grounds[run.ID], nil
}

// walk reads every page of the tenant in the run. Split-off items come after the
// ranges of the same read, so whoever is split off meanwhile was seen in its parent.
func (s *survey) walk(ctx context.Context, run job.Run, below string, see func(p job.Page, whole bool)) error {
	parents := map[job.PageID]bool{} // ranges within the scope that split items off, and whether all of each is
	for last := (*job.Page)(nil); ; {
		if s.late(s.deadline) {
			return errLate()
		}
		some, err := s.Pages.Pages(ctx, run.ID, s.hold.Tenant, last, batch)
		if err != nil {
			return err
		}
		for _, p := range some {
			whole, meets := covers(p, below)
			if p.Kind == job.ItemPage {
				whole, meets = parents[p.Parent]
			} else if meets && p.Moved > 0 {
				parents[p.ID] = whole
			}
			if meets {
				see(p, whole)
			}
		}
		if len(some) < batch {
			return nil
		}
		last = &some[len(some)-1]
	}
}

// covers reports whether keys that begin with the prefix lie in the page's range,
// and whether no others do. All are relative to the tenant's prefix.
func covers(p job.Page, prefix string) (whole, meets bool) {
	if p.Through < prefix || p.After >= prefix && !strings.HasPrefix(p.After, prefix) {
		return false, false
	}
	return p.After >= prefix && strings.HasPrefix(p.Through, prefix), true
}

// handling returns the pages of a run that handle the item: the range that holds its
// key, and what was split off from that under the same key.
func (s *survey) handling(ctx context.Context, run job.Run) ([]job.Page, error) {
	g, err := s.ground(ctx, run)
	if err != nil {
		return nil, err
	}
	rel, inside := strings.CutPrefix(s.hold.Value, g.prefix)
	if !inside {
		return nil, nil
	}
	if s.late(s.deadline) {
		return nil, errLate()
	}
	p, err := s.Pages.PageAt(ctx, run.ID, s.hold.Tenant, rel)
	if failure.Is(err, failure.Absent) {
		return nil, nil // the run has no candidate there, or has not come as far
	}
	if err != nil {
		return nil, err
	}
	pages := []job.Page{p}
	if !p.State.Terminal() || p.Moved == 0 {
		return pages, nil
	}
	refs, err := s.moved(ctx, p)
	for _, ref := range refs {
		child, err := s.Pages.Page(ctx, run.ID, s.hold.Tenant, job.ItemPageID(run.ID, s.hold.Tenant, ref))
		if err != nil {
			return pages, err
		}
		pages = append(pages, child)
	}
	return pages, err
}

// see judges a page by its row, or keeps it for later.
func (s *survey) see(run job.Run, p job.Page, whole bool) {
	if v, settled := s.judge(p, whole); settled {
		s.add(run, p, v)
		return
	}
	s.later = append(s.later, pending{run, p})
}

// add enters a verdict into the answer.
func (s *survey) add(run job.Run, p job.Page, v verdict) {
	switch v.word {
	case InFlight:
		s.status.Pages.InFlight++
		s.extend(v.until)
	case TooLate:
		s.status.Pages.TooLate++
	default:
		s.status.Pages.Held++
		return
	}
	if len(s.status.Listed) == maxListed {
		s.status.More++
		return
	}
	s.status.Listed = append(s.status.Listed, v.page(run, p))
}

// history searches ended runs, newest first, for the one that deleted the item.
func (s *survey) history(ctx context.Context, ended []job.Run) {
	for i, run := range ended {
		if s.late(s.deadline) {
			s.status.UnreadRuns += len(ended) - i
			return
		}
		found, err := s.deleted(ctx, run)
		if err != nil {
			s.status.UnreadRuns++
		}
		if found {
			return
		}
	}
}

// deleted reports whether an ended run deleted the item, and adds the page that did.
func (s *survey) deleted(ctx context.Context, run job.Run) (found bool, err error) {
	pages, err := s.handling(ctx, run)
	for _, p := range pages {
		gone, unread := s.went(ctx, pending{run, p}, false)
		found, err = found || gone, errors.Join(err, unread)
	}
	return found, err
}

// went reports whether a page of an ended run deleted what the hold covers, and adds it
// if so.
func (s *survey) went(ctx context.Context, p pending, whole bool) (bool, error) {
	v, settled := s.judge(p.page, whole)
	var err error
	if !settled {
		v, settled, err = s.weigh(ctx, p)
	}
	if !settled || v.word != TooLate {
		return false, err
	}
	s.add(p.run, p.page, v)
	return true, err
}

// aftermath adds what became of the runs that could still act when the hold was placed
// and have ended since. Their pages were answered as in flight then, and whoever asks
// late must not hear less than who asked in time. Which came first, the run or the hold,
// is two clocks' to say, so one that seems to have opened a little later is asked too.
func (s *survey) aftermath(ctx context.Context, ended []job.Run) {
	for _, run := range ended {
		if run.OpenedAt.After(s.hold.PlacedAt.Add(s.Settings.ClockSkew)) || !s.hold.PlacedAt.Before(run.ClosedAt.Add(s.reach())) {
			continue
		}
		if err := s.ofEnded(ctx, run); err != nil {
			s.status.UnreadRuns++
		}
	}
}

// ofEnded adds the pages of an ended run that deleted what the hold covers.
func (s *survey) ofEnded(ctx context.Context, run job.Run) error {
	below, inside, err := s.below(ctx, run)
	if err != nil || !inside {
		return err
	}
	var unread error
	err = s.walk(ctx, run, below, func(p job.Page, whole bool) {
		_, one := s.went(ctx, pending{run, p}, whole)
		unread = errors.Join(unread, one)
	})
	return errors.Join(err, unread)
}

// known notes a hold that no policy has anything to do with. It stands all the same,
// but more likely than not it was meant for something else.
func (s *survey) known(ctx context.Context, runs int) {
	if s.hold.Scope == Tenant && runs > 0 {
		return
	}
	for _, g := range s.grounds {
		if s.hold.meets(g.prefix) {
			return
		}
	}
	var prefixes []string
	err := errLate()
	if !s.late(s.deadline) {
		prefixes, err = s.Prefixes.Prefixes(ctx, s.hold.Tenant)
	}
	switch {
	case err != nil:
		s.note("Whether a policy keeps artifacts there could not be read.")
	case !slices.ContainsFunc(prefixes, s.hold.meets):
		s.note("No policy keeps artifacts of this tenant there. The hold stands all the same; check its tenant and value.")
	}
}

func (s *survey) note(text string) { s.status.Notes = append(s.status.Notes, text) }

// meets reports whether the hold can cover a key under a tenant's prefix.
func (h Hold) meets(prefix string) bool {
	switch h.Scope {
	case Prefix:
		return strings.HasPrefix(h.Value, prefix) || strings.HasPrefix(prefix, h.Value)
	case Item:
		return strings.HasPrefix(h.Value, prefix) && h.Value != prefix
	default:
		return prefix != ""
	}
}
