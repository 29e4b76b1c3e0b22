package policy

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/job"
)

func TestS5TenantOf(t *testing.T) {
	plain := Policy{Keys: "exports/{tenant}/"}
	deep := Policy{Keys: "a/b/{tenant}/csv/2026/"}
	fixed := Policy{Keys: "exports/school-4/", Tenant: "school-4"}
	narrow := Policy{Keys: "exports/{tenant}/", TenantPattern: "school-[0-9]+"}
	either := Policy{Keys: "exports/{tenant}/", TenantPattern: "a|ab"}
	for _, c := range []struct {
		name   string
		p      Policy
		key    string
		tenant string
	}{
		{"a file", plain, "exports/acme/a.csv", "acme"},
		{"a file in a folder", plain, "exports/acme/x/y/z.csv", "acme"},
		{"a folder's marker", plain, "exports/acme/x/", "acme"},
		{"S3-09 the marker of the tenant itself", plain, "exports/acme/", ""},
		{"the prefix", plain, "exports/", ""},
		{"the root without its slash", plain, "exports", ""},
		{"nothing", plain, "", ""},
		{"no segment", plain, "exports/acme", ""},
		{"empty tenant", plain, "exports//a.csv", ""},
		{"dot", plain, "exports/./a.csv", ""},
		{"dots", plain, "exports/../a.csv", ""},
		{"three dots", plain, "exports/.../a.csv", ""},
		{"dots after the tenant are a name", plain, "exports/acme/../b", "acme"},
		{"an empty segment after the tenant", plain, "exports/acme//", "acme"},
		{"hyphen first", plain, "exports/-/a.csv", ""},
		{"dot first", plain, "exports/.acme/a.csv", ""},
		{"dots inside", plain, "exports/a..b/a.csv", "a..b"},
		{"blank", plain, "exports/a b/a.csv", ""},
		{"percent", plain, "exports/a%2Fb/a.csv", ""},
		{"brace", plain, "exports/{tenant}/a.csv", ""},
		{"S3-12 composed", plain, "exports/caf\u00e9/a.csv", ""},
		{"S3-12 decomposed", plain, "exports/cafe\u0301/a.csv", ""},
		{"S3-12 composed in the rest", plain, "exports/acme/caf\u00e9.csv", "acme"},
		{"full-width letter", plain, "exports/\uff41cme/a.csv", ""},
		{"not UTF-8 in the rest", plain, "exports/acme/\xff", "acme"},
		{"not UTF-8 in the tenant", plain, "exports/a\xff/a.csv", ""},
		{"NUL in the tenant", plain, "exports/a\x00/a.csv", ""},
		{"newline after the tenant", plain, "exports/acme\n/a.csv", ""},
		{"leading slash", plain, "/exports/acme/a.csv", ""},
		{"other root", plain, "export/acme/a.csv", ""},
		{"longer root", plain, "exports2/acme/a.csv", ""},
		{"root in capitals", plain, "Exports/acme/a.csv", ""},
		{"tenants keep their case", plain, "exports/ACME/a.csv", "ACME"},
		{"longest tenant", plain, "exports/" + strings.Repeat("a", 128) + "/x", strings.Repeat("a", 128)},
		{"tenant too long", plain, "exports/" + strings.Repeat("a", 129) + "/x", ""},
		{"longest key", plain, "exports/a/" + strings.Repeat("x", 1014), "a"},
		{"key too long", plain, "exports/a/" + strings.Repeat("x", 1015), ""},
		{"one byte of rest", plain, "exports/a/x", "a"},

		{"all segments", deep, "a/b/acme/csv/2026/x", "acme"},
		{"a segment missing", deep, "a/b/acme/csv/x", ""},
		{"another segment", deep, "a/b/acme/csv2/2026/x", ""},
		{"a segment too many", deep, "a/b/acme/x/csv/2026/x", ""},
		{"no rest", deep, "a/b/acme/csv/2026/", ""},
		{"last segment cut", deep, "a/b/acme/csv/2026", ""},
		{"segments in capitals", deep, "a/b/acme/CSV/2026/x", ""},

		{"S3-10 the tenant", fixed, "exports/school-4/x", "school-4"},
		{"S3-10 its neighbour", fixed, "exports/school-42/x", ""},
		{"fixed without a rest", fixed, "exports/school-4/", ""},

		{"pattern", narrow, "exports/school-4/x", "school-4"},
		{"pattern longer", narrow, "exports/school-42/x", "school-42"},
		{"pattern must match the end", narrow, "exports/school-4b/x", ""},
		{"pattern must match the start", narrow, "exports/myschool-4/x", ""},
		{"pattern must match something", narrow, "exports/school-/x", ""},
		{"pattern alternatives, the longer", either, "exports/ab/x", "ab"},
		{"pattern alternatives, the shorter", either, "exports/a/x", "a"},
		{"pattern alternatives, longer than both", either, "exports/abc/x", ""},
	} {
		tenant, ok := c.p.TenantOf(c.key)
		if tenant != c.tenant || ok != (c.tenant != "") {
			t.Errorf("%s: TenantOf(%q) = %q, %v; want %q", c.name, c.key, tenant, ok, c.tenant)
		}
		// The compiled form of a policy that was read answers the same.
		read := c.p
		read.compiled = compilePattern(read.TenantPattern)
		if again, _ := read.TenantOf(c.key); again != tenant {
			t.Errorf("%s: compiled %q, not compiled %q", c.name, again, tenant)
		}
		if c.tenant != "" && !c.p.Contains(c.tenant, c.key) {
			t.Errorf("%s: Contains says no", c.name)
		}
	}
}

