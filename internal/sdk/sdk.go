// Package sdk configures the AWS SDK in one place: timeouts, retries, connections, and the transport repair.
//
// # Why
//
// What the SDK does by default is made for interactive programs. A call has no
// time limit at all, so a peer that accepts and stays silent holds an invocation
// until it is killed (GO-08). Connections are kept for 90 seconds, and S3 closes
// them after about 20: a function that is thawed sends its first request into a
// dead one (GO-06). The quota of retries is only refilled by successes, so that a
// bad minute leaves a shared client without any (GO-07). And the SDK retries
// whatever is asked of it, which a delete must never be: its effect may have
// happened, and a request signed again is a request that lands later (S20).
//
// So reads and conditional writes are retried here, a few times, and nowhere
// else; a delete is sent once, and refused before it is signed when its time is
// over. Nothing is ever logged by the SDK, whose log lines hold keys.
package sdk

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Settings are the limits of one process's calls.
type Settings struct {
	// Call limits an operation with its retries. An invocation's end may limit it
	// further: see Limit.
	Call time.Duration
	// Connect limits the making of a connection, TLS included.
	Connect time.Duration
	// Header limits the wait for an answer's first byte.
	Header time.Duration
	// Idle is how long an unused connection is kept. net/http measures it on the
	// wall clock, so a freeze counts.
	Idle time.Duration
	// Attempts is how often an operation that may be repeated is sent.
	Attempts int
	// Backoff is the longest wait between attempts.
	Backoff time.Duration
}

// Defaults returns the limits of a deployed function.
func Defaults() Settings {
	return Settings{
		Call:     20 * time.Second, // a third of the worker's invocation: one silent peer leaves time for the rest
		Connect:  3 * time.Second,
		Header:   15 * time.Second, // a bulk delete of 1,000 keys takes about one
		Idle:     10 * time.Second, // below the 20 s after which S3 closes
		Attempts: 3,
		Backoff:  2 * time.Second,
	}
}

// Scaled divides every duration by the factor and keeps the attempts, as the local
// environment does with all its times.
func (s Settings) Scaled(by int) Settings {
	for _, d := range []*time.Duration{&s.Call, &s.Connect, &s.Header, &s.Idle, &s.Backoff} {
		*d /= time.Duration(by)
	}
	return s
}

// Config is an SDK configuration with the limits in it. It is what an adapter
// takes, so that none can be made without them.
type Config struct {
	aws.Config
	Settings
}

// Configure puts the limits into a configuration, which says where the services
// are and who asks. Call it once in a process: its clients share connections.
func (s Settings) Configure(base aws.Config) Config {
	c := base.Copy()
	c.HTTPClient = s.Client()
	c.RetryMode = aws.RetryModeStandard
	c.RetryMaxAttempts = 0 // the retryer says it
	c.Retryer = s.retryer
	c.ClientLogMode = 0
	c.Logger = logging.Nop{}
	if c.RequestChecksumCalculation == 0 {
		c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
	}
	if c.ResponseChecksumValidation == 0 {
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	}
	return Config{c, s}
}

// retryer retries as the standard mode does, but without a quota: the attempts of
// one operation are bounded, and a process has few operations under way.
func (s Settings) retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = s.Attempts, s.Backoff, ratelimit.None
	})
}

// Once returns the retryer of an operation that must be sent once: a delete.
func Once() aws.Retryer { return aws.NopRetryer{} }

// Client returns an HTTP client with the limits and the repaired transport.
func (s Settings) Client() *http.Client {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: s.Idle}
	return &http.Client{
		Transport: Repair(&http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			TLSHandshakeTimeout:   s.Connect,
			ResponseHeaderTimeout: s.Header,
			IdleConnTimeout:       s.Idle,
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
		}),
		// A redirect is the answer of a service that was asked in the wrong region.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Limit returns a context for one operation. Its time is below what remains of
// ctx, so that the caller is left some to say what happened.
func (s Settings) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := s.Call
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)*7/8)
	}
	return context.WithTimeout(ctx, limit)
}

// SignBefore refuses an operation with failure.Conflict when it would be signed
// at end or later, and sends nothing then. The check stands directly before the
// signature: a process that was frozen on the way here is refused too (F6, S20).
func SignBefore(now func() time.Time, end time.Time) func(*middleware.Stack) error {
	check := middleware.FinalizeMiddlewareFunc("SignBefore",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if !now().Before(end) {
				return middleware.FinalizeOutput{}, middleware.Metadata{},
					failure.New(failure.Conflict, "sign request", "the claim's right to delete is over")
			}
			return next.HandleFinalize(ctx, in)
		})
	return func(stack *middleware.Stack) error { return stack.Finalize.Insert(check, "Signing", middleware.Before) }
}
