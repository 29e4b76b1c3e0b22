package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Approval says which version of a policy may delete. There is one for each policy:
// a version that would delete more than the approved one only reports, until
// somebody approves it by name.
type Approval struct {
	Policy  string
	Rev     int64 // revision of the row: a write names the one it read; 0 is none yet
	Version int
	SHA256  string
	// RunID is the completed report-only run that the approval names; "" where the
	// version deletes no more than the one approved before.
	RunID      job.RunID
	By, Reason string
	At         time.Time
}

// Names reports whether the approval is of exactly this version.
func (a Approval) Names(p Policy) bool {
	return a.Policy == p.Name && a.Version == p.Version && a.SHA256 == p.SHA256()
}

// Reported is a run, and the policy version that it ran by.
type Reported struct {
	Run    job.Run
	Policy Policy
}

// Approvable says why the run does not suffice for the version to be approved by
// it, nil where it does. The run is the one that somebody has looked at: a closed
// scheduled run of this very version that only reported.
//
// Where no approval stands that the version goes on from, one run is not enough:
// closed scheduled runs that only reported must have been on as many different dates
// as the version needs (R137), the named one among them. history is what ran. A run
// counts whose version left nothing unreported that this one may delete.
//
// The error is failure.Conflict where time may cure it, and failure.Invalid else.
func Approvable(p Policy, standing bool, run job.Run, history []Reported) error {
	op := "approve " + p.Name + "@" + strconv.Itoa(p.Version)
	refuse := func(class failure.Class, text string) error { return failure.New(class, op, text) }
	switch {
	case p.Mode != job.Enforce:
		return refuse(failure.Invalid, "the version only reports: there is nothing to approve")
	case run.Policy != p.Name:
		return refuse(failure.Invalid, "the run is another policy's")
	case run.Version != p.Version || run.PolicySHA256 != p.SHA256():
		return refuse(failure.Invalid, "the run is of version "+strconv.Itoa(run.Version)+": an approval names a run of the version that it is about")
	case run.RequestID != "":
		return refuse(failure.Invalid, "the run is a request for one tenant: an approval names a run of the schedule, which looks at every tenant")
	case run.Mode != job.ReportOnly:
		return refuse(failure.Invalid, "the run deletes: an approval names a run that only reported")
	case run.State != job.Closed:
		return refuse(failure.Conflict, "the run is "+string(run.State)+": wait until it is closed, and look at what it reported")
	case standing:
		return nil
	}
	needed, there := p.ReportOnlyDatesNeeded(), reportedDates(p, slices.Concat(history, []Reported{{run, p}}))
	if there < needed {
		return refuse(failure.Conflict, "closed runs that only reported, and showed all that this version may delete, are of "+
			strconv.Itoa(there)+" of the "+count(needed, "date")+" that are needed: "+strconv.Itoa(needed-there)+" more must follow")
	}
	return nil
}

// reportedDates counts the dates, in the version's own zone, on which a closed
// scheduled run showed all that the version may delete. Runs of several dates that
// somebody started on one day are a look at one day.
func reportedDates(p Policy, history []Reported) int {
	loc, ok := loadZone(p.Schedule.Zone)
	if !ok {
		return 0
	}
	dates, days := map[string]bool{}, map[string]bool{}
	for _, h := range history {
		if h.shows(p) {
			dates[h.Run.Scheduled.In(loc).Format(time.DateOnly)] = true
			days[h.Run.OpenedAt.In(loc).Format(time.DateOnly)] = true
		}
	}
	return min(len(dates), len(days))
}

// shows reports whether the run's report stands for the version.
func (h Reported) shows(p Policy) bool {
	r := h.Run
	return r.State == job.Closed && r.Mode == job.ReportOnly && r.RequestID == "" && r.Policy == p.Name &&
		r.Version == h.Policy.Version && r.PolicySHA256 == h.Policy.SHA256() && len(Unreported(h.Policy, p)) == 0
}
