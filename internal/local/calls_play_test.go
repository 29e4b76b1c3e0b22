package local

import (
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/contract"
	fakes3 "github.com/expunge-aws/expunge/internal/emulator/s3"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// The policies of the region: two that work on current versions in a plain and in a
// versioned bucket, one on all versions, and two that never delete.
var (
	rolesEnforce = []string{
		rolesPolicy("plain", 1, job.Enforce, policy.CurrentVersions), rolesPolicy("kept", 1, job.Enforce, policy.CurrentVersions),
		rolesPolicy("history", 1, job.Enforce, policy.AllVersions),
	}
	rolesReport = []string{
		rolesPolicy("seen", 1, job.ReportOnly, policy.CurrentVersions), rolesPolicy("seen-history", 1, job.ReportOnly, policy.AllVersions),
	}
	rolesDeleting = []string{"plain", "kept", "history"}
	rolesNames    = append(rolesDeleting[:3:3], "seen", "seen-history")
)

var (
	lost     = wire.Fate{Lost: true}
	slowed   = wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}}
	refused  = wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}}
	broken   = wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: "We encountered an internal error."}}
	attempts = 3 // of the SDK, after which a call has failed
)

// on restricts a match to what a part of the path names.
func on(match func(wire.Call) bool, part string) func(wire.Call) bool {
	return func(c wire.Call) bool { return match(c) && strings.Contains(c.Resource, part) }
}

// lists matches a function's listings in any of their two forms.
func lists(function string) func(wire.Call) bool {
	return func(c wire.Call) bool { return c.Caller == function && strings.HasPrefix(c.Operation, "ListObject") }
}

// report plays the first day: nobody has approved a version, so every run only reports,
// those of policies that enforce too. Every document's answer is lost once, a page dies
// and is brought back, and a drill is passed.
func (r *roles) report() {
	for _, name := range rolesNames {
		r.bucket(name+"-bucket", name == "kept" || strings.HasSuffix(name, "history"))
	}
	r.deploy(append(rolesEnforce[:3:3], rolesReport...)...)
	r.stock("acme")
	r.ask("hold", order{"place": signed(order{"id": "h", "tenant": "acme", "scope": "prefix", "value": "plain/acme/kept-"})}, nil)

	r.strike(len(rolesNames), lists("enqueue"), refused) // at which enqueue looks for the cause
	for _, name := range rolesNames {
		if _, err := r.invoke(r.Context(), "enqueue", []byte(`{"policy":"`+name+`","scheduled":"`+r.clock.Now().Format(time.RFC3339)+`"}`)); err == nil {
			r.Errorf("a run of %s opened on a bucket that refuses", name)
		}
	}
	runs := map[string]job.RunID{}
	for _, name := range rolesNames {
		if name == "seen" { // its messages are not taken in, and reconcile sends them
			r.strike(attempts, by("enqueue", "SendMessageBatch"), broken)
			_, _ = r.invoke(r.Context(), "enqueue", []byte(`{"policy":"seen","scheduled":"`+r.clock.Now().Format(time.RFC3339)+`"}`))
			runs[name] = job.ScheduledRunID(rolesRegion, name, r.clock.Now())
			continue
		}
		runs[name] = r.tick(name)
	}
	r.stray("report-pages")
	r.strike(attempts, on(lists("report-worker"), "plain-bucket"), slowed)
	r.strike(1, on(lists("report-worker"), "seen-history-bucket"), refused)
	for _, folder := range []string{"plan", "receipt"} {
		r.strike(1, on(by("report-worker", "PutObject"), "/evidence/"+folder), lost)
	}
	r.workFor(15 * time.Minute)
	r.pass() // sends what was not taken in
	r.workFor(15 * time.Minute)
	r.strike(1, by("reconcile", "PutObject"), lost)
	r.pass()
	r.revive("seen-history")
	r.calm()
	r.drill()
	r.approve(runs)
}

// stock uploads two expired objects of the tenant to every bucket, and a fresh one.
func (r *roles) stock(tenant string) {
	for _, name := range rolesNames {
		r.put(name, tenant, "old-1", 40*day)
		r.put(name, tenant, "old-2", 35*day)
		r.put(name, tenant, "young", day)
	}
}

