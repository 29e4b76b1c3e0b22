package job_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// The released commands are v1-*.json and are never rewritten: -update writes
// only the seeds of the fuzz target.
var update = flag.Bool("update", false, "rewrite the fuzz seeds from the table of hazards")

func commandRun(t *testing.T, cutoff string, mode job.Mode) job.Run {
	t.Helper()
	return job.Run{
		ID: "010fb4509226f6589d1638b57f6e4c03", Region: "eu-central-1", Policy: "exports", Version: 7,
		PolicySHA256: strings.Repeat("c", 64), Mode: mode, Cutoff: instantOf(t, cutoff),
	}
}

// TestReleasedCommands pins the bytes that lie in queues: a worker of any release
// must take them, and every sender must write them again.
func TestReleasedCommands(t *testing.T) {
	run := commandRun(t, "2026-02-06T02:30:00Z", job.Enforce)
	first := job.RangePageID(run.ID, "school-42", "")
	ref := job.Ref{Key: "exports/school-42/a"}
	for _, c := range []struct {
		file string
		run  job.Run
		page job.Page
	}{
		{"v1-command-range.json", run, job.Page{ID: first, Tenant: "school-42", Kind: job.RangePage, Through: "2026/z", Candidates: 30}},
		{"v1-command-middle.json", commandRun(t, "2026-02-06T03:30:00.25+01:00", job.ReportOnly), job.Page{
			ID: job.RangePageID(run.ID, "school-42", "2026/z"), Tenant: "school-42", Kind: job.RangePage,
			After: "2026/z", Through: "\x00\xff", Candidates: 1000,
		}},
		{"v1-command-item.json", run, job.Page{
			ID: job.ItemPageID(run.ID, "school-42", ref), Tenant: "school-42", Kind: job.ItemPage, Parent: first, Candidates: 1,
		}},
	} {
		want := strings.TrimSuffix(string(read(t, c.file)), "\n")
		command := job.NewCommand(c.run, c.page)
		if got := string(command.Encode()); got != want {
			t.Errorf("%s is now\n%s", c.file, got)
		}
		if got, err := job.Decode([]byte(want)); err != nil || got != command {
			t.Errorf("%s decodes to %+v, %v", c.file, got, err)
		}
		if m := job.NewMessage(c.run, c.page); m.ID != string(c.page.ID) || m.Group != c.page.Tenant || string(m.Body) != want {
			t.Errorf("%s is sent as %s in group %s", m.Body, m.ID, m.Group)
		}
	}
}

// The hash binds every fact that decides what a page deletes, and none that
// changes while the page is worked on (C7).
func TestCommandHashBindsTheRecord(t *testing.T) {
	run := commandRun(t, "2026-02-06T02:30:00Z", job.Enforce)
	page := job.Page{ID: job.RangePageID(run.ID, "school-42", ""), Tenant: "school-42", Kind: job.RangePage, After: "a", Through: "b", Parent: "p", Candidates: 30}
	want := job.NewCommand(run, page).Hash
	for name, change := range map[string]func(r *job.Run, p *job.Page){
		"run":        func(r *job.Run, _ *job.Page) { r.ID += "0" },
		"region":     func(r *job.Run, _ *job.Page) { r.Region = "us-east-1" },
		"policy":     func(r *job.Run, _ *job.Page) { r.Policy = "digests" },
		"version":    func(r *job.Run, _ *job.Page) { r.Version++ },
		"content":    func(r *job.Run, _ *job.Page) { r.PolicySHA256 = strings.Repeat("d", 64) },
		"mode":       func(r *job.Run, _ *job.Page) { r.Mode = job.ReportOnly },
		"cutoff":     func(r *job.Run, _ *job.Page) { r.Cutoff = r.Cutoff.Add(1) },
		"page":       func(_ *job.Run, p *job.Page) { p.ID += "0" },
		"tenant":     func(_ *job.Run, p *job.Page) { p.Tenant = "school-4" },
		"kind":       func(_ *job.Run, p *job.Page) { p.Kind = job.ItemPage },
		"start":      func(_ *job.Run, p *job.Page) { p.After = "" },
		"end":        func(_ *job.Run, p *job.Page) { p.Through = "c" },
		"border":     func(_ *job.Run, p *job.Page) { p.After, p.Through = "ab", "" },
		"parent":     func(_ *job.Run, p *job.Page) { p.Parent = "q" },
		"candidates": func(_ *job.Run, p *job.Page) { p.Candidates++ },
	} {
		r, p := run, page
		change(&r, &p)
		if job.NewCommand(r, p).Hash == want {
			t.Errorf("another %s has the same hash", name)
		}
	}
	r, p := run, page
	r.State, r.Rev, r.Cursor, r.Examined = job.Released, 9, "z", 7
	p.State, p.Rev, p.Owner, p.Fence, p.Attempts, p.Receipt = job.Retrying, 9, "w", 3, 4, "r"
	p.LeaseEnd, p.NextDue = r.Cutoff, r.Cutoff
	if job.NewCommand(r, p) != job.NewCommand(run, page) {
		t.Error("a page that was worked on has another command")
	}
}

