package region

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// A call is a line of testdata/calls.golden, which a test of internal/local writes: what
// a function's code was seen to ask of AWS.
type call struct{ function, action, resource string }

func (c call) String() string { return c.function + " " + c.action + " " + c.resource }

// role is the role of the call's function.
func (c call) role() string {
	return map[string]string{
		"enqueue": "EnqueueRole", "worker": "WorkerRole", "report-worker": "ReportWorkerRole",
		"reconcile": "ReconcileRole", "redrive": "RedriveRole", "hold": "HoldRole",
	}[c.function]
}

// calls are the lines of the file.
var calls = sync.OnceValue(func() []call {
	data, err := os.ReadFile("testdata/calls.golden")
	if err != nil {
		panic(err)
	}
	var all []call
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all = append(all, call{f[0], f[1], f[2]})
		}
	}
	return all
})

// A request is a call as AWS judges it: on one resource, with the prefix of a listing.
type request struct {
	call
	on, prefix string
}

// requests are the calls that the functions of a stack make. A call on the artifacts of
// a kind of policy is made for every policy of that kind.
func (t template) requests() []request {
	var all []request
	for _, c := range calls() {
		kind, rest, _ := strings.Cut(c.resource, ":")
		add := func(on, prefix string) { all = append(all, request{c, on, prefix}) }
		switch kind {
		case "ledger":
			add("<Ledger.Arn>", "")
		case "ledger/index":
			add("<Ledger.Arn>/index/"+contract.LedgerIndex, "")
		case "queue":
			add(map[string]string{"pages": "<Pages.Arn>", "report-pages": "<ReportPages.Arn>", "dead-letters": "<DeadLetters.Arn>"}[rest], "")
		case "function":
			add(map[string]string{"enqueue": "<Enqueue.Arn>", "redrive": "<Redrive.Arn>"}[rest], "")
		case "evidence":
			add(strings.TrimSuffix("<Evidence.Arn>/"+strings.Replace(rest, "*", "0b5e/77c1.jsonl.gz", 1), "/"), "")
		case "artifact":
			for _, of := range t.config.Policies {
				all = append(all, artifactRequests(c, rest, of)...)
			}
		default:
			add("no resource of the stack is called "+c.resource, "")
		}
	}
	return all
}

// artifactRequests are the requests of a call on a policy's artifacts, none if the policy
// is of another kind. A listing asks for all tenants, for one, and for one key.
func artifactRequests(c call, which string, of policy.Policy) (all []request) {
	what, is := strings.CutPrefix(which, string(of.Mode)+"/"+string(of.Versions)+"/")
	bucket, tenant := "arn:aws:s3:::"+of.Bucket, of.TenantPrefix(cmp.Or(of.Tenant, "acme-eu"))
	switch {
	case !is:
	case what == "bucket":
		all = append(all, request{c, bucket, ""})
	case what == "objects":
		all = append(all, request{c, bucket + "/" + tenant + "a/b.csv", ""}, request{c, bucket + "/" + tenant + "?*", ""})
	case what == "list":
		for _, prefix := range []string{of.Prefix(), tenant, tenant + "a/b.csv"} {
			all = append(all, request{c, bucket, prefix})
		}
	default:
		all = append(all, request{c, "nothing of a bucket is called " + what, ""})
	}
	return all
}

// allows judges a request by one grant, as IAM does: a pattern's * is any text and its ?
// any character, and a listing without a prefix meets no condition on one. Of conditions
// only that one is known; a grant under another allows nothing here.
func (g grant) allows(r request) bool {
	if g.effect != "Allow" || g.role != r.role() || !matches(g.action, r.action) || !matches(g.resource, r.on) {
		return false
	}
	if g.condition == "" {
		return true
	}
	var condition map[string]map[string]string
	if json.Unmarshal([]byte(g.condition), &condition) != nil || len(condition) != 1 || len(condition["StringLike"]) != 1 {
		return false
	}
	pattern, there := condition["StringLike"]["s3:prefix"]
	return there && r.prefix != "" && matches(pattern, r.prefix)
}

func matches(pattern, text string) bool {
	quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`^(?s:` + quoted + `)$`).MatchString(text)
}

// checkCallsGranted asks that every function may do what its code does.
func checkCallsGranted(t template) []string {
	var p problems
	grants := t.grants()
	for _, r := range t.requests() {
		p.want(slices.ContainsFunc(grants, func(g grant) bool { return g.allows(r) }),
			"%s calls %s on %s (prefix %q), and its role does not allow it", r.function, r.action, r.on, r.prefix)
	}
	return p
}

// uncalled are the grants that no code of ours uses, each with who uses it.
var uncalled = []struct{ role, action, resource, why string }{
	{"WorkerRole", "sqs:ReceiveMessage", "<Pages.Arn>", "Lambda's poller reads the queue with the function's role"},
	{"WorkerRole", "sqs:DeleteMessage", "<Pages.Arn>", "the poller acknowledges what the answer does not name"},
	{"WorkerRole", "sqs:GetQueueAttributes", "<Pages.Arn>", "the poller asks for the queue's timeout"},
	{"ReportWorkerRole", "sqs:ReceiveMessage", "<ReportPages.Arn>", "the same"},
	{"ReportWorkerRole", "sqs:DeleteMessage", "<ReportPages.Arn>", "the same"},
	{"ReportWorkerRole", "sqs:GetQueueAttributes", "<ReportPages.Arn>", "the same"},
	{"EnqueueRole", "sqs:SendMessage", "<ScheduleDeadLetters.Arn>", "Lambda keeps there an event that failed"},
	{"ReconcileRole", "sqs:SendMessage", "<ScheduleDeadLetters.Arn>", "the same"},
	{"RedriveRole", "sqs:SendMessage", "<ScheduleDeadLetters.Arn>", "the same"},
	{"*", "logs:CreateLogStream", "<*Logs.Arn>", "Lambda writes what the function prints"},
	{"*", "logs:PutLogEvents", "<*Logs.Arn>", "the same"},
	{"*", "xray:PutTelemetryRecords", "*", "Lambda writes the function's traces"},
	{"*", "xray:PutTraceSegments", "*", "the same"},
}

