package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// The second policy of a region: it works in the same bucket, for the same tenants, by
// its own retention and schedule. Nothing that is about one policy may reach the other;
// what is about a tenant must reach both.

// The names of the second policy.
const (
	secondName = "logs"
	secondRoot = "logs/"
)

// second is a policy besides the one that every world has.
type second struct {
	policy            policy.Policy
	scheduled         time.Time
	approved, watched bool
}

// drawSecond draws the second policy and what it may take.
func (s *setup) drawSecond(c *chance, lib *library) {
	at := s.begins.Add(c.within(3*time.Minute, 40*time.Minute)).Truncate(time.Minute).UTC()
	mode, most := job.Enforce, 1000
	if c.one(4) {
		mode = job.ReportOnly
	}
	if c.one(8) {
		most = 2
	}
	file := fmt.Sprintf(policyFile, 1, pick(c, []int{60, 10}), mode, "UTC", true, most, s.policy.Versions)
	file = strings.NewReplacer("name: "+policyName, "name: "+secondName, "keys: "+root, "keys: "+secondRoot, "01:30", at.Format("15:04")).Replace(file)
	s.second = &second{policy: lib.policy(file), scheduled: at, approved: !c.one(6), watched: !c.one(4)}
	cutoff := s.second.policy.Cutoff(at)
	for _, tenant := range tenants {
		for _, name := range names[:2+c.n(4)] {
			item := job.Item{Key: secondRoot + tenant + "/" + name, ETag: "l" + name, Size: int64(1 + c.n(9))}
			if item.Modified = cutoff.Add(-c.within(time.Second, 5*day)).Truncate(time.Second); c.one(4) {
				item.Modified = cutoff.Add(c.within(0, 5*day)).Truncate(time.Second)
			}
			s.keys, s.objects = append(s.keys, item.Key), append(s.objects, item)
		}
	}
}

// rootOf is where a policy's artifacts are.
func rootOf(name string) string {
	if name == secondName {
		return secondRoot
	}
	return root
}

// rootIn is the root that a key lies under, and tenantIn whose it is.
func rootIn(key string) string {
	if strings.HasPrefix(key, secondRoot) {
		return secondRoot
	}
	return root
}

func tenantIn(key string) string {
	rest, under := strings.CutPrefix(key, rootIn(key))
	if tenant, _, inside := strings.Cut(rest, "/"); under && inside {
		return tenant
	}
	return ""
}

// someName is the name of a policy of this world.
func (w *world) someName() string {
	if w.second != nil && w.chance.one(2) {
		return secondName
	}
	return policyName
}

// due is a date that has to have its run, or to be told.
type due struct {
	policy    string
	scheduled time.Time
}

func (w *world) dues() []due {
	all := []due{{policyName, w.scheduled}}
	if s := w.second; s != nil {
		all = append(all, due{secondName, s.scheduled})
	}
	return all
}

// furnishPolicy puts what is on record of a policy before anything happens.
func (w *world) furnishPolicy(ctx context.Context, l *ledgers, p policy.Policy, watched, approved bool) {
	sure(l.PublishPolicy(ctx, p))
	if watched {
		looked := w.epoch
		if w.behindhand && p.Name == policyName {
			looked = looked.Add(-2 * day)
		}
		sure(l.SwapWatch(ctx, job.Watch{Policy: p.Name, Rev: 1, Since: looked.Add(-day), Through: looked}))
	}
	if approved {
		a := policy.Approval{Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256(), By: "sim", Reason: "approved before", At: w.epoch}
		sure(l.Approve(ctx, a))
		w.truth.approvals[p.Name] = []policy.Approval{a}
	}
}

// beginSecond fires the second policy's date, as the scheduler does it or fails to.
func (w *world) beginSecond() {
	at := w.second.scheduled.Sub(w.epoch)
	fire := func() { w.invoke("enqueue", tick(secondName, w.second.scheduled)) }
	if w.strikes(TickNever) {
		return
	}
	w.hit(SecondDate)
	w.at(at, fire)
	if w.strikes(TickTwice) {
		w.at(at+w.chance.within(0, 2*time.Second), fire)
	}
}
