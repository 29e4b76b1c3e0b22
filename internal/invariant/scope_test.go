package invariant

import (
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Three readings of a key template, none of which shares code with another, agree
// about hostile keys.
func TestScopeAgreesWithThePolicy(t *testing.T) {
	templates := []policy.Policy{
		{Keys: "exports/{tenant}/"}, {Keys: "a/b/{tenant}/raw/"}, {Keys: "exports/", Tenant: "acme"},
		{Keys: "exports/{tenant}/", TenantPattern: "acme|school-[0-9]+"},
		{Keys: "exports/{tenant}/", TenantPattern: "acme|acme-evil$|^x"},
	}
	tenants := []string{"acme", "acme-evil", "school-4", "school-42", "", ".", "..", "a/b", "-x", "X.y_", "ä", "x", strings.Repeat("t", 128), strings.Repeat("t", 129)}
	tails := []string{"1.csv", "", "/", "//", "raw/1", "raw/", "raw", "../x", "\x00"}
	looked := 0
	for _, p := range templates {
		p.Mode, p.RetentionDays = job.Enforce, 1
		s := newScope(p)
		for _, under := range tenants {
			for _, head := range []string{"exports/", "a/b/", "exports", "Exports/", "", "/exports/"} {
				for _, tail := range tails {
					key := head + under + "/" + tail
					for _, tenant := range tenants {
						found, ok := p.TenantOf(key)
						if got, want := s.contains(tenant, key), p.Contains(tenant, key); got != want || got != (ok && found == tenant) {
							t.Errorf("%s %q: %q of %q: %v, Contains says %v, TenantOf %q %v", p.Keys, p.TenantPattern, key, tenant, got, want, found, ok)
						}
						looked++
					}
					if found, ok := s.tenantOf(key); ok {
						if want, admitted := p.TenantOf(key); !admitted || want != found {
							t.Errorf("%s: %q is of %q, TenantOf says %q", p.Keys, key, found, want)
						}
					}
				}
			}
		}
	}
	if looked < 10_000 {
		t.Errorf("looked at %d", looked)
	}
}

func TestABrokenTemplateContainsNothing(t *testing.T) {
	for _, p := range []policy.Policy{
		{}, {Keys: "exports/"}, {Keys: "{tenant}/"}, {Keys: "exports/{tenant}"}, {Keys: "exports/{tenant}x/"}, {Keys: "exports/{tenant}/{tenant}/"},
		{Keys: "/exports/{tenant}/"}, {Keys: "exports/{tenant}/", Tenant: "acme"}, {Keys: "exports/{tenant}/", TenantPattern: "("},
	} {
		s := newScope(p)
		for _, key := range []string{"exports/acme/1", "acme/1", "/exports/acme/1", "exports/acmex/1", "exports/acme/acme/1", "exports/1", "exports/{tenant}/1"} {
			if s.contains("acme", key) || s.contains("{tenant}", key) {
				t.Errorf("%+v contains %q", p.Keys, key)
			}
		}
	}
}
