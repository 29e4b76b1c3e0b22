package region

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/contract"
)

// callsFile is what the operator's tool asked AWS in all of its own tests: a line is
// "service Operation subject: command, command".
const callsFile = "../../internal/cmd/expunge/testdata/calls.golden"

// actionOf names the IAM actions that are not called like their operation; "" is one
// that needs none. The others are service:Operation.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
var actionOf = map[string]string{
	"lambda Invoke":                 "lambda:InvokeFunction",
	"s3 GetBucketEncryption":        "s3:GetEncryptionConfiguration",
	"s3 GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
	"s3 HeadObject":                 "s3:GetObject",
	"s3 ListObjectVersions":         "s3:ListBucketVersions",
	"s3 ListObjectsV2":              "s3:ListBucket",
	"sts GetCallerIdentity":         "",
}

// unlisted are the actions whose resource is "*", because IAM knows no other.
var unlisted = []string{"lambda:ListEventSourceMappings", "scheduler:ListSchedules"}

// notAllowed are calls that neither policy allows: the doctor says that it could not look
// at an object, and the right to put some for a drill is the team's to give.
var notAllowed = []string{"s3 HeadObject artifacts", "s3 PutObject artifacts"}

// beside is what on-call may do that the tool does not ask for: where the runbooks send a
// person. The subjects are those of the calls.
var beside = []struct {
	why, subject string
	actions      []string
}{
	{"what a function said, by `aws logs tail`, by stream, or by a query", "logs",
		[]string{"logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"}},
	{"the console opens a group from the list of all, and an answer belongs to a query and no group", "everything",
		[]string{"logs:DescribeLogGroups", "logs:GetQueryResults"}},
	{"which alarms are lit: asked for some, CloudWatch wants the right to all", "alarms", []string{"cloudwatch:DescribeAlarms"}},
	{"the dashboard", "dashboard", []string{"cloudwatch:GetDashboard"}},
	{"what its graphs show: a metric is no resource", "everything",
		[]string{"cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics"}},
	{"whoever has read such a letter deletes it: nothing else reads the queue", "schedule-dead-letters",
		[]string{"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}},
}

// allowedTo says which commands each policy is for.
var allowedTo = map[string]func(command string) bool{
	"OnCall": func(command string) bool { return !strings.HasPrefix(command, "hold ") },
	"Compliance": func(command string) bool {
		return strings.HasPrefix(command, "hold ") || slices.Contains([]string{"explain", "orders", "verify"}, command)
	},
}

// subjects are the resources that a call is about, by the word for them in the file.
func subjects(of template) map[string][]string {
	c, schedules := of.config, of.thing("AWS::Scheduler::ScheduleGroup", "Schedules").word("Name")
	here := func(service, resource string) []string {
		return []string{"arn:aws:" + service + ":" + c.Region + ":<AWS::AccountId>:" + resource}
	}
	all := map[string][]string{
		"stack":            here("cloudformation", "stack/"+contract.StackName(c.Stage)+"/*"),
		"schedules":        here("scheduler", "schedule/"+schedules+"/*"),
		"ledger":           {"<Ledger.Arn>"},
		"index":            {"<Ledger.Arn>/index/open-since"},
		"evidence":         {"<Evidence.Arn>"},
		"evidence objects": {"<Evidence.Arn>/*"},
		"enqueue":          {"<Enqueue.Arn>"},
		"worker":           {"<Worker.Arn>"},
		"report-worker":    {"<ReportWorker.Arn>"},
		"reconcile":        {"<Reconcile.Arn>"},
		"redrive":          {"<Redrive.Arn>"},
		"hold":             {"<Hold.Arn>"},
		"roles":            {"<ReportWorkerRole.Arn>", "<WorkerRole.Arn>"},
		"pages":            {"<Pages.Arn>"},
		"report-pages":     {"<ReportPages.Arn>"},
		"dead-letters":     {"<DeadLetters.Arn>"},
		"topics":           {"<PageTopic>", "<TicketTopic>"},
		"everything":       {"*"},
		"logs":             {"<EnqueueLogs.Arn>", "<HoldLogs.Arn>", "<ReconcileLogs.Arn>", "<RedriveLogs.Arn>", "<ReportWorkerLogs.Arn>", "<WorkerLogs.Arn>"},
		"alarms":           here("cloudwatch", "alarm:*"),
		"dashboard":        {"arn:aws:cloudwatch::<AWS::AccountId>:dashboard/" + of.thing("AWS::CloudWatch::Dashboard", "Dashboard").word("DashboardName")},

		"schedule-dead-letters": {"<ScheduleDeadLetters.Arn>"},
	}
	for _, of := range c.Policies {
		all["artifacts"] = append(all["artifacts"], "arn:aws:s3:::"+of.Bucket)
	}
	return all
}

// needed reads the recorded calls of a policy's commands as "action resource".
func needed(t *testing.T, subjects map[string][]string, class func(command string) bool) []string {
	t.Helper()
	data, err := os.ReadFile(callsFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		call, by, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !slices.ContainsFunc(strings.Split(by, ", "), class) && !everybodys(call) || slices.Contains(notAllowed, call) {
			continue
		}
		words := strings.Fields(call)
		if len(words) != 3 {
			t.Fatalf("%s: %q is no call", callsFile, line)
		}
		action, named := actionOf[words[0]+" "+words[1]]
		if !named {
			action = words[0] + ":" + words[1]
		}
		if action == "" {
			continue
		}
		subject := words[2]
		switch {
		case slices.Contains(unlisted, action):
			subject = "everything"
		case action == "s3:GetObject":
			subject += " objects"
		}
		if subjects[subject] == nil {
			t.Errorf("%s: %q is about something that this test does not know", callsFile, call)
		}
		for _, resource := range subjects[subject] {
			all[action+" "+resource] = true
		}
	}
	if len(all) == 0 {
		t.Fatal("no call was recorded")
	}
	return slices.Sorted(maps.Keys(all))
}

// everybodys are the calls that find the deployment, which every command makes outside
// of a local one.
func everybodys(call string) bool { return call == "cloudformation DescribeStacks stack" }

// T6: what the two policies allow is what the tool's commands ask of AWS, to the
// letter: nothing is missing, and nothing is granted that no command uses. On-call has
// besides what stands in the list above, and nothing in it is something that the tool
// asks for anyway.
func TestPeopleMayDoWhatTheToolAsks(t *testing.T) {
	for id, class := range allowedTo {
		t.Run(id, func(t *testing.T) {
			granted := map[string]bool{}
			for _, s := range permitted(t, one(), id) {
				for _, action := range s.actions {
					for _, resource := range s.resources {
						granted[action+" "+resource] = true
					}
				}
			}
			known := subjects(one())
			want := needed(t, known, class)
			if id == "OnCall" {
				for _, b := range beside {
					for _, action := range b.actions {
						for _, resource := range known[b.subject] {
							if slices.Contains(want, action+" "+resource) {
								t.Errorf("the tool asks for %s itself", action)
							}
							want = append(want, action+" "+resource)
						}
					}
				}
			}
			for _, want := range want {
				if !granted[want] {
					t.Errorf("it lacks %s", want)
				}
				delete(granted, want)
			}
			for left := range granted {
				t.Errorf("no command asks for %s, and no runbook", left)
			}
		})
	}
}

// The lists of an artifact bucket end at the prefixes of its policies, and those that
// know no resource at the region.
func TestPeopleListNoFurther(t *testing.T) {
	for region, template := range deployed() {
		prefixes := map[string][]string{}
		for _, of := range template.config.Policies {
			arn := "arn:aws:s3:::" + of.Bucket
			prefixes[arn] = append(prefixes[arn], of.Prefix()+"*")
		}
		for id := range allowedTo {
			for _, s := range permitted(t, template, id) {
				want := ""
				switch {
				case slices.Contains(s.resources, "*"):
					want = `{"StringEquals":{"aws:RequestedRegion":"` + region + `"}}`
				case slices.ContainsFunc(s.resources, func(r string) bool { return prefixes[r] != nil }) && slices.Contains(s.actions, "s3:ListBucket"):
					want = `{"StringLike":{"s3:prefix":` + word(prefixes[s.resources[0]]) + `}}`
				}
				if s.condition != want {
					t.Errorf("%s, %s: %v on %v with %s, want %s", region, id, s.actions, s.resources, s.condition, want)
				}
			}
		}
	}
}

// A region has as many artifact buckets as it likes: what one policy has no room for is
// in another, which the output names too.
func TestPeopleOfManyBuckets(t *testing.T) {
	const buckets = maxPolicies
	dir, long := folder("many"), strings.Repeat("x", 40)
	for i := range buckets {
		text := fmt.Sprintf("name: p%02[1]d\nversion: 1\nregion: eu-west-1\nbucket: acme-%[2]s-%02[1]d\nkeys: exports/%[2]s-%02[1]d/{tenant}/\nretention_days: 30\nmode: enforce\nschedule: {every: daily, at: \"02:30\", zone: UTC}\n", i, long)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%02d.yaml", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := synthesise(given("regions", "eu-west-1", "policies", dir), "many-out")
	if err != nil {
		t.Fatal(err)
	}
	of := all["eu-west-1"]
	for id := range allowedTo {
		listed := map[string]bool{}
		for _, s := range permitted(t, of, id) {
			if slices.Contains(s.actions, "s3:ListBucketVersions") {
				for _, bucket := range s.resources {
					listed[bucket] = true
				}
			}
		}
		if len(listed) != buckets {
			t.Errorf("%s lists %d buckets, want %d", id, len(listed), buckets)
		}
	}
	for _, x := range of.things("AWS::IAM::ManagedPolicy") {
		if !strings.HasPrefix(x.name, "OnCall") && !strings.HasPrefix(x.name, "Compliance") {
			continue // the CDK's own, where a role has too many statements
		}
		// A reference counts as what it becomes: 120 characters are those of a function
		// whose name is as long as Lambda takes it. An account has 12 digits.
		text := strings.ReplaceAll(x.word("PolicyDocument"), "<AWS::AccountId>", strings.Repeat("1", 12))
		text = regexp.MustCompile(`<[A-Za-z.:]+>`).ReplaceAllString(text, strings.Repeat("x", 120))
		if len(text) > 6_144 {
			t.Errorf("%s takes %d characters", x.name, len(text))
		}
	}
}

// Nobody deletes, sends or writes through these policies, starts a move of messages, or
// is given a wildcard of actions; on-call has no word with hold, and compliance none
// with redrive (T5, T6). Only the schedules' dead letters are deleted by hand, and by
// whoever is on call.
func TestPeopleWriteNothing(t *testing.T) {
	reads := regexp.MustCompile(`^[a-z0-9]+:(BatchGet|Get|List|Describe|Query|Simulate)[A-Za-z]*$|^logs:(FilterLogEvents|StartQuery)$`)
	for region, template := range deployed() {
		for id, functions := range map[string][]string{"OnCall": {"<Enqueue.Arn>", "<Redrive.Arn>"}, "Compliance": {"<Hold.Arn>"}} {
			for _, s := range permitted(t, template, id) {
				for _, action := range s.actions {
					switch {
					case action == "lambda:InvokeFunction":
						if !slices.Equal(s.resources, functions) {
							t.Errorf("%s, %s calls %v", region, id, s.resources)
						}
					case action == "sqs:ReceiveMessage":
						byHand := id == "OnCall" && slices.Equal(s.resources, []string{"<ScheduleDeadLetters.Arn>"})
						if !byHand && !slices.Equal(s.resources, []string{"<DeadLetters.Arn>"}) {
							t.Errorf("%s, %s receives from %v", region, id, s.resources)
						}
					case action == "sqs:DeleteMessage":
						if id != "OnCall" || !slices.Equal(s.resources, []string{"<ScheduleDeadLetters.Arn>"}) {
							t.Errorf("%s, %s deletes from %v", region, id, s.resources)
						}
					case action == "s3:GetObject":
						if !slices.Equal(s.resources, []string{"<Evidence.Arn>/*"}) {
							t.Errorf("%s, %s reads %v", region, id, s.resources)
						}
					case !reads.MatchString(action):
						t.Errorf("%s, %s may %s", region, id, action)
					}
				}
			}
		}
	}
}

// permitted reads the statements of the managed policies that an output names. They have
// no name, and nobody is attached to them.
func permitted(t *testing.T, of template, id string) (all []statement) {
	t.Helper()
	names := strings.Split(word(of.written(at(of.Outputs[id+"Policy"], "Value"))), ",")
	if names[0] != "<"+id+">" {
		t.Fatalf("the output %sPolicy is %q", id, names)
	}
	for _, name := range names {
		x := of.thing("AWS::IAM::ManagedPolicy", strings.Trim(name, "<>"))
		for _, property := range []string{"ManagedPolicyName", "Roles", "Users", "Groups"} {
			if x.at(property) != nil {
				t.Errorf("%s has %s %s", x.name, property, x.word(property))
			}
		}
		all = append(all, statements(x.at("PolicyDocument"))...)
	}
	for _, s := range all {
		if s.effect != "Allow" || len(s.actions) == 0 || len(s.resources) == 0 {
			t.Errorf("%s has the statement %+v", id, s)
		}
	}
	return all
}
