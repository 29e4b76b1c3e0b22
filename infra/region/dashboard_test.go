package region

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
)

// widget is a widget as CloudWatch reads it.
type widget struct {
	Type                string
	X, Y, Width, Height int
	Properties          struct {
		Title, Markdown string
		Metrics         []any
		Alarms          []string
		Annotations     struct {
			Horizontal []struct {
				Label string
				Value float64
			}
		}
	}
}

// dashboardOf reads the body of the only dashboard. What CloudFormation fills in stands
// as {logical id}.
func dashboardOf(t template) (name string, widgets []widget, err error) {
	for _, r := range t.of("AWS::CloudWatch::Dashboard") {
		var body struct{ Widgets []widget }
		text := filledIn(r.Properties["DashboardBody"])
		if err := json.Unmarshal([]byte(text), &body, json.MatchCaseInsensitiveNames(true)); err != nil {
			return "", nil, fmt.Errorf("the dashboard's body: %w", err)
		}
		name, widgets = filledIn(r.Properties["DashboardName"]), body.Widgets
	}
	return name, widgets, nil
}

// filledIn is a template's value as one text.
func filledIn(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, part := range v {
			b.WriteString(filledIn(part))
		}
		return b.String()
	case map[string]any:
		if join, ok := v["Fn::Join"].([]any); ok {
			return filledIn(join[1])
		}
		if get, ok := v["Fn::GetAtt"].([]any); ok {
			return "{" + filledIn(get[0]) + "}"
		}
		return "{" + filledIn(v["Ref"]) + "}"
	default:
		return fmt.Sprint(v)
	}
}

// drawn is what stands in which row, by the requirement that asks for it.
var drawn = []struct {
	requirement, heading string
	titles               []string
}{
	{"R105", "## On call: ", []string{"Oldest message (seconds)", "Visible messages", "Messages in flight", "Received and not acknowledged", "Dead letters", "Success to retry (% of attempts)"}},
	{"R106", "## Recovery: ", []string{"Dead letters by region", "Oldest dead letter (seconds)", "Pages redriven", "Redrive success (% of the pages so far)", "First failure to success (seconds)"}},
	{"R107", "## Deletion: ", []string{"Business dates behind the latest completed", "Oldest claimed and incomplete page (seconds)", "Retry age: oldest open page (seconds)", "Dead pages by policy", "Held to deleted (% of both)"}},
}

// checkDashboard says what the dashboard lacks of its rows, and which alarm it does not
// show.
func checkDashboard(t template) (problems []string) {
	_, widgets, err := dashboardOf(t)
	if err != nil || len(widgets) == 0 {
		return []string{fmt.Sprintf("there is no dashboard: %v", err)}
	}
	alarms := slices.Sorted(maps.Keys(t.of("AWS::CloudWatch::Alarm")))
	rest := widgets
	var shown []string
	for ; len(rest) > 0 && rest[0].Type == "alarm"; rest = rest[1:] {
		if n := len(rest[0].Properties.Alarms); n < 1 || n > 100 {
			problems = append(problems, fmt.Sprintf("a widget has %d alarms; CloudWatch takes 1 to 100", n))
		}
		for _, alarm := range rest[0].Properties.Alarms {
			shown = append(shown, strings.Trim(alarm, "{}"))
		}
	}
	if slices.Sort(shown); !slices.Equal(shown, alarms) {
		problems = append(problems, fmt.Sprintf("it shows the alarms %v of %v", shown, alarms))
	}
	for _, row := range drawn {
		if len(rest) < 1+len(row.titles) {
			return append(problems, row.requirement+": the row is not whole")
		}
		heading, graphs := rest[0], rest[1:1+len(row.titles)]
		rest = rest[1+len(row.titles):]
		if !strings.HasPrefix(heading.Properties.Markdown, row.heading) {
			problems = append(problems, fmt.Sprintf("%s: the heading is %q", row.requirement, heading.Properties.Markdown))
		}
		x := 0
		for i, g := range graphs {
			if g.Properties.Title != row.titles[i] || len(g.Properties.Metrics) == 0 || g.X != x || g.Y != heading.Y+heading.Height {
				problems = append(problems, fmt.Sprintf("%s: %q with %d metrics at %d,%d; want %q", row.requirement, g.Properties.Title, len(g.Properties.Metrics), g.X, g.Y, row.titles[i]))
			}
			x += g.Width
		}
		if x != gridWidth {
			problems = append(problems, fmt.Sprintf("%s: the row is %d wide of %d", row.requirement, x, gridWidth))
		}
	}
	if len(rest) > 0 {
		problems = append(problems, fmt.Sprintf("%d widgets more than the rows have", len(rest)))
	}
	return problems
}

func TestR105R106R107DashboardRows(t *testing.T) { none(t, checkDashboard(one())) }

func TestDashboardIsOfOneStageAndRegion(t *testing.T) {
	if name, _, err := dashboardOf(one()); err != nil || name != "expunge-prod-eu-west-1" {
		t.Errorf("%q, %v", name, err)
	}
}

// TestDashboardTable writes down what is drawn, so that a reviewer sees which signal
// stands under which title.
func TestDashboardTable(t *testing.T) {
	_, widgets, err := dashboardOf(one())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, w := range widgets {
		fmt.Fprintln(&b, strings.TrimSpace(w.Type+" "+w.Properties.Title+w.Properties.Markdown))
		for _, metric := range w.Properties.Metrics {
			fmt.Fprintln(&b, "  "+word(metric))
		}
		for _, line := range w.Properties.Annotations.Horizontal {
			fmt.Fprintf(&b, "  %s from %v on\n", line.Label, line.Value)
		}
	}
	golden(t, "dashboard.golden", b.String())
}

