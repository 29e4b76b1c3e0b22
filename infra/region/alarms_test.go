package region

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// declaredAlarm is an alarm as the template has it.
type declaredAlarm struct {
	AlarmName, AlarmDescription          string
	Namespace, MetricName, Statistic     string
	ComparisonOperator, TreatMissingData string
	Period, EvaluationPeriods            int
	DatapointsToAlarm                    int
	Threshold                            float64
	AlarmActions, OKActions              []any
	Dimensions                           []struct {
		Name  string
		Value any
	}
	Metrics []struct {
		Expression string
		Period     int
	}
}

// alarmsOf reads the alarms of a template, by id: the name without stack and region.
func alarmsOf(t template) map[string]declaredAlarm {
	all := map[string]declaredAlarm{}
	for _, r := range t.of("AWS::CloudWatch::Alarm") {
		text, err := json.Marshal(r.Properties)
		if err != nil {
			panic(err) // it was read from JSON
		}
		var a declaredAlarm
		if err := json.Unmarshal(text, &a); err != nil {
			panic(fmt.Sprintf("an alarm is not as the test reads it: %v", err))
		}
		all[alarmID(a.AlarmName)] = a
	}
	return all
}

var alarmName = regexp.MustCompile(`^expunge-[a-z]+-[a-z]+-[a-z]+-[0-9]-(.+)$`)

func alarmID(name string) string {
	if m := alarmName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// tells returns the logical id of the topic that the alarm's action goes to.
func (a declaredAlarm) tells() string {
	if len(a.AlarmActions) == 0 {
		return ""
	}
	id, _ := at(a.AlarmActions[0], "Ref").(string)
	return id
}

// config is what the shared template was declared from.
func config(t *testing.T) Config {
	t.Helper()
	all, err := configs(given())
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(c Config) bool { return c.Region == "eu-west-1" })]
}

func aPolicy(name string, mode job.Mode, objective time.Duration, urgent bool) policy.Policy {
	return policy.Policy{Name: name, Version: 1, Region: "eu-central-1", Bucket: "example", Keys: name + "/{tenant}/", RetentionDays: 30,
		Mode: mode, Objective: objective, Urgent: urgent, Schedule: policy.Schedule{Every: policy.Daily, At: "04:00", Zone: "UTC"}}
}

