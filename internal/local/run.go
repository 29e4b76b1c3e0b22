package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// The exit statuses that a report does not decide.
const (
	exitBroken = 1
	// ExitUsage says that the arguments or the policy can not be used.
	ExitUsage = 2
)

// Config is what a person asked for.
type Config struct {
	// Dir or Bucket name a directory, or a bucket of AWS, and Policy the file to
	// evaluate it by; without all three the built-in tenants are played.
	Dir, Bucket, Policy string
	// AsOf is the instant to evaluate at; zero means Now, or the built-in instant.
	AsOf, Now time.Time
	Enforce   bool
	// Folder is where run.json and the evidence go.
	Folder string
	// Functions is the folder with the built functions.
	Functions string
	Out       io.Writer
}

// Run plays the built-in tenants or a directory, writes the report, and returns
// the exit status. An error explains a status that the report does not.
func Run(ctx context.Context, c Config) (int, error) {
	if err := c.check(); err != nil {
		return ExitUsage, err
	}
	// Before the policy is read: a run that fails must not leave an older one's report.
	if err := openFolder(c); err != nil {
		return ExitUsage, err
	}
	switch {
	case c.Bucket != "":
		return runBucket(ctx, c)
	case c.Dir != "":
		return runDirectory(ctx, c)
	default:
		return runDemo(ctx, c)
	}
}

// check says what is wrong with the arguments. No run has begun then, and the
// folder is as it was.
func (c Config) check() error {
	switch {
	case !c.AsOf.IsZero() && c.AsOf.Year() < 1970:
		return errors.New("AS_OF lies before 1970: it must be an instant that an artifact can be older than")
	case c.Bucket != "" && c.Dir != "":
		return errors.New("BUCKET and DIR are both given: a run works on one of them")
	case c.Bucket != "" && c.Enforce:
		return errors.New("ENFORCE=1 does not go with BUCKET: a real bucket is only ever reported on from here; the deployed pipeline is what deletes")
	case c.Bucket != "" && c.Policy == "":
		return errors.New("POLICY is missing: BUCKET needs the policy file to evaluate it by")
	case c.Bucket != "":
		return nil
	case c.Dir == "" && (c.Policy != "" || c.Enforce):
		return errors.New("DIR or BUCKET is missing: POLICY and ENFORCE need something to work on")
	case c.Dir == "" && !c.AsOf.IsZero():
		return errors.New("AS_OF needs a directory: the built-in tenants are played on the machine's clock")
	case c.Dir != "" && c.Policy == "":
		return errors.New("POLICY is missing: DIR needs the policy file to evaluate it by")
	}
	return ownEndpoints()
}

// runDemo plays the built-in tenants on the embedded AWS, with the functions as
// processes of their own.
func runDemo(ctx context.Context, c Config) (int, error) {
	policies, err := demoPolicies()
	if err != nil {
		return exitBroken, err
	}
	files := filepath.Join(c.Folder, policiesFolder)
	if err := writeDemoPolicies(files); err != nil {
		return exitBroken, err
	}
	p := &progress{w: c.Out, now: time.Now}
	cloud, err := OpenCloud(ctx, CloudOptions{
		Region: policies[0].Region, Policies: policies, Functions: c.Functions, PolicyFiles: files, Audit: p,
	})
	if err != nil {
		return exitBroken, err
	}
	defer cloud.Close()
	started := time.Now().UTC()
	if err := Demo(ctx, stage{cloud, cloud}, policies, p.say); err != nil {
		return exitBroken, interrupted(ctx, err)
	}
	fmt.Fprintf(c.Out, "\nquiet after %v\n\n", time.Since(started).Round(time.Second))
	facts, err := cloud.Facts(ctx)
	if err != nil {
		return exitBroken, err
	}
	return publish(c, facts, started.Truncate(time.Second), 0)
}

// interrupted says that a person ended the run, where that is why it failed.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted: the run was not finished, and there is no report")
	}
	return err
}

