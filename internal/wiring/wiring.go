// Package wiring builds what every function needs from its environment: clients, clock, chance and log.
//
// The mains under functions differ in the step they start and in what they may
// touch; how a process gets its names, talks to AWS, tells the time and writes
// its log is the same for all. A client is made once in a process, because main
// runs once.
package wiring

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// Parts are what a step is wired from.
type Parts struct {
	contract.Environment
	Settings contract.Settings
	Region   string
	SDK      sdk.Config

	Ledger   *ledger.Table
	Queue    *queue.SQS
	Store    *artifact.S3
	Evidence *evidence.S3
	Audit    audit.Sink
	Gauges   audit.Gauges
	Clock    Clock
}

// Counted is the log of a function that runs the step: it measures what the events of
// the step count, in its name.
func (p Parts) Counted(service string) audit.Sink { return audit.Counted(p.Audit, p.Gauges, service) }

// Load builds the parts. Each field of the environment that need points at must be
// set.
func Load(ctx context.Context, need func(*contract.Environment) []*string) (Parts, error) {
	env, err := contract.ParseEnvironment(os.Getenv, need)
	if err != nil {
		return Parts{}, err
	}
	settings, err := env.Settings()
	if err != nil {
		return Parts{}, err
	}
	base, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return Parts{}, fmt.Errorf("wiring: AWS configuration: %w", err)
	}
	limits := sdk.Defaults()
	if scale, err := strconv.Atoi(env.Scale); err == nil && scale > 1 {
		limits = limits.Scaled(scale)
	}
	c := limits.Configure(base)
	q := queue.NewSQS(c, queue.URLs{Enforce: env.PagesQueue, ReportOnly: env.ReportQueue, Letters: env.LettersQueue})
	q.Worker = job.Mode(env.Mode)
	lines := audit.NewLines(os.Stdout, env.Stage)
	return Parts{
		Environment: env, Settings: settings, Region: base.Region, SDK: c,
		Ledger: ledger.NewTable(c, env.Table), Queue: q,
		Store: artifact.NewS3(c, artifact.S3Options{}), Evidence: evidence.NewS3(c, env.EvidenceBucket),
		Audit: lines, Gauges: lines, Clock: Wall{},
	}, nil
}

// Clock is the only source of time of a function.
type Clock interface {
	Now() time.Time
	// Sleep waits for d, or until ctx ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// Wall is the machine's clock.
type Wall struct{}

// Now returns the current time.
func (Wall) Now() time.Time { return time.Now() }

// Sleep waits for d, or until ctx ends.
func (Wall) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// NewOwner returns a name that no other claim has.
func NewOwner() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return hex.EncodeToString(b[:])
}

// Jitter returns a random duration in [0, limit).
func Jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return mathrand.N(limit) //nolint:gosec // jitter needs no secrecy
}

// Deadline is when the invocation ends. Without one there is no time at all: a
// tool that sends none must not make a worker think it has for ever (GO-04).
func Deadline(ctx context.Context) time.Time {
	end, _ := ctx.Deadline()
	return end
}
