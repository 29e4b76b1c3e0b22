package region

import (
	"slices"
	"testing"
)

// A release reaches whoever reads a message or a policy version before whoever writes
// one: CloudFormation updates a resource after those that it depends on.
func TestReadersAreUpdatedBeforeWriters(t *testing.T) {
	const function = "AWS::Lambda::Function"
	for writer, readers := range map[string][]string{
		"Redrive": {"Worker", "ReportWorker"},
		"Enqueue": {"Worker", "ReportWorker", "Redrive", "Hold"},
	} {
		after := values(one().of(function)[one().named(function, writer)].DependsOn)
		for _, reader := range readers {
			if id := one().named(function, reader); id == "" || !slices.Contains(after, any(id)) {
				t.Errorf("%s does not wait for %s: %v", writer, reader, after)
			}
		}
	}
	reconcile := one().of(function)[one().named(function, "Reconcile")]
	variables := at(reconcile.Properties, "Environment", "Variables")
	for _, writer := range []string{"Enqueue", "Redrive"} {
		id := one().named(function, writer)
		if id == "" || !refersTo(variables, id) {
			t.Errorf("reconcile does not name %s, and would not wait for it: %v", writer, variables)
		}
	}
}

// refersTo reports whether one of the variables is a reference to the resource.
func refersTo(variables any, id string) bool {
	all, _ := variables.(map[string]any)
	for _, v := range all {
		if at(v, "Ref") == id {
			return true
		}
	}
	return false
}
