package policy

import (
	"regexp"
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
)

// placeholder stands for the tenant in a key template, as one whole segment.
const placeholder = "{tenant}"

// maxKeyBytes is S3's limit for a key. Nothing longer exists, so nothing longer
// is matched.
const maxKeyBytes = 1024

// Prefix returns what to list: the template up to {tenant}, or all of it for a
// fixed tenant. It ends in a slash. A policy that is not valid has the prefix "",
// which must not be listed.
func (p Policy) Prefix() string {
	before, _, found := strings.Cut(p.Keys, placeholder)
	if !found && p.Tenant == "" || !strings.HasSuffix(before, "/") {
		return ""
	}
	return before
}

// TenantOf returns whose key it is. It is nobody's unless it lies under the
// prefix, the tenant is one whole segment in the tenant grammar, the tenant is
// one this policy works for, the template's remaining segments follow, and at
// least one byte comes after them (S5). A marker object that is the tenant's
// prefix itself is therefore nobody's and stays (S3-09).
func (p Policy) TenantOf(key string) (tenant string, ok bool) {
	prefix := p.Prefix()
	if prefix == "" || len(key) > maxKeyBytes {
		return "", false
	}
	rest, under := strings.CutPrefix(key, prefix)
	if !under {
		return "", false
	}
	tenant = p.Tenant
	if _, after, found := strings.Cut(p.Keys, placeholder); found {
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			return "", false
		}
		tenant = rest[:end]
		if rest, under = strings.CutPrefix(rest[end:], after); !under {
			return "", false
		}
	}
	if rest == "" || !p.admits(tenant) {
		return "", false
	}
	return tenant, true
}

// TenantPrefix returns what to list for one tenant: it ends in a slash, and no
// other tenant's keys begin with it (S3-10). It is "" for a tenant this policy
// does not work for.
func (p Policy) TenantPrefix(tenant string) string {
	if p.Prefix() == "" || !p.admits(tenant) {
		return ""
	}
	return strings.Replace(p.Keys, placeholder, tenant, 1)
}

// admits reports whether the policy works for a tenant.
func (p Policy) admits(tenant string) bool {
	if !job.ValidTenant(tenant) || p.Tenant != "" && tenant != p.Tenant {
		return false
	}
	if p.TenantPattern == "" {
		return true
	}
	pattern := p.compiled
	if pattern == nil {
		pattern = compilePattern(p.TenantPattern)
	}
	return pattern != nil && pattern.whole(tenant)
}

// tenantPattern is a compiled tenant_pattern.
type tenantPattern struct {
	re *regexp.Regexp
}

// compilePattern returns nil for no pattern and for one that is not valid.
func compilePattern(text string) *tenantPattern {
	if text == "" || len(text) > maxPatternBytes {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	// Leftmost-longest: if any match covers the whole tenant, it is the one found.
	re.Longest()
	return &tenantPattern{re}
}

func (t *tenantPattern) whole(tenant string) bool {
	at := t.re.FindStringIndex(tenant)
	return len(at) == 2 && at[0] == 0 && at[1] == len(tenant)
}
