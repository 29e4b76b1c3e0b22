package policy

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

const (
	maxNameBytes    = 48
	maxVersion      = 1_000_000
	maxBucketBytes  = 63
	maxRegionBytes  = 32
	maxKeysBytes    = 512
	maxPatternBytes = 256
)

// What each field allows, in the words every refusal ends with.
const (
	allowName      = "allowed are 1 to 48 lower-case letters, digits and hyphens, starting with a letter and ending with a letter or digit"
	allowVersion   = "allowed is a whole number from 1 to 1,000,000"
	allowRegion    = "allowed is the code of an AWS region, such as eu-central-1"
	allowBucket    = "allowed are 3 to 63 lower-case letters, digits, dots and hyphens, starting and ending with a letter or digit"
	allowKeys      = "allowed are path segments of letters, digits and " + keySymbols + ", at most 512 bytes, ending in a slash, such as exports/{tenant}/csv/"
	allowTenant    = "allowed are 1 to 128 letters, digits, dots, underscores and hyphens, starting with a letter or digit"
	allowPattern   = "allowed is an RE2 expression of 1 to 256 printed ASCII characters that the whole tenant must match, such as school-[0-9]+"
	allowRetention = "allowed is a whole number of days from 1 to 36,500"
	allowMode      = "allowed are report-only and enforce"
	allowDates     = "allowed is a whole number of dates from 1 to 30, or leaving it out for 3"
	allowSchedule  = "allowed are the keys every, weekday, at, zone and catch_up"
	allowEvery     = "allowed are daily and weekly"
	allowWeekday   = "allowed are monday to sunday, in lower case, for a weekly schedule only"
	allowAt        = `allowed is a time of day from "00:00" to "23:59"`
	allowZone      = "allowed is the exact IANA name of a time zone, such as Europe/Berlin or UTC"
	allowCatchUp   = "allowed are true and false"
	allowLimits    = "allowed are the keys max_objects, max_share, max_growth and max_rate"
	allowObjects   = "allowed is a whole number from 1 to 50,000,000"
	allowShare     = "allowed is a number above 0 and up to 1, with at most four decimals"
	allowGrowth    = "allowed is a number from 1 to 100, with at most two decimals"
	allowRate      = "allowed is a whole number of keys a second from 1 to 50,000"
	allowObjective = "allowed is a duration from 1m to 168h in whole seconds, such as 15m or 1h30m"
	allowUrgent    = "allowed are true and false"
	allowVersions  = "allowed are current and all"
)

// keySymbols are the symbols a key template may hold. It leaves out what an IAM
// resource reads as a wildcard or variable (*, ?, $), what S3 advises against, and
// the space, which nobody sees at the end of a line. Letters beyond ASCII are out
// too: IAM can not express them, and two spellings of one letter are two keys (S3-12).
const keySymbols = "!-_.,'()&@=;:+"

var (
	nameForm   = regexp.MustCompile(`\A[a-z]([a-z0-9-]*[a-z0-9])?\z`)
	regionForm = regexp.MustCompile(`\A[a-z]+(-[a-z]+)+-[0-9]+\z`)
	// Tenants are ASCII, so a pattern needs nothing else, and what a message shows
	// of it is what it is.
	printedForm = regexp.MustCompile(`\A[\x20-\x7e]*\z`)
	bucketForm  = regexp.MustCompile(`\A[a-z0-9][a-z0-9.-]+[a-z0-9]\z`)
)

