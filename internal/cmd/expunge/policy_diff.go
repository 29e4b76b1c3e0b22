package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// policyDiff compares two versions.
type policyDiff struct {
	Old  string `arg:"" help:"A file, or a policy of the deployment: NAME, NAME@3, NAME@newest or NAME@approved. Alone, a file is compared with the approved version of its name, or the newest where none is; NAME alone is NAME@approved against NAME@newest."`
	New  string `arg:"" optional:"" help:"The same for the other side."`
	AsOf string `placeholder:"WHEN" help:"Count the objects as a run at this instant would; now when not given."`
	List bool   `negatable:"" default:"true" help:"List what lies under both with your own credentials, and count the objects that one version deletes and the other does not; --no-list asks no bucket."`
}

func (c *policyDiff) exits() exits {
	return exits{Done: "compared", Wrong: "a version is refused or is not there, or the objects could not be counted"}
}

// policyCompared is the answer.
type policyCompared struct {
	Head
	Old         diffSide         `json:"old"`
	New         diffSide         `json:"new"`
	Differences []diffDifference `json:"differences"`
	Widens      []string         `json:"widens"`
	// Ratchet says what the deployment does with the new version.
	Ratchet string `json:"ratchet"`
	// Objects is what the change comes to in the buckets; none with --no-list.
	Objects *diffObjects `json:"objects,omitzero"`
	// Uncounted is why the objects could not be counted.
	Uncounted string `json:"uncounted,omitzero"`
}

// diffSide is one of the two versions.
type diffSide struct {
	From     string   `json:"from"`
	Policy   string   `json:"policy"`
	Version  int      `json:"policy_version"`
	SHA256   string   `json:"sha256"`
	Mode     job.Mode `json:"mode"`
	Approved bool     `json:"approved"` // the deployment lets it delete
}

type diffDifference struct {
	Field  string `json:"field"`
	Old    string `json:"old"`
	New    string `json:"new"`
	Widens bool   `json:"widens"`
}

func (c *policyDiff) run(ctx context.Context, d *desk) error {
	asOf, err := d.asOf(c.AsOf)
	if err != nil {
		return err
	}
	old, next, err := c.sides(ctx, d)
	if err != nil {
		return err
	}
	a := &policyCompared{Old: sideOf(old), New: sideOf(next), Differences: []diffDifference{}, Widens: policy.Widens(old.Policy, next.Policy)}
	for _, f := range policy.Differences(old.Policy, next.Policy) {
		a.Differences = append(a.Differences, diffDifference(f))
	}
	a.Ratchet = ratchet(old, next, a.Widens)
	var uncounted error
	if c.List && len(a.Differences) > 0 {
		if a.Objects, uncounted = d.countObjects(ctx, old.Policy, next.Policy, asOf); uncounted != nil {
			a.Objects, a.Uncounted = nil, uncounted.Error()
		}
	}
	if err := d.show(a); err != nil {
		return err
	}
	if uncounted != nil {
		return wrong("the objects were not counted: " + a.Uncounted)
	}
	return nil
}

func sideOf(p sourced) diffSide {
	return diffSide{From: p.from, Policy: p.Name, Version: p.Version, SHA256: p.SHA256(), Mode: p.Mode, Approved: p.approved}
}

// sides reads the two versions. One alone has the other side chosen for it.
func (c *policyDiff) sides(ctx context.Context, d *desk) (old, next sourced, err error) {
	switch {
	case c.New != "":
		if old, err = d.source(ctx, c.Old, newestWord); err == nil {
			next, err = d.source(ctx, c.New, newestWord)
		}
		return old, next, err
	case isFile(c.Old):
		if next, err = d.source(ctx, c.Old, ""); err != nil {
			return old, next, err
		}
		old, err = d.approvedOr(ctx, next.Name, true)
		return old, next, err
	}
	parts := deployedName.FindStringSubmatch(c.Old)
	if len(parts) != 5 || parts[4] != "" {
		return old, next, usage("to compare with "+c.Old+", name the other side too", "expunge policy diff --help")
	}
	if old, err = d.approvedOr(ctx, parts[1], false); err != nil {
		return old, next, err
	}
	next, err = deployedPolicy(ctx, d, parts[1], newestWord)
	return old, next, err
}

// approvedOr returns the approved version of a policy, or where none is the newest, if
// that will do.
func (d *desk) approvedOr(ctx context.Context, name string, newest bool) (sourced, error) {
	p, err := deployedPolicy(ctx, d, name, approvedWord)
	if !errors.Is(err, errNoneApproved) {
		return p, err
	}
	if p, err = deployedPolicy(ctx, d, name, newestWord); err != nil || newest {
		return p, err
	}
	return p, wrong("no version of "+name+" was ever approved here, so there is nothing to compare the newest, version "+strconv.Itoa(p.Version)+", with: it only reports",
		d.command("policy", "diff", name+"@1", name))
}

