package sqs

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The namespaces in which SQS's errors live. An SDK drops them; somebody who reads
// the wire expects them.
const (
	ofService = "com.amazonaws.sqs#"
	ofCoral   = "com.amazon.coral.service#"
)

// ofQuery is what most codes began with when SQS spoke the query protocol. SDKs
// still show their users those codes, from a header of the answer.
const ofQuery = "AWS.SimpleQueueService."

const (
	invalidParameter = "InvalidParameterValueException"
	missingParameter = "MissingRequiredParameterException"
	noSuchResource   = "ResourceNotFoundException"
)

func invalid(format string, args ...any) *wire.Error {
	return wire.Bad(invalidParameter, fmt.Sprintf(format, args...))
}

// badValue is the sentence that most of SQS's validation errors are made of.
func badValue(value any, parameter, reason string) *wire.Error {
	return invalid("Value %v for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

func missing(parameter string) *wire.Error {
	return wire.Bad(missingParameter, "The request must contain the parameter "+parameter+".")
}

func noQueue() *wire.Error {
	return wire.Bad("QueueDoesNotExist", "The specified queue does not exist.")
}

func notFound(message string) *wire.Error {
	return &wire.Error{Status: http.StatusNotFound, Code: noSuchResource, Message: message}
}

func overLimit(code, message string) *wire.Error {
	return &wire.Error{Status: http.StatusForbidden, Code: code, Message: message}
}

// inForm returns the error as the JSON protocol carries it. Inside this package, and
// in the fault hook, a code stands without its namespace.
func inForm(err *wire.Error) *wire.Error {
	if err == nil || err.Status == http.StatusNotImplemented || strings.Contains(err.Code, "#") {
		return err
	}
	formed := *err
	namespace, query := forms(err.Code)
	formed.Code = namespace + err.Code
	if err.Status < http.StatusInternalServerError { // the header can only blame the sender
		formed.Query = query
	}
	return &formed
}

// forms returns the namespace of a code, and its code in the query protocol.
func forms(code string) (namespace, query string) {
	switch code {
	case invalidParameter:
		return ofCoral, "InvalidParameterValue"
	case missingParameter:
		return ofCoral, "MissingParameter"
	case "AccessDeniedException":
		return ofCoral, "AccessDenied"
	case "QueueDoesNotExist":
		return ofService, ofQuery + "NonExistentQueue"
	case "QueueNameExists":
		return ofService, "QueueAlreadyExists"
	case "KmsThrottled":
		return ofService, "KMS.ThrottlingException"
	case "KmsOptInRequired":
		return ofService, "KMS.OptInRequired"
	case "KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound":
		return ofService, "KMS." + strings.TrimPrefix(code, "Kms") + "Exception"
	case "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId", "MessageNotInflight",
		"PurgeQueueInProgress", "QueueDeletedRecently", "TooManyEntriesInBatchRequest", "UnsupportedOperation":
		return ofService, ofQuery + code
	case "InvalidAddress", "InvalidAttributeName", "InvalidAttributeValue", "InvalidIdFormat", "InvalidMessageContents",
		"InvalidSecurity", "OverLimit", "ReceiptHandleIsInvalid", "RequestThrottled", noSuchResource:
		return ofService, code
	default:
		return ofCoral, ""
	}
}

// plainCode returns the code that stands in a batch's failed entry and in an XML
// error.
func plainCode(err *wire.Error) string {
	if _, query := forms(err.Code); query != "" {
		return query
	}
	return err.Code
}
