package local

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	fakes3 "github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// build returns a folder with the functions, built once in a test run.
var build = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "expunge-functions-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "../../functions/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return folder, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, _ := build(); folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// openCloud starts a region with the policies.
func openCloud(t *testing.T, files map[string]string) *Cloud {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the functions as processes and waits for real leases to end")
	}
	functions, err := build()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var policies []policy.Policy
	for name, yaml := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		policies = append(policies, parse(t, yaml))
	}
	c, err := OpenCloud(t.Context(), CloudOptions{Region: "eu-west-1", Policies: policies, Functions: functions, PolicyFiles: folder})
	if err != nil {
		t.Fatal(err)
	}
	watchCalls(t, c)
	t.Cleanup(c.Close)
	return c
}

// TestDemoOnTheEmbeddedAWS plays what make run plays: real functions, the AWS SDK,
// a worker ended by SIGKILL.
func TestDemoOnTheEmbeddedAWS(t *testing.T) {
	t.Parallel() // it waits for leases to end, and so do the kill points
	policies, err := demoPolicies()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, p := range policies {
		data, err := demoFiles.ReadFile("demo/" + p.Name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		files[p.Name+".yaml"] = string(data)
	}
	c := openCloud(t, files)
	var told strings.Builder
	if err := Demo(t.Context(), stage{c, c}, policies, func(s string) { told.WriteString(s + "\n") }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), "SIGKILL to the worker right after its delete") {
		t.Errorf("nobody was killed:\n%s", told.String())
	}
	facts, err := c.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	demoHolds(t, facts)
}

// kills says how many kill points are tried: EXPUNGE_KILLS, or 200.
func kills(t *testing.T) int {
	t.Helper()
	text, set := os.LookupEnv("EXPUNGE_KILLS")
	if !set {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("EXPUNGE_KILLS: %v", err)
	}
	return n
}

// TestKillPoints ends the worker by SIGKILL at random calls, before or after the
// call took effect, 200 times over, and finds the final state exact (R116, R118,
// R123, GO-03, DB-02).
func TestKillPoints(t *testing.T) {
	t.Parallel()
	c := openCloud(t, map[string]string{"exports.yaml": exportsYAML})
	points := kills(t)
	seed := rand.Uint64()
	t.Logf("%d kill points, seed %d", points, seed)
	random := rand.New(rand.NewPCG(seed, 0))

	tenants := 2*points + 20
	now := time.Now()
	err := c.s3.Seed("acme-exports", func(yield func(fakes3.Object) bool) {
		for i := range tenants {
			for _, o := range []struct {
				name string
				age  time.Duration
			}{{"old-1", 40 * day}, {"old-2", 35 * day}, {"young", day}} {
				key := fmt.Sprintf("exports/tenant-%04d/%s", i, o.name)
				if !yield(fakes3.Object{Key: key, Body: []byte(key), Modified: now.Add(-o.age)}) {
					return
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	done := 0
	c.faults.add(func(call wire.Call) (wire.Fate, bool) {
		mu.Lock()
		defer mu.Unlock()
		if call.Caller != "worker" || done == points || random.IntN(25) > 0 {
			return wire.Fate{}, false
		}
		done++
		fate := wire.Fate{Then: c.killWorkers}
		if random.IntN(2) == 0 {
			fate.Error = &wire.Error{Status: 500, Code: "InternalError", Message: "the process is gone before the call took effect"}
		}
		return fate, true
	})
	if _, err := c.Fire(t.Context(), "exports"); err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done < points {
		t.Errorf("only %d of %d kill points were reached", done, points)
	}
	redriveDead(t, c)
	exact(t, c, tenants)
}

// redriveDead moves pages back that were killed in every one of their attempts, as
// an operator does, and lets them run in peace.
func redriveDead(t *testing.T, c *Cloud) {
	t.Helper()
	run, pages, err := c.pages(t.Context(), c.runs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if p.State != job.Dead {
			continue
		}
		if p.Death.Reason != job.ReasonAttempts {
			t.Errorf("a page of %s is dead: %s", p.Tenant, p.Death.Reason)
		}
		now := time.Now()
		redriven, err := p.Redrive("plan", now, now.Add(c.Settings.Overdue()))
		if err == nil {
			err = c.Ledger.SwapPage(t.Context(), redriven)
		}
		if err == nil {
			_, err = c.Queue.Send(t.Context(), run.Mode, []job.Message{job.NewMessage(run, redriven)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// exact checks that two objects of each tenant are gone, one is left, and every
// invariant holds.
func exact(t *testing.T, c *Cloud, tenants int) {
	t.Helper()
	facts, err := c.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var totals job.Totals
	for _, p := range facts.Pages {
		totals = totals.Plus(p.Totals())
	}
	if totals.Candidates != 2*tenants || totals.Counts[job.Deleted] != 2*tenants || len(facts.Effects) != 2*tenants {
		t.Errorf("totals %+v, %d effects, want %d", totals, len(facts.Effects), 2*tenants)
	}
	for i := range tenants {
		if _, left := facts.Remains("acme-exports", job.Ref{Key: fmt.Sprintf("exports/tenant-%04d/young", i)}); !left {
			t.Errorf("tenant %d lost its young object", i)
		}
	}
	for _, r := range invariant.Check(facts) {
		if !r.Holds {
			t.Errorf("%s: %s", r.ID, r.Detail)
		}
	}
}