// Contains is the level behind TenantOf: each row is one that a naive check lets through.
func TestS5ContainsRefusesByItself(t *testing.T) {
	plain := Policy{Keys: "exports/{tenant}/"}
	for _, c := range []struct {
		name        string
		p           Policy
		tenant, key string
		want        bool
	}{
		{"its own", plain, "school-4", "exports/school-4/x", true},
		{"its own marker of a folder", plain, "school-4", "exports/school-4/x/", true},
		{"S3-10 the neighbour", plain, "school-4", "exports/school-42/x", false},
		{"S3-10 the shorter neighbour", plain, "school-42", "exports/school-4/x", false},
		{"another tenant", plain, "acme", "exports/school-4/x", false},
		{"no tenant", plain, "", "exports//x", false},
		{"dot", plain, ".", "exports/./x", false},
		{"dots", plain, "..", "exports/../x", false},
		{"a tenant with a slash", plain, "a/b", "exports/a/b/x", false},
		{"hyphen and slash", plain, "-/", "exports/-//x", false},
		{"a tenant that ends a line", plain, "a\n", "exports/a\n/x", false},
		{"the placeholder itself", plain, "{tenant}", "exports/{tenant}/x", false},
		{"S3-12 composed", plain, "caf\u00e9", "exports/caf\u00e9/x", false},
		{"nothing after the tenant", plain, "a", "exports/a/", false},
		{"no slash after the tenant", plain, "a", "exports/a", false},
		{"empty key", plain, "a", "", false},
		{"root missing", plain, "a", "a/x", false},
		{"root twice", plain, "a", "exports/exports/a/x", false},
		{"leading slash", plain, "a", "/exports/a/x", false},
		{"key too long", plain, "a", "exports/a/" + strings.Repeat("x", 1015), false},
		{"longest key", plain, "a", "exports/a/" + strings.Repeat("x", 1014), true},
		{"longest tenant", plain, strings.Repeat("a", 128), "exports/" + strings.Repeat("a", 128) + "/x", true},
		{"tenant too long", plain, strings.Repeat("a", 129), "exports/" + strings.Repeat("a", 129) + "/x", false},
		{"outside the pattern", Policy{Keys: "e/{tenant}/", TenantPattern: "school-[0-9]+"}, "acme", "e/acme/x", false},
		{"pattern that does not compile", Policy{Keys: "e/{tenant}/", TenantPattern: "("}, "acme", "e/acme/x", false},
		{"segments after the tenant", Policy{Keys: "e/{tenant}/csv/"}, "a", "e/a/csv/x", true},
		{"other segments after the tenant", Policy{Keys: "e/{tenant}/csv/"}, "a", "e/a/cs/x", false},
		{"fixed", Policy{Keys: "e/csv/", Tenant: "a"}, "a", "e/csv/x", true},
		{"fixed, one segment", Policy{Keys: "e/", Tenant: "a"}, "a", "e/x", true},
		{"fixed, another tenant", Policy{Keys: "e/csv/", Tenant: "a"}, "b", "e/csv/x", false},
		{"fixed beside the placeholder", Policy{Keys: "e/{tenant}/", Tenant: "a"}, "a", "e/a/x", false},
		{"S10 empty policy", Policy{}, "a", "a/x", false},
		{"S10 empty policy, key of slashes", Policy{}, "a", "//", false},
		{"S10 root", Policy{Keys: "/", Tenant: "a"}, "a", "/x", false},
		{"S10 tenant as root", Policy{Keys: "{tenant}/"}, "a", "a/x", false},
		{"S10 no tenant at all", Policy{Keys: "e/"}, "a", "e/x", false},
		{"S10 no slash", Policy{Keys: "e", Tenant: "a"}, "a", "e/x", false},
		{"S3-10 no slash, under it", Policy{Keys: "e/f", Tenant: "a"}, "a", "e/f/x", false},
		{"S3-10 no slash, next to it", Policy{Keys: "e/f", Tenant: "a"}, "a", "e/f2", false},
		{"S10 no slash after the tenant", Policy{Keys: "e/{tenant}"}, "a", "e/a/x", false},
		{"S10 empty segment", Policy{Keys: "e//{tenant}/"}, "a", "e//a/x", false},
		{"S10 tenant twice", Policy{Keys: "e/{tenant}/{tenant}/"}, "a", "e/a/a/x", false},
	} {
		if got := c.p.Contains(c.tenant, c.key); got != c.want {
			t.Errorf("%s: Contains(%q, %q) = %v", c.name, c.tenant, c.key, got)
		}
	}
}