// stray sends a message that is no command.
func (r *roles) stray(name string) {
	r.Helper()
	q, err := r.queues.Queue(rolesRegion, name)
	r.must(err)
	_, err = q.Send(fakesqs.Message{Body: "{"})
	r.must(err)
}

// revive plans a redrive of a policy's dead pages, once its gates are open, and applies it
// to one of them. Reconcile asks for the rest.
func (r *roles) revive(name string) {
	r.Helper()
	r.clock.Advance(20 * time.Minute)
	r.ask("redrive", order{"op": "inspect"}, nil)
	var plan moved
	r.ask("redrive", order{"op": "plan", "policy": name}, &plan)
	if plan.Moves == 0 {
		r.Fatalf("no page of %s can be redriven", name)
	}
	r.ask("redrive", signed(order{"op": "apply", "token": plan.Token, "max": 1}), nil)
	if plan.Moves > 1 {
		r.clock.Advance(2 * time.Minute)
		r.pass("redrive")
	}
	r.workFor(15 * time.Minute)
	r.pass()
}

// drill ends a page that no worker has had, brings it back, and is judged.
func (r *roles) drill() {
	r.put("seen", "test", "old", 40*day)
	var began struct {
		RunID job.RunID `json:"run_id"`
	}
	r.ask("enqueue", order{"policy": "seen", "tenant": "test", "request_id": "drill-1", "reason": "a recovery is rehearsed"}, &began)
	page := ref(r.page(began.RunID, "test"))
	drill, finish := signed(order{"op": "drill"}), signed(order{"op": "drill-finish"})
	for name, value := range page {
		drill[name], finish[name] = value, value
	}
	r.ask("redrive", drill, nil)
	r.pass() // writes the dead page's letter
	r.workFor(15 * time.Minute)
	r.revive("seen")
	r.ask("redrive", finish, nil)
}

// approve lets the versions delete: one by the order of an operator, the others as if
// that had been long ago.
func (r *roles) approve(runs map[string]job.RunID) {
	r.ask("redrive", signed(order{"op": "approve-version", "policy": "plain", "policy_version": 1, "run_id": runs["plain"]}), nil)
	r.must(approve(r.Context(), r.ledger, []policy.Policy{parse(r, rolesEnforce[1]), parse(r, rolesEnforce[2])}, r.clock.Now(), ""))
}

// enforce plays a day on which the policies delete. The store asks to slow down, the
// answers of the documents are lost, a scan stops half way, messages are not taken in,
// and somebody uploads the same bytes again right before they are deleted.
func (r *roles) enforce() {
	r.clock.Advance(24 * time.Hour)
	r.stock("beta")
	for _, name := range rolesDeleting {
		r.put(name, "beta", "old-\x01", 40*day) // a key that XML can not carry
	}
	r.strike(-1, func(c wire.Call) bool { return lists("enqueue")(c) && c.Query.Get("max-keys") == "" }, broken)
	_, _ = r.invoke(r.Context(), "enqueue", []byte(`{"policy":"plain","scheduled":"`+r.clock.Now().Format(time.RFC3339)+`"}`))
	r.calm()
	r.pass("enqueue") // goes on with the scan
	r.strike(attempts, by("enqueue", "SendMessageBatch"), broken)
	_, _ = r.invoke(r.Context(), "enqueue", []byte(`{"policy":"history","scheduled":"`+r.clock.Now().Format(time.RFC3339)+`"}`))
	r.tick("kept")
	r.stray("pages")
	r.twin("kept/beta/old-1")
	r.strike(1, on(by("worker", "DeleteObjects"), "plain-bucket"), slowed)
	for _, folder := range []string{"plan", "receipt"} {
		r.strike(1, on(by("worker", "PutObject"), "/evidence/"+folder), lost)
	}
	r.workFor(30 * time.Minute)
	r.pass()
	r.workFor(30 * time.Minute)
	r.pass()
	r.calm()
}

// twin uploads an object's bytes again at the moment of the next bulk delete in its
// bucket: a delete marker then covers what nobody has decided about, and is taken back.
func (r *roles) twin(key string) {
	name, _, _ := strings.Cut(key, "/")
	done := false
	r.meet(func(c wire.Call) (wire.Fate, bool) {
		if !done && by("worker", "DeleteObjects")(c) && strings.Contains(string(c.Body), key) {
			done = true
			r.must(r.s3.Seed(name+"-bucket", func(yield func(fakes3.Object) bool) { yield(fakes3.Object{Key: key, Body: []byte(key)}) }))
		}
		return wire.Fate{}, false
	})
}

