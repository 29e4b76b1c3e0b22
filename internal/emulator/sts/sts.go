// Package sts is the embedded AWS's STS: it tells a caller who he is, and nothing else.
//
// An operator's tool asks before anything else whose account it is about to
// change. The answer is the one account there is, and as the user the access key
// that signed: the same name by which a bucket's policy denies and a fault hook
// knows its callers. No credentials are given out.
package sts

import (
	"net/http"
	"strconv"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/"

// Service is STS. It keeps nothing.
type Service struct{}

var _ wire.Service = (*Service)(nil)

// New returns an STS.
func New() *Service { return &Service{} }

// Scope is the service's name in a credential scope.
func (*Service) Scope() string { return "sts" }

// Operation names the operation of a request.
func (*Service) Operation(r *http.Request) string { return wire.Action(r) }

// Serve answers a request.
func (*Service) Serve(w http.ResponseWriter, r *wire.Request) {
	result, err := answer(r)
	wire.WriteQuery(w, r, namespace, result, err)
}

func answer(r *wire.Request) (string, *wire.Error) {
	if injected := wire.FateOf(r.Context()).Error; injected != nil {
		return "", injected
	}
	if r.Operation != "GetCallerIdentity" {
		return "", wire.Unsupported("the STS operation " + strconv.Quote(r.Operation))
	}
	if _, err := wire.Form(r); err != nil {
		return "", err
	}
	key := wire.Caller(r.Request)
	if key == "" {
		return "", &wire.Error{Status: http.StatusForbidden, Code: "InvalidClientTokenId", Message: "The security token included in the request is invalid."}
	}
	return wire.Element("Arn", wire.UserARN(key)) + wire.Element("UserId", key) + wire.Element("Account", wire.Account), nil
}
