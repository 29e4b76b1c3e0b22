package region

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A difference between two values: where, and what stands there.
type difference struct {
	path          string
	before, after any
}

// differences lists where two values differ.
func differences(path string, a, b any) []difference {
	var out []difference
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			names := maps.Clone(x)
			maps.Copy(names, y)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				out = append(out, differences(path+"."+name, x[name], y[name])...)
			}
			return out
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				out = append(out, differences(fmt.Sprintf("%s.%d", path, i), x[i], y[i])...)
			}
			return out
		}
	}
	if word(a) != word(b) {
		out = append(out, difference{strings.TrimPrefix(path, "."), a, b})
	}
	return out
}

// asValue is a template under the constructs' names.
func (t template) asValue() map[string]any {
	all := map[string]any{}
	for _, x := range t.things("") {
		all[x.name] = map[string]any{"kind": x.kind, "properties": x.properties, "deletion": x.deletion[0] + x.deletion[1]}
	}
	outputs := map[string]any{}
	for name, output := range t.Outputs {
		outputs[name] = t.written(at(output, "Value"))
	}
	all["Outputs"] = outputs
	return all
}

// local is the template for an emulator at the scale of the local environment.
var local = sync.OnceValue(func() template {
	templates, err := synthesise(given("emulator", true, "scale", 20.0), "emulator-at-20")
	if err != nil {
		panic(err)
	}
	return templates["eu-west-1"]
})

// shorter are the durations that scale divides, and the least that AWS takes of each, in
// the property's own unit.
var shorter = map[string]float64{
	"Timeout": 1, "VisibilityTimeout": 1, "MessageRetentionPeriod": 60, "MaximumEventAgeInSeconds": 60, "Period": 60, "Threshold": 0,
}

// divided answers whether a difference is a duration, divided and rounded up.
func divided(path string, before, after any, by float64) bool {
	least, duration := shorter[path[strings.LastIndex(path, ".")+1:]]
	a, _ := before.(float64)
	b, ok := after.(float64)
	return duration && ok && b == max(math.Ceil(a/by), least)
}

// TestWhatAnEmulatorDoesNotGet is the whole list of what an emulator is given otherwise
// than a region: everything else of the stack is what is deployed.
func TestWhatAnEmulatorDoesNotGet(t *testing.T) {
	leftOut := []string{
		"Alarmsdeadletterreason", // an alarm on a query, which no emulator can deploy
		"Dashboard.properties.DashboardBody",
	}
	scaled := append([]string{
		"Outputs.Scale",
		"ReconcileSchedule.properties.ScheduleExpression", // in whole minutes
	}, leftOut...)
	for _, f := range roster {
		scaled = append(scaled, f.name+".properties.Environment.Variables.EXPUNGE_SCALE")
	}
	for out, c := range map[string]struct {
		stack template
		by    float64
		want  []string
	}{
		"emulator":       {synthesised(t, given("emulator", true), "emulator")["eu-west-1"], 1, leftOut},
		"emulator-at-20": {local(), 20, scaled},
	} {
		before := one().asValue()
		for _, d := range differences("", before, c.stack.asValue()) {
			if divided(d.path, d.before, d.after, c.by) {
				continue
			}
			i := slices.Index(c.want, d.path)
			if i < 0 {
				t.Errorf("%s: %s is %s, and in a region %s", out, d.path, word(d.after), word(d.before))
				continue
			}
			c.want = slices.Delete(c.want, i, i+1)
		}
		if len(c.want) > 0 {
			t.Errorf("%s: not otherwise than in a region: %q", out, c.want)
		}
	}
}

// TestScaleDividesEveryDuration: what it would forget would be as slow as in a region.
func TestScaleDividesEveryDuration(t *testing.T) {
	seen := map[string]bool{}
	stack := local()
	for _, d := range differences("", one().asValue(), stack.asValue()) {
		seen[d.path[strings.LastIndex(d.path, ".")+1:]] = true
	}
	for property := range shorter {
		if !seen[property] {
			t.Errorf("no %s is divided", property)
		}
	}
	for _, f := range stack.things(kindFunction) {
		if real := one().thing(kindFunction, f.name).number("Timeout"); f.number("Timeout")*20 != real {
			t.Errorf("%s may run for %.0f seconds, and in a region for %.0f", f.name, f.number("Timeout"), real)
		}
	}
}
