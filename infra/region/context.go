package region

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

var (
	regionName = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
	stageName  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
)

// Configs reads the configuration of each region from the CDK's context: cdk.json,
// and -c KEY=VALUE on the command line, where every value is text. The error says
// everything that is wrong; a policy's is the one that `expunge policy lint` prints.
func Configs(context map[string]any) ([]Config, error) {
	r := &reader{context: context, asked: map[string]bool{}}
	regions := r.list("regions")
	if len(regions) == 0 && len(r.problems) == 0 {
		r.refuse("regions names no region: give a list in cdk.json, or -c regions=eu-west-1,us-east-1")
	}
	shared := r.config()
	policies, readable := r.policies(shared.PolicyFolder)
	var configs []Config
	shared.Regions = slices.Compact(slices.Sorted(slices.Values(regions)))
	for _, name := range shared.Regions {
		if !regionName.MatchString(name) {
			r.refuse("regions: %q is not the name of a region, such as eu-west-1", name)
			continue
		}
		c := shared
		c.Region = name
		c.Policies = slices.DeleteFunc(slices.Clone(policies), func(p policy.Policy) bool { return p.Region != name })
		if readable && len(c.Policies) == 0 {
			r.refuse("no policy in %s is for region %s: its functions would have nothing to do", c.PolicyFolder, name)
		}
		r.problems = append(r.problems, c.problems()...)
		configs = append(configs, c)
	}
	r.refuseOthers()
	if err := r.err(); err != nil {
		return nil, err
	}
	return configs, nil
}

// others are the keys of the context that are neither ours nor marked as the CDK's by a
// colon, a slash or an at sign.
var others = []string{"cli-telemetry"}

// refuseOthers refuses keys that nothing asked for: a misspelt one would leave its
// default in force, and nobody would know.
func (r *reader) refuseOthers() {
	for _, key := range slices.Sorted(maps.Keys(r.context)) {
		if !strings.ContainsAny(key, ":/@") && !r.asked[key] && !slices.Contains(others, key) {
			r.refuse("context has the key %s, which means nothing; there are %s", key, strings.Join(slices.Sorted(maps.Keys(r.asked)), ", "))
		}
	}
}

// err is everything that is wrong. What is wrong with all regions is said once.
func (r *reader) err() error {
	said := map[string]bool{}
	return errors.Join(slices.DeleteFunc(r.problems, func(problem error) bool {
		text := problem.Error()
		again := said[text]
		said[text] = true
		return again
	})...)
}

// config reads what all regions share.
func (r *reader) config() Config {
	emulator := r.flag("emulator", false)
	c := Config{
		Stage: r.text("stage", "prod"), PolicyFolder: r.text("policies", "infra/policies"),
		Packages: r.text("packages", ".build/packages"), Architecture: Architecture(r.text("architecture", string(ARM64))), CodeVersion: r.text("code_version", ""),
		BatchSize: r.number("batch_size", maxBatchAtOnce), BatchWindow: r.seconds("batch_window", 0),
		EvidenceYears: r.number("evidence_years", 7), ObjectLock: ObjectLock(r.text("object_lock", "")), ObjectLockDays: r.number("object_lock_days", 0),
		LogDays: r.number("log_days", 90), DeadLetterBaseline: r.number("dead_letter_baseline", 10),
		PageTo:      Subscribers{Emails: r.list("page_emails"), URLs: r.list("page_urls")},
		TicketTo:    Subscribers{Emails: r.list("ticket_emails"), URLs: r.list("ticket_urls")},
		CustomerKey: r.flag("customer_key", false), PermissionsBoundary: r.text("permissions_boundary", ""), CodeSigning: r.text("code_signing", ""),
		TerminationProtection: r.flag("termination_protection", !emulator), Emulator: emulator, Scale: r.number("scale", 1),
	}
	if !stageName.MatchString(c.Stage) {
		r.refuse("stage is %q; it is 1 to 20 lower-case letters, digits and hyphens, and begins with a letter", c.Stage)
	}
	// The queues of report and dead letters of schedules have the names that these stages' others would have.
	if strings.HasSuffix(c.Stage, "-report") || strings.HasSuffix(c.Stage, "-schedule") {
		r.refuse("stage is %q; it does not end in -report or -schedule, or its queues would have the names of another stage's", c.Stage)
	}
	r.subscribers("page", c.PageTo)
	r.subscribers("ticket", c.TicketTo)
	c.Settings = contract.Production()
	c.Settings.Concurrency = r.number("concurrency", c.Settings.Concurrency)
	if c.Scale == localScale {
		c.Settings = c.Settings.Scaled(localScale)
	}
	c.Visibility = r.seconds("visibility", c.Settings.Visibility()+c.BatchWindow)
	return c
}

// policies reads the policy files, if they can be read.
func (r *reader) policies(folder string) (all []policy.Policy, readable bool) {
	byName, err := policy.ReadFolder(os.DirFS(folder))
	if err != nil {
		r.refuse("policies: %s: %w", folder, err)
		return nil, false
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b policy.Policy) int { return strings.Compare(a.Name, b.Name) }), true
}

// reader reads values of the context and keeps what is wrong with them.
type reader struct {
	context  map[string]any
	asked    map[string]bool
	problems []error
}

func (r *reader) value(key string) any {
	r.asked[key] = true
	return r.context[key]
}

func (r *reader) refuse(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

func (r *reader) text(key, otherwise string) string {
	switch v := r.value(key).(type) {
	case nil:
		return otherwise
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		r.refuse("%s is %v; it is text", key, v)
		return otherwise
	}
}

func (r *reader) number(key string, otherwise int) int {
	n, err := strconv.Atoi(r.text(key, strconv.Itoa(otherwise)))
	if err != nil {
		r.refuse("%s is %q; it is a whole number", key, r.text(key, ""))
		return otherwise
	}
	return n
}

func (r *reader) seconds(key string, otherwise time.Duration) time.Duration {
	if r.value(key) == nil {
		return otherwise
	}
	return time.Duration(r.number(key, 0)) * time.Second
}

func (r *reader) flag(key string, otherwise bool) bool {
	switch v := r.value(key).(type) {
	case nil:
		return otherwise
	case bool:
		return v
	default:
		if v == "true" || v == "false" {
			return v == "true"
		}
		r.refuse("%s is %v; it is true or false", key, v)
		return otherwise
	}
}

// list reads a list, or its items with commas between them, as the command line gives them.
func (r *reader) list(key string) []string {
	var items []string
	switch v := r.value(key).(type) {
	case nil:
	case string:
		items = strings.Split(v, ",")
	case []any:
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				r.refuse("%s holds %v; its items are text", key, item)
			}
			items = append(items, text)
		}
	default:
		r.refuse("%s is %v; it is a list, or its items with commas between them", key, v)
	}
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	said := map[string]bool{"": true} // an address that stands there twice is one subscription
	return slices.DeleteFunc(items, func(item string) bool {
		again := said[item]
		said[item] = true
		return again
	})
}

func (r *reader) subscribers(key string, s Subscribers) {
	for _, email := range s.Emails {
		if name, host, ok := strings.Cut(email, "@"); !ok || name == "" || !strings.Contains(host, ".") || strings.ContainsAny(email, " <>") {
			r.refuse("%s_emails: %q is not an address such as oncall@example.com", key, email)
		}
	}
	for _, url := range s.URLs {
		if rest, ok := strings.CutPrefix(url, "https://"); !ok || rest == "" {
			r.refuse("%s_urls: an address must begin with https://", key) // the address may hold a secret
		}
	}
}