func none(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// checkAlarmsAct says which alarms tell nobody, of the beginning or of the end.
func checkAlarmsAct(t template) (problems []string) {
	topics := t.of("AWS::SNS::Topic")
	for _, id := range slices.Sorted(maps.Keys(alarmsOf(t))) {
		a := alarmsOf(t)[id]
		if len(a.AlarmActions) != 1 || len(a.OKActions) != 1 {
			problems = append(problems, fmt.Sprintf("%s: %d alarm actions and %d OK actions; it is one of each", id, len(a.AlarmActions), len(a.OKActions)))
			continue
		}
		if _, ok := topics[a.tells()]; !ok || fmt.Sprint(a.AlarmActions) != fmt.Sprint(a.OKActions) {
			problems = append(problems, fmt.Sprintf("%s: it tells %v, and of its end %v; it is one topic of the stack", id, a.AlarmActions, a.OKActions))
		}
	}
	if len(alarmsOf(t)) == 0 {
		problems = append(problems, "there is no alarm")
	}
	return problems
}

func TestEveryAlarmActs(t *testing.T) { none(t, checkAlarmsAct(one())) }

// checkAlarmsSayWhatMissingMeans: AL-02, and R112 of the one alarm on silence.
func checkAlarmsSayWhatMissingMeans(t template) (problems []string) {
	for _, id := range slices.Sorted(maps.Keys(alarmsOf(t))) {
		a := alarmsOf(t)[id]
		want := "notBreaching"
		if id == "business-date-lag" {
			want = "breaching"
		}
		if a.TreatMissingData != want {
			problems = append(problems, fmt.Sprintf("%s: a missing value is %q, want %q", id, a.TreatMissingData, want))
		}
		if a.DatapointsToAlarm != a.EvaluationPeriods || a.EvaluationPeriods < 1 {
			problems = append(problems, fmt.Sprintf("%s: %d of %d periods", id, a.DatapointsToAlarm, a.EvaluationPeriods))
		}
	}
	return problems
}

func TestAL02MissingValuesHaveAMeaning(t *testing.T) {
	none(t, checkAlarmsSayWhatMissingMeans(one()))
}

// checkAlarmMetrics: AL-01, AL-05. Gauges by their maximum, counters by their sum, and
// nothing that counts deliveries or what is in flight.
func checkAlarmMetrics(t template) (problems []string) {
	sums := strings.Fields("Errors Throttles GuardsTripped VersionsNotApproved BucketsRefused EvidenceFailures MarkersUndone SealFailures")
	for _, id := range slices.Sorted(maps.Keys(alarmsOf(t))) {
		a := alarmsOf(t)[id]
		text := fmt.Sprint(a)
		if strings.Contains(text, "NumberOfMessagesSent") || strings.Contains(text, "NotVisible") || strings.Contains(text, "NumberOfMessagesReceived") {
			problems = append(problems, id+": it watches what was sent or is in flight, which says nothing of what waits")
		}
		want := "Maximum"
		if slices.Contains(sums, a.MetricName) {
			want = "Sum"
		}
		if a.Statistic != want && len(a.Metrics) == 0 {
			problems = append(problems, fmt.Sprintf("%s: %s of %s, want %s", id, a.Statistic, a.MetricName, want))
		}
		if a.ComparisonOperator != "GreaterThanOrEqualToThreshold" || a.Threshold <= 0 {
			problems = append(problems, fmt.Sprintf("%s: %s %v", id, a.ComparisonOperator, a.Threshold))
		}
	}
	return problems
}

func TestAL01AL05AlarmsWatchWhatWaits(t *testing.T) { none(t, checkAlarmMetrics(one())) }

// checkAlarmTexts: R111. A text names region, policy and the first command, and fits.
func checkAlarmTexts(t template, c Config) (problems []string) {
	for _, id := range slices.Sorted(maps.Keys(alarmsOf(t))) {
		a := alarmsOf(t)[id]
		file, of := id, ""
		wants := []string{c.Region, "\nFirst: expunge ", fmt.Sprintf(" --region %s --stage %s\n", c.Region, c.Stage)}
		for _, p := range c.Policies {
			if base, ok := strings.CutSuffix(id, "-"+p.Name); ok {
				file, of = base, p.Name
			}
		}
		for _, p := range c.Policies {
			if of == "" || of == p.Name {
				wants = append(wants, p.Name)
			}
		}
		wants = append(wants, "runbook infra/runbooks/"+file+".md")
		for _, want := range wants {
			if !strings.Contains(a.AlarmDescription, want) {
				problems = append(problems, fmt.Sprintf("%s: its text lacks %q:\n%s", id, want, a.AlarmDescription))
			}
		}
		if n := len(a.AlarmDescription); n > textLimit {
			problems = append(problems, fmt.Sprintf("%s: a text of %d characters; CloudWatch takes %d", id, n, textLimit))
		}
	}
	return problems
}

func TestR111TextsNameThePlaceAndTheCommand(t *testing.T) {
	none(t, checkAlarmTexts(one(), config(t)))
}

// A region may have more policies than a text has room for.
func TestTextsFitWithManyPolicies(t *testing.T) {
	p := &parts{Config: config(t)}
	p.Stage = strings.Repeat("s", 20)
	p.Policies = nil
	for i := range 60 {
		p.Policies = append(p.Policies, aPolicy(fmt.Sprintf("%s%02d", strings.Repeat("p", 46), i), job.Enforce, time.Hour, false))
	}
	for _, a := range []alarm{{ID: "x", Why: strings.Repeat("w", 200), First: "runs --late"}, {ID: "x", Policy: p.Policies[0].Name}} {
		if text := p.describe(a); len(text) > textLimit || a.Policy == "" && !strings.Contains(text, " and 54 more") {
			t.Errorf("%d characters: %s", len(text), text)
		}
	}
}

// R82: 12 minutes of 15, twice in a row.
func TestR82OldestMessage(t *testing.T) {
	a := alarmsOf(one())["oldest-message"]
	if a.Threshold != 720 || a.EvaluationPeriods != 2 || a.DatapointsToAlarm != 2 || a.Period != 60 {
		t.Errorf("%v s, %d of %d periods of %d s", a.Threshold, a.DatapointsToAlarm, a.EvaluationPeriods, a.Period)
	}
	// A queue that nobody reads: its oldest message gets a minute older each minute.
	for minute := range 15 {
		var ages []float64
		for age := range minute {
			ages = append(ages, float64((age+1)*60))
		}
		if raised := a.raises(ages); raised != (minute >= 13) {
			t.Errorf("after %d minutes: raised is %t", minute, raised)
		}
	}
}

// The strictest of those that delete counts, and of all only where none does.
func TestObjectiveOfARegion(t *testing.T) {
	for name, c := range map[string]struct {
		policies []policy.Policy
		want     float64
	}{
		"one that deletes":     {[]policy.Policy{aPolicy("a", job.Enforce, time.Hour, false), aPolicy("b", job.ReportOnly, time.Minute, false)}, 2880},
		"the stricter of two":  {[]policy.Policy{aPolicy("a", job.Enforce, time.Hour, false), aPolicy("b", job.Enforce, 10*time.Minute, false)}, 480},
		"none that deletes":    {[]policy.Policy{aPolicy("a", job.ReportOnly, time.Hour, false), aPolicy("b", job.ReportOnly, 5*time.Minute, false)}, 240},
		"longer than the rule": {[]policy.Policy{aPolicy("a", job.Enforce, 24*time.Hour, false)}, 69120},
	} {
		p := &parts{Config: config(t)}
		p.Policies = c.policies
		if got := contract.AlarmShare * p.objective().Seconds(); got != c.want {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}

// R83: one dead page of an urgent policy wakes somebody, those of another wait for the
// morning, and a policy that only reports wakes nobody for being late.
func TestR83Routing(t *testing.T) {
	for _, c := range []struct{ region, id, topic string }{
		{"eu-west-1", "dead-pages-exports", "PageTopic"}, {"us-east-1", "dead-pages-uploads", "TicketTopic"}, {"eu-west-1", "dead-pages-digests", "TicketTopic"},
		{"eu-west-1", "oldest-open-page-exports", "PageTopic"}, {"us-east-1", "oldest-open-page-uploads", "PageTopic"}, {"eu-west-1", "oldest-open-page-digests", "TicketTopic"},
		{"eu-west-1", "oldest-message", "PageTopic"}, {"eu-west-1", "business-date-lag", "PageTopic"}, {"eu-west-1", "dead-letters", "TicketTopic"},
	} {
		if got := deployed()[c.region]; alarmsOf(got)[c.id].tells() != got.named("AWS::SNS::Topic", c.topic) || alarmsOf(got)[c.id].tells() == "" {
			t.Errorf("%s tells %q, want %s", c.id, alarmsOf(got)[c.id].tells(), c.topic)
		}
	}
}

// AL-02: a queue that sleeps for seven hours raises nothing; R112: a reconcile that is
// silent for as long does.
func TestAL02R112Silence(t *testing.T) {
	for id, a := range alarmsOf(one()) {
		if got := a.raises(make7h(math.NaN())); got != (id == "business-date-lag") {
			t.Errorf("%s: after seven hours without a value, raised is %t", id, got)
		}
	}
	lag := alarmsOf(one())["business-date-lag"]
	if lag.raises(make7h(0)) || !lag.raises(make7h(1)) {
		t.Error("the lag alarm does not follow its metric")
	}
}

// AL-05: three messages that wait are three, however often they are counted.
func TestAL05AGaugeIsNotSummed(t *testing.T) {
	a := alarmsOf(one())["dead-letters"]
	a.Threshold = 10
	if a.raises(make7h(3)) {
		t.Error("a constant depth of 3 is over a threshold of 10")
	}
	age := alarmsOf(one())["oldest-message"]
	if !age.raises([]float64{0, 780, 780}) || age.raises([]float64{0, 0, 780}) || age.raises([]float64{780, 780, 0}) {
		t.Error("13 minutes must be seen in the last two periods in a row")
	}
}

// AL-07: few messages that are about to expire are seen by their age, not their depth.
func TestAL07DyingSlowly(t *testing.T) {
	alarms, s := alarmsOf(one()), config(t).Settings
	if !alarms["oldest-message"].raises(make7h(84 * 3600)) {
		t.Error("a message of 3.5 days of 4 raises nothing")
	}
	a := alarms["dead-letter-age"]
	if !a.raises(make7h(7*24*3600)) || a.raises(make7h(7*24*3600-1)) {
		t.Error("a dead letter is told of at half of its retention")
	}
	// The age counts from the arrival, the retention from the first send.
	if left := s.DeadLetterRetention - s.SourceRetention - time.Duration(a.Threshold)*time.Second; left < 48*time.Hour {
		t.Errorf("%v are left to act before the letter expires", left)
	}
}

// AL-04: while the depth alarm is lit by an old letter, a burst of one reason is told.
func TestAL04ReasonOverItsBaseline(t *testing.T) {
	a := alarmsOf(one())[byReason]
	if len(a.Metrics) != 1 || a.Threshold != float64(config(t).DeadLetterBaseline+1) {
		t.Fatalf("%+v", a)
	}
	want := `SELECT SUM(DeadLetters) FROM SCHEMA("Expunge/prod", "service", "reason") GROUP BY "reason" ORDER BY SUM() DESC`
	if q := a.Metrics[0]; q.Expression != want || q.Period != 900 {
		t.Errorf("%+v", q)
	}
	// Each reason is a series of its own, summed over a quarter of an hour.
	quietWeek, thursday := make([]float64, 15), make([]float64, 15)
	thursday[3], thursday[9] = 25, 15
	a.Statistic, a.Period = "Sum", a.Metrics[0].Period
	if a.raises(quietWeek) || !a.raises(thursday) {
		t.Error("40 new letters of one reason are not told apart from none")
	}
}

// An emulator does not know Metrics Insights, and only that alarm is left out for it.
func TestAlarmsOfAnEmulator(t *testing.T) {
	templates, err := synthesise(given("emulator", true, "regions", "eu-west-1"), "emulator-alarms")
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(alarmsOf(one()))), func(id string) bool { return id == byReason })
	if got := slices.Sorted(maps.Keys(alarmsOf(templates["eu-west-1"]))); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

var firstCommand = regexp.MustCompile(`\nFirst: (expunge .+) --region \S+ --stage \S+\nThen: runbook infra/runbooks/([a-z-]+)\.md$`)

// Each alarm has a runbook whose first command is the one of its text, and each runbook
// an alarm. rollout.md is no alarm's.
func TestRunbooks(t *testing.T) {
	files, err := filepath.Glob("../runbooks/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no runbook", err)
	}
	asked := map[string]bool{"rollout": true}
	for id, a := range alarmsOf(one()) {
		m := firstCommand.FindStringSubmatch(a.AlarmDescription)
		if m == nil {
			t.Errorf("%s: its text ends with no command and runbook:\n%s", id, a.AlarmDescription)
			continue
		}
		asked[m[2]] = true
		text, err := os.ReadFile("../runbooks/" + m[2] + ".md")
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		first := "First: `" + regexp.MustCompile(`--policy \S+`).ReplaceAllString(m[1], "--policy POLICY") + "`"
		if !strings.HasPrefix(string(text), "# "+m[2]+"\n\n") || !strings.Contains(string(text), "\n"+first) {
			t.Errorf("%s.md has another title, or does not say %s", m[2], first)
		}
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".md"); !asked[name] {
			t.Errorf("%s.md is no alarm's runbook", name)
		}
	}
}