// validate reports everything that is wrong with the policy, field by field.
func (p Policy) validate(report func(field, text string)) {
	check := func(ok bool, field, found, allowed string) {
		if !ok {
			report(field, "is "+found+": "+allowed)
		}
	}
	check(nameForm.MatchString(p.Name) && len(p.Name) <= maxNameBytes, "name", quote(p.Name), allowName)
	check(p.Version >= 1 && p.Version <= maxVersion, "version", strconv.Itoa(p.Version), allowVersion)
	check(regionForm.MatchString(p.Region) && len(p.Region) <= maxRegionBytes, "region", quote(p.Region), allowRegion)
	if wrong := bucketFault(p.Bucket); wrong != "" {
		report("bucket", wrong)
	}
	p.validateTenants(report)
	check(p.RetentionDays >= MinRetentionDays && p.RetentionDays <= MaxRetentionDays,
		"retention_days", strconv.Itoa(p.RetentionDays), allowRetention)
	check(p.Mode == job.ReportOnly || p.Mode == job.Enforce, "mode", quote(string(p.Mode)), allowMode)
	check(p.ReportOnlyDates >= 0 && p.ReportOnlyDates <= MaxReportOnlyDates,
		"report_only_dates", strconv.Itoa(p.ReportOnlyDates), allowDates)
	p.Schedule.validate(report)
	p.Limits.validate(report)
	check(p.Objective >= MinObjective && p.Objective <= MaxObjective && p.Objective%time.Second == 0,
		"objective", p.Objective.String(), allowObjective)
	check(p.Versions == CurrentVersions || p.Versions == AllVersions, "versions", quote(string(p.Versions)), allowVersions)
}

// validateTenants looks at where the artifacts are and whose they are.
func (p Policy) validateTenants(report func(field, text string)) {
	if wrong := keysFault(p.Keys); wrong != "" {
		report("keys", wrong)
	} else {
		switch named := strings.Contains(p.Keys, placeholder); {
		case named && p.Tenant != "":
			report("tenant", "is "+quote(p.Tenant)+" although keys has {tenant}: allowed is one of the two")
		case !named && p.Tenant == "":
			report("keys", "is "+quote(p.Keys)+" without {tenant}, and no tenant is named: allowed is exactly one of the two")
		}
	}
	if p.Tenant != "" && !job.ValidTenant(p.Tenant) {
		report("tenant", "is "+quote(p.Tenant)+": "+allowTenant)
	}
	if p.TenantPattern == "" {
		return
	}
	is := "is " + quote(p.TenantPattern)
	switch {
	case len(p.TenantPattern) > maxPatternBytes:
		report("tenant_pattern", "has "+group(len(p.TenantPattern))+" bytes: "+allowPattern)
	case !printedForm.MatchString(p.TenantPattern):
		report("tenant_pattern", is+", which holds more than printed ASCII: "+allowPattern)
	// Both readings must understand it: that of TenantOf, and that of Contains,
	// in which an unfinished \Q would swallow the end.
	case compilePattern(p.TenantPattern) == nil || !canAnchor(p.TenantPattern):
		report("tenant_pattern", is+", which does not compile: "+allowPattern)
	}
}

func (s Schedule) validate(report func(field, text string)) {
	switch s.Every {
	case Weekly:
		if s.Weekday == "" {
			report("schedule.weekday", "is missing: "+allowWeekday)
		} else if !slices.Contains(weekdays(), s.Weekday) {
			report("schedule.weekday", "is "+quote(s.Weekday)+": "+allowWeekday)
		}
	case Daily:
		if s.Weekday != "" {
			report("schedule.weekday", "is "+quote(s.Weekday)+" in a daily schedule: "+allowWeekday)
		}
	default:
		report("schedule.every", "is "+quote(string(s.Every))+": "+allowEvery)
	}
	if _, _, ok := clock(s.At); !ok {
		report("schedule.at", "is "+quote(s.At)+": "+allowAt)
	}
	if _, ok := loadZone(s.Zone); !ok {
		report("schedule.zone", "is "+quote(s.Zone)+": "+allowZone)
	}
}

