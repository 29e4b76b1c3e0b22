package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
)

// carrier is the HTTP client of the product's clients. It hands a request to the
// embedded AWS of the world that is played, without a socket, and lets happen on the way
// what the request's exchange is in for.
type carrier struct {
	w   *world
	aws http.Handler
	// by asks just now: its clock is the client's.
	by *instance
	// fate is what the embedded AWS makes of the request that it is handed.
	fate wire.Fate
	// taken are the transactions that were carried out.
	taken map[string]bool
	// short is how many rows an answer of DynamoDB has at most, 0 for its own limit.
	short int
	// kept reports whether the evidence that a request writes is there already.
	kept func(*request) bool
}

var errNoAnswer = errors.New("no answer")

// request is one on its way. The SDK reads its body once; it may arrive twice, or later.
type request struct {
	*http.Request
	operation string
	body      []byte
}

// service is whom a request is for.
func (q *request) service() string {
	switch target := q.Header.Get("X-Amz-Target"); {
	case strings.HasPrefix(target, "DynamoDB"):
		return "dynamodb"
	case target != "":
		return "sqs"
	default:
		return "s3"
	}
}

// Do is what the SDK asks of an HTTP client.
func (c *carrier) Do(r *http.Request) (*http.Response, error) {
	q := &request{Request: r, operation: operationOf(r)}
	// Nobody checks a signature here, which is a tenth of a world's time: only its scope is read.
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/"+q.service()+"/aws4_request")
	if r.Body != nil {
		var err error
		if q.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	x := exchangeOf(r.Context())
	if x == nil {
		return c.serve(q, nil, wire.Fate{}), nil
	}
	if x.flight != nil {
		c.w.tell(moment{kind: deleteSent, flight: x.flight, by: x.by})
	}
	c.pause(x)
	c.shorten(q)
	x.requests++
	if x.fate == answered || x.met > 0 && !x.whole || x.changes && !changing[q.operation] {
		answer := c.answer(q, x)
		c.linger(q, x)
		return answer, nil
	}
	x.met++
	return c.meet(q, x)
}

// pause lets others act between two requests of a call.
func (c *carrier) pause(x *exchange) {
	if x.requests > 0 && x.by.chance.one(2) {
		x.yielded = true
		wait := x.by.latency(x.changes)
		if x.op == "place-hold" && c.w.faulty && x.by.chance.one(3) {
			x.by.at(0, c.w.placeHold) // which reads the same epoch
			wait = 2 * time.Second
		}
		x.by.p.wait(wait)
	}
	c.by = x.by
}

// linger lets a process stand still past its end between the bulk of a delete and what
// the bulk can not name: its right to send is over then.
func (c *carrier) linger(q *request, x *exchange) {
	alone := func(i job.Item) bool { return strings.Contains(i.Key, "\x01") }
	if q.operation != "DeleteObjects" || x.flight == nil || !c.w.faulty || c.w.rates[Thawed] == 0 || !slices.ContainsFunc(x.flight.d.Items, alone) || !x.by.chance.one(2) {
		return
	}
	c.w.hit(Thawed)
	x.by.p.ends = forever
	x.by.p.wait(x.by.chance.within(30*time.Second, 20*time.Minute))
	c.by = x.by
}

// shorten makes a request ask for little, so that few rows are more than one answer.
func (c *carrier) shorten(q *request) {
	switch {
	case q.operation == "List" && q.URL.Query().Has("encoding-type") && c.w.listed < artifact.MaxItems:
		q.URL.RawQuery += "&max-keys=" + strconv.Itoa(c.w.listed)
	case q.operation == "Query" && c.short > 0 && !bytes.Contains(q.body, []byte(`"Limit":`)):
		q.body = append([]byte(`{"Limit":`+strconv.Itoa(c.short)+`,`), q.body[1:]...)
	}
}

// meet is the fate of a request.
func (c *carrier) meet(q *request, x *exchange) (*http.Response, error) {
	switch x.fate {
	case forbidden, throttled, contended, expired:
		return c.serve(q, x, wire.Fate{Error: refusal(x.fate, q)}), nil
	case unanswered:
		if x.met > 1 {
			return nil, errNoAnswer
		}
		return c.lose(q, x)
	case resent:
		return c.lose(q, x)
	case delayed, orphaned:
		if x.met == 1 {
			c.later(q, x)
		}
		if x.fate == orphaned {
			x.by.p.crash()
		}
	case deadly:
		c.answer(q, x)
		x.by.log(x.by.p, q.operation, "dies after")
		x.by.p.crash()
	case between:
		return c.between(q, x), nil
	case cut:
		return shorter(c.answer(q, x)), nil
	default:
		return c.vanish(q)
	}
	return nil, errNoAnswer
}

// vanish lets a request be answered by nobody, or by somebody on the way who has not
// asked the service: with nothing, or with an error.
func (c *carrier) vanish(q *request) (*http.Response, error) {
	switch c.w.chance.n(4) {
	case 0:
		return c.serve(q, nil, wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: internal(q)}}), nil
	case 1:
		if !bodiless[q.operation] {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
		}
	}
	return nil, errNoAnswer
}

