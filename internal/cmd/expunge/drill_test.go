package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	lambdago "github.com/aws/aws-lambda-go/lambda"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
)

const rehearsed = "exports/test/csv/"

// stage is a region with expired objects of the test tenant, in which everything
// happens that happens by itself whenever somebody waits.
func stage(t *testing.T) *region {
	t.Helper()
	r := newRegion(t, time.Now().UTC())
	must(t, r.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		for i := range 3 {
			if !yield(s3.Object{Key: fmt.Sprintf("%s%d.csv", rehearsed, i), Body: []byte("x"), Modified: old}) {
				return
			}
		}
		yield(s3.Object{Key: rehearsed + "today.csv", Body: []byte("x")})
	}))
	r.publish(exportsPolicy) // as its first tick has done
	r.now.onSleep = func() {
		r.deliver()
		r.reconcile()
	}
	return r
}

func drillArgs(more ...string) []string {
	return append([]string{"drill", "--tenant=test", "--reason=the quarterly rehearsal"}, more...)
}

// ids masks what is new in every drill.
func drillMask(s said) string {
	text := masked(s.out, "DIR")
	text = anyInstant.ReplaceAllString(text, "INSTANT")
	text = regexp.MustCompile(`\d{8}t\d{6}z`).ReplaceAllString(text, "STAMP")
	text = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(text, "MESSAGE")
	text = regexp.MustCompile(`(took |"recovery_seconds": )[0-9.e-]+( s\.|,)`).ReplaceAllString(text, "${1}SECONDS$2")
	return regexp.MustCompile(`(INSTANT|\.\d+Z)+`).ReplaceAllString(regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(text, "INSTANT"), "INSTANT")
}

// R127, against a deployed region: the injected failure enters the dead letters, the
// redrive is approved, one final state and a whole trail are on record, and the
// malformed message stays quarantined until the end.
func TestR127Drill(t *testing.T) {
	r := stage(t)
	s := r.ok(drillArgs("--wait")...)
	golden(t, "drill", drillMask(s))
	for _, name := range []string{"0.csv", "1.csv", "2.csv"} {
		if _, err := r.s3c().HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: ptr(bucketName), Key: ptr(rehearsed + name)}); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if _, err := r.s3c().HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: ptr(bucketName), Key: ptr(rehearsed + "today.csv")}); err != nil {
		t.Error("what is young was deleted")
	}
	entries, err := r.ledger.Entries(t.Context(), old, time.Now().AddDate(1, 0, 0), 100)
	must(t, err)
	if entries[0].Act != audit.DrillPassed || entries[0].Reason != "the quarterly rehearsal" || !strings.HasSuffix(entries[0].By, "user/operator") {
		t.Errorf("%+v", entries[0])
	}
	if brakes, err := r.ledger.Brakes(t.Context()); err != nil || len(brakes) != 0 {
		t.Errorf("%+v, %v", brakes, err)
	}
	names, err := r.evidence.List(t.Context(), "drills/", "", 10)
	must(t, err)
	if len(names) != 1 || !strings.Contains(s.out, names[0]) {
		t.Errorf("%v", names)
	}
	r.reconcile()
	r.ok("verify", string(entries[0].RunID))
	again := r.ok(drillArgs("--json", "--resume="+regexp.MustCompile(`drill-\d\S+`).FindString(s.out))...)
	golden(t, "drill-json", drillMask(again))
}

// drillSaid is what a machine reads.
type drillSaid struct {
	RequestID string `json:"request_id"`
	RunID     string `json:"run_id"`
	Next      []string
	Trail     []audit.Entry
	Report    *redrive.DrillReport
}

func (r *region) drillStatus(status int, args ...string) (d drillSaid) {
	r.t.Helper()
	s := r.expunge(append(args, "--json")...)
	if s.status != status {
		r.t.Fatalf("status %d, want %d: %s%s", s.status, status, s.out, s.err)
	}
	must(r.t, json.Unmarshal([]byte(s.out), &d))
	return d
}

