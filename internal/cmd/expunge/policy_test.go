package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// write puts a file into the operator's working directory.
func (r *region) write(name, text string) {
	r.t.Helper()
	writeFile(r.t, filepath.Join(r.dir, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// changed is a text with pairs of replacements, each of which must apply.
func changed(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is not in the text", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// inFolder runs a command where there are files and no deployment.
func inFolder(t *testing.T, files map[string]string, args ...string) said {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return run(t, Process{Args: args, Dir: dir, Clock: &hands{at: at}})
}

func TestPolicyLint(t *testing.T) {
	good := map[string]string{"infra/policies/exports.yaml": strings.Replace(exportsPolicy, "02:30", "05:00", 1)}
	if s := inFolder(t, good, "policy", "lint"); s.status != exitDone || s.err != "" || strings.Count(s.out, "\n") != 1 {
		t.Errorf("%+v", s)
	}
	bad := map[string]string{
		"infra/policies/exports.yaml": exportsPolicy,
		"infra/policies/more.yaml":    changed(t, exportsPolicy, "name: exports", "name: more"),
		"infra/policies/broken.yaml":  changed(t, exportsPolicy, "retention_days: 30", "retention_days: 0\nfoo: 1"),
		"infra/policies/notes.txt":    "not a policy",
	}
	s := inFolder(t, bad, "policy", "lint")
	if s.status != exitWrong {
		t.Errorf("status %d", s.status)
	}
	golden(t, "policy-lint", s.out+s.err)
	golden(t, "policy-lint-json", inFolder(t, bad, "policy", "lint", "--json", "infra/policies/broken.yaml", "infra/policies/exports.yaml").out)

	twice := map[string]string{"a/exports.yaml": exportsPolicy, "b/exports.yaml": exportsPolicy}
	for name, c := range map[string]struct {
		args   []string
		status int
		reason string
	}{
		"findings alone":   {[]string{"a/exports.yaml"}, exitDone, ""},
		"strict":           {[]string{"--strict", "a"}, exitWrong, "2 findings"},
		"strict, later":    {[]string{"--strict", "--as-of=2027-11-01", "a"}, exitWrong, "2 findings"},
		"one name twice":   {[]string{"a", "b"}, exitWrong, "two files have one name"},
		"no such file":     {[]string{"c.yaml"}, exitWrong, "c.yaml can not be opened"},
		"an empty folder":  {[]string{"."}, exitWrong, "holds no *.yaml file"},
		"a wrong instant":  {[]string{"--as-of=soon", "a"}, exitUsage, "--as-of is soon"},
		"no folder at all": {nil, exitWrong, "infra/policies can not be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s := inFolder(t, twice, append([]string{"policy", "lint"}, c.args...)...)
			if s.status != c.status || !strings.Contains(s.err, c.reason) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The repository's own policies can be deployed, and say what they mean.
func TestPolicyLintOurs(t *testing.T) {
	s := run(t, Process{Args: []string{"policy", "lint", "--strict"}, Dir: filepath.Join("..", "..", ".."), Clock: &hands{at: at}})
	if s.status != exitDone {
		t.Errorf("%+v", s)
	}
}

func TestPolicyExplain(t *testing.T) {
	files := map[string]string{
		"exports.yaml": exportsPolicy,
		"late.yaml": changed(t, exportsPolicy, "retention_days: 30", "retention_days: 3",
			`at: "02:30", zone: Europe/Berlin`, `at: "02:30", zone: Europe/Berlin, catch_up: true`, "mode: enforce", "mode: report-only\ntenant_pattern: acme-.*"),
		"fixed.yaml":  changed(t, exportsPolicy, "exports/{tenant}/csv/", "exports/csv/\ntenant: acme-eu\nversions: all", "every: daily", "every: weekly, weekday: sunday"),
		"broken.yaml": "name: exports\nfoo: 1\n",
	}
	golden(t, "policy-explain-spring", inFolder(t, files, "policy", "explain", "exports.yaml", "--as-of=2026-03-26").out)
	golden(t, "policy-explain-autumn", inFolder(t, files, "policy", "explain", "late.yaml", "--as-of=2026-10-23T12:00:00Z").out)
	golden(t, "policy-explain-weekly", inFolder(t, files, "policy", "explain", "fixed.yaml", "--as-of=2026-03-20").out)
	golden(t, "policy-explain-json", inFolder(t, files, "policy", "explain", "late.yaml", "--as-of=2027-03-26", "--json").out)
	s := inFolder(t, files, "policy", "explain", "broken.yaml")
	if s.status != exitWrong || !strings.Contains(s.err, "expunge: broken.yaml:1:1: version: is missing") || !strings.Contains(s.err, " more\nnext: expunge policy lint broken.yaml") {
		t.Errorf("%+v", s)
	}
}

// Every run that is shown is one that the schedule starts, with the cutoff that the
// run will have: over a year and the changes of several zones' clocks (HP-10).
func TestPolicyExplainDates(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe"} {
		for _, every := range []string{"daily", "weekly, weekday: sunday"} {
			p, err := policy.Parse("p.yaml", []byte(changed(t, exportsPolicy, "Europe/Berlin", zone, "every: daily", "every: "+every, "retention_days: 30", "retention_days: 2")))
			must(t, err)
			for asOf := at; asOf.Year() < 2027; asOf = asOf.AddDate(0, 0, 4) {
				after, runs := asOf, 0
				for _, d := range nextDates(p, asOf, explainedRuns) {
					if !d.Runs {
						continue
					}
					if want := p.Schedule.Next(after); !d.At.Equal(want) || !d.Cutoff.Equal(p.Cutoff(want)) {
						t.Fatalf("%s, %s, %s: %s with %s, want %s", zone, every, asOf, d.At, d.Cutoff, want)
					}
					after = d.At
					runs++
				}
				if runs != explainedRuns {
					t.Fatalf("%s, %s, %s: %d runs", zone, every, asOf, runs)
				}
			}
		}
	}
}

// seedAges puts objects of several tenants and ages into the bucket.
func (r *region) seedAges(now time.Time) {
	r.t.Helper()
	must(r.t, r.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		for _, o := range []struct {
			key  string
			days int
		}{
			{"exports/acme-eu/csv/1", 40}, {"exports/acme-eu/csv/2", 20}, {"exports/acme-eu/csv/3", 16}, {"exports/acme-eu/csv/4", 1},
			{"exports/acme-eu/pdf/1", 40}, {"exports/school-42/csv/1", 20}, {"exports/school-42/csv/2", 13}, {"digests/acme-eu/1", 90},
		} {
			if !yield(s3.Object{Key: o.key, Body: make([]byte, 1000), Modified: now.AddDate(0, 0, -o.days)}) {
				return
			}
		}
	}))
}

// AL-03: what a change adds is said in objects and bytes before it is deployed.
func TestPolicyDiff(t *testing.T) {
	r := newRegion(t, at)
	r.seedAges(at)
	r.write("v1.yaml", exportsPolicy)
	r.write("v2.yaml", changed(t, exportsPolicy, "version: 1", "version: 2", "retention_days: 30", "retention_days: 14", "daily", "weekly, weekday: monday"))
	golden(t, "policy-diff", r.ok("policy", "diff", "v1.yaml", "v2.yaml").out)
	golden(t, "policy-diff-json", r.ok("policy", "diff", "v1.yaml", "v2.yaml", "--json").out)
	golden(t, "policy-diff-back", r.ok("policy", "diff", "v2.yaml", "v1.yaml").out)
	golden(t, "policy-diff-later", r.ok("policy", "diff", "v1.yaml", "v2.yaml", "--as-of=2026-03-11T02:10:00Z").out)
	if s := r.ok("policy", "diff", "v1.yaml", "v1.yaml"); !strings.Contains(s.out, "They say the same.") {
		t.Error(s.out)
	}
	r.meet(refusing("s3", "", http.StatusForbidden, "AccessDenied"))
	s := r.ends(exitWrong, "the objects were not counted: list items: forbidden", "policy", "diff", "v1.yaml", "v2.yaml")
	if !strings.Contains(s.out, "widens  retention_days") {
		t.Error(s.out)
	}
	r.ok("policy", "diff", "v1.yaml", "v2.yaml", "--no-list")
}

// One side, or both, can be what is deployed.
func TestPolicyDiffDeployed(t *testing.T) {
	r := newRegion(t, at)
	r.seedAges(at)
	v1 := changed(t, exportsPolicy, "name: exports", "name: reports")
	v2 := changed(t, v1, "version: 1", "version: 2", "retention_days: 30", "retention_days: 14")
	r.write("v1.yaml", v1)
	r.write("v2.yaml", v2)
	r.write("v3.yaml", changed(t, v2, "version: 2", "version: 3", "retention_days: 14", "retention_days: 60"))
	r.ends(exitWrong, "no policy reports was ever published here", "policy", "diff", "reports")
	published := r.publish(v1, v2)
	r.ends(exitWrong, "no version of reports was ever approved here", "policy", "diff", "reports")
	r.ends(exitWrong, "no version of reports was ever approved here", "policy", "diff", "reports@approved", "v2.yaml")
	r.ends(exitWrong, "there is no version 7 of reports here; the newest is 2", "policy", "diff", "reports@7", "v2.yaml")
	r.ends(exitWrong, "no policy digests", "policy", "diff", "digests", "v2.yaml")
	r.ends(exitUsage, "is neither a file", "policy", "diff", "Reports", "v2.yaml")
	r.ends(exitUsage, "name the other side too", "policy", "diff", "reports@1")
	if s := r.ok("policy", "diff", "v3.yaml"); !strings.Contains(s.out, "reports@2, newest in expunge-dev in eu-west-1") {
		t.Error(s.out)
	}
	must(t, r.ledger.Approve(t.Context(), policy.Approval{Policy: "reports", Rev: 1, Version: 1, SHA256: published[0].SHA256(), By: "ana", Reason: "the reports are right", At: at}))
	golden(t, "policy-diff-deployed", r.ok("policy", "diff", "reports").out)
	golden(t, "policy-diff-file", r.ok("policy", "diff", "v3.yaml").out)
	if s := r.ok("policy", "diff", "reports@2", "reports@approved", "--no-list"); !strings.Contains(s.out, "reports@1 deletes from its next run on: it is the approved version.") {
		t.Error(s.out)
	}
}

// publish puts policy versions into the ledger.
func (r *region) publish(texts ...string) (published []policy.Policy) {
	r.t.Helper()
	for _, text := range texts {
		p, err := policy.Parse("policy.yaml", []byte(text))
		must(r.t, err)
		must(r.t, r.ledger.PublishPolicy(r.t.Context(), p))
		published = append(published, p)
	}
	return published
}

func TestRatchetSentence(t *testing.T) {
	old, err := policy.Parse("p.yaml", []byte(exportsPolicy))
	must(t, err)
	with := func(change func(*policy.Policy)) policy.Policy {
		next := old
		next.Version = 2
		change(&next)
		return next
	}
	for name, c := range map[string]struct {
		old, next sourced
		want      string
	}{
		"report-only": {sourced{Policy: old}, sourced{Policy: with(func(p *policy.Policy) { p.Mode = job.ReportOnly })}, "exports@2 deletes nothing"},
		"wider":       {sourced{Policy: old, approved: true}, sourced{Policy: with(func(p *policy.Policy) { p.RetentionDays = 7 })}, "exports@2 only reports until it has done so on 3 dates and somebody approves it with one of those runs, because exports@1 is the approved version: it would delete more."},
		"narrower":    {sourced{Policy: old}, sourced{Policy: with(func(p *policy.Policy) { p.RetentionDays = 70 })}, "exports@2 deletes from its first run on, if exports@1 is the approved version: it deletes no more than that."},
		"same number": {sourced{Policy: old}, sourced{Policy: with(func(p *policy.Policy) { p.Version, p.RetentionDays = 1, 70 })}, "the same version with other content is refused"},
		"the same":    {sourced{Policy: old}, sourced{Policy: old}, "Nothing changes"},
		"from reports": {sourced{Policy: with(func(p *policy.Policy) { p.Mode = job.ReportOnly })}, sourced{Policy: old},
			"exports@1 only reports until it has done so on 3 dates and somebody approves it with one of those runs: a version that only reports"},
		"approved": {sourced{Policy: old}, sourced{Policy: with(func(p *policy.Policy) { p.RetentionDays = 7 }), approved: true}, "exports@2 deletes from its next run on"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ratchet(c.old, c.next, policy.Widens(c.old.Policy, c.next.Policy)); !strings.Contains(got, c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// shelf is a store that lists a few items, two at a time.
type shelf struct{ items []job.Item }

func (s shelf) List(_ context.Context, q job.Query) (job.Listing, error) {
	from := 0
	for from < len(s.items) && s.items[from].Version != q.Token && q.Token != "" {
		from++
	}
	to := min(from+2, len(s.items))
	l := job.Listing{Items: s.items[from:to]}
	if to < len(s.items) {
		l.Token = s.items[to].Version
	}
	return l, nil
}

// Where a bucket keeps versions, a delete of the current one only hides it: a version
// of the policy that destroys it adds to that.
func TestPolicyCountVersions(t *testing.T) {
	old, err := policy.Parse("p.yaml", []byte(exportsPolicy))
	must(t, err)
	all := old
	all.Versions = policy.AllVersions
	long, fresh := at.AddDate(0, 0, -90), at
	bucket := shelf{[]job.Item{
		{Key: "exports/a/csv/1", Version: "v9", ETag: "e", Size: 1, Modified: long},              // current: hidden, then destroyed
		{Key: "exports/a/csv/1", Version: "v8", ETag: "e", Size: 10, Modified: long},             // kept, then destroyed
		{Key: "exports/a/csv/2", Version: "v7", Marker: true, Modified: fresh},                   // under a young marker
		{Key: "exports/a/csv/2", Version: "v6", ETag: "e", Size: 100, Modified: long},            // kept, then destroyed
		{Key: "exports/a/csv/3", Version: "v5", ETag: "e", Size: 1000, Modified: fresh},          // young
		{Key: "exports/b/csv/4", Version: "null", ETag: "e", Size: 10_000, Modified: long},       // destroyed by both
		{Key: "exports/a/json/5", Version: "v4", ETag: "e", Size: 100_000, Modified: long},       // nobody's
		{Key: "exports/b/csv/6", Version: "v3", Marker: true, Modified: long, ETag: "", Size: 0}, // an old marker
	}}
	count := func(old, next policy.Policy) *diffObjects {
		c := newCounting(old, next, at)
		must(t, c.list(t.Context(), bucket, place{old.Region, old.Bucket, old.Prefix()}))
		return c.result()
	}
	if o := count(old, all); o.Examined != 8 || o.Adds.Objects != 4 || o.Adds.Bytes != 111 || o.Spares.Objects != 0 || o.Adds.Tenants != 2 || o.Adds.Top[0].Tenant != "a" {
		t.Errorf("%+v", o)
	}
	if o := count(all, old); o.Spares.Objects != 4 || o.Adds.Objects != 0 {
		t.Errorf("%+v", o)
	}
	// What only reports deletes nothing, unless both do.
	reports := all
	reports.Mode = job.ReportOnly
	if o := count(reports, all); o.Adds.Objects != 5 || o.Reports {
		t.Errorf("%+v", o)
	}
	if o := count(all, reports); o.Spares.Objects != 5 || o.Adds.Objects != 0 {
		t.Errorf("%+v", o)
	}
	oldReports := old
	oldReports.Mode = job.ReportOnly
	if o := count(oldReports, reports); o.Adds.Objects != 4 || !o.Reports {
		t.Errorf("%+v", o)
	}
}

// Both policies' keys are listed once, wherever they lie.
func TestPolicyPlaces(t *testing.T) {
	p := func(region, bucket, keys string) policy.Policy {
		return policy.Policy{Region: region, Bucket: bucket, Keys: keys}
	}
	for name, c := range map[string]struct {
		old, next policy.Policy
		want      string
	}{
		"the same":   {p("r", "b", "x/{tenant}/"), p("r", "b", "x/{tenant}/csv/"), `[{"r":"r","b":"b","p":"x/"}]`},
		"within":     {p("r", "b", "x/y/{tenant}/"), p("r", "b", "x/{tenant}/"), `[{"r":"r","b":"b","p":"x/"}]`},
		"around":     {p("r", "b", "x/{tenant}/"), p("r", "b", "x/y/{tenant}/"), `[{"r":"r","b":"b","p":"x/"}]`},
		"elsewhere":  {p("r", "b", "x/{tenant}/"), p("r", "b", "y/{tenant}/"), `[{"r":"r","b":"b","p":"x/"},{"r":"r","b":"b","p":"y/"}]`},
		"other name": {p("r", "b", "x/{tenant}/"), p("r", "b", "xx/{tenant}/"), `[{"r":"r","b":"b","p":"x/"},{"r":"r","b":"b","p":"xx/"}]`},
		"bucket":     {p("r", "b", "x/{tenant}/"), p("r", "c", "x/{tenant}/"), `[{"r":"r","b":"b","p":"x/"},{"r":"r","b":"c","p":"x/"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []map[string]string
			for _, at := range places(c.old, c.next) {
				got = append(got, map[string]string{"r": at.region, "b": at.bucket, "p": at.prefix})
			}
			text, err := json.Marshal(got)
			must(t, err)
			var want []map[string]string
			must(t, json.Unmarshal([]byte(c.want), &want))
			wanted, err := json.Marshal(want)
			must(t, err)
			if string(text) != string(wanted) {
				t.Errorf("got %s", text)
			}
		})
	}
}