// The fields of a command that is fine, each with a value that must not come
// back in an error.
var fields = []struct{ name, value string }{
	{"schema", `1`},
	{"run_id", `"010fb4509226f6589d1638b57f6e4c03"`},
	{"page_id", `"7a0bc7ea47c9d69657bb46b64fd5fe22"`},
	{"tenant_id", `"canary-5150"`},
	{"region", `"eu-canary-1"`},
	{"policy", `"canary-policy"`},
	{"policy_version", `73571`},
	{"hash", `"341a9f266eeaf3e5154cfe7cec6692f4"`},
}

// body writes a command; edit changes the text of one member, "" leaves it out.
func body(edit func(name, member string) string) string {
	var members []string
	for _, f := range fields {
		member := `"` + f.name + `":` + f.value
		if edit != nil {
			member = edit(f.name, member)
		}
		if member != "" {
			members = append(members, member)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// with puts another value into a field.
func with(field, value string) string {
	return body(func(name, member string) string {
		if name == field {
			return `"` + name + `":` + value
		}
		return member
	})
}

// plus adds a member.
func plus(member string) string { return strings.TrimSuffix(body(nil), "}") + "," + member + "}" }

// hazard is a body that must be refused.
type hazard struct {
	name, body string
	reason     job.Reason
	says       string
}

const presigned = `"https://example.s3.amazonaws.com/canary-key?X-Amz-Credential=canary-AKIA&X-Amz-Signature=canary"`

func hazards() []hazard {
	const (
		json    = "not strict JSON"
		object  = "not a JSON object"
		unknown = "a field is unknown or of the wrong type"
		large   = "larger than 4096 bytes"
	)
	all := []hazard{
		{"empty", "", job.ReasonMalformed, object},
		{"blank", " \t\r\n", job.ReasonMalformed, object},
		{"null", "null", job.ReasonMalformed, object},
		{"true", "true", job.ReasonMalformed, object},
		{"number", "1", job.ReasonMalformed, object},
		{"string", `"canary"`, job.ReasonMalformed, object},
		{"array", "[]", job.ReasonMalformed, object},
		{"array-of-one", "[" + body(nil) + "]", job.ReasonMalformed, object},
		{"byte-order-mark", "\ufeff" + body(nil), job.ReasonMalformed, object},
		{"utf-16", "{\x00\"\x00", job.ReasonMalformed, json},
		{"form-feed", "\f" + body(nil), job.ReasonMalformed, object},
		{"truncated", `{"run_id":`, job.ReasonMalformed, json},
		{"truncated-at-the-end", strings.TrimSuffix(body(nil), "}"), job.ReasonMalformed, json},
		{"trailing-text", body(nil) + "canary", job.ReasonMalformed, json},
		{"trailing-object", body(nil) + body(nil), job.ReasonMalformed, json},
		{"trailing-object-on-a-line", body(nil) + "\n" + body(nil), job.ReasonMalformed, json},
		{"trailing-comma", strings.TrimSuffix(body(nil), "}") + ",}", job.ReasonMalformed, json},
		{"trailing-nul", body(nil) + "\x00", job.ReasonMalformed, json},
		{"comment", body(nil) + "/* canary */", job.ReasonMalformed, json},
		{"single-quotes", strings.ReplaceAll(body(nil), `"`, `'`), job.ReasonMalformed, json},
		{"invalid-utf-8-value", with("tenant_id", "\"canary\xff\""), job.ReasonMalformed, json},
		{"invalid-utf-8-name", plus("\"canary\xff\":1"), job.ReasonMalformed, json},
		{"lone-surrogate", with("tenant_id", `"canary\ud800"`), job.ReasonMalformed, json},
		{"line-break-in-a-string", with("tenant_id", "\"canary\n\""), job.ReasonMalformed, json},
		{"not-a-number", with("policy_version", "NaN"), job.ReasonMalformed, json},

		{"empty-object", "{}", job.ReasonMalformed, "schema is missing"},
		{"schema-null", with("schema", "null"), job.ReasonMalformed, "schema is missing"},
		{"schema-with-a-point", with("schema", "1.0"), job.ReasonMalformed, json},
		{"schema-with-an-exponent", with("schema", "1e0"), job.ReasonMalformed, json},
		{"schema-as-text", with("schema", `"1"`), job.ReasonMalformed, json},
		{"schema-true", with("schema", "true"), job.ReasonMalformed, json},
		{"schema-huge", with("schema", "99999999999999999999"), job.ReasonMalformed, json},
		{"schema-zero", with("schema", "0"), job.ReasonUnsupportedSchema, "schema is older than 1"},
		{"schema-negative", with("schema", "-1"), job.ReasonUnsupportedSchema, "schema is older than 1"},
		{"schema-newer", with("schema", "2"), job.ReasonNewerSchema, "schema is newer than 1"},
		{"schema-newer-with-other-fields", `{"schema":3,"canary":{"run":[1]}}`, job.ReasonNewerSchema, "schema is newer than 1"},
		{"schema-newer-twice", `{"schema":3,"schema":1}`, job.ReasonMalformed, json},

		{"unknown-field", plus(`"canary":1`), job.ReasonMalformed, unknown},
		{"unknown-field-empty-name", plus(`"":1`), job.ReasonMalformed, unknown},
		{"C7-attempt", plus(`"attempt":1`), job.ReasonMalformed, unknown},
		{"C6-presigned-url-in-a-field", plus(`"presignedDeleteUrl":` + presigned), job.ReasonMalformed, unknown},
		{"C6-presigned-url-in-tenant", with("tenant_id", presigned), job.ReasonMalformed, "tenant_id"},
		{"C6-presigned-url-in-hash", with("hash", presigned), job.ReasonMalformed, "hash"},
		{"nested", plus(`"canary":` + strings.Repeat("[", 1500) + strings.Repeat("]", 1500)), job.ReasonMalformed, unknown},
		{"nested-without-end", plus(`"canary":` + strings.Repeat(`[{"a":`, 500)), job.ReasonMalformed, json},
		{"4097-bytes", body(nil) + strings.Repeat(" ", 4097-len(body(nil))), job.ReasonMalformed, large},
		{"4097-bytes-of-a-newer-schema", fmt.Sprintf(`{"schema":2,"canary":%q}`, strings.Repeat("x", 4097)), job.ReasonMalformed, large},
		{"huge", plus(fmt.Sprintf(`"canary":%q`, strings.Repeat("x", 1<<14))), job.ReasonMalformed, large},

		{"version-with-a-point", with("policy_version", "1.0"), job.ReasonMalformed, unknown},
		{"version-with-an-exponent", with("policy_version", "1e0"), job.ReasonMalformed, unknown},
		{"version-huge", with("policy_version", "1e400"), job.ReasonMalformed, unknown},
		{"version-zero", with("policy_version", "0"), job.ReasonMalformed, "policy_version"},
		{"version-negative", with("policy_version", "-1"), job.ReasonMalformed, "policy_version"},
		{"hash-in-capitals", with("hash", `"341A9F266EEAF3E5154CFE7CEC6692F4"`), job.ReasonMalformed, "hash"},
		{"hash-of-31-digits", with("hash", `"341a9f266eeaf3e5154cfe7cec6692f"`), job.ReasonMalformed, "hash"},
		{"hash-of-33-digits", with("hash", `"341a9f266eeaf3e5154cfe7cec6692f40"`), job.ReasonMalformed, "hash"},
		{"run-of-other-letters", with("run_id", `"g10fb4509226f6589d1638b57f6e4c03"`), job.ReasonMalformed, "run_id"},
		{"page-with-a-slash", with("page_id", `"7a0bc7ea47c9d69657bb46b64fd5fe2/"`), job.ReasonMalformed, "page_id"},
		{"region-in-capitals", with("region", `"EU-CANARY-1"`), job.ReasonMalformed, "region"},
		{"policy-with-a-path", with("policy", `"canary/../other"`), job.ReasonMalformed, "policy"},
		{"policy-of-65-bytes", with("policy", `"`+strings.Repeat("c", 65)+`"`), job.ReasonMalformed, "policy"},
		{"policy-with-a-hyphen-first", with("policy", `"-canary"`), job.ReasonMalformed, "policy"},
	}
	for name, tenant := range map[string]string{
		"empty": ``, "dot": `.`, "dots": `..`, "leading-dot": `.canary`, "leading-hyphen": `-canary`, "leading-underscore": `_canary`,
		"slash": `canary/a`, "backslash": `canary\\a`, "space": `canary a`, "nul": `canary\u0000`, "line-feed": `canary\n`,
		"umlaut": `canäry`, "percent": `%2e%2e`, "129-bytes": strings.Repeat("c", 129),
	} {
		all = append(all, hazard{"tenant-" + name, with("tenant_id", `"`+tenant+`"`), job.ReasonMalformed, "tenant_id"})
	}
	for _, f := range fields {
		title, upper := strings.ToUpper(f.name[:1])+f.name[1:], strings.ToUpper(f.name)
		wrong := map[bool]string{true: `73571`, false: `"canary"`}[strings.HasPrefix(f.value, `"`)]
		says := f.name + " is missing"
		all = append(all,
			hazard{f.name + "-twice", plus(`"` + f.name + `":` + f.value), job.ReasonMalformed, json},
			hazard{f.name + "-twice-by-escape", plus(`"\u00` + fmt.Sprintf("%02x", f.name[0]) + f.name[1:] + `":` + f.value), job.ReasonMalformed, json},
			hazard{f.name + "-in-other-case-too", plus(`"` + upper + `":` + f.value), job.ReasonMalformed, unknown},
			hazard{f.name + "-in-other-case-only", body(func(name, member string) string {
				if name == f.name {
					return `"` + title + `":` + f.value
				}
				return member
			}), job.ReasonMalformed, map[bool]string{true: says, false: unknown}[f.name == "schema"]},
			hazard{f.name + "-missing", body(func(name, member string) string {
				if name == f.name {
					return ""
				}
				return member
			}), job.ReasonMalformed, says},
		)
		if f.name == "schema" {
			continue // its wrong types stand above
		}
		all = append(all,
			hazard{f.name + "-null", with(f.name, "null"), job.ReasonMalformed, says},
			hazard{f.name + "-of-another-type", with(f.name, wrong), job.ReasonMalformed, unknown},
			hazard{f.name + "-as-a-list", with(f.name, "["+f.value+"]"), job.ReasonMalformed, unknown},
			hazard{f.name + "-as-an-object", with(f.name, `{"canary":`+f.value+`}`), job.ReasonMalformed, unknown},
		)
	}
	return all
}

// form is everything an error may say. Nothing in it comes from a body.
var form = regexp.MustCompile(`^decode command: invalid: (malformed|unsupported_schema|newer_schema): ` +
	`(larger than 4096 bytes|not a JSON object|not strict JSON, or schema is not a number|schema is missing|` +
	`schema is newer than 1|schema is older than 1|a field is unknown or of the wrong type|` +
	`(run_id|page_id|tenant_id|region|policy|policy_version|hash) is missing or not of its form)$`)

// wantRefused checks what every refusal has in common and returns its reason.
func wantRefused(t *testing.T, c job.Command, err error) job.Reason {
	t.Helper()
	var why *job.DecodeError
	if !errors.As(err, &why) || !failure.Is(err, failure.Invalid) {
		t.Fatalf("refused with %v", err)
	}
	if c != (job.Command{}) {
		t.Errorf("refused, and decoded to %+v all the same", c)
	}
	if !form.MatchString(err.Error()) {
		t.Errorf("the refusal says %q", err)
	}
	return why.Reason
}

func TestDecodeRefuses(t *testing.T) {
	names := map[string]bool{}
	for _, h := range hazards() {
		if names[h.name] {
			t.Fatalf("two hazards are named %s", h.name)
		}
		names[h.name] = true
		t.Run(h.name, func(t *testing.T) {
			c, err := job.Decode([]byte(h.body))
			if err == nil {
				t.Fatalf("accepted as %+v", c)
			}
			if reason := wantRefused(t, c, err); reason != h.reason || !strings.Contains(err.Error(), h.says) {
				t.Errorf("refused with %v, want %s, %s", err, h.reason, h.says)
			}
			if strings.Contains(strings.ToLower(err.Error()), "canary") {
				t.Errorf("the error quotes the body: %v", err)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	want := job.Command{
		Schema: 1, RunID: "010fb4509226f6589d1638b57f6e4c03", PageID: "7a0bc7ea47c9d69657bb46b64fd5fe22", TenantID: "canary-5150",
		Region: "eu-canary-1", Policy: "canary-policy", PolicyVersion: 73571, Hash: "341a9f266eeaf3e5154cfe7cec6692f4",
	}
	tenant := want
	tenant.TenantID = "A" + strings.Repeat(".", 127)
	for name, c := range map[string]struct {
		body string
		want job.Command
	}{
		"as written":       {body(nil), want},
		"white space":      {" \r\n\t" + strings.ReplaceAll(body(nil), ",", " ,\n") + "\n ", want},
		"4,096 bytes":      {body(nil) + strings.Repeat("\n", 4096-len(body(nil))), want},
		"another order":    {`{"hash":` + fields[7].value + "," + strings.TrimPrefix(body(func(n, m string) string { return map[bool]string{false: m}[n == "hash"] }), "{"), want},
		"escaped letters":  {strings.Replace(body(nil), "canary-5150", `\u0063anary\u002d5150`, 1), want},
		"longest tenant":   {with("tenant_id", `"`+tenant.TenantID+`"`), tenant},
		"tenant of a byte": {with("tenant_id", `"0"`), func() job.Command { c := want; c.TenantID = "0"; return c }()},
	} {
		if got, err := job.Decode([]byte(c.body)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// seed is a file of the fuzz corpus for a hazard.
func seed(h hazard) (path, text string) {
	return filepath.Join("testdata", "fuzz", "FuzzDecode", h.name), fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", h.body)
}

// TestEveryHazardIsASeed keeps the corpus and the table the same.
func TestEveryHazardIsASeed(t *testing.T) {
	for _, h := range hazards() {
		path, want := seed(h)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the table says", path)
		}
	}
}

var (
	hexForm    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	tenantForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// FuzzDecode: a body is refused without being quoted, or is a command in its
// alphabets whose own bytes decode to the same command.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(body(nil)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := job.Decode(data)
		if err != nil {
			wantRefused(t, c, err)
			return
		}
		if len(data) > job.MaxCommandBytes || !utf8.Valid(data) {
			t.Errorf("accepted %d bytes, valid UTF-8 %v", len(data), utf8.Valid(data))
		}
		if c.Schema != job.Schema || c.PolicyVersion < 1 {
			t.Errorf("accepted schema %d, version %d", c.Schema, c.PolicyVersion)
		}
		for _, part := range []struct {
			text string
			form *regexp.Regexp
		}{
			{string(c.RunID), hexForm}, {string(c.PageID), hexForm}, {c.Hash, hexForm},
			{c.Region, nameForm}, {c.Policy, nameForm}, {c.TenantID, tenantForm},
		} {
			if !part.form.MatchString(part.text) {
				t.Errorf("accepted %q, not of the form %s", part.text, part.form)
			}
		}
		if again, err := job.Decode(c.Encode()); err != nil || again != c {
			t.Errorf("%s decodes to %+v, %v", c.Encode(), again, err)
		}
	})
}

func TestValidTenant(t *testing.T) {
	for _, s := range []string{"0", "a", "Z", "school-42", "a.b", "a..b", "a_", "a-", "a.", strings.Repeat("a", 128)} {
		if !job.ValidTenant(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"", ".", "..", "-", "_", ".a", "a/", "/a", "a/b", "a b", "a\n", "\na", "a\x00", "é", "aé", "a\xff", "a\\b", "a:b", "a%2f", "a*",
		strings.Repeat("a", 129),
	} {
		if job.ValidTenant(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}
