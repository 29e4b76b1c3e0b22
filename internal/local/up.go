package local

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/policy"
)

//go:embed night/*.yaml
var nightFiles embed.FS

// nightObjects are the artifacts of the night. The slow bucket has many tenants, so
// that its run is still going on while somebody looks.
func nightObjects() []batch {
	all := []batch{
		{"digest-attachments", "digests/school-7/digest-", ".html", 40, 245, 9 * oneDay},
		{"digest-attachments", "digests/school-8/digest-", ".html", 60, 245, 9 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/export-", ".csv", 300, 2_048, 20 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/recent-", ".csv", 500, 2_048, 5 * oneDay},
		{"support-attachments", "tickets/northwind/ticket-", ".zip", 450, 900, 120 * oneDay},
		{"support-attachments", "tickets/northwind/fresh-", ".zip", 550, 900, 3 * oneDay},
		{"rendered-invoices", "invoices/acme-eu/invoice-", ".pdf", 80, 1_200, 400 * oneDay},
		{"rendered-invoices", "invoices/acme-eu/invoice-of-this-year-", ".pdf", 120, 1_200, 100 * oneDay},
		{"nightly-reports", "reports/acme-eu/report-", ".html", 90, 500, 45 * oneDay},
		{"nightly-reports", "reports/acme-eu/new-", ".html", 100, 500, 5 * oneDay},
		{"nightly-reports", "reports/test/sample-", ".html", 5, 500, 45 * oneDay}, // the drill's tenant
	}
	for i := range slowTenants {
		prefix := fmt.Sprintf("uploads/school-%03d/", i+100)
		all = append(all, batch{"edtech-uploads", prefix + "homework-", ".pdf", 30, 1_843, 45 * oneDay}, batch{"edtech-uploads", prefix + "term-", ".pdf", 40, 1_843, 12 * oneDay})
	}
	return all
}

const slowTenants = 240

// trouble is something that goes wrong for as long as a file of its name is in the
// folder of troubles: make it and it happens, remove it and it is gone.
type trouble struct {
	name, text string
	hits       func(wire.Call) bool
	fate       func(*Cloud) wire.Fate
}

func troubles() []trouble {
	deletes := func(bucket string) func(wire.Call) bool {
		return func(c wire.Call) bool {
			return c.Operation == "DeleteObjects" && strings.Contains(c.Resource, bucket)
		}
	}
	return []trouble{
		{"crash-loop", "the worker dies at every delete in b2b-exports", deletes("b2b-exports"), func(c *Cloud) wire.Fate {
			return wire.Fate{Error: &wire.Error{Status: 500, Code: "InternalError", Message: "the process is gone before this call"}, Then: c.killWorkers}
		}},
		{"denied-prefix", "the store refuses every delete under digests/school-7/", deletes("digest-attachments"), func(*Cloud) wire.Fate {
			return wire.Fate{Entries: func(key string) *wire.Error {
				if !strings.HasPrefix(key, "digests/school-7/") {
					return nil
				}
				return &wire.Error{Status: 403, Code: "AccessDenied", Message: "Access Denied"}
			}}
		}},
		{"slow-store", "every delete in edtech-uploads takes a quarter of a second longer", deletes("edtech-uploads"), func(*Cloud) wire.Fate {
			return wire.Fate{Delay: 250 * time.Millisecond}
		}},
	}
}

// UpConfig says where a lasting region is kept.
type UpConfig struct {
	Listen, Folder, Functions string
	Out                       io.Writer
}

// UpFile is what the operator's tool reads to find a lasting region.
type UpFile struct {
	Endpoint string            `json:"endpoint"`
	Outputs  map[string]string `json:"outputs"`
}

// upFile, troubleFolder and nightFolder stand in the folder of a lasting region.
const (
	upFile        = "up.json"
	troubleFolder = "trouble"
	nightFolder   = "night"
)

// Up keeps a region running until the context ends, in the state of a bad night, for
// people to find their way in with the operator's tool.
func Up(ctx context.Context, c UpConfig) error {
	if err := ownEndpoints(); err != nil {
		return err
	}
	if err := free(c.Listen); err != nil {
		return err
	}
	now := time.Now().UTC()
	policies, err := writeNight(filepath.Join(c.Folder, nightFolder), now)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.Folder, "up.log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it is a log
	cloud, err := OpenCloud(ctx, CloudOptions{
		Region: policies[0].Region, Policies: policies, Functions: c.Functions, PolicyFiles: filepath.Join(c.Folder, nightFolder),
		Listen: c.Listen, Log: log, Unapproved: []string{"invoices"},
	})
	if err != nil {
		return err
	}
	defer cloud.Close()
	if err := cloud.night(ctx, filepath.Join(c.Folder, troubleFolder)); err != nil {
		return err
	}
	if err := writeUpFile(filepath.Join(c.Folder, upFile), cloud); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(c.Folder, upFile)) //nolint:errcheck // one that stays names a port where nobody answers
	introduceNight(c, cloud)
	return cloud.keep(ctx)
}

