package wire

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"
)

// Call is what a fault hook is told about a request, before it is answered.
type Call struct {
	Service, Region, Operation string
	// Caller is the access key that the request names: which process asks.
	Caller string
	// Resource is the path of the request: bucket and key, queue, function.
	Resource string
	// Query and Header are the rest of what S3 is asked by.
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Fate is what happens to a call. The zero value is that nothing does.
type Fate struct {
	// Error is answered instead of the call.
	Error *Error
	// Delay passes before the call is carried out.
	Delay time.Duration
	// Repeat carries the call out once more, as a retry inside the network does.
	Repeat bool
	// Lost carries the call out and closes the connection without an answer.
	Lost bool
	// Then is called once the call was carried out and before its answer goes out.
	Then func()
	// Truncate, when positive, cuts the answer's body after that many bytes and
	// closes the connection.
	Truncate int
	// Entries refuses single entries of a batch by their id (the key of a bulk
	// delete, the id of a batch send) or their number ("0", "1", ... of a batch write).
	Entries func(id string) *Error
	// EntriesAfter does the same after the entry was carried out: it is reported as
	// failed, but it happened.
	EntriesAfter func(id string) *Error
}

// Faults decides the fate of every call. A nil hook lets every call be.
type Faults func(Call) Fate

// Of returns the fate of a call.
func (f Faults) Of(c Call) Fate {
	if f == nil {
		return Fate{}
	}
	return f(c)
}

// Apply serves the call under its fate. serve may be called twice.
func (f Fate) Apply(clock Clock, w http.ResponseWriter, serve func(http.ResponseWriter)) {
	if f.Delay > 0 {
		<-clock.After(f.Delay)
	}
	if f.Repeat {
		serve(httptest.NewRecorder())
	}
	if !f.Lost && f.Truncate <= 0 && f.Then == nil {
		serve(w)
		return
	}
	kept := httptest.NewRecorder()
	serve(kept)
	if f.Then != nil {
		f.Then()
	}
	if f.Lost {
		panic(http.ErrAbortHandler) // net/http closes the connection and logs nothing
	}
	body := kept.Body.Bytes()
	for name, values := range kept.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(kept.Code)
	_, _ = w.Write(body[:min(f.Truncate, len(body))]) // the rest is what the fault is about
	_ = http.NewResponseController(w).Flush()         // or a short answer would not be sent at all
	panic(http.ErrAbortHandler)
}

// fateKey is the context key of a request's fate.
type fateKey struct{}

// WithFate carries the fate to the service that answers the request.
func WithFate(ctx context.Context, f Fate) context.Context {
	return context.WithValue(ctx, fateKey{}, f)
}

// FateOf returns the fate that the request's context carries. A service answers
// Error in its own form, and asks Entries for each entry of a batch.
func FateOf(ctx context.Context) Fate {
	f, _ := ctx.Value(fateKey{}).(Fate)
	return f
}
