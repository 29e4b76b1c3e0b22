package policy

import (
	"regexp"
	"strings"
)

// tenantGrammar is the grammar of job.ValidTenant, written down a second time on
// purpose: see Contains.
var tenantGrammar = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)

// Contains reports whether the key lies inside the policy's template and the
// tenant's whole segment. It is safety level 3 before a delete: the key was
// already attributed by TenantOf, and this looks again by another route. It takes
// the key apart at its slashes and compares segment with segment, by its own
// grammar and its own reading of the pattern, and shares no code with TenantOf or
// TenantPrefix. A test walks both over hostile keys and fails if they part.
func (p Policy) Contains(tenant, key string) bool {
	if len(key) > maxKeyBytes || !tenantGrammar.MatchString(tenant) {
		return false
	}
	if p.TenantPattern != "" && !anchored(p.TenantPattern, tenant) {
		return false
	}
	template := strings.Split(p.Keys, "/")
	last := len(template) - 1
	// The template ends in a slash, so its last segment is empty; a root that is a
	// tenant, or nothing, is no root.
	if last < 1 || template[last] != "" || template[0] == "" || template[0] == placeholder {
		return false
	}
	segments := strings.Split(key, "/")
	if len(segments) <= last {
		return false
	}
	placed := 0
	for i, want := range template[:last] {
		if want == placeholder {
			placed++
			want = tenant
		}
		if want == "" || segments[i] != want {
			return false
		}
	}
	if fixed := p.Tenant != ""; fixed && (placed != 0 || p.Tenant != tenant) || !fixed && placed != 1 {
		return false
	}
	// Something must follow the tenant's prefix: another segment, or a name.
	return len(segments) > last+1 || segments[last] != ""
}

// anchored reports whether the pattern, held at both ends, matches the tenant.
func anchored(pattern, tenant string) bool {
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	return err == nil && re.MatchString(tenant)
}

// canAnchor reports whether anchored understands the pattern.
func canAnchor(pattern string) bool {
	_, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	return err == nil
}
