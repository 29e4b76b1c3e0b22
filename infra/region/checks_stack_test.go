package region

import (
	"regexp"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/contract"
)

// kinds is the closed list of what a stack is made of. What is not here would be a way
// in (a function's address, an API), a copy of something between regions (CD-01), or a
// function of the CDK's own with rights of its own (CD-04).
var kinds = strings.Fields(`
	AWS::CloudWatch::Alarm AWS::CloudWatch::Dashboard AWS::DynamoDB::GlobalTable
	AWS::IAM::ManagedPolicy AWS::IAM::Policy AWS::IAM::Role AWS::KMS::Key
	AWS::Lambda::EventInvokeConfig AWS::Lambda::EventSourceMapping AWS::Lambda::Function AWS::Logs::LogGroup
	AWS::S3::Bucket AWS::S3::BucketPolicy AWS::SNS::Subscription AWS::SNS::Topic AWS::SNS::TopicPolicy
	AWS::SQS::Queue AWS::SQS::QueuePolicy AWS::Scheduler::Schedule AWS::Scheduler::ScheduleGroup`)

func checkKinds(t template) []string {
	var p problems
	for _, x := range t.things("") {
		p.want(slices.Contains(kinds, x.kind), "%s is a %s", x.name, x.kind)
	}
	return p
}

// regionWord is the name of any region, of today or to come.
var regionWord = regexp.MustCompile(`\b[a-z]{2}(-gov|-iso[a-z]?)?-(central|north|south|east|west|northeast|northwest|southeast|southwest)-[0-9]\b`)

// checkRegions asks that no resource knows of another region (CD-01, R131 to R135). The
// dashboard alone shows the deployment's regions side by side, and knows no ARN of them.
func checkRegions(t template) []string {
	var p problems
	for _, x := range t.things("") {
		text := word(x.properties)
		for _, name := range regionWord.FindAllString(text, -1) {
			shown := x.kind == "AWS::CloudWatch::Dashboard" && slices.Contains(t.config.Regions, name)
			p.want(name == t.config.Region || shown, "%s names %s", x.name, name)
		}
		for _, arn := range regexp.MustCompile(`arn:[^"\s]*`).FindAllString(text, -1) {
			for _, name := range regionWord.FindAllString(arn, -1) {
				p.want(name == t.config.Region, "%s names %s", x.name, arn)
			}
		}
	}
	return p
}

// checkPublic asks that nothing can be reached by everybody (R151).
func checkPublic(t template) []string {
	var p problems
	for _, bucket := range t.things(kindBucket) {
		for _, block := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			p.want(bucket.at("PublicAccessBlockConfiguration", block) == true, "bucket %s lacks %s", bucket.name, block)
		}
		p.want(bucket.at("AccessControl") == nil && bucket.at("WebsiteConfiguration") == nil, "bucket %s has an access control list, or is a web site", bucket.name)
	}
	for _, x := range t.things("") {
		if !slices.Contains([]string{kindQueue, kindTopic, kindBucket, kindKey}, x.kind) {
			continue
		}
		for _, s := range t.on(x) {
			bounded := x.kind == kindKey && strings.Contains(s.condition, `"kms:CallerAccount":"<AWS::AccountId>"`)
			p.want(s.effect == "Deny" || !anyone(s.principal) || bounded, "everybody may %q on %s", s.actions, x.name)
		}
	}
	return p
}

// physical are the properties that give a resource of a kind a name in the account.
var physical = map[string]string{
	kindQueue: "QueueName", kindTopic: "TopicName", kindFunction: "FunctionName", kindBucket: "BucketName", kindTable: "TableName", kindLogs: "LogGroupName",
	"AWS::IAM::ManagedPolicy": "ManagedPolicyName", "AWS::IAM::Role": "RoleName", "AWS::Scheduler::Schedule": "Name", "AWS::Scheduler::ScheduleGroup": "Name",
	kindAlarm: "AlarmName", "AWS::CloudWatch::Dashboard": "DashboardName", "AWS::SNS::Subscription": "SubscriptionName",
}

// named returns the physical names of a template by the logical id.
func (t template) physical() map[string]string {
	found := map[string]string{}
	for _, x := range t.things("") {
		if property, may := physical[x.kind]; may && x.at(property) != nil {
			found[x.name] = x.word(property)
		}
	}
	return found
}

