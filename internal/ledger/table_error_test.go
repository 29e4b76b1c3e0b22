package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/failure"
)

// cancelled is a transaction's refusal with the reasons.
func cancelled(codes ...string) error {
	e := &types.TransactionCanceledException{}
	for _, c := range codes {
		e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(c), Message: aws.String("CANARY")})
	}
	return e
}

// TestDB08_TheReasonThatDecides: a conflict beside a lasting reason is not tried
// again, and a condition that did not hold is read again, whatever stands beside it.
func TestDB08_TheReasonThatDecides(t *testing.T) {
	for _, c := range []struct {
		reasons string
		class   failure.Class
		again   bool
	}{
		{"None TransactionConflict", failure.Conflict, true},
		{"TransactionConflict TransactionConflict", failure.Conflict, true},
		{"ConditionalCheckFailed TransactionConflict", failure.Conflict, false},
		{"TransactionConflict ConditionalCheckFailed", failure.Conflict, false},
		{"TransactionConflict ValidationError", failure.Invalid, false},
		{"ConditionalCheckFailed ValidationError", failure.Invalid, false},
		{"None ThrottlingError", failure.Throttled, false},
		{"ThrottlingError TransactionConflict", failure.Throttled, false},
		{"ThrottlingError ConditionalCheckFailed", failure.Conflict, false},
		{"None ProvisionedThroughputExceeded", failure.Throttled, false},
		{"None None", failure.Throttled, false},
	} {
		err := cancelled(strings.Fields(c.reasons)...)
		got := classify("op", err)
		if failure.Of(got) != c.class || contended(err) != c.again {
			t.Errorf("%s: %s, again %v; want %s, %v", c.reasons, failure.Of(got), contended(err), c.class, c.again)
		}
		if strings.Contains(got.Error(), "CANARY") {
			t.Errorf("%s: the service's words are kept: %v", c.reasons, got)
		}
	}
	if contended(errors.New("x")) || contended(nil) {
		t.Error("contention out of nothing")
	}
}

func TestEveryCodeHasItsClass(t *testing.T) {
	for class, codes := range map[failure.Class]string{
		failure.Conflict:  "ConditionalCheckFailedException TransactionConflictException TransactionInProgressException",
		failure.Throttled: "ProvisionedThroughputExceededException ThrottlingException RequestLimitExceeded",
		failure.Forbidden: "AccessDeniedException ResourceNotFoundException UnrecognizedClientException ExpiredTokenException",
		failure.Invalid:   "ValidationException ItemCollectionSizeLimitExceededException IdempotentParameterMismatchException",
	} {
		for _, code := range strings.Fields(codes) {
			if got, known := classOf(code); got != class || !known {
				t.Errorf("%s: %s, want %s", code, got, class)
			}
		}
	}
	if _, known := classOf("InternalServerError"); known {
		t.Error("a server error is judged by its status")
	}
}
