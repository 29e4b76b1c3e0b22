package invariant

import (
	"regexp"
	"strings"

	"github.com/expunge-aws/expunge/internal/policy"
)

// scope is one published policy version and a third reading of its key template,
// which shares no code with those of package policy (S5).
type scope struct {
	policy policy.Policy
	sha256 string
	// head and tail stand around the tenant in the template. Without a tenant in it
	// all of it is head, and the tenant is fixed.
	head, tail string
	fixed      string
	pattern    *regexp.Regexp // nil when the policy has none
	// broken: the template or the pattern is not of its form, and contains nothing.
	broken bool
}

const tenantMark = "{tenant}"

func newScope(p policy.Policy) *scope {
	s := &scope{policy: p, sha256: p.SHA256(), fixed: p.Tenant}
	at := strings.Index(p.Keys, tenantMark)
	if at < 0 {
		s.head = p.Keys
		s.broken = s.fixed == ""
	} else {
		s.head, s.tail = p.Keys[:at], p.Keys[at+len(tenantMark):]
		s.broken = s.fixed != "" || !strings.HasPrefix(s.tail, "/") || strings.Contains(s.tail, tenantMark) || !strings.HasSuffix(s.tail, "/")
	}
	if len(s.head) < 2 || s.head[0] == '/' || s.head[len(s.head)-1] != '/' {
		s.broken = true
	}
	if p.TenantPattern != "" {
		var err error
		s.pattern, err = regexp.Compile(`\A(?:` + p.TenantPattern + `)\z`)
		s.broken = s.broken || err != nil
	}
	return s
}

// contains reports whether the key lies under the whole segment of the tenant. It
// walks the bytes of the key once, from left to right.
func (s *scope) contains(tenant, key string) bool {
	return s.admits(tenant) && s.under(tenant, key)
}

// under is contains for a tenant that the scope admits.
func (s *scope) under(tenant, key string) bool {
	if s.broken || len(key) > 1024 {
		return false
	}
	parts := [...]string{s.head, tenant, s.tail}
	if s.fixed != "" {
		parts = [...]string{s.head, "", ""}
	}
	at := 0
	for _, part := range parts {
		if len(key)-at < len(part) || key[at:at+len(part)] != part {
			return false
		}
		at += len(part)
	}
	// The last part ended in a slash, so what follows begins a new segment.
	return at < len(key) && key[at-1] == '/'
}

// admits reports whether the policy works for the tenant.
func (s *scope) admits(tenant string) bool {
	if s.broken || len(tenant) == 0 || len(tenant) > 128 || s.fixed != "" && s.fixed != tenant {
		return false
	}
	for i := 0; i < len(tenant); i++ {
		b := tenant[i] | 0x20 // letters in lower case
		inner := i > 0 && strings.IndexByte("._-", tenant[i]) >= 0
		if !(b >= 'a' && b <= 'z' && tenant[i] >= 'A') && !(tenant[i] >= '0' && tenant[i] <= '9') && !inner {
			return false
		}
	}
	return s.pattern == nil || s.pattern.MatchString(tenant)
}

// tenantOf returns the tenant whose segment the key names, for a delete that no
// page answers for.
func (s *scope) tenantOf(key string) (string, bool) {
	if s.fixed != "" {
		return s.fixed, s.contains(s.fixed, key)
	}
	if s.broken || !strings.HasPrefix(key, s.head) {
		return "", false
	}
	tenant, _, found := strings.Cut(key[len(s.head):], "/")
	return tenant, found && s.contains(tenant, key)
}
