package region

import (
	"slices"
	"strconv"
	"strings"
	"time"

	enqueue "github.com/expunge-aws/expunge/functions/enqueue/handler"
	hold "github.com/expunge-aws/expunge/functions/hold/handler"
	reconcile "github.com/expunge-aws/expunge/functions/reconcile/handler"
	redrive "github.com/expunge-aws/expunge/functions/redrive/handler"
	worker "github.com/expunge-aws/expunge/functions/worker/handler"
	"github.com/expunge-aws/expunge/internal/contract"
)

type rosterEntry struct {
	name   string
	needs  func(*contract.Environment) []*string
	limit  time.Duration
	called bool // asynchronously, by a schedule or another function
}

// roster is the stack's functions: what each needs of its environment, and for how long
// it may run.
var roster = []rosterEntry{
	{"Enqueue", enqueue.Needs, 15 * time.Minute, true},
	{"Worker", worker.Needs, time.Minute, false},
	{"ReportWorker", worker.Needs, time.Minute, false},
	{"Reconcile", reconcile.Needs, 5 * time.Minute, true},
	{"Redrive", redrive.Needs, time.Minute, true},
	{"Hold", hold.Needs, time.Minute, false},
}

// checkFunctions asks for the six functions and how they are run.
func checkFunctions(t template) []string {
	var p problems
	var names, want []string
	for _, f := range roster {
		want = append(want, f.name)
	}
	for _, f := range t.things(kindFunction) {
		names = append(names, f.name)
		p.equal(f.name+" is built for", words(f.at("Architectures")), []string{string(t.config.Architecture)})
		for what, value := range map[string]string{"Runtime": "provided.al2023", "Handler": "bootstrap"} {
			p.want(f.word(what) == value, "%s of %s is %q, want %s", what, f.name, f.word(what), value)
		}
		p.want(f.word("LoggingConfig", "LogFormat") == "JSON" && f.word("LoggingConfig", "ApplicationLogLevel") == "INFO",
			"%s logs %s: a metric has no level, and would be lost above INFO", f.name, word(f.at("LoggingConfig")))
		size := 256.0
		if strings.HasSuffix(f.name, "Worker") { // the twin is no smaller: what it finds out has to be true of the worker
			size = 512
		}
		p.want(f.number("MemorySize") == size, "%s has %.0f MB, want %.0f", f.name, f.number("MemorySize"), size)
		p.want(f.word("TracingConfig", "Mode") == "Active", "%s is not traced", f.name)
		p.want(f.word("RecursiveLoop") == "Terminate", "a loop through %s would not be ended (SQ-12)", f.name)
		p.want(f.at("ReservedConcurrentExecutions") == nil, "%s has reserved concurrency, which spends receives (SQ-08)", f.name)
		p.want(f.word("Role") == "<"+f.name+"Role.Arn>", "%s runs as %s", f.name, f.word("Role"))
		p.want(f.word("CodeSigningConfigArn") == t.config.CodeSigning, "the code of %s is signed by %q, want %q", f.name, f.word("CodeSigningConfigArn"), t.config.CodeSigning)
		p.want(f.at("VpcConfig") == nil && f.at("Layers") == nil, "%s has a network or layers", f.name)
	}
	p.equal("the functions", names, want)
	return p
}

// checkTimeouts holds the limits to what the functions reckon with: a lease is never
// longer than an invocation, and hold answers within a worker's time.
func checkTimeouts(t template) []string {
	var p problems
	limit := func(name string) float64 { return t.thing(kindFunction, name).number("Timeout") }
	for _, f := range roster {
		p.want(limit(f.name) == f.limit.Seconds(), "%s may run for %.0f seconds, want %.0f", f.name, limit(f.name), f.limit.Seconds())
	}
	s := t.config.Settings
	p.want(limit("Worker") <= s.FunctionTimeout.Seconds() && limit("ReportWorker") <= s.FunctionTimeout.Seconds(), "a worker may outlive its lease of %s", s.FunctionTimeout)
	p.want(limit("Hold") <= limit("Worker"), "hold may run for longer than a worker")
	p.want(limit("Enqueue") <= s.ScanTimeout.Seconds() && limit("Reconcile") <= s.ReconcileTimeout.Seconds(), "a function may run for longer than it reckons with")
	return p
}

// environment is what a function is told, as the function reads it.
func (t template) environment(name string, needs func(*contract.Environment) []*string) (contract.Environment, error) {
	f := t.thing(kindFunction, name)
	lookup := func(variable string) string { return f.word("Environment", "Variables", variable) }
	return contract.ParseEnvironment(lookup, func(e *contract.Environment) []*string { return needs(e) })
}

