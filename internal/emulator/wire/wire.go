// Package wire is what the services of the embedded AWS share: requests, errors, faults and time.
//
// A service is asked by the region and name in the credential scope that every
// SDK signs into a request; the signature itself is not checked, for the server
// listens on loopback only and keeps nothing worth protecting. What a service does
// not do it answers with an error, never with a silent success: code that passes
// here must not have been let through.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// Account is the account number of everything the embedded AWS names.
const Account = "000000000000"

// Request is one call of one service, taken apart as far as all services agree.
type Request struct {
	*http.Request
	ID     string // x-amzn-RequestId of the answer
	Region string
	// Operation is the API's name for it, such as "PutObject".
	Operation string
	// Body is the whole payload; the services read it once.
	Body []byte
}

// Service answers the requests of one AWS service in every region.
type Service interface {
	// Scope is the service's name in a credential scope, such as "dynamodb".
	Scope() string
	// Operation names the API operation of a request, "" when there is none like it.
	Operation(r *http.Request) string
	// Serve answers it. The fault hook has been asked before.
	Serve(w http.ResponseWriter, r *Request)
}

// Target returns the operation that the X-Amz-Target header of a JSON protocol
// names behind the service's prefix, "" when it names none of the service's.
func Target(r *http.Request, prefix string) string {
	operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), prefix)
	if !ok {
		return ""
	}
	return operation
}

// Scope returns the region and the service of a request's credential scope, in
// its header or, for a presigned request, in its query. Both are "" without one.
func Scope(r *http.Request) (region, service string) {
	// The access key may hold slashes; date, region, service and aws4_request can not.
	if parts := credential(r); len(parts) >= 5 {
		return parts[len(parts)-3], parts[len(parts)-2]
	}
	return "", ""
}

// Caller returns the access key of a request's credential, "" without one.
func Caller(r *http.Request) string {
	if parts := credential(r); len(parts) >= 5 {
		return strings.Join(parts[:len(parts)-4], "/")
	}
	return ""
}

// UserARN names the user to whom an access key belongs. Here every key is a user of
// its own, with the key for its name.
func UserARN(key string) string { return "arn:aws:iam::" + Account + ":user/" + key }

func credential(r *http.Request) []string {
	text := r.URL.Query().Get("X-Amz-Credential")
	if _, rest, ok := strings.Cut(r.Header.Get("Authorization"), "Credential="); ok {
		text, _, _ = strings.Cut(rest, ",")
	}
	return strings.Split(strings.TrimSpace(text), "/")
}

// StableID returns an id in the form of a UUID: always the same for the same text.
func StableID(text string) string {
	sum := sha256.Sum256([]byte(text))
	h := hex.EncodeToString(sum[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32]
}

// Error is an answer that AWS would give instead of a result.
type Error struct {
	Status  int
	Code    string
	Message string
	// Fields are merged into a JSON error body, such as the item of a failed
	// condition or the reasons of a cancelled transaction.
	Fields map[string]any
	// Query is the code of the older query protocol, sent in a header where a
	// service was moved to JSON and its SDKs still look for it.
	Query string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Bad returns a client error with status 400.
func Bad(code, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: message}
}

// Unsupported is the answer to everything that the embedded AWS does not do.
func Unsupported(what string) *Error {
	return &Error{Status: http.StatusNotImplemented, Code: "NotImplemented", Message: "the embedded AWS does not offer " + what}
}

// WriteJSON answers with an AWS JSON 1.0 body: the result, or the error.
func WriteJSON(w http.ResponseWriter, result any, err *Error) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err != nil {
		body := map[string]any{"__type": err.Code, "message": err.Message}
		for k, v := range err.Fields {
			body[k] = v
		}
		if err.Query != "" {
			w.Header().Set("X-Amzn-Query-Error", err.Query+";Sender")
		}
		w.WriteHeader(err.Status)
		result = body
	}
	_ = json.NewEncoder(w).Encode(result) // a client that has gone can not be told
}

// ReadBody reads a request's whole payload, at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, *Error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, Bad("IncompleteBody", "the body ended early")
	case int64(len(body)) > limit:
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Code: "RequestEntityTooLarge", Message: "the body is too large"}
	}
	return body, nil
}