func TestS10PrefixesOfWhatIsNoPolicy(t *testing.T) {
	for name, p := range map[string]Policy{
		"zero value":         {},
		"tenant alone":       {Tenant: "a"},
		"no slash":           {Keys: "e", Tenant: "a"},
		"tenant as root":     {Keys: "{tenant}/"},
		"no tenant":          {Keys: "e/"},
		"glued to the root":  {Keys: "e{tenant}/"},
		"glued in a segment": {Keys: "e/t-{tenant}/"},
	} {
		if got := p.Prefix(); got != "" {
			t.Errorf("%s: Prefix %q", name, got)
		}
		if got := p.TenantPrefix("a"); got != "" {
			t.Errorf("%s: TenantPrefix %q", name, got)
		}
		if tenant, ok := p.TenantOf("e/a/x"); ok {
			t.Errorf("%s: TenantOf %q", name, tenant)
		}
	}
}

func TestPrefixAndTenantPrefix(t *testing.T) {
	for _, c := range []struct {
		p                      Policy
		tenant                 string
		prefix, ofTenant, left string
	}{
		{Policy{Keys: "exports/{tenant}/csv/"}, "school-4", "exports/", "exports/school-4/csv/", ""},
		{Policy{Keys: "a/b/{tenant}/"}, "school-4", "a/b/", "a/b/school-4/", ""},
		{Policy{Keys: "exports/csv/", Tenant: "school-4"}, "school-4", "exports/csv/", "exports/csv/", ""},
		{Policy{Keys: "exports/csv/", Tenant: "school-4"}, "school-42", "exports/csv/", "", ""},
		{Policy{Keys: "exports/{tenant}/", TenantPattern: "school-[0-9]"}, "school-42", "exports/", "", ""},
		{Policy{Keys: "exports/{tenant}/"}, "..", "exports/", "", ""},
		{Policy{Keys: "exports/{tenant}/"}, "", "exports/", "", ""},
	} {
		if got := c.p.Prefix(); got != c.prefix {
			t.Errorf("%+v: Prefix %q", c.p, got)
		}
		if got := c.p.TenantPrefix(c.tenant); got != c.ofTenant {
			t.Errorf("%+v: TenantPrefix(%q) = %q", c.p, c.tenant, got)
		}
	}
}

