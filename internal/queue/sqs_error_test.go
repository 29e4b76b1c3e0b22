package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// wantClasses is what each code has to mean. It is written a second time here, so
// that a change of meaning is made twice.
func wantClasses() map[failure.Class][]string {
	return map[failure.Class][]string{
		failure.Throttled: {"KMS.ThrottlingException", "KmsThrottled", "OverLimit", "RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"},
		failure.Absent:    {"MessageNotInflight"},
		failure.Invalid:   {"InvalidMessageContents", "InvalidParameterValue", "MissingParameter", "ReceiptHandleIsInvalid"},
		failure.Forbidden: {
			"AccessDenied", "AccessDeniedException", "InvalidAddress", "InvalidClientTokenId", "InvalidSecurity", "KMS.AccessDeniedException",
			"KMS.DisabledException", "KMS.InvalidKeyUsageException", "KMS.InvalidStateException", "KMS.NotFoundException", "KMS.OptInRequired",
			"KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired",
			"MissingAuthenticationToken", "NonExistentQueue", "NotAuthorized", "OptInRequired", "QueueDoesNotExist", "SignatureDoesNotMatch",
			"UnrecognizedClientException",
		},
		failure.Network: {"InternalError", "InternalFailure", "ServiceUnavailable", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "RequestExpired"},
		failure.Bug: {
			"BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidAction", "InvalidAttributeName", "InvalidAttributeValue",
			"InvalidBatchEntryId", "InvalidIdFormat", "MalformedQueryString", "PurgeQueueInProgress", "QueueAlreadyExists", "QueueDeletedRecently",
			"QueueNameExists", "ResourceNotFoundException", "SerializationException", "TooManyEntriesInBatchRequest", "UnknownOperationException",
			"UnsupportedOperation", "ValidationError",
		},
	}
}

// serve returns queues on a server that answers everything with the one answer, and
// asks it once.
func serve(t *testing.T, handler http.HandlerFunc) *SQS {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	limits := sdk.Defaults()
	limits.Attempts = 1
	s := NewSQS(limits.Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	}), URLs{Enforce: server.URL + "/1/pages", ReportOnly: server.URL + "/1/report", Letters: server.URL + "/1/letters"})
	s.Worker = job.Enforce
	return s
}

