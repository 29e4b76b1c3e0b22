package region

import (
	"sync"
	"testing"
)

const (
	boundary = "arn:aws:iam::111122223333:policy/ceiling"
	signing  = "arn:aws:lambda:eu-west-1:111122223333:code-signing-config:csc-0f6c334abcdea4d8b"
)

// everything is the context of a stack with every option on.
func everything(edits ...any) map[string]any {
	return given(append([]any{
		"regions", "eu-west-1", "customer_key", true, "object_lock", "governance", "object_lock_days", 365.0, "permissions_boundary", boundary, "code_signing", signing,
		"architecture", "x86_64", "packages", builtFor(X86_64), "code_version", "1.4.2", "batch_size", 100.0, "batch_window", 5.0, "concurrency", 20.0, "evidence_years", 10.0, "log_days", 365.0,
		"termination_protection", true, "stage", "staging",
	}, edits...)...)
}

// full is the template of everything().
var full = sync.OnceValue(func() template {
	templates, err := synthesise(everything(), "everything")
	if err != nil {
		panic(err)
	}
	return templates["eu-west-1"]
})

// TestOptions looks at what a stack with every option on has that the plain one lacks;
// the checks hold it to the rest.
func TestOptions(t *testing.T) {
	stack := full()
	c := stack.config
	if !c.CustomerKey || c.ObjectLock != Governance || c.PermissionsBoundary != boundary || c.CodeSigning != signing || c.Architecture != X86_64 || c.CodeVersion != "1.4.2" {
		t.Fatalf("the context is read as %+v", c)
	}
	if got := stack.thing(kindMapping, "PagesToWorker"); got.number("BatchSize") != 100 || got.number("MaximumBatchingWindowInSeconds") != 5 || got.number("ScalingConfig", "MaximumConcurrency") != 20 {
		t.Errorf("the mapping is %s", word(got.properties))
	}
	if got := stack.thing(kindQueue, "Pages").number("VisibilityTimeout"); got != 365 {
		t.Errorf("visibility is %.0f seconds, want six minutes and the window", got)
	}
	if got := word(at(stack.Outputs["CodeVersion"], "Value")); got != "1.4.2" {
		t.Errorf("the code is said to be %q", got)
	}
	if got := one().thing(kindKey, "Key"); got.id != "" {
		t.Error("a key that nobody asked for")
	}
}

// TestOtherOptions: the values that everything() does not have.
func TestOtherOptions(t *testing.T) {
	templates := synthesised(t, everything("permissions_boundary", "ceiling", "object_lock", "compliance", "object_lock_days", 30.0), "other-options")
	for _, c := range checks {
		for _, problem := range c.find(templates["eu-west-1"]) {
			t.Errorf("%s: %s", c.name, problem)
		}
	}
	if got := word(at(templates["eu-west-1"].thing(kindBucket, "Evidence").properties, "ObjectLockConfiguration", "Rule", "DefaultRetention")); got != `{"Days":30,"Mode":"COMPLIANCE"}` {
		t.Errorf("evidence is locked %s", got)
	}
}

// A deployment whose pages reach nobody is allowed, and said: doctor would find it later.
func TestUnheardIsWhoTellsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		edits []any
		want  bool
	}{
		"addresses":      {nil, false},
		"only a tool":    {[]any{"page_emails", ""}, false},
		"only tickets":   {[]any{"page_emails", "", "page_urls", ""}, true},
		"in an emulator": {[]any{"page_emails", "", "page_urls", "", "emulator", true, "scale", "20"}, false},
	} {
		all, err := configs(given(c.edits...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := all[0].Unheard(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
