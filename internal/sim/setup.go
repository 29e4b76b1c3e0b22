package sim

import (
	"fmt"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// library is what worlds share and none changes, because it takes long to make.
type library struct {
	policies map[string]policy.Policy
	oracles  *judges
	threads  threads
}

func newLibrary() *library {
	return &library{policies: map[string]policy.Policy{}, oracles: newJudges()}
}

// policy returns the policy of a file, which is read once.
func (l *library) policy(file string) policy.Policy {
	p, ok := l.policies[file]
	if !ok {
		var err error
		p, err = policy.Parse("policy.yaml", []byte(file))
		sure(err)
		l.policies[file] = p
	}
	return p
}

const policyFile = `name: files
version: %d
region: eu-west-1
bucket: bucket
keys: files/{tenant}/
retention_days: %d
mode: %s
schedule: {every: daily, at: "01:30", zone: %s, catch_up: %t}
limits: {max_objects: %d, max_share: 1, max_growth: 100, max_rate: 50000}
versions: %s
`

// setup is what a seed decides before anything happens.
type setup struct {
	rates    rates
	settings contract.Settings
	// policy is what is deployed at first, next the version of the next release.
	policy, next policy.Policy
	approved     bool
	// watched: reconcile has looked at the schedule before. Dates before its first look
	// are nobody's.
	watched   bool
	versioned bool // the bucket
	listed    int  // the most items in an answer of a listing
	begins    time.Time
	// scheduled is the instant of the date; skipped says that no clock shows it.
	scheduled time.Time
	skipped   bool
	objects   []job.Item
	keys      []string // of the objects of a tenant
	// releasing: the next release comes while the run is under way.
	releasing bool
	// safety is how long things go wrong.
	safety time.Duration
	batch  int // the most messages of one event
	// meddling is in how many of 1,024 calls somebody acts beside them, meddlers how often
	// in all.
	meddling, meddlers int
	rare
}

// tenants are chosen so that one's name begins with the other's (S5).
var tenants = []string{"school-4", "school-42"}

// names are what objects are called under their tenant. Every key of a tenant has a ~,
// which stands nowhere but in keys: where it is found, a key has leaked (S17). One is
// none that XML can carry, so that it is deleted in a request of its own.
var names = []string{"a~", "b~ c", "d~/\x01", "f~+", "g~é", "h~", "i~/", "j~", "k~", "l~", "m~", "n~"}

const day = 24 * time.Hour

// The dates of the worlds: an ordinary one, one on which Dublin's clocks skip 01:30, one
// on which they show it twice, and one after each, within what is retained.
var dates = []time.Time{
	time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 4, 10, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC),
}

// stores is how many kinds of bucket there are: without versions, with them, and with a
// policy on all of them.
const stores = 3

func drawSetup(seed uint64, c *chance, lib *library, scripted bool) setup {
	s := setup{settings: drawSettings(c), listed: pick(c, []int{1000, 3, 2}), batch: 1 + c.n(3), safety: time.Hour + time.Duration(c.n(150))*time.Minute}
	if scripted {
		s.safety = 20 * time.Minute
	} else {
		s.rates.draw(c)
		s.meddling, s.meddlers = pick(c, []int{30, 10, 100}), c.n(9)
	}
	rarely := newChance(^seed)
	if !scripted {
		s.rare = drawRare(&rarely)
	}
	zone, mode, versions, most := "UTC", job.Enforce, policy.CurrentVersions, 1000
	date := dates[0]
	if c.one(5) {
		zone, date = "Europe/Dublin", pick(c, dates)
	}
	if c.one(12) {
		mode = job.ReportOnly
	}
	store := max(c.n(6)-3, 0)
	if scripted {
		store = int(seed % stores)
	}
	switch store {
	case 1:
		s.versioned = true
	case 2:
		s.versioned, versions = true, policy.AllVersions
	}
	if c.one(8) {
		most = 2
	}
	catchUp := c.one(2)
	version := func(n, days int) policy.Policy {
		return lib.policy(fmt.Sprintf(policyFile, n, days, mode, zone, catchUp, most, versions) + s.lines())
	}
	s.policy, s.next = version(1, 30), version(2, pick(c, []int{20, 40}))
	s.approved, s.watched, s.releasing = !c.one(12), !c.one(4), c.one(4)
	if s.approving != nobodyApproves {
		mode = job.Enforce
		s.policy, s.next = version(1, 30), version(2, 20)
		s.approved, s.releasing = s.approving == approvesWider, false
	}
	s.date(date)
	s.draw(c)
	if s.drills {
		s.drawDrill(&rarely)
	}
	if !scripted && rarely.one(16) {
		s.drawSecond(&rarely, lib)
	}
	return s
}

// date finds the date's instant and lets the world begin before it.
func (s *setup) date(midnight time.Time) {
	first := s.policy.Schedule.Dates(midnight.Add(-2*time.Hour), midnight.Add(day), 1)[0]
	s.scheduled, s.skipped = first.At, first.Skipped
	s.begins = s.scheduled.Add(-6 * time.Minute)
}

func drawSettings(c *chance) contract.Settings {
	s := contract.Production()
	s.PageItems = 2 + c.n(4)
	s.PageListed = s.PageItems + c.n(8)
	s.MaxAttempts = pick(c, []int{5, 3, 2, 1})
	s.MaxReceives = pick(c, []int{10, 2 * s.MaxAttempts})
	s.RedriveAttempts = s.MaxAttempts + pick(c, []int{10, 3, 1})
	s.DeleteRounds = pick(c, []int{4, 2, 1})
	s.SplitItems = pick(c, []int{25, 1})
	s.Concurrency = 2 + c.n(4)
	s.ReconcileEvery = pick(c, []time.Duration{5 * time.Minute, 10 * time.Minute, 14 * time.Minute})
	s.RedriveBatch, s.RedriveRate, s.RedrivePlan = 2+c.n(5), 1+c.n(2), 12
	if c.one(4) {
		s.AgeCeiling = pick(c, []time.Duration{90 * time.Minute, 25 * time.Minute})
	}
	return s
}

// draw fills the bucket: candidates, younger objects, and keys of nobody.
func (s *setup) draw(c *chance) {
	cutoff := s.policy.Cutoff(s.scheduled)
	old := func() time.Time { return cutoff.Add(-c.within(time.Second, 5*day)).Truncate(time.Second) }
	for _, tenant := range tenants[:1+c.n(2)] {
		for _, name := range names[:2+c.n(9)] {
			item := job.Item{Key: root + tenant + "/" + name, ETag: "e" + name, Size: int64(1 + c.n(9))}
			switch c.n(8) {
			case 6:
				item.Modified = cutoff.Add(c.within(0, 20*day)) // a version that deletes sooner may take it
			case 7:
				item.Modified = cutoff
			default:
				item.Modified = old()
			}
			s.keys = append(s.keys, item.Key)
			if s.versioned && c.one(3) { // an older version beneath it
				below := item
				below.ETag, below.Modified = "v"+name, item.Modified.Add(-time.Hour)
				s.objects = append(s.objects, below)
			}
			s.objects = append(s.objects, item)
		}
	}
	for _, key := range []string{"files/loose~", "files/.hidden/x~", "files/school-4/", "filesystem/x~"} {
		s.objects = append(s.objects, job.Item{Key: key, ETag: "x", Size: 1, Modified: old()})
	}
}