// What runbooks point to is there: events of the log, other runbooks, and between them
// every reason for which something may lie dead.
func TestRunbooksPointToWhatExists(t *testing.T) {
	events, err := os.ReadFile("../../internal/audit/audit.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
		for _, m := range regexp.MustCompile("event\\s+`(\\w+)`").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(events), `= "`+m[1]+`"`) {
				t.Errorf("%s: there is no event %s", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`[a-z-]+\.md`).FindAllString(string(text), -1) {
			if !slices.Contains(files, "../runbooks/"+m) {
				t.Errorf("%s: there is no %s", file, m)
			}
		}
	}
	if !strings.Contains(all, "`run_totals_mismatch`") || !strings.Contains(all, "dead-pages.md") {
		t.Error("the test no longer finds what it looks for")
	}
	for _, reason := range job.Reasons() {
		if !strings.Contains(all, "`"+string(reason)+"`") {
			t.Errorf("no runbook says what to do about %s", reason)
		}
	}
}

func make7h(value float64) []float64 { return slices.Repeat([]float64{value}, 7*60) }

// raises reports whether the alarm is raised after one sample a minute; NaN is none.
// It is CloudWatch's rule for as many datapoints as periods.
func (a declaredAlarm) raises(samples []float64) bool {
	per := max(1, a.Period/60)
	for n := range a.EvaluationPeriods {
		end := len(samples) - n*per
		value, seen := 0.0, false
		for _, v := range samples[max(0, end-per):max(0, end)] {
			switch {
			case math.IsNaN(v):
			case a.Statistic == "Sum":
				value, seen = value+v, true
			default:
				value, seen = max(value, v), true
			}
		}
		if !seen && a.TreatMissingData != "breaching" || seen && value < a.Threshold {
			return false
		}
	}
	return true
}