// source reads a file, or a version of the deployment.
func (d *desk) source(ctx context.Context, text, version string) (sourced, error) {
	if isFile(text) {
		p, err := d.validPolicy(text)
		return sourced{Policy: p, from: text}, err
	}
	parts := deployedName.FindStringSubmatch(text)
	if parts == nil {
		return sourced{}, usage(text+" is neither a file, which has a slash or ends in .yaml, nor a policy such as exports, exports@3, exports@newest or exports@approved",
			"expunge policy diff --help")
	}
	if parts[4] != "" {
		version = parts[4]
	}
	p, err := deployedPolicy(ctx, d, parts[1], version)
	if errors.Is(err, errNoneApproved) {
		err = wrong("no version of "+parts[1]+" was ever approved here", d.command("policy", "diff", parts[1]+"@newest", blank))
	}
	return p, err
}

// ratchet says in one sentence what a deployment whose approved version is the old one
// does with the new one.
func ratchet(old, next sourced, widens []string) string {
	version := nameOf(next.Policy)
	approved := "if " + nameOf(old.Policy) + " is the approved version"
	if old.approved {
		approved = "because " + nameOf(old.Policy) + " is the approved version"
	}
	reports := "only reports until it has done so on " + report.Count(next.ReportOnlyDatesNeeded(), "date") + " and somebody approves it with one of those runs"
	switch {
	case next.Mode != job.Enforce:
		return version + " deletes nothing: its mode is report-only."
	case next.approved:
		return version + " deletes from its next run on: it is the approved version."
	case old.Mode != job.Enforce:
		return version + " " + reports + ": a version that only reports stands for no approval."
	case old.SHA256() == next.SHA256():
		return "Nothing changes: both are the same version."
	case old.Version == next.Version && old.Name == next.Name:
		return "It can not be deployed over the other: the same version with other content is refused. Raise the version."
	case len(widens) > 0:
		return version + " " + reports + ", " + approved + ": it would delete more."
	default:
		return version + " deletes from its first run on, " + approved + ": it deletes no more than that."
	}
}

func (a *policyCompared) write(s *sheet) {
	s.facts([2]string{"old", a.Old.words()}, [2]string{"new", a.New.words()})
	if len(a.Differences) == 0 {
		s.line()
		s.line("They say the same.")
		return
	}
	s.line()
	t := newTable(left(""), left("key"), wide("old", 40), wide("new", 40))
	for _, f := range a.Differences {
		t.Row(map[bool]string{true: "widens", false: ""}[f.Widens], f.Field, report.Clean(f.Old), report.Clean(f.New))
	}
	s.table(t)
	s.line()
	for _, text := range a.Widens {
		s.alert(red, text)
	}
	s.sentence("", a.Ratchet)
	switch {
	case a.Uncounted != "":
		s.alert(red, "The objects were not counted: "+a.Uncounted)
	case a.Objects != nil:
		a.Objects.write(s)
	}
}

func (p diffSide) words() string {
	text := p.Policy + "@" + strconv.Itoa(p.Version) + ", " + string(p.Mode)
	if p.Approved {
		text += ", approved"
	}
	return text + " (" + p.From + ")"
}

// diffObjects is what a change comes to in objects, by a listing.
type diffObjects struct {
	AsOf     time.Time `json:"as_of"`
	Examined int       `json:"examined"` // objects and versions that were listed
	// Adds is what only the new version deletes, Spares what only the old one does.
	Adds   diffCount `json:"adds"`
	Spares diffCount `json:"spares"`
	// Reports: both versions only report, and so would the counts.
	Reports bool `json:"reports"`
}

// diffCount counts objects, by tenant.
type diffCount struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Tenants int   `json:"tenants"`
	// Top are the tenants with the most objects.
	Top []diffTenant `json:"top"`
}

type diffTenant struct {
	Tenant  string `json:"tenant_id"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
}

func (o *diffObjects) write(s *sheet) {
	verb := "deletes"
	if o.Reports {
		verb = "reports"
	}
	o.Adds.write(s, "Only the new version "+verb)
	o.Spares.write(s, "Only the old version "+verb)
	s.line()
	s.sentence("", report.Count(o.Examined, "object")+" listed, judged as in a run at "+instant(o.AsOf)+". Legal holds are not looked at: what they cover is kept by both.")
}

func (c diffCount) write(s *sheet, head string) {
	if c.Objects == 0 {
		s.heading(head + " nothing")
		return
	}
	s.heading(head + " " + report.Count(c.Objects, "object") + ", " + report.Human(c.Bytes) + ", of " + report.Count(c.Tenants, "tenant"))
	t := newTable(left("tenant"), right("objects"), right("bytes"))
	for _, tenant := range c.Top {
		t.Row(report.Clean(tenant.Tenant), number(tenant.Objects), size(tenant.Bytes))
	}
	if rest := c.Tenants - len(c.Top); rest > 0 {
		t.Row("and "+report.Group(int64(rest))+" more", "", "")
	}
	s.table(t)
}
