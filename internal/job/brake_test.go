package job_test

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestF13_ABrakeAgesNoPage parks a page that had failed once for longer than any
// limit on age. It must run again, and its age begins with the claim.
func TestF13_ABrakeAgesNoPage(t *testing.T) {
	const age = 24 * time.Hour
	failed := job.Page{State: job.Retrying, Attempts: 1, FirstFailure: now, LastClass: failure.Network}
	parked, err := failed.Park("", now)
	if err != nil {
		t.Fatal(err)
	}
	later := now.Add(10 * age)
	if reason, over := parked.Expired(later, 5, age); over {
		t.Errorf("%s under the brake", reason)
	}
	sent, _ := parked.Send(later)
	if reason, over := sent.Expired(later, 5, age); over {
		t.Errorf("%s when it is sent again", reason)
	}
	claimed, err := sent.Claim("a", later, later.Add(time.Minute), later)
	if reason, over := claimed.Expired(later.Add(age-1), 5, age); over || err != nil {
		t.Errorf("%s right after the claim, %v", reason, err)
	}
	if _, over := claimed.Expired(later.Add(age), 5, age); !over {
		t.Error("the age does not begin again with the claim")
	}
	if !claimed.FirstFailure.Equal(now) {
		t.Error("the first failure is forgotten")
	}
}