// readPolicy reads the policy file that was asked for, and no more of it than a
// policy can have.
func readPolicy(c Config) (policy.Policy, error) {
	file, err := os.Open(c.Policy)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("POLICY: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, policy.MaxFileBytes+1))
	if err != nil {
		return policy.Policy{}, fmt.Errorf("POLICY: %w", err)
	}
	return policy.Parse(c.Policy, data)
}

// introduce says what the policy does, and returns the instant to evaluate it at.
func introduce(c Config, p policy.Policy) time.Time {
	asOf := c.AsOf
	if asOf.IsZero() {
		asOf = c.Now
	}
	fmt.Fprintf(c.Out, "%s\n\n", p.Sentence())
	for _, f := range policy.Lint(p, asOf) {
		fmt.Fprintf(c.Out, "note: %s\n", f.Text)
	}
	return asOf
}

func runDirectory(ctx context.Context, c Config) (int, error) {
	p, err := readPolicy(c)
	if err != nil {
		return ExitUsage, err
	}
	if c.Enforce && p.Mode != job.Enforce {
		return ExitUsage, fmt.Errorf("%s: ENFORCE=1 needs a policy whose mode is enforce; this one is %s", c.Policy, p.Mode)
	}
	asOf := introduce(c, p)
	dir, err := ReadDirectory(c.Dir, func(n int) { fmt.Fprintf(c.Out, "reading %s: %d files so far\n", quoted(c.Dir), n) })
	if err != nil {
		return ExitUsage, fmt.Errorf("DIR: %w", err)
	}
	describe(c, p, dir)
	options := Options{Region: p.Region, AsOf: asOf, Policies: []policy.Policy{p}, ReportOnly: !c.Enforce, Approval: enforceGiven}
	return perform(ctx, c, options, len(dir.Refused), func(ctx context.Context, w *World, _ func(string)) error {
		if err := w.Store.Load(p.Bucket, slices.Values(dir.Items)); err != nil {
			return err
		}
		if _, err := w.Tick(ctx, p.Name, asOf); err != nil {
			return err
		}
		return w.Drain(ctx)
	})
}

// enforceGiven is why a policy may delete the references of a directory.
const enforceGiven = "ENFORCE=1 was given for this policy file"

// shownNames is how many refused names are printed; the rest is a number.
const shownNames = 20

func describe(c Config, p policy.Policy, d Directory) {
	fmt.Fprintf(c.Out, "%s: %s read as objects of s3://%s by name, size and time, and not opened\n", quoted(c.Dir), plural(len(d.Items), "file"), p.Bucket)
	if p.Mode == job.Enforce && !c.Enforce {
		fmt.Fprintln(c.Out, "the policy enforces, and this run only reports: ENFORCE=1 lets it delete its own copy of the references")
	}
	if d.Skipped > 0 {
		fmt.Fprintf(c.Out, "left out: %s that are no regular file, such as symbolic links\n", plural(d.Skipped, "name"))
	}
	for i, r := range d.Refused {
		if i == shownNames {
			fmt.Fprintf(c.Out, "refused: and %d more\n", len(d.Refused)-i)
			break
		}
		fmt.Fprintf(c.Out, "refused: %s: %s\n", quoted(r.Path), r.Why)
	}
}

// quoted escapes what a terminal would act on, and keeps a long name short.
func quoted(name string) string {
	if len(name) > 120 {
		return fmt.Sprintf("%+q...", name[:120])
	}
	return fmt.Sprintf("%q", name)
}

// perform makes a world, lets act happen in it, and reports.
func perform(ctx context.Context, c Config, o Options, refused int, act func(context.Context, *World, func(string)) error) (int, error) {
	p := &progress{w: c.Out}
	o.Audit = p
	w, err := New(o)
	if err != nil {
		return exitBroken, err
	}
	p.now = w.Clock.Now
	started := w.Clock.Now()
	if err := act(ctx, w, p.say); err != nil {
		return exitBroken, interrupted(ctx, err)
	}
	fmt.Fprintf(c.Out, "\nquiet after %v of simulated time\n\n", w.Clock.Now().Sub(started).Round(time.Second))
	facts, err := w.Facts(ctx)
	if err != nil {
		return exitBroken, err
	}
	return publish(c, facts, started, refused)
}

// publish judges what was left behind, writes the report and the evidence, and
// returns the exit status.
func publish(c Config, facts invariant.Facts, asOf time.Time, refused int) (int, error) {
	r := report.Build(report.Input{
		AsOf: asOf, Runs: facts.Runs, Pages: facts.Pages, Letters: facts.Letters,
		Invariants: invariant.Check(facts), RefusedNames: refused,
	})
	data, err := r.JSON()
	if err == nil {
		err = writeEvidence(filepath.Join(c.Folder, evidenceFolder), facts.Evidence)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(c.Folder, reportFile), data, 0o644) //nolint:gosec // a report for its owner and the owner's tools
	}
	if err == nil {
		err = report.WriteText(c.Out, r, report.Options{Evidence: filepath.Join(c.Folder, evidenceFolder)})
	}
	if err != nil {
		return exitBroken, err
	}
	return r.Exit(), nil
}

// writeEvidence writes the plans and receipts of the run.
func writeEvidence(folder string, documents map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for name, data := range documents {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
