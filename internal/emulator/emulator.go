// Package emulator is an embedded AWS: the parts of S3, SQS, DynamoDB, Lambda and EventBridge Scheduler that Expunge uses, and of STS, CloudFormation and SNS that its operator asks, at the level of the wire.
//
// It runs in this process on loopback, keeps everything in memory, and takes its
// clock and its faults as inputs, so that a test can lose an answer after the
// effect or let a day pass. Other people's SDKs and command lines can talk to it.
// What it does not do it refuses. The checks in internal/emulator/conformance say
// what it must do like AWS; they run against any endpoint.
package emulator

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxBody caps a request's payload: an object of the embedded AWS is small.
const maxBody = 64 << 20

// AWS routes requests to its services.
type AWS struct {
	clock    wire.Clock
	faults   wire.Faults
	services map[string]wire.Service
}

// New returns an embedded AWS of the services.
func New(clock wire.Clock, faults wire.Faults, services ...wire.Service) *AWS {
	a := &AWS{clock: clock, faults: faults, services: map[string]wire.Service{}}
	for _, s := range services {
		a.services[s.Scope()] = s
	}
	return a
}

// ServeHTTP answers one request.
func (a *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	region, scope := wire.Scope(r)
	if scope == "" { // an unsigned request can only mean an object by its URL
		region, scope = "us-east-1", "s3"
	}
	service, ok := a.services[scope]
	if !ok {
		refuse(w, r, wire.Unsupported("the service "+scope))
		return
	}
	body, failed := wire.ReadBody(r, maxBody)
	if failed != nil {
		wire.WriteJSON(w, nil, failed)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body)) // the query protocol names its operation there
	request := &wire.Request{Request: r, ID: newID(), Region: region, Operation: service.Operation(r), Body: body}
	w.Header().Set("X-Amzn-RequestId", request.ID)
	fate := a.faults.Of(wire.Call{
		Service: scope, Region: region, Caller: wire.Caller(r), Operation: request.Operation, Resource: r.URL.Path, Query: r.URL.Query(),
		Header: r.Header, Body: body,
	})
	request.Request = r.WithContext(wire.WithFate(r.Context(), fate))
	fate.Apply(a.clock, w, func(w http.ResponseWriter) { service.Serve(w, request) })
}

// refuse answers in the protocol that an unknown service speaks, as far as a request
// shows it.
func refuse(w http.ResponseWriter, r *http.Request, err *wire.Error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		wire.WriteQuery(w, &wire.Request{Request: r, ID: newID()}, "", "", err)
		return
	}
	wire.WriteJSON(w, nil, err)
}

// Listen opens a listener for the embedded AWS. Anything but a loopback address is
// refused: it checks no signature.
func Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("emulator: %s is not a loopback address; the embedded AWS checks no signature and listens nowhere else", strings.TrimSpace(host))
	}
	return net.Listen("tcp", address)
}

// newID returns a request id in AWS's form.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