// nastyTenant draws what has broken prefix checks elsewhere, and what is valid.
func nastyTenant() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", ".", "..", "-", "-/", "/", "//", "school-4", "school-42", "school-4/", "a", "A", "a/b",
			"../a", "a/..", "{tenant}", "csv", "exports", "caf\u00e9", "cafe\u0301", "\u202ea", "a\n", "a\x00", "\xff", "%2e%2e", " ", "a ", "*"}),
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,6}`),
		rapid.StringN(0, 6, 12),
	)
}

// template draws valid templates and the tenant of a fixed one.
func template(t *rapid.T) Policy {
	p := rapid.SampledFrom([]Policy{
		{Keys: "exports/{tenant}/"},
		{Keys: "exports/{tenant}/csv/"},
		{Keys: "a/exports/{tenant}/csv/exports/"},
		{Keys: "exports/", Tenant: "school-4"},
		{Keys: "exports/school-4/", Tenant: "school-4"},
	}).Draw(t, "template")
	p.TenantPattern = rapid.SampledFrom([]string{"", "school-[0-9]+", "a|school-4|school-42", ".*", "(?i)A.*", "[^.]*", "nobody-.*"}).Draw(t, "pattern")
	if rapid.Bool().Draw(t, "compiled") {
		p.compiled = compilePattern(p.TenantPattern)
	}
	return p
}

// oracle is S5 in one expression, in the words of the design.
func oracle(p Policy, key string) (string, bool) {
	segment := "([A-Za-z0-9][A-Za-z0-9._-]{0,127})"
	form := strings.Replace(regexp.QuoteMeta(p.Keys), regexp.QuoteMeta(placeholder), segment, 1)
	m := regexp.MustCompile(`(?s)\A` + form + `.+\z`).FindStringSubmatch(key)
	if m == nil {
		return "", false
	}
	tenant := p.Tenant
	if len(m) > 1 {
		tenant = m[1]
	}
	if !regexp.MustCompile(`\A(?:`+p.TenantPattern+`)\z`).MatchString(tenant) && p.TenantPattern != "" {
		return "", false
	}
	return tenant, true
}

func TestS5TenantOfAndContainsAgreeWithTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := template(t)
		asked := nastyTenant().Draw(t, "asked")
		owner := nastyTenant().Draw(t, "owner")
		rest := rapid.OneOf(nastyTenant(), rapid.SampledFrom([]string{"x", "x/", "/", "csv/x", "../x"})).Draw(t, "rest")
		key := rapid.OneOf(
			rapid.Just(strings.Replace(p.Keys, placeholder, owner, 1)+rest),
			rapid.Just("exports/"+owner+rest),
			rapid.Just("exports/"+owner+"/"+rest),
			rapid.Just(owner+"/"+rest),
		).Draw(t, "key")

		want, wantOK := oracle(p, key)
		got, ok := p.TenantOf(key)
		if got != want || ok != wantOK {
			t.Fatalf("TenantOf(%q) under %q = %q, %v; the rule says %q, %v", key, p.Keys, got, ok, want, wantOK)
		}
		if contains := p.Contains(asked, key); contains != (ok && got == asked) {
			t.Fatalf("Contains(%q, %q) = %v, but TenantOf says %q, %v", asked, key, contains, got, ok)
		}
		if ok && !p.Contains(got, key) {
			t.Fatalf("TenantOf says %q, and Contains does not", got)
		}
		if ok && (!job.ValidTenant(got) || !strings.HasPrefix(key, p.TenantPrefix(got)) || len(key) == len(p.TenantPrefix(got))) {
			t.Fatalf("%q is not inside %q", key, p.TenantPrefix(got))
		}
	})
}

// No key lies in the ranges of two tenants, so no listing of one shows the other (S3-10).
func TestS5TenantPrefixesAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := template(t)
		a, b := nastyTenant().Draw(t, "a"), nastyTenant().Draw(t, "b")
		left, right := p.TenantPrefix(a), p.TenantPrefix(b)
		if left == "" || right == "" || a == b {
			return
		}
		if strings.HasPrefix(left, right) || strings.HasPrefix(right, left) {
			t.Fatalf("tenants %q and %q: one of %q and %q contains the other", a, b, left, right)
		}
		if !strings.HasPrefix(left, p.Prefix()) || !strings.HasSuffix(left, "/") {
			t.Fatalf("%q is not under %q", left, p.Prefix())
		}
	})
}