// free refuses an address at which somebody listens already, before anything of the
// folder is rewritten: a region that is up reads its policy files and writes its log
// there.
func free(address string) error {
	l, err := emulator.Listen(address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("somebody listens at %s already: if it is a region of before, use it, or end it with Ctrl-C where it was started; else end what listens there", address)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// writeNight writes the policy files and reads them back.
func writeNight(folder string, now time.Time) ([]policy.Policy, error) {
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	names, err := fs.Glob(nightFiles, "night/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := nightFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text := strings.Replace(string(data), `"AT"`, now.Add(2*time.Minute).Format(`"15:04"`), 1)
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return readPolicies(os.DirFS(folder))
}

// night fills the region, lets things go wrong, and starts every policy's run.
func (c *Cloud) night(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for _, t := range troubles() {
		path := filepath.Join(folder, t.name)
		if err := os.WriteFile(path, []byte(t.text+"\n"), 0o600); err != nil {
			return err
		}
		c.faults.add(func(call wire.Call) (wire.Fate, bool) {
			if !t.hits(call) {
				return wire.Fate{}, false
			}
			if _, err := os.Stat(path); err != nil {
				return wire.Fate{}, false
			}
			return t.fate(c), true
		})
	}
	for _, b := range nightObjects() {
		if err := c.Seed(b); err != nil {
			return err
		}
	}
	for _, p := range c.Policies {
		if err := c.schedule(ctx, p, p.Name != "reports"); err != nil {
			return err
		}
	}
	for _, p := range c.Policies {
		if p.Name == "reports" {
			continue
		}
		run, err := c.Fire(ctx, p.Name)
		if err != nil {
			return err
		}
		if p.Name != "digests" {
			continue
		}
		// Not every sender is ours: this one forgot half of its message.
		if err := c.Stray(ctx, run, func(body []byte) []byte { return body[:len(body)/2] }); err != nil {
			return err
		}
	}
	return nil
}

// schedule declares a policy's schedule as the stack does.
func (c *Cloud) schedule(ctx context.Context, p policy.Policy, enabled bool) error {
	state := types.ScheduleStateEnabled
	if !enabled {
		state = types.ScheduleStateDisabled
	}
	name, cron := "policy-"+p.Name, p.Schedule.Cron()
	_, err := scheduler.NewFromConfig(c.config.Config).CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name: &name, ScheduleExpression: &cron, ScheduleExpressionTimezone: &p.Schedule.Zone, State: state, Target: c.enqueueTarget(p.Name),
		FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
	})
	return err
}

func writeUpFile(path string, c *Cloud) error {
	data, err := json.Marshal(UpFile{c.Endpoint, c.Outputs.Render()}, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// keep invokes reconcile at its period until the context ends, and redrive as its
// schedule would: it does nothing unless somebody has switched that on.
func (c *Cloud) keep(ctx context.Context) error {
	every := time.NewTicker(c.Settings.ReconcileEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			c.fire(ctx, "reconcile", "{}")
			c.fire(ctx, "redrive", `{"op":"scheduled"}`)
		}
	}
}

// fire invokes a function as a schedule does: nobody waits for what it says.
func (c *Cloud) fire(ctx context.Context, function, event string) {
	_, err := c.lambda.Invoke(ctx, c.Region, function, []byte(event))
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, function+":", err)
	}
}

// introduceNight says what is wrong and where to begin.
func introduceNight(c UpConfig, cloud *Cloud) {
	fmt.Fprintf(c.Out, `The region %s is up at %s, at 1/%d of every duration, until Ctrl-C.

It is a bad night. Something sent a broken message; the store refuses one prefix; a worker
dies at every delete of one bucket; a run waits for approval; a policy was never approved
to delete; a schedule is disabled, and its date will be missed in about %v.

Begin with       .bin/expunge runs --late
what goes wrong  ls %s: remove a file and that trouble is gone
the functions    export AWS_ACCESS_KEY_ID=operator AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION=%s
                 aws --endpoint-url %s lambda invoke --function-name redrive --payload fileb://events/redrive/inspect.json out.json
the log          %s
`, cloud.Region, cloud.Endpoint, cloudScale, (2*time.Minute + contract.Production().MissedAfter/cloudScale).Round(time.Minute),
		filepath.Join(c.Folder, troubleFolder), cloud.Region, cloud.Endpoint, filepath.Join(c.Folder, "up.log"))
}
