package region

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// refused reads a context that is wrong, and returns what is said of it.
func refused(t *testing.T, context map[string]any) string {
	t.Helper()
	all, err := configs(context)
	if err == nil {
		t.Fatal("nothing is refused")
	}
	if all != nil {
		t.Error("what is refused can be deployed all the same")
	}
	return err.Error()
}

// TestRefusals: what would fail half-way through a deploy, or after it, is refused
// before anything is written, with what is allowed. SQ-07 is one of them.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		edits []any
		want  string // one problem, whole
	}{
		"no region is named": {[]any{"regions", nil}, "regions names no region: give a list in cdk.json, or -c regions=eu-west-1,us-east-1"},
		"an empty text":      {[]any{"regions", ""}, "regions names no region: give a list in cdk.json, or -c regions=eu-west-1,us-east-1"},
		"an empty list":      {[]any{"regions", []any{}}, "regions names no region: give a list in cdk.json, or -c regions=eu-west-1,us-east-1"},
		"only commas":        {[]any{"regions", " , ,"}, "regions names no region: give a list in cdk.json, or -c regions=eu-west-1,us-east-1"},
		"a zone":             {[]any{"regions", "eu-west-1a"}, `regions: "eu-west-1a" is not the name of a region, such as eu-west-1`},
		"a number":           {[]any{"regions", 1.0}, "regions is 1; it is a list, or its items with commas between them"},
		"a list of numbers":  {[]any{"regions", []any{"eu-west-1", 2.0}}, "regions holds 2; its items are text"},
		"a region without a policy": {[]any{"regions", "eu-west-1,eu-north-1"},
			"no policy in testdata/policies is for region eu-north-1: its functions would have nothing to do"},

		"a key that means nothing": {[]any{"evidence_year", "3"}, "context has the key evidence_year, which means nothing; there are architecture, batch_size, batch_window, code_signing, code_version, " +
			"concurrency, customer_key, dead_letter_baseline, emulator, evidence_years, log_days, object_lock, object_lock_days, packages, page_emails, page_urls, " +
			"permissions_boundary, policies, regions, scale, stage, termination_protection, ticket_emails, ticket_urls, visibility"},
		"a key in capitals": {[]any{"pageEmails", "x"}, "context has the key pageEmails, which means nothing; there are architecture, batch_size, batch_window, code_signing, code_version, " +
			"concurrency, customer_key, dead_letter_baseline, emulator, evidence_years, log_days, object_lock, object_lock_days, packages, page_emails, page_urls, " +
			"permissions_boundary, policies, regions, scale, stage, termination_protection, ticket_emails, ticket_urls, visibility"},
		"a key with a hyphen": {[]any{"page-emails", "x"}, "context has the key page-emails, which means nothing; there are architecture, batch_size, batch_window, code_signing, code_version, " +
			"concurrency, customer_key, dead_letter_baseline, emulator, evidence_years, log_days, object_lock, object_lock_days, packages, page_emails, page_urls, " +
			"permissions_boundary, policies, regions, scale, stage, termination_protection, ticket_emails, ticket_urls, visibility"},

		"a stage in capitals":   {[]any{"stage", "Prod"}, `stage is "Prod"; it is 1 to 20 lower-case letters, digits and hyphens, and begins with a letter`},
		"a stage that is empty": {[]any{"stage", ""}, `stage is ""; it is 1 to 20 lower-case letters, digits and hyphens, and begins with a letter`},
		"a stage that is long":  {[]any{"stage", strings.Repeat("x", 21)}, `stage is "xxxxxxxxxxxxxxxxxxxxx"; it is 1 to 20 lower-case letters, digits and hyphens, and begins with a letter`},
		"a stage whose queue another stage has": {[]any{"stage", "prod-report"},
			`stage is "prod-report"; it does not end in -report or -schedule, or its queues would have the names of another stage's`},
		"a stage whose dead letters another stage has": {[]any{"stage", "prod-schedule"},
			`stage is "prod-schedule"; it does not end in -report or -schedule, or its queues would have the names of another stage's`},

		"SQ-07 visibility below the function's timeout": {[]any{"visibility", "60"},
			"visibility is 1m0s; it must be 6 function timeouts of 1m0s and the batch window of 0s, 6m0s, up to 12m0s"},
		"a visibility that forgets the window": {[]any{"visibility", 360.0, "batch_window", 5.0},
			"visibility is 6m0s; it must be 6 function timeouts of 1m0s and the batch window of 5s, 6m5s, up to 12m0s"},
		"a visibility beyond which reconcile sends again": {[]any{"visibility", 721.0},
			"visibility is 12m1s; it must be 6 function timeouts of 1m0s and the batch window of 0s, 6m0s, up to 12m0s"},
		"one worker": {[]any{"concurrency", "1"},
			"concurrency is 1 and scale 1: contract: an event source mapping's maximum concurrency is 2 to 1,000"},
		"too many workers": {[]any{"concurrency", 1001.0},
			"concurrency is 1001 and scale 1: contract: an event source mapping's maximum concurrency is 2 to 1,000"},
		"workers in words":        {[]any{"concurrency", "many"}, `concurrency is "many"; it is a whole number`},
		"half a worker":           {[]any{"concurrency", 2.5}, `concurrency is "2.5"; it is a whole number`},
		"a batch without window":  {[]any{"batch_size", 11.0}, "batch_size is 11; above 10 it needs a batch_window of a second or more"},
		"a batch of none":         {[]any{"batch_size", 0.0}, "batch_size is 0; it is 1 to 10000"},
		"a batch that is too big": {[]any{"batch_size", 10001.0, "batch_window", 1.0}, "batch_size is 10001; it is 1 to 10000"},
		"a window that is long":   {[]any{"batch_window", 301.0}, "batch_window is 5m1s; it is 0 to 5m"},
		"no time at all":          {[]any{"batch_window", "soon"}, `batch_window is "soon"; it is a whole number`},

		"R142 evidence for no time":       {[]any{"evidence_years", 0.0}, "evidence_years is 0; it is 1 to 100"},
		"R142 evidence beyond all policy": {[]any{"evidence_years", 300.0}, "evidence_years is 300; it is 1 to 100"},
		"a lock of another name":          {[]any{"object_lock", "strict"}, `object_lock is "strict"; it is governance, compliance or left out`},
		"a lock without days":             {[]any{"object_lock", "compliance"}, "object_lock_days is 0; it is 1 to evidence_years, 2555 days"},
		"a lock beyond the evidence":      {[]any{"object_lock", "governance", "object_lock_days", 2556.0}, "object_lock_days is 2556; it is 1 to evidence_years, 2555 days"},
		"days without a lock":             {[]any{"object_lock_days", 30.0}, "object_lock_days is 30 without object_lock, which is governance or compliance"},
		"CD-04 logs that are not offered": {[]any{"log_days", 15.0},
			"log_days is 15; it is one of [14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653], and not below the 336h0m0s of a dead letter, or a redrive could not be explained"},
		"CD-04 logs that end before dead letters": {[]any{"log_days", 7.0},
			"log_days is 7; it is one of [14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653], and not below the 336h0m0s of a dead letter, or a redrive could not be explained"},
		"a baseline of none": {[]any{"dead_letter_baseline", 0.0}, "dead_letter_baseline is 0; it is at least 1"},

		"another machine":           {[]any{"architecture", "amd64"}, `architecture is "amd64"; it is arm64 or x86_64`},
		"scale in a real region":    {[]any{"scale", "20"}, "scale is 20; it is 1, and with emulator it can be 20"},
		"a scale that is unproven":  {[]any{"emulator", true, "scale", 3.0}, "scale is 3; it is 1, and with emulator it can be 20"},
		"scale none":                {[]any{"emulator", true, "scale", 0.0}, "scale is 0; it is 1, and with emulator it can be 20"},
		"neither true nor false":    {[]any{"customer_key", "yes"}, "customer_key is yes; it is true or false"},
		"a list for a text":         {[]any{"architecture", []any{"arm64"}}, "architecture is [arm64]; it is text"},
		"an address without a host": {[]any{"page_emails", "oncall"}, `page_emails: "oncall" is not an address such as oncall@example.com`},
		"two addresses in one":      {[]any{"ticket_emails", []any{"a@example.com b@example.com"}}, `ticket_emails: "a@example.com b@example.com" is not an address such as oncall@example.com`},
		"no folder of policies":     {[]any{"policies", "testdata/nowhere"}, "policies: testdata/nowhere: policy: the folder holds no *.yaml file"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Split(refused(t, given(c.edits...)), "\n")
			if !slices.Equal(got, []string{c.want}) {
				t.Errorf("refused: %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestAnAddressMayHoldASecret: incident tools have the key in the path.
func TestAnAddressMayHoldASecret(t *testing.T) {
	text := refused(t, given("page_urls", "http://events.example.com/v2/s3cret", "ticket_urls", "https://"))
	if want := "page_urls: an address must begin with https://\nticket_urls: an address must begin with https://"; text != want {
		t.Errorf("refused: %q", text)
	}
}

// TestEverythingIsRefusedAtOnce: whoever mends one thing is not told the next a minute
// later; and what is wrong with all regions is said once.
func TestEverythingIsRefusedAtOnce(t *testing.T) {
	dir := policyFiles(t, map[string]string{
		"a.yaml": aPolicyFile("eu-west-1", "mode: enforce", "mode: delete"), "b.yaml": aPolicyFile("eu-west-1", "retention_days: 190", "retention_days: 0"),
	})
	text := refused(t, given("stage", "P", "visibility", 60.0, "concurrency", "1", "evidence_years", 0.0, "log_days", 1.0, "page_emails", "x", "policies", dir, "regions", "eu-west-1,us-east-1,nowhere"))
	for _, want := range []string{
		`stage is "P"`, "visibility is 1m0s", "concurrency is 1", "evidence_years is 0", "log_days is 1", `page_emails: "x"`, `"nowhere" is not the name of a region`, "a.yaml:7:", "b.yaml:6:",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is said %d times in\n%s", want, strings.Count(text, want), text)
		}
	}
}

// TestEvidenceOutlivesTheLongestPolicy: R142, of the region's own policies.
func TestEvidenceOutlivesTheLongestPolicy(t *testing.T) {
	dir := policyFiles(t, map[string]string{"uploads.yaml": aPolicyFile("eu-west-1", "190", "730")})
	want := "evidence_years is 1; policy uploads keeps artifacts for 730 days, and evidence must last as long"
	if got := refused(t, given("policies", dir, "regions", "eu-west-1", "evidence_years", "1")); got != want {
		t.Errorf("refused: %q", got)
	}
	if _, err := configs(given("policies", dir, "regions", "eu-west-1", "evidence_years", "2")); err != nil {
		t.Error(err)
	}
}

// TestABadPolicyIsRefusedAsLintRefusesIt: file, line and words are those that whoever
// wrote the file saw in `expunge policy lint`, of every file.
func TestABadPolicyIsRefusedAsLintRefusesIt(t *testing.T) {
	files := map[string]string{
		"first.yaml":  aPolicyFile("eu-west-1", "mode: enforce", "mode: delete", "retention_days: 190", "retention_days: 0"),
		"second.yaml": aPolicyFile("eu-west-1", "keys: uploads/{tenant}/", "keys: uploads/{tenant}"),
	}
	dir := policyFiles(t, files)
	text := refused(t, given("policies", dir))
	for name, content := range files {
		_, err := policy.Parse(name, []byte(content))
		lint, ok := errors.AsType[*policy.Error](err)
		if !ok || len(lint.Problems) == 0 {
			t.Fatalf("%s: lint refuses nothing: %v", name, err)
		}
		if !strings.Contains(text, lint.Error()) {
			t.Errorf("refused: %q\nlint says %q", text, lint.Error())
		}
		for _, p := range lint.Problems {
			if !strings.Contains(text, p.Text) {
				t.Errorf("refused without %q", p.Text)
			}
		}
	}
	double := policyFiles(t, map[string]string{"a.yaml": aPolicyFile("eu-west-1"), "b.yaml": aPolicyFile("eu-west-1")})
	if got, want := refused(t, given("policies", double)), "policies: "+double+": policy: b.yaml: another file has the name uploads"; got != want {
		t.Errorf("refused: %q, want %q", got, want)
	}
}

// TestRetentionsAreRefused holds the numbers of contract to what SQS offers, and to
// each other: a dead letter keeps its age, so equal retentions would leave it no time.
func TestRetentionsAreRefused(t *testing.T) {
	all, err := configs(given())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(s *contract.Settings)
		want  string
	}{
		"dead letters beyond SQS's 14 days": {func(s *contract.Settings) { s.DeadLetterRetention = 15 * 24 * time.Hour },
			"dead letters would be kept for 360h0m0s; SQS keeps a message for at most 336h0m0s"},
		"dead letters no longer than pages": {func(s *contract.Settings) { s.DeadLetterRetention = s.SourceRetention },
			"concurrency is 5 and scale 1: contract: dead letters must outlive the source retention by a week"},
	} {
		config := all[0]
		c.spoil(&config.Settings)
		if got := config.problems(); len(got) != 1 || got[0].Error() != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatIsAccepted: the command line gives text where cdk.json gives lists and numbers.
func TestWhatIsAccepted(t *testing.T) {
	all, err := configs(given(
		"regions", " us-east-1, eu-west-1,us-east-1 ", "concurrency", "20", "evidence_years", "10", "customer_key", "true", "batch_size", "100", "batch_window", "5",
		"visibility", "720", "page_emails", "a@example.com,b@example.com", "object_lock", "compliance", "object_lock_days", "3650", "log_days", "14", "code_version", 7.0,
	))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Region != "eu-west-1" || all[1].Region != "us-east-1" {
		t.Fatalf("%d regions, the first %s", len(all), all[0].Region)
	}
	c := all[0]
	if c.Settings.Concurrency != 20 || c.EvidenceYears != 10 || !c.CustomerKey || c.BatchSize != 100 || c.BatchWindow != 5*time.Second || c.Visibility != 12*time.Minute ||
		c.ObjectLock != Compliance || c.ObjectLockDays != 3650 || c.LogDays != 14 || c.CodeVersion != "7" || !c.TerminationProtection ||
		!slices.Equal(c.PageTo.Emails, []string{"a@example.com", "b@example.com"}) {
		t.Errorf("read as %+v", c)
	}
	if len(c.Policies) != 2 || c.Policies[0].Name != "digests" || c.Policies[1].Name != "exports" {
		t.Errorf("eu-west-1 has %d policies", len(c.Policies))
	}
	// SQ-07: without a value, it follows the function and the window.
	derived, err := configs(given("batch_window", 5.0))
	if err != nil || derived[0].Visibility != 6*time.Minute+5*time.Second {
		t.Errorf("visibility is %v, %v", derived[0].Visibility, err)
	}
	local, err := configs(given("emulator", "true", "scale", "20"))
	if err != nil || local[0].TerminationProtection || local[0].Settings.FunctionTimeout != 3*time.Second || local[0].Visibility != 18*time.Second {
		t.Errorf("the emulator gets %+v, %v", local[0].Settings, err)
	}
}

// TestCdkJsonIsAccepted: what the repository is deployed with.
func TestCdkJsonIsAccepted(t *testing.T) {
	context := given()
	for key, value := range cdkContext() {
		context[key] = value
	}
	context["policies"] = "../policies"
	all, err := configs(context)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d regions, %v", len(all), err)
	}
	if _, err := os.Stat(filepath.Join("..", "..", "infra", "policies")); err != nil {
		t.Error(err)
	}
}

// An address that stands there twice is one subscription, and not a construct of the
// CDK that exists already.
func TestListsHoldEachItemOnce(t *testing.T) {
	all, err := configs(given("page_emails", "a@example.com, b@example.com,a@example.com"))
	if err != nil || !slices.Equal(all[0].PageTo.Emails, []string{"a@example.com", "b@example.com"}) {
		t.Errorf("%v, %v", all, err)
	}
}
