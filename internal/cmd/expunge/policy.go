package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// policyCommands look at policy files before anybody deploys them.
type policyCommands struct {
	Lint    policyLint    `cmd:"" help:"Check policy files: what is refused, and what is allowed but probably not meant."`
	Explain policyExplain `cmd:"" help:"Say in words what a policy file does, and when."`
	Diff    policyDiff    `cmd:"" help:"Compare two versions of a policy: what differs, what widens, and which objects that adds."`
}

// policyFolder is where a repository keeps its policies.
const policyFolder = "infra/policies"

// readPolicy reads one policy file.
func (d *desk) readPolicy(path string) (policy.Policy, error) {
	file, err := os.Open(d.path(path))
	if err != nil {
		return policy.Policy{}, wrong("the file " + path + " can not be opened: " + reasonOf(err))
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, policy.MaxFileBytes+1))
	if err != nil {
		return policy.Policy{}, wrong("the file " + path + " can not be read: " + reasonOf(err))
	}
	return policy.Parse(path, data)
}

// validPolicy is readPolicy where a file that is refused ends the command.
func (d *desk) validPolicy(path string) (policy.Policy, error) {
	p, err := d.readPolicy(path)
	refusal, ok := errors.AsType[*policy.Error](err)
	if !ok {
		return p, err
	}
	text := strings.SplitN(err.Error(), "\n", 2)[0]
	if more := len(refusal.Problems) - 1; more > 0 {
		text += "; and " + report.Count(more, "problem") + " more"
	}
	return p, wrong(text, d.command("policy", "lint", path))
}

// path is a path as the operator sees it, from his working directory.
func (d *desk) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.Dir, path)
}

// asOf reads an instant that stands for now.
func (d *desk) asOf(text string) (time.Time, error) {
	now := d.Clock.Now().UTC()
	if text == "" {
		return now, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return now, usage("--as-of is " + text + ": it must be an instant in RFC 3339, such as 2026-03-29T00:30:00Z, or a date")
}

// The words for a version that the deployment names itself.
const (
	newestWord   = "newest"
	approvedWord = "approved"
)

// deployedName is a policy of the deployment: its name, and perhaps which version.
var deployedName = regexp.MustCompile(`^([a-z]([a-z0-9-]{0,46}[a-z0-9])?)(@(newest|approved|[1-9][0-9]{0,6}))?$`)

// isFile tells a path from the name of a deployed policy.
func isFile(source string) bool {
	return strings.ContainsAny(source, `/\`) || strings.HasSuffix(source, ".yaml") || strings.HasSuffix(source, ".yml")
}

// sourced is a policy version and where it is from.
type sourced struct {
	policy.Policy
	from string // the file, or the deployment's word for it
	// approved: it is the version that the deployment lets delete.
	approved bool
}

// deployedPolicy reads name@version of the deployment, where version is a number, newest
// or approved.
func deployedPolicy(ctx context.Context, d *desk, name, version string) (sourced, error) {
	r, err := d.connected(ctx)
	if err != nil {
		return sourced{}, err
	}
	approval, err := r.records.Approval(ctx, name)
	if err != nil {
		return sourced{}, err
	}
	var p policy.Policy
	switch version {
	case newestWord:
		p, err = r.records.LatestPolicy(ctx, name)
	case approvedWord:
		if approval == (policy.Approval{}) {
			return sourced{}, errNoneApproved
		}
		p, err = r.records.Policy(ctx, name, approval.Version)
	default:
		number, _ := strconv.Atoi(version) // digits, by deployedName
		p, err = r.records.Policy(ctx, name, number)
	}
	if failure.Is(err, failure.UnknownPolicy) {
		return sourced{}, d.noVersion(ctx, r, name, version)
	}
	from := name + "@" + strconv.Itoa(p.Version) + ", " + map[bool]string{true: version + " in ", false: "in "}[version != strconv.Itoa(p.Version)] + r.title()
	return sourced{Policy: p, from: from, approved: approval.Version == p.Version && approval.SHA256 == p.SHA256()}, err
}

// errNoneApproved says that no version of a policy was ever approved.
var errNoneApproved = errors.New("no version of the policy was ever approved here")

// noVersion says which versions there are instead.
func (d *desk) noVersion(ctx context.Context, r *deployment, name, version string) error {
	newest, err := r.records.LatestPolicy(ctx, name)
	if err == nil {
		return wrong("there is no version "+version+" of "+name+" here; the newest is "+strconv.Itoa(newest.Version),
			d.command("policy", "diff", name+"@"+strconv.Itoa(newest.Version), name))
	}
	names, err := r.records.PolicyNames(ctx)
	if err != nil {
		return err
	}
	return noPolicy(d, name, names)
}

// connected is the deployment, found once.
func (d *desk) connected(ctx context.Context) (*deployment, error) {
	if d.region != nil {
		return d.region, nil
	}
	return d.connect(ctx)
}
