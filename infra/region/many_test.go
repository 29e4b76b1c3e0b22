package region

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// somePolicies writes n policies of a region, each with a bucket and a prefix of its own.
func somePolicies(t *testing.T, n int) string {
	t.Helper()
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("artifacts-%03d", i)
		files[name+".yaml"] = strings.NewReplacer("acme-uploads", "acme-production-"+name+strings.Repeat("-x", 10), "uploads/", "tenants/files/"+name+"/", "uploads", name).Replace(aPolicyFile("eu-west-1"))
	}
	return policyFiles(t, files)
}

// TestManyPolicies: what is refused by size is refused at the deploy, half-way. A role
// that outgrows its policy goes on in another; the limits are those of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html and of
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
func TestManyPolicies(t *testing.T) {
	stack := synthesised(t, given("regions", "eu-west-1", "policies", somePolicies(t, maxPolicies)), "many")["eu-west-1"]
	for _, c := range checks {
		// An alarm's text names as many policies as it has room for.
		if found := c.find(stack); len(found) > 0 && c.name != "alarm-texts" {
			t.Errorf("%s finds %d problems, the first: %s", c.name, len(found), found[0])
		}
	}
	if len(stack.Resources) > 500-10 || len(stack.text) > 1_000_000 {
		t.Errorf("%d resources in %d bytes", len(stack.Resources), len(stack.text))
	}
	// Everything in <> is an ARN of some 80 characters.
	size := func(x thing) int {
		return len(word(x.at("PolicyDocument"))) + 65*strings.Count(word(x.at("PolicyDocument")), "<")
	}
	for _, policy := range stack.things("AWS::IAM::Policy") {
		if size(policy) > 10_240 {
			t.Errorf("%s has %d characters", policy.name, size(policy))
		}
	}
	attached := map[string]int{}
	for _, policy := range stack.things("AWS::IAM::ManagedPolicy") {
		attached[word(at(policy.at("Roles"), 0))]++
		if size(policy) > 6_144 {
			t.Errorf("%s has %d characters", policy.name, size(policy))
		}
	}
	if attached["<WorkerRole>"] < 1 || attached["<WorkerRole>"] > 10 {
		t.Errorf("the worker's role goes on in %d policies", attached["<WorkerRole>"])
	}
	// The worker is not started before it may do all that it has to.
	for _, policy := range stack.things("AWS::IAM::ManagedPolicy") {
		for _, f := range roster {
			if word(at(policy.at("Roles"), 0)) == "<"+f.name+"Role>" && !slices.Contains(values(stack.Resources[stack.named(kindFunction, f.name)].DependsOn), any(policy.id)) {
				t.Errorf("%s does not wait for %s", f.name, policy.name)
			}
		}
	}
	want := fmt.Sprintf("%d policies are for region eu-west-1; a stack has room for %d", maxPolicies+1, maxPolicies)
	if got := refused(t, given("regions", "eu-west-1", "policies", somePolicies(t, maxPolicies+1))); got != want {
		t.Errorf("refused: %q", got)
	}
}