// die plays a day on which the store answers no delete: pages die with open intents, and
// are brought back.
func (r *roles) die() {
	r.clock.Advance(24 * time.Hour)
	r.stock("back")
	r.put("plain", "back-too", "old", 40*day)
	r.fail()
	for _, name := range rolesDeleting {
		r.tick(name)
	}
	r.workFor(2 * time.Hour)
	r.calm()
	r.pass()
	r.revive("plain")
	r.revive("kept")
	r.revive("history")
}

// fail lets one object of each first delete go and answers for none, and refuses the next
// deletes for a fault of the store's own.
func (r *roles) fail() {
	within := func(is bool) func(string) *wire.Error {
		return func(key string) *wire.Error {
			if strings.HasSuffix(key, "/old-1") == is {
				return broken.Error
			}
			return nil
		}
	}
	seen := map[string]bool{}
	r.meet(func(c wire.Call) (wire.Fate, bool) {
		switch again := seen[c.Resource]; {
		case !by("worker", "DeleteObjects")(c):
			return wire.Fate{}, false
		case again:
			return broken, true
		default:
			seen[c.Resource] = true
			return wire.Fate{Entries: within(false), EntriesAfter: within(true)}, true
		}
	})
}

// switchOff plays a release after which the policies do not delete any more. Pages of
// the day before have died with open intents, and a hold has come. What those intents
// have done is looked at by hold and, once the pages are discarded, by the worker.
func (r *roles) switchOff() {
	r.clock.Advance(24 * time.Hour)
	r.stock("late")
	for _, name := range rolesDeleting {
		r.put(name, "late", "also", 40*day)
	}
	r.fail()
	pages := []order{}
	for _, name := range rolesDeleting {
		pages = append(pages, ref(r.page(r.tick(name), "late")))
	}
	r.workFor(2 * time.Hour)
	r.calm()
	holds := []order{{"tenant": "late", "id": "all"}}
	r.ask("hold", order{"place": signed(order{"tenant": "late", "id": "all", "scope": "tenant"})}, nil)
	for _, name := range rolesDeleting {
		r.ask("hold", order{"place": signed(order{"tenant": "late", "id": name, "scope": "item", "value": name + "/late/old-1"})}, nil)
		holds = append(holds, order{"tenant": "late", "id": name})
	}
	look := func() {
		for _, h := range holds {
			r.ask("hold", order{"ask": h}, nil)
		}
	}
	look()
	after := rolesReport
	for _, name := range rolesDeleting {
		versions := policy.CurrentVersions
		if name == "history" {
			versions = policy.AllVersions
		}
		after = append(after, rolesPolicy(name, 2, job.ReportOnly, versions))
	}
	r.deploy(after...)
	look()
	r.ask("redrive", signed(order{"op": "discard", "pages": pages}), nil)
	r.workFor(2 * time.Hour)
	r.pass()
	look()
	r.ask("hold", order{"release": signed(order{"tenant": "late", "id": "all"})}, nil)
}

// lose plays what nobody should be able to do: the plans of a page with an open intent are
// removed from the evidence. Whoever reads them must be told that they are absent.
func (r *roles) lose() {
	r.deploy(append(rolesEnforce[:3:3], rolesReport...)...)
	r.clock.Advance(24 * time.Hour)
	r.put("history", "bare", "old", 40*day)
	r.strike(-1, by("worker", "DeleteObjects"), broken)
	run := r.tick("history")
	r.workFor(2 * time.Hour)
	r.calm()
	r.pass()
	kept := evidence.NewS3(r.config, evidenceName)
	names, err := kept.List(r.Context(), contract.EvidencePlans+string(run)+"/", "", 100)
	r.must(err)
	client := s3.NewFromConfig(r.config.Config, func(o *s3.Options) { o.UsePathStyle = true })
	for _, name := range names {
		_, err := client.DeleteObject(r.Context(), &s3.DeleteObjectInput{Bucket: aws.String(evidenceName), Key: &name})
		r.must(err)
	}
	r.ask("hold", order{"place": signed(order{"tenant": "bare", "scope": "item", "value": "history/bare/old"})}, nil)
	r.revive("history")
}
