package region

import "sync"

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