// checkNames asks for a name only where there has to be one: a name that is taken makes
// the next creation fail (CD-03).
func checkNames(t template) []string {
	var p problems
	stack := contract.StackName(t.config.Stage)
	want := map[string]string{
		"Pages": stack + "-pages", "ReportPages": stack + "-report-pages", "DeadLetters": stack + "-dead-letters", "ScheduleDeadLetters": stack + "-schedule-dead-letters",
	}
	for name, got := range t.physical() {
		x := t.byName(name)
		switch x.kind {
		case kindQueue:
			p.want(got == want[name], "queue %s is called %s", name, got)
		case "AWS::Scheduler::ScheduleGroup":
			p.want(strings.Contains(got, t.config.Stage), "the group %s does not name its stage", got)
		case kindAlarm, "AWS::CloudWatch::Dashboard": // dashboards belong to the account, and alarms are read by people
			p.want(strings.HasPrefix(got, stack+"-"), "%s is called %s, which does not name its stage", name, got)
			p.want(x.kind == kindAlarm || strings.HasSuffix(got, "-"+t.config.Region), "dashboard %s does not name its region", got)
		default:
			p.want(false, "%s %s has the name %s", x.kind, name, got)
		}
		p.want(x.deletion[0] != "Retain", "%s is retained under the name %s: the next creation would fail", name, got)
	}
	return p
}

func (t template) byName(name string) thing {
	for _, x := range t.things("") {
		if x.name == name {
			return x
		}
	}
	return thing{}
}

// checkTags asks for the two tags by which a bill is divided, and by which a deploying
// role is bound to the keys of this application.
func checkTags(t template) []string {
	var p problems
	want := []string{"application=expunge", "stage=" + t.config.Stage}
	for _, x := range t.things("") {
		if !slices.Contains([]string{kindQueue, kindTopic, kindFunction, kindBucket, kindLogs, kindKey, kindAlarm, kindTable}, x.kind) {
			continue
		}
		tags := values(x.at("Tags"))
		if x.kind == kindTable {
			tags = values(x.at("Replicas", 0, "Tags"))
		}
		var has []string
		for _, tag := range tags {
			has = append(has, word(at(tag, "Key"))+"="+word(at(tag, "Value")))
		}
		p.equal("the tags of "+x.name, has, want)
	}
	return p
}

// checkRetained asks that what can not be made again outlives the stack, and what can
// goes with it.
func checkRetained(t template) []string {
	var p problems
	for _, x := range t.things("") {
		keep := slices.Contains([]string{kindTable, kindBucket, kindLogs, kindKey}, x.kind)
		want := [2]string{"Retain", "Retain"}
		p.want(keep == (x.deletion == want), "%s %s: %q", x.kind, x.name, x.deletion)
	}
	return p
}

// checkOutputs reads the outputs as the operator's tool does.
func checkOutputs(t template) []string {
	var p problems
	given := map[string]string{}
	for name, output := range t.Outputs {
		given[name] = word(t.written(at(output, "Value")))
		p.want(at(output, "Export") == nil, "the output %s is exported: another stack could lean on it", name)
	}
	got, missing := contract.ParseOutputs(given)
	p.want(len(missing) == 0, "the outputs lack %q", missing)
	want := contract.Outputs{
		Region: t.config.Region, Stage: t.config.Stage, Table: "<Ledger>", Evidence: "<Evidence>",
		PagesQueue: "<Pages>", ReportQueue: "<ReportPages>", LettersQueue: "<DeadLetters>",
		Enqueue: "<Enqueue>", Worker: "<Worker>", ReportWorker: "<ReportWorker>", Redrive: "<Redrive>", Reconcile: "<Reconcile>", Hold: "<Hold>",
		Schedules: t.thing("AWS::Scheduler::ScheduleGroup", "Schedules").word("Name"), PageTopic: "<PageTopic>", TicketTopic: "<TicketTopic>",
		CodeVersion: t.thing(kindFunction, "Worker").word("Environment", "Variables", "EXPUNGE_CODE_VERSION"),
		Concurrency: t.thing(kindFunction, "Worker").word("Environment", "Variables", "EXPUNGE_CONCURRENCY"),
	}
	p.want(got == want, "the outputs say %+v, want %+v", got, want)
	for _, id := range []string{"OnCall", "Compliance"} { // for a team to attach
		var policies []string // what does not fit one is in others
		for _, policy := range t.things("AWS::IAM::ManagedPolicy") {
			if strings.HasPrefix(policy.name, id) {
				policies = append(policies, policy.ref())
			}
		}
		p.equal("the output "+id+"Policy", strings.Split(given[id+"Policy"], ","), policies)
		delete(given, id+"Policy")
	}
	p.want(len(given) == len(want.Render()), "the outputs say more than the tool and the team read: %v", given)
	return p
}
