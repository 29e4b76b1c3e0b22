package region

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/go-json-experiment/json"
)

// nagged declares stacks with two packs of rules of other people's, and returns what
// they find: "<construct> <rule>", in order.
func nagged(t *testing.T, out string, contexts ...map[string]any) []string {
	t.Helper()
	context := given("@aws-cdk/core:annotationsInValidationReport", false) // or a finding would end the synth
	dir := folder(out)
	app := awscdk.NewApp(&awscdk.AppProps{
		Context: &context, Outdir: &dir, AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false), StackTraces: jsii.Bool(false),
		BuiltinCloudFormationValidation: jsii.Bool(false),
	})
	for _, context := range contexts {
		all, err := configs(context)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if _, err := New(app, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	props := &cdknag.NagPackProps{Reports: jsii.Bool(false)}
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(props), nil)
	awscdk.Aspects_Of(app).Add(cdknag.NewServerlessChecks(props), nil)
	app.Synth(nil)

	files, err := filepath.Glob(filepath.Join(dir, "*.metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var constructs map[string][]struct {
			Type string `json:"type"`
			Data any    `json:"data"`
		}
		if err := json.Unmarshal(data, &constructs); err != nil {
			t.Fatal(err)
		}
		for path, entries := range constructs {
			for _, entry := range entries {
				if entry.Type == "aws:cdk:error" || entry.Type == "aws:cdk:warning" {
					rule, _, _ := strings.Cut(fmt.Sprint(entry.Data), ": ")
					found = append(found, strings.TrimPrefix(path, "/")+" "+rule)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// everyRole are the roles of the functions.
const everyRole = "EnqueueRole HoldRole ReconcileRole RedriveRole ReportWorkerRole WorkerRole"

// accepted are the findings that stay, each with the reason why the rule is wrong here.
var accepted = []struct{ rule, why, at string }{
	{"AwsSolutions-IAM5[Resource::*]", "the two actions of X-Ray take no resource", everyRole},
	{"AwsSolutions-IAM5[Resource::<Evidence.Arn>/plan/*]", "the name of a document is its hash, which nobody knows before", "HoldRole ReportWorkerRole WorkerRole"},
	{"AwsSolutions-IAM5[Resource::<Evidence.Arn>/receipt/*]", "the name of a document is its hash, which nobody knows before", "HoldRole RedriveRole ReportWorkerRole WorkerRole"},
	{"AwsSolutions-IAM5[Resource::<Evidence.Arn>/manifest/*]", "the name of a document is its hash, which nobody knows before", "ReconcileRole"},
	{"AwsSolutions-IAM5[Resource::<Evidence.Arn>/drills/*]", "the name of a report is that of its run, which nobody knows before", "RedriveRole"},
	{"AwsSolutions-IAM5[Resource::arn:aws:s3:::acme-exports/exports/*/csv/*]", "a policy's keys, of every tenant: what the worker is for", "WorkerRole"},
	{"AwsSolutions-IAM5[Resource::arn:aws:s3:::acme-uploads/uploads/*/*]", "a policy's keys, of every tenant: what the worker is for", "WorkerRole"},
	{"AwsSolutions-IAM5[Resource::*]", "lists, metrics and answers of queries take no resource, and all are kept to the region", "OnCall"},
	{"AwsSolutions-IAM5[Resource::<Evidence.Arn>/*]", "people read all evidence, and only read it", "Compliance OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:cloudformation:eu-west-1:<AWS::AccountId>:stack/expunge-prod/*]", "the end of a stack's ARN is made up when it is created", "Compliance OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:cloudformation:us-east-1:<AWS::AccountId>:stack/expunge-staging/*]", "the end of a stack's ARN is made up when it is created", "Compliance OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:scheduler:eu-west-1:<AWS::AccountId>:schedule/expungeprod-Schedules-6BADA7F3/*]", "Scheduler knows rights on a group's schedules, not on one", "OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:scheduler:us-east-1:<AWS::AccountId>:schedule/expungestaging-Schedules-ECF232EC/*]", "Scheduler knows rights on a group's schedules, not on one", "OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:cloudwatch:eu-west-1:<AWS::AccountId>:alarm:*]", "CloudWatch takes a question after some alarms for one after all", "OnCall"},
	{"AwsSolutions-IAM5[Resource::arn:aws:cloudwatch:us-east-1:<AWS::AccountId>:alarm:*]", "CloudWatch takes a question after some alarms for one after all", "OnCall"},
	{"AwsSolutions-SQS3", "it is a queue of dead letters, but of schedules and functions, which the rule does not know", "ScheduleDeadLetters"},
	{"Serverless-SQSRedrivePolicy", "it is a queue of dead letters", "DeadLetters ScheduleDeadLetters"},
	{"Serverless-LambdaDLQ", "a failed call goes to the dead letters of schedules, by the newer on-failure destination", "Enqueue Reconcile Redrive"},
	{"Serverless-LambdaDLQ", "nobody calls it asynchronously: its queue has dead letters, and whoever calls hold waits for the answer", "Hold ReportWorker Worker"},
	{"Serverless-LambdaEventSourceMappingDestination", "SQS is no stream: what fails goes back to its queue and from there to the dead letters", "PagesToWorker ReportPagesToWorker"},
	{"Serverless-SNSRedrivePolicy", "an alarm that nobody received is still lit where alarms are looked at, and a queue of them would be read by nobody",
		"PageTopic/https:----example.com--incidents PageTopic/oncall@example.com TicketTopic/team@example.com"},
}

// TestNag holds a plain stack and one with every option on to the rules of AWS's
// solutions and of serverless applications: what they find is accepted for a reason,
// and a reason for nothing is not.
func TestNag(t *testing.T) {
	known := map[string]bool{} // and whether it was found
	for _, a := range accepted {
		for _, where := range strings.Fields(a.at) {
			if strings.HasSuffix(where, "Role") {
				where += "/DefaultPolicy"
			}
			known[where+"/Resource "+a.rule] = false
		}
	}
	for _, finding := range nagged(t, "nag", given("regions", "eu-west-1"), everything("regions", "us-east-1")) {
		stack, rest, _ := strings.Cut(finding, "/")
		rest = digestIn.ReplaceAllString(rest, ".Arn>")
		if _, ok := known[rest]; !ok {
			t.Errorf("%s: %s", stack, rest)
			continue
		}
		known[rest] = true
	}
	for finding, found := range known {
		if !found {
			t.Errorf("accepted, and not found: %s", finding)
		}
	}
}

var digestIn = regexp.MustCompile(`[0-9A-F]{8}\.Arn>`)
