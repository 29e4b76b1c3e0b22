package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// front stands before ministack, and everything in the test talks to it. It changes
// what a deployed function would find otherwise on AWS:
//
//   - Every request is plain HTTP, and the policies refuse that (aws:SecureTransport).
//     The front says what a proxy that ends TLS would say.
//   - An answer to BatchGetItem has no ConsumedCapacity, although it was asked for. The
//     ledger takes no answer that does not say what it cost.
//   - An answer to ListObjectVersions does not say how its keys are encoded, although
//     an encoding was asked for, and the client takes no such answer either.
//
// And it can refuse deletes below a prefix for a while, as S3 does when it is asked too
// often.
type front struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	busy    string // prefix of keys; "" for none
	refused int
	mended  map[string]int // answers by what was mended of them
}

// The answers that are mended.
const (
	cost     = "ConsumedCapacity of BatchGetItem"
	encoding = "EncodingType of ListObjectVersions"
)

// openFront listens on a free port of loopback until the test ends.
func openFront(t *testing.T, behind string, into io.Writer) *front {
	t.Helper()
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{url: "http://" + listener.Addr().String(), mended: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
			r.Out.Header.Set("X-Forwarded-Proto", "https")
		},
		ModifyResponse: f.mend,
		ErrorLog:       log.New(into, "front: ", 0),
	}
	f.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuses(r) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprint(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = f.server.Serve(listener) }() // ends with Close, which is the only error it can have
	t.Cleanup(func() { _ = f.server.Close() })
	return f
}

// mend puts into an answer what it lacks.
func (f *front) mend(r *http.Response) error {
	mend, what := sayCost, cost
	switch {
	case r.StatusCode != http.StatusOK:
		return nil
	case strings.HasSuffix(r.Request.Header.Get("X-Amz-Target"), ".BatchGetItem"):
	case r.Request.URL.Query().Has("versions") && r.Request.URL.Query().Get("encoding-type") == "url":
		mend, what = sayEncoding, encoding
	default:
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	changed, err := mend(body)
	if err != nil {
		return err
	}
	if !bytes.Equal(changed, body) {
		f.mu.Lock()
		f.mended[what]++
		f.mu.Unlock()
	}
	r.Body = io.NopCloser(bytes.NewReader(changed))
	r.ContentLength = int64(len(changed))
	r.Header.Set("Content-Length", strconv.Itoa(len(changed)))
	r.Header.Del("X-Amz-Crc32") // of the body that came
	return nil
}

// sayCost adds what the answer cost.
func sayCost(body []byte) ([]byte, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if _, has := answer["ConsumedCapacity"]; has {
		return body, nil
	}
	answer["ConsumedCapacity"] = json.RawMessage(`[{"CapacityUnits":1}]`)
	return json.Marshal(answer)
}

// odd is a key that its encoding would change. The test has none.
var odd = regexp.MustCompile(`<(?:Key|KeyMarker|NextKeyMarker)>[^<]*[^<A-Za-z0-9/._-]`)

// sayEncoding adds that the keys are encoded.
func sayEncoding(body []byte) ([]byte, error) {
	if bytes.Contains(body, []byte("<EncodingType>")) {
		return body, nil
	}
	if odd.Match(body) {
		return nil, errors.New("a key is not encoded")
	}
	return bytes.Replace(body, []byte("<IsTruncated>"), []byte("<EncodingType>url</EncodingType><IsTruncated>"), 1), nil
}

// refuses reports whether a request deletes below the busy prefix.
func (f *front) refuses(r *http.Request) bool {
	f.mu.Lock()
	busy := f.busy
	f.mu.Unlock()
	if busy == "" || r.Method != http.MethodPost || !r.URL.Query().Has("delete") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte("<Key>"+busy)) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
	return true
}

// keepBusy has deletes below the prefix refused until it is called with "", and returns
// how many were.
func (f *front) keepBusy(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = prefix
	return f.refused
}

// check fails when a repair has become needless, so that none outlives its reason.
func (f *front) check(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, what := range []string{cost, encoding} {
		if f.mended[what] == 0 {
			t.Errorf("the %s was never missing: take the repair away", what)
		}
	}
}
