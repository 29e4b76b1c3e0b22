package region

import (
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// checkTrust asks who may take each role: Lambda the functions', and the scheduler the
// schedules' for this account's group alone.
func checkTrust(t template) []string {
	var p problems
	for _, role := range t.things("AWS::IAM::Role") {
		p.want(role.at("ManagedPolicyArns") == nil, "role %s has managed policies", role.name)
		want := statement{effect: "Allow", principal: `{"Service":"lambda.amazonaws.com"}`, actions: []string{"sts:AssumeRole"}}
		if strings.HasSuffix(role.name, "ScheduleRole") {
			want.principal = `{"Service":"scheduler.amazonaws.com"}`
			want.condition = `{"StringEquals":{"aws:SourceAccount":"<AWS::AccountId>","aws:SourceArn":"<Schedules.Arn>"}}`
		}
		got := statements(role.at("AssumeRolePolicyDocument"))
		p.want(len(got) == 1 && got[0].effect == want.effect && got[0].principal == want.principal && slices.Equal(got[0].actions, want.actions) && got[0].condition == want.condition,
			"role %s can be taken by %+v, want %+v", role.name, got, want)
	}
	return p
}

// traces are the two actions that take no resource:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsx-ray.html
var traces = []string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}

// checkWildcards asks for exact actions, and for resources that are open only below a
// folder of the evidence or a policy's keys.
func checkWildcards(t template) []string {
	var p problems
	open := map[string]bool{}
	for _, folder := range []string{"plan", "receipt", "manifest", "drills"} {
		open["<Evidence.Arn>/"+folder+"/*"] = true
	}
	for _, of := range t.config.Policies {
		open[keysOf(of)] = true
	}
	for _, g := range t.grants() {
		p.want(g.effect == "Allow", "%s has a %s on %s", g.role, g.effect, g.action)
		p.want(!strings.ContainsAny(g.action, "*?") && !strings.HasPrefix(g.action, "Not"), "%s may %s on %s", g.role, g.action, g.resource)
		p.want(!strings.ContainsAny(g.resource, "*?") || open[g.resource] || g.resource == "*" && slices.Contains(traces, g.action), "%s may %s on %s", g.role, g.action, g.resource)
	}
	return p
}

// keysOf is the ARN of a policy's keys: every tenant's folder, and below it what the
// policy works on.
func keysOf(of policy.Policy) string {
	return "arn:aws:s3:::" + of.Bucket + "/" + strings.Replace(of.Keys, "{tenant}", "*", 1) + "*"
}

// checkArtifacts asks of every grant outside the stack that it is for a bucket of a
// policy and goes no further than that policy; and that nobody but the worker deletes.
func checkArtifacts(t template) []string {
	var p problems
	type may struct{ role, action, resource, condition string }
	allowed := map[may]bool{}
	allow := func(role, action, resource, condition string) { allowed[may{role, action, resource, condition}] = true }
	for _, of := range t.config.Policies {
		bucket, below := "arn:aws:s3:::"+of.Bucket, `{"StringLike":{"s3:prefix":"`+of.Prefix()+`*"}}`
		list, enforced, all := "s3:ListBucket", of.Mode == job.Enforce, of.Versions == policy.AllVersions
		if all {
			list = "s3:ListBucketVersions"
		}
		for _, role := range []string{"EnqueueRole", "WorkerRole", "ReportWorkerRole", "HoldRole"} {
			allow(role, list, bucket, below)
		}
		allow("EnqueueRole", "s3:GetBucketRequestPayment", bucket, "")
		if !all { // what became of a current version is told by the versions
			allow("WorkerRole", "s3:GetBucketVersioning", bucket, "")
			allow("WorkerRole", "s3:ListBucketVersions", bucket, below)
		}
		if !enforced {
			continue
		}
		allow("WorkerRole", "s3:DeleteObjectVersion", keysOf(of), "")
		if !all {
			allow("WorkerRole", "s3:DeleteObject", keysOf(of), "")
			allow("WorkerRole", "s3:GetObject", keysOf(of), "")
		}
	}
	found := map[may]bool{}
	for _, g := range t.grants() {
		if strings.HasPrefix(g.resource, "<") || g.resource == "*" {
			continue
		}
		is := may{g.role, g.action, g.resource, g.condition}
		p.want(allowed[is], "%s may %s on %s %s", g.role, g.action, g.resource, g.condition)
		found[is] = true
	}
	for is := range allowed {
		p.want(found[is], "%s may not %s on %s %s", is.role, is.action, is.resource, is.condition)
	}
	return p
}

// checkTwin asks that report-only is what its role says (R137): no action that deletes,
// of any service, and of an artifact nothing but its name. Lambda's poller acknowledges
// with the role of the function, so its own queue is the exception.
func checkTwin(t template) []string {
	var p problems
	for _, g := range t.grantsOf("ReportWorkerRole") {
		deletes := strings.Contains(g.action, "Delete") || strings.Contains(g.action, "Abort") || strings.Contains(g.action, "Purge")
		own := g.action == "sqs:DeleteMessage" && g.resource == "<ReportPages.Arn>"
		p.want(!deletes || own, "the twin may %s on %s", g.action, g.resource)
		if strings.HasPrefix(g.action, "s3:") && !strings.HasPrefix(g.resource, "<Evidence.Arn>") {
			p.want(g.action == "s3:ListBucket" || g.action == "s3:ListBucketVersions", "the twin may %s on %s", g.action, g.resource)
		}
	}
	p.want(len(t.grantsOf("ReportWorkerRole")) > 0, "the twin may nothing at all")
	return p
}