func (l Limits) validate(report func(field, text string)) {
	if l.MaxObjects < 1 || l.MaxObjects > CeilingObjects {
		report("limits.max_objects", "is "+strconv.Itoa(l.MaxObjects)+": "+allowObjects)
	}
	// Written so that a NaN, which compares as false, is refused as well.
	if !(l.MaxShare > 0 && l.MaxShare <= 1 && inParts(l.MaxShare, shareParts)) {
		report("limits.max_share", "is "+number(l.MaxShare)+": "+allowShare)
	}
	if !(l.MaxGrowth >= 1 && l.MaxGrowth <= CeilingGrowth && inParts(l.MaxGrowth, growthParts)) {
		report("limits.max_growth", "is "+number(l.MaxGrowth)+": "+allowGrowth)
	}
	if l.MaxRate < 1 || l.MaxRate > CeilingRate {
		report("limits.max_rate", "is "+strconv.Itoa(l.MaxRate)+": "+allowRate)
	}
}

// keysFault returns what is wrong with a key template, or "".
func keysFault(keys string) string {
	is := "is " + quote(keys) + ", "
	switch {
	case keys == "":
		return "is empty, which would be the whole bucket: " + allowKeys
	case len(keys) > maxKeysBytes:
		return "has " + group(len(keys)) + " bytes: " + allowKeys
	case strings.HasPrefix(keys, "/"):
		return is + "which starts with a slash: " + allowKeys
	case strings.HasPrefix(keys, placeholder):
		return is + "which has no fixed segment before {tenant}, so that the whole bucket would be listed: " + allowKeys
	case !strings.HasSuffix(keys, "/"):
		return is + "which does not end in a slash, so that school-4 would also match school-42: " + allowKeys
	}
	tenants := 0
	for segment := range strings.SplitSeq(strings.TrimSuffix(keys, "/"), "/") {
		switch {
		case segment == placeholder:
			tenants++
		case segment == "":
			return is + "which has an empty segment: " + allowKeys
		case segment == "." || segment == "..":
			return is + "which has the segment " + quote(segment) + ": " + allowKeys
		case strings.ContainsAny(segment, "{}"):
			return is + "where {tenant} has to be a whole segment and nothing else may stand in braces: " + allowKeys
		}
		if bad := badSymbol(strings.ReplaceAll(segment, placeholder, "")); bad != "" {
			return is + "which holds " + bad + ": " + allowKeys
		}
	}
	if tenants > 1 {
		return is + "which has {tenant} more than once: " + allowKeys
	}
	return ""
}

// badSymbol returns the first character that a template's segment may not hold,
// quoted, or "".
func badSymbol(segment string) string {
	for _, r := range segment {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && !strings.ContainsRune(keySymbols, r) {
			return strconv.QuoteRuneToASCII(r)
		}
	}
	return ""
}

// bucketFault returns what is wrong with a bucket's name, or "". S3's rules, and
// the kinds of bucket that answer to a name but not as a general purpose bucket.
func bucketFault(bucket string) string {
	is := "is " + quote(bucket)
	if !bucketForm.MatchString(bucket) || len(bucket) > maxBucketBytes || strings.Contains(bucket, "..") {
		return is + ": " + allowBucket
	}
	if _, err := netip.ParseAddr(bucket); err == nil {
		return is + ", which is an IP address: " + allowBucket
	}
	for _, prefix := range []string{"xn--", "sthree-", "amzn-s3-demo-"} {
		if strings.HasPrefix(bucket, prefix) {
			return is + ", and S3 reserves names that start with " + prefix + ": " + allowBucket
		}
	}
	for _, suffix := range []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"} {
		if strings.HasSuffix(bucket, suffix) {
			return is + ", and names that end in " + suffix + " are no general purpose buckets: " + allowBucket
		}
	}
	return ""
}

// quote shows text in a message: in quotes, in ASCII, and cut where it is long.
func quote(text string) string {
	const limit = 80
	if len(text) > limit {
		return strconv.QuoteToASCII(text[:limit]) + "..."
	}
	return strconv.QuoteToASCII(text)
}