// checkGrantsCalled asks that no function may do what its code does not, but for the
// grants that others use in its name.
func checkGrantsCalled(t template) []string {
	var p problems
	requests := t.requests()
	for _, g := range t.grants() {
		if !slices.ContainsFunc(roster, func(f rosterEntry) bool { return f.name+"Role" == g.role }) {
			continue // the schedules' roles, which no code of ours has
		}
		excused := false
		for _, u := range uncalled {
			excused = excused || matches(u.role, g.role) && u.action == g.action && matches(u.resource, g.resource)
		}
		p.want(excused || slices.ContainsFunc(requests, g.allows), "%s may %s on %s %s, and no code of it does", g.role, g.action, g.resource, g.condition)
	}
	return p
}

// everyKind is the template of a region with a policy of every mode on current and on
// all versions, so that no line of the file is passed over.
var everyKind = sync.OnceValue(func() template {
	dir := folder("policies-of-every-kind")
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		for _, versions := range []policy.Versions{policy.CurrentVersions, policy.AllVersions} {
			name := string(mode) + "-" + string(versions)
			text := fmt.Sprintf(`name: %[1]s
version: 1
region: eu-west-1
bucket: %[1]s-bucket
keys: %[1]s/{tenant}/csv/
retention_days: 30
mode: %[2]s
versions: %[3]s
schedule: {every: daily, at: "04:30", zone: UTC}
`, name, mode, versions)
			if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o644); err != nil {
				panic(err)
			}
		}
	}
	templates, err := synthesise(given("regions", "eu-west-1", "policies", dir), "every-kind")
	if err != nil {
		panic(err)
	}
	return templates["eu-west-1"]
})

// TestGrantsAreTheCalls: a region with policies of every kind lets each function do what
// its code was seen to do, and nothing else.
func TestGrantsAreTheCalls(t *testing.T) {
	stack := everyKind()
	for _, c := range checks {
		for _, problem := range c.find(stack) {
			t.Errorf("%s: %s", c.name, problem)
		}
	}
	asked := map[call]bool{}
	for _, r := range stack.requests() {
		asked[r.call] = true
	}
	for _, c := range calls() {
		if !asked[c] {
			t.Errorf("no policy of this region is of the kind of %s", c)
		}
	}
	for _, u := range uncalled {
		if !slices.ContainsFunc(stack.grants(), func(g grant) bool {
			return matches(u.role, g.role) && u.action == g.action && matches(u.resource, g.resource)
		}) {
			t.Errorf("an exception for %s on %s, which %s is not granted", u.action, u.resource, u.role)
		}
	}
}

// TestEveryGrantIsNeeded takes each grant that a call uses away, one at a time: some call
// is refused then.
func TestEveryGrantIsNeeded(t *testing.T) {
	stack := everyKind()
	requests, grants := stack.requests(), stack.grants()
	for i, g := range grants {
		others := slices.Delete(slices.Clone(grants), i, i+1)
		if slices.ContainsFunc(requests, g.allows) && !slices.ContainsFunc(requests, func(r request) bool {
			return g.allows(r) && !slices.ContainsFunc(others, func(o grant) bool { return o.allows(r) })
		}) {
			t.Errorf("%s may %s on %s %s, which another grant allows too", g.role, g.action, g.resource, g.condition)
		}
	}
}

// TestJudgementOfAGrant: the evaluator says no where IAM does.
func TestJudgementOfAGrant(t *testing.T) {
	below := `{"StringLike":{"s3:prefix":"exports/*"}}`
	list := request{call{"enqueue", "s3:ListBucket", ""}, "arn:aws:s3:::acme", "exports/acme/"}
	whole := list
	whole.prefix = ""
	other := list
	other.prefix = "export"
	for _, c := range []struct {
		name string
		grant
		request
		allows bool
	}{
		{"a listing below the prefix", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme", below}, list, true},
		{"a listing of the whole bucket", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme", below}, whole, false},
		{"a listing of another prefix", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme", below}, other, false},
		{"a bucket whose name goes on", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme-other", below}, list, false},
		{"the objects of the bucket", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme/*", below}, list, false},
		{"another function", grant{"HoldRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme", below}, list, false},
		{"a deny", grant{"EnqueueRole", "Deny", "s3:ListBucket", "arn:aws:s3:::acme", ""}, list, false},
		{"a condition that is not known", grant{"EnqueueRole", "Allow", "s3:ListBucket", "arn:aws:s3:::acme", `{"Bool":{"aws:SecureTransport":"true"}}`}, list, false},
		{"a pattern", grant{"EnqueueRole", "Allow", "s3:List*", "arn:aws:s3:::ac?e", ""}, list, true},
	} {
		if got := c.grant.allows(c.request); got != c.allows {
			t.Errorf("%s: allowed is %v", c.name, got)
		}
	}
}