func refusal(code, query string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amzn-RequestId", "R-1")
		if query != "" {
			w.Header().Set("X-Amzn-Query-Error", query+";Sender")
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"canary"}`, code)
	}
}

func TestSQSErrorCodes(t *testing.T) {
	n := 0
	for class, codes := range wantClasses() {
		for _, code := range codes {
			n++
			if classes[code] != class {
				t.Errorf("%s is %q, want %q", code, classes[code], class)
			}
			s := serve(t, refusal(code, "", http.StatusBadRequest))
			err := s.Ack(t.Context(), job.Enforce, job.Delivery{Handle: "h"})
			if !failure.Is(err, class) || err.Error() != "acknowledge message: "+string(class)+": "+code+", status 400, request R-1" {
				t.Errorf("%s: got %v, want %s", code, err, class)
			}
		}
	}
	if n != len(classes) {
		t.Errorf("%d codes in this test, %d in the table", n, len(classes))
	}
}

// Every error that SQS's model has is in the table, under both its codes.
func TestSQSErrorsOfTheModel(t *testing.T) {
	for _, e := range []smithy.APIError{
		&types.BatchEntryIdsNotDistinct{}, &types.BatchRequestTooLong{}, &types.EmptyBatchRequest{}, &types.InvalidAddress{},
		&types.InvalidAttributeName{}, &types.InvalidAttributeValue{}, &types.InvalidBatchEntryId{}, &types.InvalidIdFormat{},
		&types.InvalidMessageContents{}, &types.InvalidSecurity{}, &types.KmsAccessDenied{}, &types.KmsDisabled{}, &types.KmsInvalidKeyUsage{},
		&types.KmsInvalidState{}, &types.KmsNotFound{}, &types.KmsOptInRequired{}, &types.KmsThrottled{}, &types.MessageNotInflight{},
		&types.OverLimit{}, &types.PurgeQueueInProgress{}, &types.QueueDeletedRecently{}, &types.QueueDoesNotExist{}, &types.QueueNameExists{},
		&types.ReceiptHandleIsInvalid{}, &types.RequestThrottled{}, &types.ResourceNotFoundException{}, &types.TooManyEntriesInBatchRequest{},
		&types.UnsupportedOperation{},
	} {
		if _, known := classes[codeOf(e)]; !known {
			t.Errorf("%s has no class", e.ErrorCode())
		}
	}
	for _, row := range []struct {
		code, query string
		status      int
		want        failure.Class
	}{
		{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400, failure.Forbidden},
		{"MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400, failure.Absent},
		{"KmsThrottled", "KMS.ThrottlingException", 400, failure.Throttled},
		{"InvalidParameterValueException", "InvalidParameterValue", 400, failure.Invalid},
		{"InvalidParameterValueException", "", 400, failure.Invalid},
		{"MissingRequiredParameterException", "", 400, failure.Invalid},
		{"SomethingNew", "", 400, failure.Bug},
		{"SomethingNew", "", 401, failure.Forbidden},
		{"SomethingNew", "", 403, failure.Forbidden},
		{"SomethingNew", "", 429, failure.Throttled},
		{"SomethingNew", "", 500, failure.Network},
	} {
		s := serve(t, refusal(row.code, row.query, row.status))
		if err := s.DeadLetter(t.Context(), job.Letter{Body: []byte("x"), Reason: job.ReasonAge}); !failure.Is(err, row.want) {
			t.Errorf("%+v: got %v", row, err)
		}
	}
}

// The two codes that SQS has for a message which is not in flight any more.
func TestSQSNotInFlight(t *testing.T) {
	for _, code := range []string{"MessageNotInflight", "InvalidParameterValueException"} {
		s := serve(t, refusal(code, "", http.StatusBadRequest))
		if err := s.Delay(t.Context(), job.Delivery{Handle: "h"}, time.Second); !failure.Is(err, failure.Absent) {
			t.Errorf("delay: %s is %v", code, err)
		}
		if err := s.PutBack(t.Context(), job.DeadLetter{Delivery: job.Delivery{Handle: "h"}}); !failure.Is(err, failure.Absent) {
			t.Errorf("put back: %s is %v", code, err)
		}
	}
}

// What looks like success and proves nothing.
func TestSQSAnswersThatProveNothing(t *testing.T) {
	answer := func(body string) *SQS {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			_, _ = fmt.Fprint(w, body)
		})
	}
	msgs := []job.Message{{ID: "a", Body: []byte("a")}, {ID: "b", Body: []byte("b")}}
	for _, body := range []string{
		"", "{", "<html/>", `{"Successful":[{"Id":"2"}]}`, `{"Successful":[{"Id":"a"}]}`, `{"Successful":[{"Id":"-1"}]}`,
		`{"Successful":[{"Id":"0","MD5OfMessageBody":"0cc175b9c0f1b6a831c399e269772662"}]}`,
	} {
		accepted, err := answer(body).Send(t.Context(), job.Enforce, msgs)
		if len(accepted) > 0 || body != "" && !failure.Is(err, failure.Network) {
			t.Errorf("%q: accepted %v, %v", body, accepted, err)
		}
	}
	for _, body := range []string{"", "{}", `{"MD5OfMessageBody":"9dd4e461268c8034f5c8564e155c67a6"}`} {
		if err := answer(body).DeadLetter(t.Context(), job.Letter{Body: []byte("x"), Reason: job.ReasonAge}); !failure.Is(err, failure.Network) {
			t.Errorf("%q: a dead letter that nobody has: %v", body, err)
		}
	}
	for _, message := range []string{
		`{}`, `{"MessageId":"m","ReceiptHandle":"h","Body":"b"}`,
		`{"MessageId":"m","ReceiptHandle":"h","Body":"b","Attributes":{"SentTimestamp":"1","ApproximateReceiveCount":"x"}}`,
		`{"MessageId":"m","Body":"b","Attributes":{"SentTimestamp":"1","ApproximateReceiveCount":"1"}}`,
		`{"MessageId":"m","ReceiptHandle":"h","Body":"b","MD5OfBody":"0","Attributes":{"SentTimestamp":"1","ApproximateReceiveCount":"1"}}`,
	} {
		got, err := answer(`{"Messages":[`+message+`]}`).Receive(t.Context(), job.Enforce, 1)
		if len(got) > 0 || !failure.Is(err, failure.Network) {
			t.Errorf("%s: received %v, %v", message, got, err)
		}
	}
	// In another order than sent, and twice, is still said.
	accepted, err := answer(`{"Successful":[{"Id":"1"},{"Id":"0"},{"Id":"1"}]}`).Send(t.Context(), job.Enforce, msgs)
	if err != nil || fmt.Sprint(accepted) != "[a b]" {
		t.Errorf("accepted %v, %v", accepted, err)
	}
}

func TestSQSRetryAfter(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		refusal("RequestThrottled", "", http.StatusForbidden)(w, r)
	})
	if err := s.Ack(t.Context(), job.Enforce, job.Delivery{Handle: "h"}); failure.RetryAfter(err) != 7*time.Second {
		t.Errorf("%v after %v", err, failure.RetryAfter(err))
	}
}

func TestClassifyWithoutAnAnswer(t *testing.T) {
	for _, err := range []error{errors.New("canary"), context.Canceled, fmt.Errorf("over: %w", context.DeadlineExceeded)} {
		got := classify("op", err)
		if !failure.Is(got, failure.Network) || got.Error() == "op: network: canary" {
			t.Errorf("%v is %v", err, got)
		}
	}
	if classify("op", nil) != nil {
		t.Error("no error became one")
	}
}

func TestOrigin(t *testing.T) {
	u := URLs{Enforce: "https://sqs.eu-west-1.amazonaws.com/111122223333/pages", ReportOnly: "http://127.0.0.1:4566/111122223333/pages-report"}
	for arn, want := range map[string]job.Mode{
		"arn:aws:sqs:eu-west-1:111122223333:pages":        job.Enforce,
		"arn:aws:sqs:eu-west-1:111122223333:pages-report": job.ReportOnly,
		"arn:aws:sqs:eu-west-1:111122223333:report":       "",
		"arn:aws:sqs:eu-west-1:999922223333:pages":        "",
		"": "",
		"arn:aws:sqs:eu-west-1:111122223333:pages:more": "",
	} {
		if got := u.origin(arn); got != want {
			t.Errorf("%q comes from %q, want %q", arn, got, want)
		}
	}
	if got := (URLs{}).origin("arn:aws:sqs:eu-west-1:111122223333:pages"); got != "" {
		t.Errorf("without queues it comes from %q", got)
	}
}