// checkEnvironment reads each function's environment as its main does.
func checkEnvironment(t template) []string {
	var p problems
	for _, f := range roster {
		got, err := t.environment(f.name, f.needs)
		p.want(err == nil, "%s would not start: %v", f.name, err)
		settings, err := got.Settings()
		p.want(err == nil && settings == t.config.Settings, "%s reckons with other numbers than the stack: %v", f.name, err)
		want := contract.Environment{
			Table: "<Ledger>", PagesQueue: "<Pages>", ReportQueue: "<ReportPages>", LettersQueue: "<DeadLetters>", EvidenceBucket: "<Evidence>",
			CodeVersion: got.CodeVersion, Concurrency: strconv.Itoa(t.config.Settings.Concurrency), Stage: t.config.Stage,
		}
		switch f.name {
		case "Worker":
			want.Mode = "enforce"
		case "ReportWorker":
			want.Mode = "report-only"
		case "Enqueue":
			want.Policies = "policies"
		case "Reconcile":
			want.Policies, want.EnqueueName, want.RedriveName = "policies", "<Enqueue>", "<Redrive>"
		}
		p.want(got == want, "%s is told %+v, want %+v", f.name, got, want)
		p.want(got.CodeVersion != "" && (t.config.CodeVersion == "" || got.CodeVersion == t.config.CodeVersion), "%s has the code version %q", f.name, got.CodeVersion)
		variables, _ := t.thing(kindFunction, f.name).at("Environment", "Variables").(map[string]any)
		p.want(len(variables) == len(want.Render()), "%s is told what nobody reads: %v", f.name, variables)
	}
	return p
}

// checkLogs asks for a log group of each function's own, which ends, and not before a
// dead letter of the same day could be explained (CD-04).
func checkLogs(t template) []string {
	var p problems
	var groups, want []string
	for _, g := range t.things(kindLogs) {
		groups = append(groups, g.ref())
		kept, letters := g.number("RetentionInDays"), t.thing(kindQueue, "DeadLetters").number("MessageRetentionPeriod")
		p.want(kept == float64(t.config.LogDays), "%s keeps for %.0f days, want %d", g.name, kept, t.config.LogDays)
		p.want(kept > 0 && kept*24*60*60 >= letters, "%s ends before the dead letters do", g.name)
	}
	for _, f := range t.things(kindFunction) {
		want = append(want, f.word("LoggingConfig", "LogGroup"))
		p.want(f.word("LoggingConfig", "LogGroup") == "<"+f.name+"Logs>", "%s logs to %s", f.name, f.word("LoggingConfig", "LogGroup"))
		p.want(slices.Contains(t.granted(f.name+"Role"), "logs:PutLogEvents <"+f.name+"Logs.Arn>"), "%s may not write its log", f.name)
	}
	p.equal("the log groups", groups, want)
	return p
}

// checkCode asks that the twin runs the worker's code, and nobody else another's.
func checkCode(t template) []string {
	var p problems
	of := map[string]string{}
	for _, f := range t.things(kindFunction) {
		code := word(f.at("Code"))
		if f.name == "ReportWorker" {
			p.want(code == word(t.thing(kindFunction, "Worker").at("Code")), "the twin runs other code than the worker")
			continue
		}
		p.want(of[code] == "", "%s and %s run the same code", f.name, of[code])
		of[code] = f.name
	}
	return p
}

// checkFailures asks that an asynchronous call that fails for good leaves a trace.
func checkFailures(t template) []string {
	var p problems
	kept := map[string]thing{}
	for _, c := range t.things("AWS::Lambda::EventInvokeConfig") {
		kept[c.word("FunctionName")] = c
	}
	for _, f := range roster {
		c, found := kept["<"+f.name+">"]
		if !f.called {
			p.want(!found, "%s is not called asynchronously", f.name)
			continue
		}
		p.want(c.word("DestinationConfig", "OnFailure", "Destination") == "<ScheduleDeadLetters.Arn>", "a failed call of %s leaves no trace", f.name)
		p.want(c.word("Qualifier") == "$LATEST", "what keeps failed calls of %s looks at version %q", f.name, c.word("Qualifier"))
		oldest := t.config.Settings.MissedAfter
		if f.name == "Reconcile" { // the next pass does it all
			oldest = t.config.Settings.ReconcileEvery
		}
		age, retries := c.number("MaximumEventAgeInSeconds"), c.number("MaximumRetryAttempts")
		p.want(age == oldest.Seconds(), "a call of %s may wait for %.0f seconds, want %.0f", f.name, age, oldest.Seconds())
		p.want(retries == 2, "a call of %s that fails is made %.0f times more, want 2", f.name, retries)
		p.want(slices.Contains(t.granted(f.name+"Role"), "sqs:SendMessage <ScheduleDeadLetters.Arn>"), "%s may not leave a failed call with the dead letters", f.name)
	}
	return p
}