// A search of a namespace that is not in quotes finds nothing where the stage has a hyphen.
func TestSearchesQuoteTheNamespace(t *testing.T) {
	_, widgets, err := dashboardOf(one())
	if err != nil {
		t.Fatal(err)
	}
	searches := 0
	for _, w := range widgets {
		for _, metric := range w.Properties.Metrics {
			if search := word(at(metric, 0, "expression")); strings.Contains(search, "SEARCH(") {
				searches++
				if !strings.HasPrefix(search, `SEARCH('{"Expunge/prod",service,policy} `) {
					t.Errorf("%s: %s", w.Properties.Title, search)
				}
			}
		}
	}
	if searches < 4 {
		t.Errorf("only %d searches are found", searches)
	}
}

// R106: the depth of this region stands beside that of the others.
func TestR106DepthByRegion(t *testing.T) {
	_, widgets, err := dashboardOf(one())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(widgets, func(w widget) bool { return w.Properties.Title == "Dead letters by region" })
	if at < 0 {
		t.Fatal("there is no such widget")
	}
	for _, region := range []string{"eu-west-1", "us-east-1", "ap-southeast-2"} {
		if got := fmt.Sprint(widgets[at].Properties.Metrics); !strings.Contains(got, "region:"+region) {
			t.Errorf("%s is missing: %s", region, got)
		}
	}
}

// metricsIn lists our own metrics that alarms and dashboard of a template name, with the
// service where one is named: BusinessDateLag@reconcile.
func metricsIn(t template) []string {
	var all []string
	add := func(name, service string) {
		if service != "" {
			name += "@" + service
		}
		all = append(all, name)
	}
	for _, a := range alarmsOf(t) {
		if a.Namespace == contract.Namespace("prod") {
			for _, d := range a.Dimensions {
				if d.Name == contract.DimensionService {
					add(a.MetricName, filledIn(d.Value))
				}
			}
		}
		for _, m := range a.Metrics {
			add(regexp.MustCompile(`SUM\((\w+)\)`).FindStringSubmatch(m.Expression)[1], "")
		}
	}
	_, widgets, _ := dashboardOf(t) // checkDashboard reports what can not be read
	for _, w := range widgets {
		for _, m := range w.Properties.Metrics {
			line, ok := m.([]any)
			if !ok {
				continue
			}
			if line[0] == contract.Namespace("prod") {
				add(filledIn(line[1]), filledIn(line[3]))
			}
			for _, found := range regexp.MustCompile(`MetricName=\\?"(\w+)`).FindAllStringSubmatch(fmt.Sprint(line), -1) {
				add(found[1], "")
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Every metric that an alarm or the dashboard asks for is measured: its constant is in
// contract, and the step that the alarm names measures it, or emits an event that is
// counted as it, in code that is deployed. Without that the alarm is never raised.
func TestEveryMetricIsMeasured(t *testing.T) {
	constants, counted := constantsOf(t), countedEvents(t)
	measured, emitted := namedIn(t, "contract"), namedIn(t, "audit")
	metrics := metricsIn(one())
	if len(metrics) < 15 {
		t.Errorf("only %v are asked for", metrics)
	}
	for _, m := range metrics {
		name, service, _ := strings.Cut(m, "@")
		constant, ok := constants[name]
		if !ok {
			t.Errorf("%s: no constant of contract has this name", m)
			continue
		}
		steps := slices.Clone(measured[constant])
		for _, event := range counted[constant] {
			steps = append(steps, emitted[event]...)
		}
		if steps = slices.DeleteFunc(steps, func(p string) bool { return !slices.Contains(services, p) }); len(steps) == 0 {
			t.Errorf("%s: no step measures contract.%s", m, constant)
		} else if service != "" && (len(slices.Compact(steps)) != 1 || steps[0] != service) {
			t.Errorf("%s: %s measure it, and %s alone is asked for", m, steps, service)
		}
	}
}

// services are the steps: the values of the dimension, and their packages.
var services = []string{contract.ServiceEnqueue, contract.ServiceWorker, contract.ServiceReconcile, contract.ServiceRedrive, contract.ServiceHold}

// constantsOf lists the metrics of contract: what they are named, by what they say.
func constantsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/contract/metric.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || fmt.Sprint(spec.Type) != "Metric" {
			return true
		}
		if text, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[value] = spec.Names[0].Name
		}
		return true
	})
	return all
}

// countedEvents lists the events that are counted as a metric, by the metric's constant:
// the table of audit's counts.
func countedEvents(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/audit/counted.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		entry, ok := n.(*ast.KeyValueExpr)
		event, named := entryKey(entry)
		if !ok || !named || !event.IsExported() {
			return true
		}
		ast.Inspect(entry.Value, func(n ast.Node) bool {
			if metric, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(metric.X) == "contract" {
				all[metric.Sel.Name] = append(all[metric.Sel.Name], event.Name)
			}
			return true
		})
		return false
	})
	return all
}

func entryKey(entry *ast.KeyValueExpr) (*ast.Ident, bool) {
	if entry == nil {
		return nil, false
	}
	key, ok := entry.Key.(*ast.Ident)
	return key, ok
}

// namedIn lists which packages of internal name which identifier of a package, outside
// of tests.
func namedIn(t *testing.T, of string) map[string][]string {
	t.Helper()
	name := regexp.MustCompile(`\b` + of + `\.([A-Z]\w+)`)
	all := map[string][]string{}
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range name.FindAllSubmatch(source, -1) {
			if by := filepath.Base(filepath.Dir(path)); !slices.Contains(all[string(found[1])], by) {
				all[string(found[1])] = append(all[string(found[1])], by)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
