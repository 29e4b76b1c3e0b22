package sdk

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/failure"
)

// requestID is what an id of a request looks like. It may be logged, which no other
// words of a service or of the SDK may: they can hold a key or a body.
var requestID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// Code returns the code that a service answered with, "" when it did not answer.
func Code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// Classify gives an error of the SDK its class, and words of ours: the code where
// it is a known one, the status, the request's id. Which class a code has is the
// service's adapter to say; one that it does not know is judged by the status. A
// nil err stays nil, and an error that has a class already keeps it.
func Classify(op string, err error, code string, classOf func(code string) (failure.Class, bool)) error {
	if err == nil {
		return nil
	}
	for _, over := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, over) {
			return failure.Wrap(failure.Network, op, over)
		}
	}
	if ours, ok := errors.AsType[*failure.Error](err); ok { // refused before it was signed
		return failure.Wrap(ours.Class, op, ours.Err)
	}
	if code == "" {
		return failure.New(failure.Network, op, "no answer")
	}
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	class, known := classOf(code)
	text := code
	if !known {
		class, text = byStatus(response), "an unknown code"
	}
	e := &failure.Error{Class: class, Op: op}
	if answered {
		header := response.Response.Header
		text += ", status " + strconv.Itoa(response.HTTPStatusCode())
		for _, name := range []string{"X-Amz-Request-Id", "X-Amzn-RequestId"} {
			if id := header.Get(name); requestID.MatchString(id) {
				text += ", request " + id
				break // a service says it under one name, and what stands between may add the other
			}
		}
		e.RetryAfter = retryAfter(header)
	}
	e.Err = errors.New(text)
	return e
}

// byStatus is the class of an error whose code nobody knows.
func byStatus(response *smithyhttp.ResponseError) failure.Class {
	if response == nil {
		return failure.Bug
	}
	switch status := response.HTTPStatusCode(); {
	case status == http.StatusTooManyRequests:
		return failure.Throttled
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return failure.Forbidden
	case status >= http.StatusInternalServerError:
		return failure.Network
	default:
		return failure.Bug
	}
}

// retryAfter reads how long the service asks to wait, 0 when it does not say.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
