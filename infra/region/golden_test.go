package region

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// golden compares a text with the file in testdata, or writes the file anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s\nmake golden writes it anew", name, got, want)
	}
}

// table writes rows as columns.
func table(head string, rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{strings.Fields(head)}, rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// grantRows are the grants of a template's roles and of its people, the actions on one
// resource in one row.
func grantRows(t *testing.T, of template) [][]string {
	t.Helper()
	var rows [][]string
	var last grant
	grants := of.grants()
	for id := range allowedTo {
		for _, s := range permitted(t, of, id) {
			for _, action := range s.actions {
				for _, resource := range s.resources {
					grants = append(grants, grant{"policy " + id, s.effect, action, resource, s.condition})
				}
			}
		}
	}
	slices.SortFunc(grants, func(a, b grant) int {
		return strings.Compare(a.role+"\t"+a.resource+"\t"+a.condition+"\t"+a.action, b.role+"\t"+b.resource+"\t"+b.condition+"\t"+b.action)
	})
	for _, g := range grants {
		if g.role == last.role && g.resource == last.resource && g.condition == last.condition {
			rows[len(rows)-1][1] += "," + g.action
			continue
		}
		rows, last = append(rows, []string{g.role, g.action, g.resource, g.condition}), g
	}
	return rows
}

// TestGrants writes down who may do what, so that a change of a permission is a line in
// a review. The region has a policy that deletes and one that reports; what a policy on
// all versions needs instead is in another region, of which only the difference stands.
// The policies of people, which nobody is attached to, stand beside the roles.
func TestGrants(t *testing.T) {
	first := grantRows(t, one())
	got := "# <X.Arn> is the ARN of the stack's resource X, and <X> a topic's; a policy is one of people, for a team to attach\n\n# eu-west-1: exports enforces, digests reports\n" + table("role action resource condition", first)
	var other [][]string
	for _, row := range grantRows(t, deployed()["us-east-1"]) {
		if !slices.ContainsFunc(first, func(known []string) bool { return slices.Equal(known, row) }) {
			other = append(other, row)
		}
	}
	golden(t, "grants.golden", got+"\n# us-east-1: uploads enforces on all versions\n"+table("role action resource condition", other))
}

// TestQueueTable writes down how messages travel and for how long they are kept.
func TestQueueTable(t *testing.T) {
	stack := one()
	var rows [][]string
	for _, q := range stack.things(kindQueue) {
		allow := q.word("RedriveAllowPolicy", "redrivePermission")
		for _, source := range words(q.at("RedriveAllowPolicy", "sourceQueueArns")) {
			allow += "," + source[strings.LastIndex(source, ":")+1:]
		}
		rows = append(rows, []string{q.name, q.word("QueueName"), q.word("MessageRetentionPeriod"), dash(q.word("VisibilityTimeout")), dash(q.word("RedrivePolicy", "maxReceiveCount")),
			dash(q.word("RedrivePolicy", "deadLetterTargetArn")), dash(allow)})
	}
	got := table("queue name kept hidden receives dead-letters takes-dead-letters-of", rows)
	rows = nil
	for _, m := range stack.things(kindMapping) {
		rows = append(rows, []string{m.word("EventSourceArn"), m.word("FunctionName"), m.word("BatchSize"), m.word("ScalingConfig", "MaximumConcurrency"), strings.Join(words(m.at("FunctionResponseTypes")), ",")})
	}
	got += "\n" + table("from to batch at-once answers", rows)
	rows = nil
	for _, s := range stack.things("AWS::Scheduler::Schedule") {
		rows = append(rows, []string{s.name, s.word("ScheduleExpression"), s.word("ScheduleExpressionTimezone"), s.word("Target", "Arn"),
			s.word("Target", "RetryPolicy", "MaximumEventAgeInSeconds"), s.word("Target", "Input")})
	}
	golden(t, "queues.golden", got+"\n"+table("schedule when zone starts oldest input", rows))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// TestLogicalIDs writes down the ids of what has a state: another id is another, empty
// table, and the old one stays behind.
func TestLogicalIDs(t *testing.T) {
	var rows [][]string
	for _, x := range one().things("") {
		if slices.Contains([]string{kindTable, kindBucket, kindLogs, kindKey, kindQueue, kindTopic, "AWS::Scheduler::ScheduleGroup"}, x.kind) {
			rows = append(rows, []string{x.id, x.kind, x.deletion[0]})
		}
	}
	key := full().thing(kindKey, "Key")
	rows = append(rows, []string{key.id, key.kind, key.deletion[0]})
	for name, stack := range stacks() {
		for _, row := range rows {
			if _, there := stack.Resources[row[0]]; !there && row[1] != kindKey {
				t.Errorf("%s has no %s", name, row[0])
			}
		}
	}
	golden(t, "logical-ids.golden", table("id kind when-the-stack-goes", rows))
}