// lose carries a request out and lets its answer be lost.
func (c *carrier) lose(q *request, x *exchange) (*http.Response, error) {
	answer := c.answer(q, x)
	switch c.w.chance.n(3) {
	case 0:
		return shorter(answer), nil
	case 1:
		return c.serve(q, nil, wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: internal(q)}}), nil
	default:
		return nil, errNoAnswer
	}
}

// later lets a request land that its sender has given up.
func (c *carrier) later(q *request, x *exchange) {
	r := *q
	r.Request = q.Clone(context.Background())
	c.w.at(min(x.after, signatureLife), func() {
		c.w.nobody = x.flight == nil
		answer := c.answer(&r, x) //nolint:bodyclose // a recorded answer holds nothing
		c.w.nobody = false
		c.w.log(nil, q.operation, "lands late: "+http.StatusText(answer.StatusCode))
	})
}

// between lets others act before each entry of a request, which goes on when its sender
// dies.
func (c *carrier) between(q *request, x *exchange) (answer *http.Response) {
	r := *q
	r.Request = q.Clone(context.Background())
	c.w.spawn("request", 0, func(p *process) {
		answer = c.carry(&r, x, func() { p.wait(c.w.chance.within(time.Millisecond, 50*time.Millisecond)) }) //nolint:bodyclose // a recorded answer holds nothing
	}, func() {})
	for answer == nil {
		x.by.p.wait(20 * time.Millisecond)
	}
	c.by = x.by
	return answer
}

// answer carries a request out.
func (c *carrier) answer(q *request, x *exchange) *http.Response { return c.carry(q, x, func() {}) }

// carry lets the service take a request, key by key, and tells of what it took.
func (c *carrier) carry(q *request, x *exchange, before func()) *http.Response {
	unsure := map[string]bool{}
	fate := wire.Fate{Entries: func(id string) *wire.Error {
		if q.operation != "DeleteObjects" {
			return c.refusesEntry(q, x, id)
		}
		before()
		c.w.landing = x.flight
		return c.keyFault(id, unsure)
	}, EntriesAfter: func(id string) *wire.Error {
		if unsure[id] {
			return wire.Bad("InternalError", "We encountered an internal error.")
		}
		return nil
	}}
	if q.operation == "DeleteObject" && x.flight != nil {
		fate.Error = c.keyFault(q.URL.Path, unsure)
	}
	c.w.landing = x.flight
	fresh := q.operation != "PutObject" || !c.kept(q)
	answer := c.serve(q, x, fate)
	c.w.landing = nil
	if done := answer.StatusCode < http.StatusMultipleChoices; done && !fresh {
		c.w.violate("E4", "evidence was written over")
	}
	if answer.StatusCode < http.StatusMultipleChoices && changing[q.operation] && x.flight == nil && !c.again(q) {
		x.commit()
	}
	return answer
}