// checkMessages asks who may receive and delete messages: each worker its own pages,
// and dead letters nobody but redrive.
func checkMessages(t template) []string {
	var p problems
	readers := map[string]string{"WorkerRole": "<Pages.Arn>", "ReportWorkerRole": "<ReportPages.Arn>", "RedriveRole": "<DeadLetters.Arn>"}
	senders := map[string][]string{
		"EnqueueRole":      {"<Pages.Arn>", "<ReportPages.Arn>", "<ScheduleDeadLetters.Arn>"},
		"ReconcileRole":    {"<Pages.Arn>", "<ReportPages.Arn>", "<DeadLetters.Arn>", "<ScheduleDeadLetters.Arn>"},
		"RedriveRole":      {"<Pages.Arn>", "<ReportPages.Arn>", "<ScheduleDeadLetters.Arn>"},
		"WorkerRole":       {"<DeadLetters.Arn>"},
		"ReportWorkerRole": {"<DeadLetters.Arn>"},
	}
	sends := map[string][]string{}
	for _, g := range t.grants() {
		switch {
		case !strings.HasPrefix(g.action, "sqs:"):
		case g.action == "sqs:SendMessage":
			sends[g.role] = append(sends[g.role], g.resource)
		default:
			p.want(g.resource == readers[g.role], "%s may %s on %s", g.role, g.action, g.resource)
		}
	}
	for _, role := range t.things("AWS::IAM::Role") {
		want := senders[role.name]
		if strings.HasSuffix(role.name, "ScheduleRole") {
			want = []string{"<ScheduleDeadLetters.Arn>"}
		}
		p.equal(role.name+" may send to", sends[role.name], want)
	}
	for role, queue := range readers {
		for _, action := range []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"} {
			p.want(slices.Contains(t.granted(role), action+" "+queue), "%s may not %s on %s", role, action, queue)
		}
	}
	return p
}

// checkLedgerRights asks that nobody can delete a row, change one in place or read
// them all: every write of the ledger is a put on condition.
func checkLedgerRights(t template) []string {
	var p problems
	rows := []string{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"}
	for _, g := range t.grants() {
		if !strings.HasPrefix(g.action, "dynamodb:") {
			continue
		}
		switch {
		case g.resource == "<Ledger.Arn>/index/open-since":
			p.want(g.action == "dynamodb:Query" && (g.role == "ReconcileRole" || g.role == "RedriveRole"), "%s may %s on the index", g.role, g.action)
		case g.action == "dynamodb:ConditionCheckItem":
			p.want(g.role == "WorkerRole" && g.resource == "<Ledger.Arn>", "%s may %s on %s", g.role, g.action, g.resource)
		default:
			p.want(slices.Contains(rows, g.action) && g.resource == "<Ledger.Arn>", "%s may %s on %s", g.role, g.action, g.resource)
		}
	}
	for _, f := range roster {
		for _, action := range rows {
			p.want(slices.Contains(t.granted(f.name+"Role"), action+" <Ledger.Arn>"), "%s may not %s", f.name, action)
		}
	}
	return p
}

// checkEvidenceRights asks that evidence is written and read, and nothing else: no role
// removes it, changes its bucket or lifts a lock.
func checkEvidenceRights(t template) []string {
	var p problems
	folders := map[string]string{
		"WorkerRole": "plan receipt", "ReportWorkerRole": "plan receipt", "ReconcileRole": "manifest", "RedriveRole": "drills",
	}
	for _, g := range t.grants() {
		if strings.HasPrefix(g.resource, "<AccessLogs") {
			p.want(false, "%s may %s on the access logs", g.role, g.action)
		}
		below, ours := strings.CutPrefix(g.resource, "<Evidence.Arn>")
		if !ours {
			continue
		}
		folder := strings.TrimSuffix(strings.TrimPrefix(below, "/"), "/*")
		switch g.action {
		case "s3:ListBucket":
			p.want(below == "", "%s may list %s", g.role, g.resource)
		case "s3:GetObject":
			p.want(folder != "", "%s may read all evidence", g.role)
		case "s3:PutObject":
			p.want(slices.Contains(strings.Fields(folders[g.role]), folder), "%s may write to %s", g.role, g.resource)
		default:
			p.want(false, "%s may %s on %s", g.role, g.action, g.resource)
		}
	}
	for role, names := range folders {
		for _, folder := range strings.Fields(names) {
			p.want(slices.Contains(t.granted(role), "s3:PutObject <Evidence.Arn>/"+folder+"/*"), "%s may not write to %s", role, folder)
		}
	}
	return p
}

// checkBoundary asks for the permissions boundary on every role.
func checkBoundary(t template) []string {
	var p problems
	want := t.config.PermissionsBoundary
	if want != "" && !strings.HasPrefix(want, "arn:") {
		want = "arn:aws:iam::<AWS::AccountId>:policy/" + want
	}
	for _, role := range t.things("AWS::IAM::Role") {
		p.want(role.word("PermissionsBoundary") == want, "role %s is bounded by %q, want %q", role.name, role.word("PermissionsBoundary"), want)
	}
	return p
}
