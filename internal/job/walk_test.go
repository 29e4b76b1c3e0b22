package job_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestAnyLifeOfAPage takes a page through calls in any order, wanted or not, and
// checks after each what must hold for the page's whole life.
func TestAnyLifeOfAPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := now
		p := job.Page{ID: "page", Run: "run", Tenant: "t", Kind: job.RangePage, Rev: 1, Through: "z", Candidates: 30, State: job.Planned}
		owner := rapid.SampledFrom([]string{"a", "b", ""})
		class := rapid.SampledFrom([]failure.Class{failure.Network, failure.Throttled, ""})
		n := rapid.IntRange(0, 31)
		calls := []func() (job.Page, error){
			func() (job.Page, error) { return p.Send(at.Add(time.Hour)) },
			func() (job.Page, error) { return p.Claim(owner.Draw(t, "owner"), at, at.Add(time.Minute), at) },
			func() (job.Page, error) { return p.Claim(owner.Draw(t, "owner"), at, at.Add(time.Minute), at) },
			func() (job.Page, error) {
				return p.Intend("plan", 1, n.Draw(t, "deletes"), n.Draw(t, "planned"), 16*time.Minute)
			},
			func() (job.Page, error) {
				return p.Retry(p.Settlement(), class.Draw(t, "class"), at, at.Add(time.Second), at)
			},
			func() (job.Page, error) { return p.Park(owner.Draw(t, "owner"), at) },
			func() (job.Page, error) {
				return p.Die(owner.Draw(t, "owner"), job.ReasonAge, failure.Network, p.Settlement(), at)
			},
			func() (job.Page, error) { return p.Lettered(at) },
			func() (job.Page, error) { return p.Redrive("plan", at, at) },
			func() (job.Page, error) {
				if rapid.IntRange(0, 9).Draw(t, "end") > 0 {
					return p.Send(at)
				}
				return p.Complete(p.Settlement())
			},
		}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			at = at.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			next, err := rapid.SampledFrom(calls).Draw(t, "call")()
			if err == nil {
				wantOneLife(t, p, next, at)
				p = next
			}
		}
	})
}

func wantOneLife(t *rapid.T, p, next job.Page, at time.Time) {
	named := p.Intent != (job.Intent{})
	for text, broken := range map[string]bool{
		"the revision moves by one":                     next.Rev != p.Rev+1,
		"what the scan recorded stays":                  next.ID != p.ID || next.Run != p.Run || next.Tenant != p.Tenant || next.Candidates != p.Candidates || next.Through != p.Through,
		"nothing leaves a terminal state":               p.State.Terminal(),
		"S19: the delete set shrinks":                   named && next.Intent.Deletes > p.Intent.Deletes,
		"F14: no more than the candidates":              next.Intent.Deletes > next.Candidates,
		"an open intent is not forgotten":               named && next.Intent == job.Intent{},
		"the quiet time never decreases":                next.QuietAt.Before(p.QuietAt),
		"the fence never decreases":                     next.Fence < p.Fence,
		"a new owner has a new fence":                   next.Owner != p.Owner && next.Fence == p.Fence,
		"S16: a live lease changes hands never":         p.LeaseLive(at) && next.Fence != p.Fence,
		"attempts are counted from 0":                   next.Attempts < 0 || next.Tries() < 0,
		"at most one attempt a claim":                   next.Attempts > p.Attempts+1 || int64(next.Attempts) > next.Fence,
		"the first failure stays the first":             !p.FirstFailure.IsZero() && !next.FirstFailure.Equal(p.FirstFailure),
		"a dead letter was durable only of a dead page": next.State == job.Dead && p.State != job.Dead && !next.Death.LetterAt.IsZero(),
	} {
		if broken {
			t.Fatalf("%s: not so\nfrom %+v\nto   %+v", text, p, next)
		}
	}
}