// alarmTable writes the alarms of a template for a reviewer, by id.
func alarmTable(t template) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(alarmsOf(t))) {
		a := alarmsOf(t)[id]
		signal := a.Namespace + " " + a.MetricName
		for _, d := range a.Dimensions {
			signal += " " + d.Name + "=" + filledIn(d.Value)
		}
		for _, m := range a.Metrics {
			signal, a.Statistic, a.Period = m.Expression, "query", m.Period
		}
		fmt.Fprintf(&b, "%s\n  %s\n  %s of %d s >= %v, %d of %d, missing is %s, tells %s\n", id, signal, a.Statistic, a.Period, a.Threshold,
			a.DatapointsToAlarm, a.EvaluationPeriods, a.TreatMissingData, a.tells())
		fmt.Fprintf(&b, "  %s\n\n", strings.ReplaceAll(a.AlarmDescription, "\n", "\n  "))
	}
	return b.String()
}

// A reviewer sees every alarm, with its text, before it changes.
func TestAlarmTable(t *testing.T) {
	golden(t, "alarms.golden", alarmTable(one()))
}

// What a change of the template takes away is missed by the check that is there for it.
func TestAlarmChecksSeeChanges(t *testing.T) {
	config := config(t)
	texts := func(t template) []string { return checkAlarmTexts(t, config) }
	set := func(key string, value any) func(map[string]any) { return func(p map[string]any) { p[key] = value } }
	for name, c := range map[string]struct {
		id     string
		change func(properties map[string]any)
		check  func(template) []string
	}{
		"no action":               {"dead-letters", func(p map[string]any) { delete(p, "AlarmActions") }, checkAlarmsAct},
		"no word of the end":      {"guard-tripped", func(p map[string]any) { delete(p, "OKActions") }, checkAlarmsAct},
		"a topic of another":      {"scan-time", set("AlarmActions", []any{"arn:aws:sns:eu-west-1:1:other"}), checkAlarmsAct},
		"missing without meaning": {"dead-letters", func(p map[string]any) { delete(p, "TreatMissingData") }, checkAlarmsSayWhatMissingMeans},
		"silence is no news":      {"business-date-lag", set("TreatMissingData", "notBreaching"), checkAlarmsSayWhatMissingMeans},
		"one of two":              {"oldest-message", set("DatapointsToAlarm", 1), checkAlarmsSayWhatMissingMeans},
		"the sum of a gauge":      {"dead-letters", set("Statistic", "Sum"), checkAlarmMetrics},
		"messages sent":           {"dead-letters", set("MetricName", "NumberOfMessagesSent"), checkAlarmMetrics},
		"messages in flight":      {"oldest-message", set("MetricName", "ApproximateNumberOfMessagesNotVisible"), checkAlarmMetrics},
		"the other way":           {"worker-errors", set("ComparisonOperator", "LessThanThreshold"), checkAlarmMetrics},
		"no text":                 {"worker-errors", set("AlarmDescription", "queue unhealthy"), texts},
		"another region's text":   {"worker-errors", set("AlarmDescription", "us-east-1"), texts},
		"an alarm less":           {"worker-errors", nil, checkDashboard},
	} {
		changed := parse(one().text)
		for logical, r := range changed.of("AWS::CloudWatch::Alarm") {
			if alarmID(fmt.Sprint(r.Properties["AlarmName"])) != c.id {
				continue
			}
			if c.change == nil {
				delete(changed.Resources, logical)
			} else {
				c.change(r.Properties)
			}
		}
		if len(c.check(changed)) == 0 {
			t.Errorf("%s: nothing is said", name)
		}
	}
}
