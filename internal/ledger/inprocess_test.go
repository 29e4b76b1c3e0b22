package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/expunge-aws/expunge/internal/emulator"
	emulated "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// inProcess carries requests straight into the embedded AWS: there is no socket whose
// scheduling decides who meets whom. Between a request and its effect, and between the
// effect and the answer, it lets others run.
type inProcess struct {
	aws   http.Handler
	spoil spoiler
}

// tableInProcess returns a ledger in a fresh table without a socket. The spoiler
// changes what the service is asked; nil changes nothing.
func tableInProcess(t *testing.T, s spoiler) *ledger.Table {
	t.Helper()
	w := &inProcess{aws: emulator.New(wire.Wall{}, nil, emulated.New(wire.Wall{})), spoil: s}
	limits := sdk.Defaults()
	limits.Attempts, limits.Backoff = 2, 1 // a nanosecond
	config := limits.Configure(aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	config.HTTPClient = w
	_, err := dynamodb.NewFromConfig(config.Config).CreateTable(t.Context(), ledger.Schema("ledger"))
	check(t, err)
	return ledger.NewTable(config, "ledger")
}

// fate is what becomes of one request.
type fate int

const (
	answered   fate = iota
	unsent          // it never arrives
	unanswered      // it happens, and nobody is told
	late            // the sender gives it up, and it lands later
)

// fates are those of a call's requests, the SDK's retries included.
type fates struct {
	next   []fate
	yields []int // before the effect and after it, for each request
	late   *ghosts
	lost   int // requests that were not answered
	ghosts int
}

// draw decides: of ten calls one meets a lost answer, and half of those never get any.
func (f *fates) draw(chance *rand.Rand) {
	if chance.IntN(10) == 0 {
		trouble := func() fate { return unsent + fate(chance.IntN(3)) }
		if f.next = append(f.next, trouble()); chance.IntN(2) == 0 {
			f.next = append(f.next, trouble())
		}
	}
	for range 4 {
		f.yields = append(f.yields, chance.IntN(3))
	}
}

// yield lets others run, as often as was drawn.
func (f *fates) yield() {
	if len(f.yields) == 0 {
		return
	}
	for range f.yields[0] {
		runtime.Gosched()
	}
	f.yields = f.yields[1:]
}

type fatesKey struct{}

func withFates(ctx context.Context, f *fates) context.Context {
	return context.WithValue(ctx, fatesKey{}, f)
}

// ghosts are requests that were given up and are still under way.
type ghosts struct {
	mu  sync.Mutex
	all []func()
}

func (g *ghosts) add(land func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, land)
}

// release lets them land.
func (g *ghosts) release() {
	g.mu.Lock()
	landing := g.all
	g.all = nil
	g.mu.Unlock()
	for _, land := range landing {
		land()
	}
}

var errNoAnswer = errors.New("no answer")

// Do is what the SDK asks of an HTTP client.
func (w *inProcess) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(context.WithoutCancel(r.Context())) // a request that is under way lands, whoever has given it up
	f, ok := r.Context().Value(fatesKey{}).(*fates)
	if !ok {
		return w.serve(r, body, nil), nil
	}
	if len(f.yields) > 1 {
		f.late.release()
	}
	f.yield()
	mine := answered
	if len(f.next) > 0 {
		mine, f.next = f.next[0], f.next[1:]
	}
	if mine != answered {
		f.lost++
	}
	switch mine {
	case unsent:
		return nil, errNoAnswer
	case late:
		f.ghosts++
		f.late.add(func() { w.serve(r, body, nil) }) //nolint:bodyclose // a recorded answer holds nothing
		return nil, errNoAnswer
	default:
	}
	answer := w.serve(r, body, f)
	f.yield()
	if mine == unanswered {
		return nil, errNoAnswer
	}
	return answer, nil
}

// serve asks the service, in the words of the spoiler.
func (w *inProcess) serve(r *http.Request, body []byte, f *fates) *http.Response {
	ask := func(operation string, body []byte) *http.Response {
		r := r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if operation != "" {
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		}
		recorder := httptest.NewRecorder()
		w.aws.ServeHTTP(recorder, r)
		return recorder.Result()
	}
	if w.spoil == nil {
		return ask("", body)
	}
	return w.spoil(request{operation: r.Header.Get("X-Amz-Target"), body: body, fates: f}, ask)
}

// request is what a spoiler is handed.
type request struct {
	operation string
	body      []byte
	fates     *fates
}

// spoiler makes a ledger that is wrong out of one that is right.
type spoiler func(q request, ask func(operation string, body []byte) *http.Response) *http.Response

// unconditioned writes whatever stands there.
func unconditioned(q request, ask func(string, []byte) *http.Response) *http.Response {
	return ask("", edit(q.body, func(write map[string]any) { drop(write) }, true))
}

// epochless commits intents without a look at the epoch.
func epochless(q request, ask func(string, []byte) *http.Response) *http.Response {
	return ask("", edit(q.body, func(map[string]any) {}, true))
}

// torn looks whether the revision is the one that the write names, and writes then,
// with a moment in between.
func torn(q request, ask func(string, []byte) *http.Response) *http.Response {
	if !strings.HasSuffix(q.operation, ".PutItem") {
		return ask("", q.body)
	}
	var put struct {
		TableName                 string
		Item                      map[string]any
		ExpressionAttributeValues map[string]struct{ N string }
	}
	must(json.Unmarshal(q.body, &put))
	look, err := json.Marshal(map[string]any{
		"TableName": put.TableName, "ConsistentRead": true, "Key": map[string]any{"pk": put.Item["pk"], "sk": put.Item["sk"]},
	})
	must(err)
	var found struct {
		Item map[string]struct{ N string }
	}
	answer := ask("GetItem", look)
	must(json.NewDecoder(answer.Body).Decode(&found))
	if found.Item["rev"].N != put.ExpressionAttributeValues[":read"].N {
		return ask("", q.body) // which is refused
	}
	for range 8 {
		runtime.Gosched()
	}
	return ask("", edit(q.body, drop, false))
}

// drop takes the condition out of a write.
func drop(write map[string]any) {
	delete(write, "ConditionExpression")
	delete(write, "ExpressionAttributeValues")
}

// edit changes the writes of a request, and takes out the checks of a transaction where
// that is asked.
func edit(body []byte, change func(write map[string]any), uncheck bool) []byte {
	var in map[string]any
	must(json.Unmarshal(body, &in))
	actions, transaction := in["TransactItems"].([]any)
	if _, put := in["Item"]; put {
		change(in)
	}
	if transaction {
		var kept []any
		for _, a := range actions {
			action, ok := a.(map[string]any)
			if put, isPut := action["Put"].(map[string]any); ok && isPut {
				change(put)
			} else if uncheck {
				continue
			}
			kept = append(kept, a)
		}
		in["TransactItems"] = kept
	}
	out, err := json.Marshal(in)
	must(err)
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
