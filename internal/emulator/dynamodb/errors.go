package dynamodb

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The namespaces in which DynamoDB's errors live. An SDK drops them; somebody who
// reads the wire expects them.
const (
	ofService    = "com.amazonaws.dynamodb.v20120810#"
	ofValidation = "com.amazon.coral.validate#"
	ofCoral      = "com.amazon.coral.service#"
)

const conditionFailed = "ConditionalCheckFailedException"

// invalid returns the error for a request that DynamoDB refuses to look into.
func invalid(format string, args ...any) *wire.Error {
	return wire.Bad(ofValidation+"ValidationException", fmt.Sprintf(format, args...))
}

// badParameter is the sentence that most of DynamoDB's validation errors begin with.
func badParameter(format string, args ...any) *wire.Error {
	return invalid("One or more parameter values were invalid: "+format, args...)
}

// constraint returns the error for one member of a request that its shape forbids.
func constraint(shown, member, rule string) *wire.Error {
	return invalid("1 validation error detected: Value %s at '%s' failed to satisfy constraint: %s", shown, member, rule)
}

// oneOf refuses a word that is not in the list; "" stands for an absent one.
func oneOf(member, word string, allowed ...string) *wire.Error {
	if word == "" {
		return nil
	}
	for _, a := range allowed {
		if word == a {
			return nil
		}
	}
	return constraint("'"+word+"'", member, "Member must satisfy enum value set: ["+strings.Join(allowed, ", ")+"]")
}

// refused returns an error of DynamoDB's own.
func refused(code, message string) *wire.Error { return wire.Bad(ofService+code, message) }

// inNamespace returns the error with a code in DynamoDB's form. Errors of the
// fault hook are written without a namespace.
func inNamespace(err *wire.Error) *wire.Error {
	if strings.Contains(err.Code, "#") || err.Status == http.StatusNotImplemented {
		return err
	}
	qualified := *err
	switch err.Code {
	case "ValidationException":
		qualified.Code = ofValidation + err.Code
	case "ThrottlingException", "SerializationException", "UnknownOperationException":
		qualified.Code = ofCoral + err.Code
	default:
		qualified.Code = ofService + err.Code
	}
	return &qualified
}

// plainCode returns the error's code without a namespace.
func plainCode(err *wire.Error) string {
	return err.Code[strings.LastIndexByte(err.Code, '#')+1:]
}
