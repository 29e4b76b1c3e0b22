package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// hideNothing asks for a visibility timeout of 0. The SDK takes a 0 for a field that
// was not set and leaves it out, after which the queue's own timeout would hide what
// was only looked at; so the field is put into the request it has written.
func hideNothing(stack *middleware.Stack) error {
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("HideNothing",
		func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (middleware.SerializeOutput, middleware.Metadata, error) {
			request, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return middleware.SerializeOutput{}, middleware.Metadata{}, fmt.Errorf("queue: a request of type %T", in.Request)
			}
			body, err := io.ReadAll(request.GetStream())
			if err == nil {
				body, err = withField(body, "VisibilityTimeout", "0")
			}
			if err == nil {
				request, err = request.SetStream(bytes.NewReader(body))
			}
			if err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{}, err
			}
			in.Request = request
			return next.HandleSerialize(ctx, in)
		}), middleware.After)
}

// withField sets a field of a JSON object.
func withField(object []byte, name, value string) ([]byte, error) {
	fields := map[string]jsontext.Value{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	fields[name] = jsontext.Value(value)
	return json.Marshal(fields, json.Deterministic(true))
}
