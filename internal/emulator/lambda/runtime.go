package lambda

import (
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// RuntimeAPI is the handler that function processes talk to, under
// /_runtime/<region>/<function>/<token>/2018-06-01/runtime/. The token tells the
// environments of a function apart. The service serves it on a listener of its
// own as soon as it has a binary.
func (s *Service) RuntimeAPI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hold() { // or a parked next would outlive Close
			refuseRuntime(w, http.StatusGone, "Runtime.Closed", errClosed.Error())
			return
		}
		defer s.running.Done()
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/_runtime/"), "/")
		if len(parts) < 6 || parts[3] != "2018-06-01" || parts[4] != "runtime" {
			refuseRuntime(w, http.StatusNotFound, "UnknownPath", "there is nothing at "+r.URL.Path)
			return
		}
		s.mu.Lock()
		e := s.environments[parts[2]]
		s.mu.Unlock()
		if e == nil || e.pool.function.Region != parts[0] || e.pool.function.Name != parts[1] {
			refuseRuntime(w, http.StatusForbidden, "UnknownEnvironment", "this environment is none of the function's")
			return
		}
		switch path := parts[5:]; {
		case r.Method == http.MethodGet && len(path) == 2 && path[0] == "invocation" && path[1] == "next":
			e.serveNext(w, r)
		case r.Method == http.MethodPost && len(path) == 3 && path[0] == "invocation" && path[2] == "response":
			e.serveResult(w, r, path[1], "")
		case r.Method == http.MethodPost && len(path) == 3 && path[0] == "invocation" && path[2] == "error":
			e.serveResult(w, r, path[1], unhandled)
		case r.Method == http.MethodPost && len(path) == 2 && path[0] == "init" && path[1] == "error":
			e.serveInitError(w, r)
		default:
			refuseRuntime(w, http.StatusNotFound, "UnknownPath", r.Method+" "+r.URL.Path+" is not part of the Runtime API")
		}
	})
}

// serveNext hands the environment its next invocation.
func (e *environment) serveNext(w http.ResponseWriter, r *http.Request) {
	i, inTurn := e.next(r.Context())
	switch {
	case !inTurn:
		refuseRuntime(w, http.StatusForbidden, "InvalidStateTransition", "the environment has not answered its invocation")
		return
	case i == nil:
		panic(http.ErrAbortHandler) // the process is gone, or the service is
	}
	f := e.pool.function
	deadline := f.service.clock.Now().Add(f.Timeout)
	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", f.arn())
	h.Set("Lambda-Runtime-Trace-Id", i.trace)
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(i.payload) // a process that does not read it runs into its timeout
}

// serveResult takes the answer of an invocation.
func (e *environment) serveResult(w http.ResponseWriter, r *http.Request, id, functionError string) {
	body, err := readResult(r)
	if err != nil {
		refuseRuntime(w, err.Status, err.Code, err.Message)
		if err.Status == http.StatusRequestEntityTooLarge {
			e.finish(id, Result{FunctionError: unhandled, Payload: describe("Function.ResponseSizeTooLarge", err.Message)})
		}
		return
	}
	// SDKs stream, and a stream that breaks off reports its error in the trailer.
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" {
		functionError, body = unhandled, describe(kind, "the response broke off")
		if report, err := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body")); err == nil && len(report) > 0 {
			body = report
		}
	}
	if !e.finish(id, Result{Payload: body, FunctionError: functionError}) {
		refuseRuntime(w, http.StatusBadRequest, "InvalidRequestID", "the environment does not run the invocation "+id)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`) // the process needs only the status
}

// readResult reads an answer of at most what Lambda gives back.
func readResult(r *http.Request) ([]byte, *wire.Error) {
	body, err := wire.ReadBody(r, maxPayload)
	if err != nil && err.Status == http.StatusRequestEntityTooLarge {
		err.Message = "Response payload size exceeded maximum allowed payload size (6291556 bytes)."
	}
	return body, err
}

// serveInitError takes the reason why an environment could not start.
func (e *environment) serveInitError(w http.ResponseWriter, r *http.Request) {
	body, err := readResult(r)
	if err != nil {
		refuseRuntime(w, err.Status, err.Code, err.Message)
		return
	}
	p := e.pool
	p.mu.Lock()
	inTurn := e.state == starting
	if inTurn {
		e.initial = body
	}
	p.mu.Unlock()
	if !inTurn {
		refuseRuntime(w, http.StatusForbidden, "InvalidStateTransition", "the environment has started")
		return
	}
	w.WriteHeader(http.StatusAccepted)
	e.kill() // the start has failed, whether the process ends by itself or not
}

// refuseRuntime answers a process that does not keep to the protocol.
func refuseRuntime(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(describe(kind, message)) // the status says enough
}