// Without --wait each command takes one step, and says how to go on.
func TestDrillStepByStep(t *testing.T) {
	r := stage(t)
	d := r.drillStatus(exitWaits, drillArgs()...)
	if len(d.Next) != 2 || !strings.Contains(d.Next[0], "--resume="+d.RequestID) || !strings.Contains(d.Next[1], "--give-up") {
		t.Fatalf("%+v", d)
	}
	resume := drillArgs("--resume=" + d.RequestID)
	for range 10 {
		r.now.onSleep()
		s := r.expunge(append(resume, "--json")...)
		if s.status == exitWaits {
			continue
		}
		must(t, json.Unmarshal([]byte(s.out), &d))
		if s.status != exitDone || !d.Report.Passed {
			t.Fatalf("%+v", s)
		}
		if again := r.drillStatus(exitDone, resume...); !again.Report.At.Equal(d.Report.At) {
			t.Errorf("%+v", again.Report)
		}
		return
	}
	t.Error("it does not end")
}

// A drill that is given up is on record as failed, and that stays.
func TestDrillGivenUp(t *testing.T) {
	r := stage(t)
	d := r.drillStatus(exitWaits, drillArgs()...)
	got := r.drillStatus(exitWrong, drillArgs("--resume="+d.RequestID, "--give-up")...)
	if got.Report == nil || got.Report.Passed {
		t.Fatalf("%+v", got)
	}
	if again := r.drillStatus(exitWrong, drillArgs("--resume="+d.RequestID, "--wait")...); again.Report.Passed {
		t.Errorf("%+v", again.Report)
	}
	golden(t, "drill-failed", drillMask(r.expunge(drillArgs("--resume="+d.RequestID, "--give-up")...)))
}

// Nothing is begun where a drill can not be led, and the brake never stays.
func TestDrillRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*region)
		args   []string
		status int
		reason string
	}{
		"another's brake": {func(r *region) {
			must(r.t, r.ledger.SetBrake(r.t.Context(), job.Brake{Policy: "exports", Reason: "an incident", By: "ben", At: at}))
		}, drillArgs(), exitWrong, "a brake is on exports"},
		"nothing expired":    {func(r *region) { r.now.at = old }, drillArgs(), exitWrong, "test has no expired object under exports, of 4 objects"},
		"no such policy":     {nil, drillArgs("--policy=other"), exitWrong, "no policy other"},
		"no such tenant":     {nil, []string{"drill", "--tenant=../x", "--reason=the rehearsal"}, exitWrong, "is not a tenant of any policy"},
		"several policies":   {func(r *region) { r.publish(changed(r.t, exportsPolicy, "name: exports", "name: more")) }, drillArgs(), exitUsage, "say which, of exports, more"},
		"no reason":          {nil, []string{"drill", "--tenant=test", "--reason=no"}, exitUsage, "--reason"},
		"a wrong id":         {nil, drillArgs("--resume=erase-1"), exitUsage, "begins with drill-"},
		"an unknown id":      {nil, drillArgs("--resume=drill-1"), exitWrong, "there is no drill drill-1"},
		"giving up nothing":  {nil, drillArgs("--give-up"), exitUsage, "which drill"},
		"no objects":         {nil, drillArgs("--prepare", "--objects=0"), exitUsage, "--objects is 1 to 1000"},
		"the guard stops it": {func(r *region) { r.lowLimits() }, drillArgs(), exitWrong, "the run is awaiting approval"},
		"enqueue does not answer": {func(r *region) {
			r.meet(refusing("lambda", "enqueue", http.StatusInternalServerError, "ServiceException"))
		}, drillArgs(), exitWrong, "ask function expunge-enqueue"},
		"the bucket can not be listed": {func(r *region) { r.meet(refusing("s3", bucketName, http.StatusForbidden, "AccessDenied")) }, drillArgs(), exitWrong, "list items"},
	} {
		t.Run(name, func(t *testing.T) {
			r := stage(t)
			before := 0
			if c.spoil != nil {
				c.spoil(r)
				brakes, err := r.ledger.Brakes(t.Context())
				must(t, err)
				before = len(brakes)
			}
			r.ends(c.status, c.reason, c.args...)
			r.meet(nil)
			if brakes, err := r.ledger.Brakes(t.Context()); err != nil || len(brakes) != before {
				t.Errorf("%+v, %v", brakes, err)
			}
		})
	}
}

