package sdk_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// short are settings with which a test can wait for every limit.
func short() sdk.Settings {
	return sdk.Settings{
		Call: 2 * time.Second, Connect: time.Second, Header: time.Second, Idle: 50 * time.Millisecond,
		Attempts: 3, Backoff: time.Millisecond,
	}
}

func serve(t *testing.T, s sdk.Settings, handler http.HandlerFunc) *s3.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return s3.NewFromConfig(s.Configure(config(server.URL)).Config, pathStyle)
}

func list(ctx context.Context, c *s3.Client, options ...func(*s3.Options)) error {
	_, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("b")}, options...)
	return err
}

func empty(w http.ResponseWriter) { _, _ = w.Write([]byte("<ListBucketResult/>")) }

// GO-08: a peer that accepts and never answers.
func TestASilentPeerEndsTheCall(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, sdk.Settings{Header: 50 * time.Millisecond, Attempts: 1}, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	start := time.Now()
	if err := list(t.Context(), c); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestLimitIsBelowWhatRemains(t *testing.T) {
	s := sdk.Defaults()
	for remaining, most := range map[time.Duration]time.Duration{
		time.Hour:        s.Call,
		16 * time.Second: 14 * time.Second,
		-time.Second:     0,
	} {
		outer, end := context.WithTimeout(t.Context(), remaining)
		inner, cancel := s.Limit(outer)
		deadline, _ := inner.Deadline()
		if left := time.Until(deadline); left > most || remaining > 0 && left < most-time.Second {
			t.Errorf("of %v remain %v, want %v", remaining, left, most)
		}
		cancel()
		end()
	}
	inner, cancel := s.Limit(t.Context())
	defer cancel()
	if _, ok := inner.Deadline(); !ok {
		t.Error("a call without an end")
	}
}

// GO-06: the peer drops idle connections, and we are quicker.
func TestIdleConnectionsAreLeftBehind(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { empty(w) }))
	server.Config.IdleTimeout = 150 * time.Millisecond
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := short()
	s.Attempts = 1
	c := s3.NewFromConfig(s.Configure(config(server.URL)).Config, pathStyle)
	const rounds = 5
	for range rounds {
		for range 3 { // in one invocation, the connection is used again
			if err := list(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(160 * time.Millisecond) // frozen
	}
	if n := connections.Load(); n < rounds || n > 2*rounds {
		t.Errorf("%d connections in %d rounds of 3 calls", n, rounds)
	}
}

// GO-07: after 300 failing calls a single failure is still retried.
func TestRetriesDoNotRunDry(t *testing.T) {
	var calls atomic.Int32
	var healthy atomic.Bool
	c := serve(t, short(), func(w http.ResponseWriter, _ *http.Request) {
		if n := calls.Add(1); !healthy.Load() || n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		empty(w)
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 30 {
				if err := list(t.Context(), c); err == nil {
					t.Error("a failing service succeeded")
				}
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 900 {
		t.Errorf("300 calls were sent %d times, want 3 each", n)
	}
	healthy.Store(true)
	calls.Store(0)
	if err := list(t.Context(), c); err != nil || calls.Load() != 2 {
		t.Errorf("%v after %d attempts", err, calls.Load())
	}
}

func TestOnceIsOnce(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, short(), func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	err := list(t.Context(), c, func(o *s3.Options) { o.Retryer = sdk.Once() })
	if err == nil || calls.Load() != 1 {
		t.Errorf("%v after %d attempts", err, calls.Load())
	}
}

// S20: nothing is sent at the end or after it, not even by a retry that the time
// ran out for.
func TestSignBefore(t *testing.T) {
	start := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		step time.Duration // of the clock, with each attempt
		end  time.Duration
		sent int32
	}{
		"in time":             {0, 1, 3},
		"at the end":          {0, 0, 0},
		"after it":            {0, -time.Second, 0},
		"over during retries": {time.Second, 1500 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, asked atomic.Int32
			client := serve(t, short(), func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.WriteHeader(http.StatusInternalServerError)
			})
			now := func() time.Time { return start.Add(time.Duration(asked.Add(1)) * c.step) }
			err := list(t.Context(), client, func(o *s3.Options) {
				o.APIOptions = append(o.APIOptions, sdk.SignBefore(now, start.Add(c.end)))
			})
			if calls.Load() != c.sent {
				t.Errorf("sent %d times, want %d", calls.Load(), c.sent)
			}
			if _, refused := errors.AsType[*failure.Error](err); refused != (name != "in time") || refused && failure.Of(err) != failure.Conflict {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestScaledKeepsRelations(t *testing.T) {
	for _, by := range []int{1, 20} {
		s := sdk.Defaults().Scaled(by)
		if s.Idle >= 20*time.Second/time.Duration(by) || s.Header >= s.Call || s.Connect >= s.Header || s.Attempts < 2 {
			t.Errorf("divided by %d: %+v", by, s)
		}
	}
}

// An answer that points elsewhere is a wrong region's. What was signed for one
// server is never carried to another.
func TestNoRedirectIsFollowed(t *testing.T) {
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		followed.Add(1)
		empty(w)
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := serve(t, short(), func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		if err := list(t.Context(), c); err == nil {
			t.Errorf("%d is an answer", status)
		}
	}
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}
