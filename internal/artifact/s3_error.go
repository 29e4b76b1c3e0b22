package artifact

import (
	"errors"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// The operations, as errors name them.
const (
	opList   = "list items"
	opDelete = "delete items"
	opLook   = "look at versions"
)

// meaning is what an error code says about one item of a delete, and about a call
// as a whole. An item without a meaning of its own is job.NoAnswer.
type meaning struct {
	item job.Answer
	call failure.Class
}

// meanings lists every code that S3 may give for what we ask:
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
var meanings = map[string]meaning{
	// Nothing stands there, or something else does.
	"NoSuchKey":          {job.NotThere, failure.Absent},
	"NoSuchVersion":      {job.NotThere, failure.Absent},
	"PreconditionFailed": {job.Differs, failure.Conflict},

	// Another request for the same key was quicker; nothing happened.
	"ConditionalRequestConflict": {job.Slow, failure.Conflict},
	"OperationAborted":           {job.Slow, failure.Conflict},

	// Refused for rate.
	"BandwidthLimitExceeded":   {job.Slow, failure.Throttled},
	"RequestLimitExceeded":     {job.Slow, failure.Throttled},
	"SlowDown":                 {job.Slow, failure.Throttled},
	"Throttling":               {job.Slow, failure.Throttled},
	"ThrottlingException":      {job.Slow, failure.Throttled},
	"TooManyRequestsException": {job.Slow, failure.Throttled},

	// A missing permission, MFA delete, requester pays, or a lock: see refusal.
	"AccessDenied": {job.Denied, failure.Forbidden},

	// Refused for good.
	"AccountProblem":        {job.Denied, failure.Forbidden},
	"AllAccessDisabled":     {job.Denied, failure.Forbidden},
	"InvalidAccessKeyId":    {job.Denied, failure.Forbidden},
	"InvalidObjectState":    {job.Denied, failure.Forbidden},
	"InvalidPayer":          {job.Denied, failure.Forbidden},
	"InvalidSecurity":       {job.Denied, failure.Forbidden},
	"InvalidToken":          {job.Denied, failure.Forbidden},
	"MethodNotAllowed":      {job.Denied, failure.Forbidden},
	"NotSignedUp":           {job.Denied, failure.Forbidden},
	"SignatureDoesNotMatch": {job.Denied, failure.Forbidden},
	"UnauthorizedAccess":    {job.Denied, failure.Forbidden},

	// Can never work, for this item.
	"InvalidArgument": {job.Denied, failure.Invalid},
	"KeyTooLongError": {job.Denied, failure.Invalid},
	"NotImplemented":  {job.Denied, failure.Invalid},

	// Can never work, for any item.
	"AuthorizationHeaderMalformed": {job.NoAnswer, failure.Invalid},
	"InvalidBucketName":            {job.NoAnswer, failure.Invalid},
	"InvalidRequest":               {job.NoAnswer, failure.Invalid},
	"InvalidURI":                   {job.NoAnswer, failure.Invalid},
	"MalformedXML":                 {job.NoAnswer, failure.Invalid},
	"PermanentRedirect":            {job.NoAnswer, failure.Invalid},
	"NoSuchBucket":                 {job.NoAnswer, failure.Absent},

	// Says nothing about the effect.
	"InternalError":      {job.Unsure, failure.Network},
	"RequestTimeout":     {job.Unsure, failure.Network},
	"ServiceUnavailable": {job.Unsure, failure.Network},
	"TemporaryRedirect":  {job.Unsure, failure.Network},

	// Spoilt on the way, or signed with what is old by now: it heals by itself.
	"BadDigest":                 {job.Unsure, failure.Network},
	"ExpiredToken":              {job.Unsure, failure.Network},
	"IncompleteBody":            {job.Unsure, failure.Network},
	"InvalidDigest":             {job.Unsure, failure.Network},
	"RequestExpired":            {job.Unsure, failure.Network},
	"RequestTimeTooSkewed":      {job.Unsure, failure.Network},
	"TokenRefreshRequired":      {job.Unsure, failure.Network},
	"XAmzContentSHA256Mismatch": {job.Unsure, failure.Network},
}

// refusal is the answer for an item by the code of its error. A locked version
// and a missing permission have the same code, and only the words differ; where
// the words are not known it is the refusal, which ends at an operator (S3-17).
func refusal(code, message string) job.Answer {
	m, known := meanings[code]
	switch {
	case code == "AccessDenied" && strings.Contains(strings.ToLower(message), "object lock"):
		return job.Locked
	case !known || m.item == job.NoAnswer:
		return job.Unsure
	default:
		return m.item
	}
}

// answerOf is the answer for an item that was asked about alone, or else the
// error of the call.
func answerOf(op string, err error) (job.Answer, error) {
	if api, ok := errors.AsType[smithy.APIError](err); ok && meanings[api.ErrorCode()].item != job.NoAnswer {
		if answer := refusal(api.ErrorCode(), api.ErrorMessage()); answer != job.Unsure {
			return answer, nil
		}
	}
	return job.NoAnswer, classify(op, err)
}

// classify gives an error of the SDK its class.
func classify(op string, err error) error {
	return sdk.Classify(op, err, sdk.Code(err), func(code string) (failure.Class, bool) {
		m, known := meanings[code]
		return m.call, known
	})
}
