package queue

import (
	"errors"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// invalidParameter is the code of most of what SQS refuses.
const invalidParameter = "InvalidParameterValue"

// classes lists every code that SQS may give for what we ask, without the prefix
// that it has from the query protocol:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
var classes = map[string]failure.Class{
	// Refused for rate, or for how much is in flight.
	"KMS.ThrottlingException": failure.Throttled,
	"KmsThrottled":            failure.Throttled,
	"OverLimit":               failure.Throttled,
	"RequestLimitExceeded":    failure.Throttled,
	"RequestThrottled":        failure.Throttled,
	"Throttling":              failure.Throttled,
	"ThrottlingException":     failure.Throttled,

	// The message is gone, or somebody else has it.
	"MessageNotInflight": failure.Absent,

	// The message can never be sent, or the handle is none.
	"InvalidMessageContents": failure.Invalid,
	invalidParameter:         failure.Invalid,
	"MissingParameter":       failure.Invalid,
	"ReceiptHandleIsInvalid": failure.Invalid,

	// Refused until somebody mends the deployment: a queue or a key that is not there, or
	// may not be used. A queue that is not there is not failure.Absent, which would say
	// that there is nothing to do.
	"AccessDenied":                 failure.Forbidden,
	"AccessDeniedException":        failure.Forbidden,
	"InvalidAddress":               failure.Forbidden,
	"InvalidClientTokenId":         failure.Forbidden,
	"InvalidSecurity":              failure.Forbidden,
	"KMS.AccessDeniedException":    failure.Forbidden,
	"KMS.DisabledException":        failure.Forbidden,
	"KMS.InvalidKeyUsageException": failure.Forbidden,
	"KMS.InvalidStateException":    failure.Forbidden,
	"KMS.NotFoundException":        failure.Forbidden,
	"KMS.OptInRequired":            failure.Forbidden,
	"KmsAccessDenied":              failure.Forbidden,
	"KmsDisabled":                  failure.Forbidden,
	"KmsInvalidKeyUsage":           failure.Forbidden,
	"KmsInvalidState":              failure.Forbidden,
	"KmsNotFound":                  failure.Forbidden,
	"KmsOptInRequired":             failure.Forbidden,
	"MissingAuthenticationToken":   failure.Forbidden,
	"NonExistentQueue":             failure.Forbidden,
	"NotAuthorized":                failure.Forbidden,
	"OptInRequired":                failure.Forbidden,
	"QueueDoesNotExist":            failure.Forbidden,
	"SignatureDoesNotMatch":        failure.Forbidden,
	"UnrecognizedClientException":  failure.Forbidden,

	// Says nothing about the effect.
	"InternalError":      failure.Network,
	"InternalFailure":    failure.Network,
	"ServiceUnavailable": failure.Network,

	// Signed with what is old by now: it heals by itself.
	"ExpiredToken":          failure.Network,
	"ExpiredTokenException": failure.Network,
	"IncompleteSignature":   failure.Network,
	"RequestExpired":        failure.Network,

	// Requests that we never make.
	"BatchEntryIdsNotDistinct":     failure.Bug,
	"BatchRequestTooLong":          failure.Bug,
	"EmptyBatchRequest":            failure.Bug,
	"InvalidAction":                failure.Bug,
	"InvalidAttributeName":         failure.Bug,
	"InvalidAttributeValue":        failure.Bug,
	"InvalidBatchEntryId":          failure.Bug,
	"InvalidIdFormat":              failure.Bug,
	"MalformedQueryString":         failure.Bug,
	"PurgeQueueInProgress":         failure.Bug,
	"QueueAlreadyExists":           failure.Bug,
	"QueueDeletedRecently":         failure.Bug,
	"QueueNameExists":              failure.Bug,
	"ResourceNotFoundException":    failure.Bug,
	"SerializationException":       failure.Bug,
	"TooManyEntriesInBatchRequest": failure.Bug,
	"UnknownOperationException":    failure.Bug,
	"UnsupportedOperation":         failure.Bug,
	"ValidationError":              failure.Bug,
}

// codeOf returns the code of an error that SQS answered, "" when it answered none.
// The SDK shows the code of the query protocol where the answer has it.
func codeOf(err error) string {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return ""
	}
	switch code := strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService."); code {
	case "InvalidParameterValueException":
		return invalidParameter
	case "MissingRequiredParameterException":
		return "MissingParameter"
	default:
		return code
	}
}

// classify gives an error of the SDK its class. A nil err stays nil.
func classify(op string, err error) error {
	return sdk.Classify(op, err, codeOf(err), func(code string) (failure.Class, bool) {
		class, known := classes[code]
		return class, known
	})
}