// again reports whether a transaction was taken before: it has a token, and the SDK sends
// it again with the same one.
func (c *carrier) again(q *request) bool {
	if q.operation != "TransactWriteItems" {
		return false
	}
	if c.taken[string(q.body)] {
		return true
	}
	c.taken[string(q.body)] = true
	return false
}

func (c *carrier) refusesEntry(q *request, x *exchange, id string) *wire.Error {
	switch {
	case q.operation == "SendMessageBatch" && c.w.refusesEntry(id):
		x.turnedAway++
		return wire.Bad("InternalError", "")
	case q.operation == "BatchGetItem" && c.short > 0 && id != "0" && c.w.chance.one(3):
		return wire.Bad("ProvisionedThroughputExceededException", "") // which is how a key is left unread
	}
	return nil
}

// keyFault is what happens to one key of a delete.
func (c *carrier) keyFault(key string, unsure map[string]bool) *wire.Error {
	switch answer, applied := c.w.keyFault(job.Item{Key: key}); {
	case answer == job.Slow:
		return wire.Bad("SlowDown", "Please reduce your request rate.")
	case answer == job.Denied:
		return wire.Bad("AccessDenied", "Access Denied")
	case answer == job.Unsure && !applied:
		return wire.Bad("InternalError", "We encountered an internal error.")
	case answer == job.Unsure:
		unsure[key] = true
	}
	return nil
}

// serve is the embedded AWS.
func (c *carrier) serve(q *request, x *exchange, f wire.Fate) *http.Response {
	r := q.Request
	if x != nil {
		r = r.WithContext(context.Background())
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
	recorder := httptest.NewRecorder()
	c.fate = f
	c.aws.ServeHTTP(recorder, r)
	return recorder.Result()
}

// changing are the operations that change something.
var changing = map[string]bool{
	"PutItem": true, "TransactWriteItems": true,
	"SendMessage": true, "SendMessageBatch": true, "DeleteMessage": true, "ChangeMessageVisibility": true,
	"PutObject": true, "DeleteObject": true, "DeleteObjects": true,
}

// bodiless are the operations whose good answer may have no body, so that nobody can tell
// one from none.
var bodiless = map[string]bool{
	"DeleteMessage": true, "ChangeMessageVisibility": true, "PutObject": true, "GetObject": true, "DeleteObject": true,
}

// operationOf names the operation of a request.
func operationOf(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndexByte(target, '.')+1:]
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		return "DeleteObjects"
	case r.Method == http.MethodDelete:
		return "DeleteObject"
	case r.Method == http.MethodPut && key != "":
		return "PutObject"
	case key != "":
		return "GetObject"
	default:
		return "List"
	}
}

// shorter cuts an answer off in its middle.
func shorter(answer *http.Response) *http.Response {
	body, _ := io.ReadAll(answer.Body) // a recorded answer does not fail
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{}))
	return answer
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// refusal is how a service says that it does not take a request.
func refusal(f fate, q *request) *wire.Error {
	rows, messages := q.service() == "dynamodb", q.service() == "sqs"
	switch {
	case f == expired:
		return wire.Bad("InvalidArgument", "The continuation token provided is incorrect")
	case f == contended && q.operation == "TransactWriteItems":
		return &wire.Error{Status: http.StatusBadRequest, Code: "TransactionCanceledException", Fields: map[string]any{
			"CancellationReasons": []map[string]string{{"Code": "None"}, {"Code": "TransactionConflict"}},
		}}
	case f == contended:
		return wire.Bad("TransactionConflictException", "Transaction is ongoing for the item")
	case f == throttled && rows:
		return wire.Bad("ProvisionedThroughputExceededException", "slow down")
	case f == throttled && messages:
		return wire.Bad("ThrottlingException", "slow down")
	case f == throttled:
		return &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}
	case rows || messages:
		return wire.Bad("AccessDeniedException", "not allowed")
	default:
		return &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
	}
}

// internal is the code of an error that says nothing about what happened.
func internal(q *request) string {
	if q.service() != "s3" {
		return "InternalServerError"
	}
	return "InternalError"
}