// lowLimits lets the guard stop whatever more than one object is.
func (r *region) lowLimits() {
	r.t.Helper()
	text := changed(r.t, exportsPolicy, "version: 1", "version: 2\nlimits: {max_objects: 1}")
	p := r.publish(text)[0]
	must(r.t, r.ledger.Approve(r.t.Context(), policy.Approval{Policy: p.Name, Rev: 2, Version: p.Version, SHA256: p.SHA256(), By: "ana", Reason: "it was looked at", At: old}))
	r.deploy(text)
}

// deploy gives the region an enqueue function with another policy file.
func (r *region) deploy(text string) {
	r.t.Helper()
	enqueue, err := enqueuehandler.New(r.parts, fstest.MapFS{"exports.yaml": {Data: []byte(text)}})
	must(r.t, err)
	r.outputs.Enqueue += "-again"
	r.register(r.outputs.Enqueue, lambdago.NewHandler(enqueue))
	r.up()
}

// A brake that can not be taken off again is told before anything else.
func TestDrillBrakeStays(t *testing.T) {
	r := stage(t)
	calls := 0
	r.meet(func(c wire.Call) wire.Fate {
		if c.Service == "lambda" && strings.Contains(string(c.Body), `"op":"brake"`) {
			if calls++; calls > 1 {
				return wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: "ServiceException"}}
			}
		}
		return wire.Fate{}
	})
	s := r.ends(exitWrong, "the brake of this drill is still on exports", drillArgs()...)
	if !strings.Contains(s.out, "expunge brake off exports --reason=...") {
		t.Error(s.out)
	}
	r.meet(nil)
	d := r.drillStatus(exitWaits, drillArgs("--resume="+regexp.MustCompile(`drill-\S+`).FindString(s.out))...)
	if brakes, err := r.ledger.Brakes(t.Context()); err != nil || len(brakes) != 0 {
		t.Errorf("%+v: %+v, %v", d, brakes, err)
	}
}

// --prepare puts objects only where there is nothing to drill on, and says when they
// will have expired.
func TestDrillPrepare(t *testing.T) {
	r := stage(t)
	r.drillStatus(exitWaits, drillArgs("--prepare")...) // there were expired ones: nothing is put
	if n := r.objectsUnder(rehearsed); n != 4 {
		t.Errorf("%d objects", n)
	}
	r = newRegion(t, time.Date(2026, 3, 26, 10, 20, 0, 0, time.UTC))
	r.publish(exportsPolicy)
	r.ends(exitWrong, "nothing to drill on", drillArgs()...)
	s := r.ends(exitWaits, "the objects have expired from 2026-04-25T", drillArgs("--prepare", "--objects=3")...)
	if n := r.objectsUnder(rehearsed + "expunge-drill-"); n != 3 {
		t.Errorf("%d objects: %+v", n, s)
	}
}

// What is said of the expiry is true: a request takes the objects then, and an hour
// before it does not, whatever the clocks do meanwhile.
func TestDrillExpiry(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte(exportsPolicy))
	must(t, err)
	for put := time.Date(2026, 2, 20, 10, 20, 0, 0, time.UTC); put.Year() < 2027; put = put.Add(31 * time.Hour) {
		from := expiry(p, put)
		if !put.Before(requestCutoff(p, from)) || from.Sub(put.AddDate(0, 0, 30)) > 26*time.Hour {
			t.Fatalf("%s expires at %s", put, from)
		}
	}
}

func (r *region) objectsUnder(prefix string) int {
	r.t.Helper()
	out, err := r.s3c().ListObjectsV2(r.t.Context(), &awss3.ListObjectsV2Input{Bucket: ptr(bucketName), Prefix: &prefix})
	must(r.t, err)
	return len(out.Contents)
}

func (r *region) s3c() *awss3.Client {
	return awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
}

func ptr[T any](v T) *T { return &v }
