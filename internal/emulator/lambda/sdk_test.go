package lambda_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// serve puts the service behind a loopback server and returns an SDK client for it.
func serve(t *testing.T, s *lambda.Service, faults wire.Faults) (client *sdk.Client, url string) {
	t.Helper()
	server := httptest.NewServer(emulator.New(wire.Wall{}, faults, s))
	t.Cleanup(server.Close)
	return sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:  server.Client(),
	}), server.URL
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func TestSDKInvoke(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	ran := make(chan string, 4)
	register(t, s, lambda.Function{Name: "f", Handler: func(_ context.Context, payload []byte) ([]byte, error) {
		ran <- string(payload)
		if string(payload) == `"fail"` {
			return nil, errRefused
		}
		return []byte(`{"ok":1}`), nil
	}})
	client, _ := serve(t, s, nil)
	name := aws.String("f")

	out, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: name, Payload: []byte(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if out.StatusCode != 200 || out.FunctionError != nil || string(out.Payload) != `{"ok":1}` ||
		aws.ToString(out.ExecutedVersion) != "$LATEST" || <-ran != `{"a":1}` {
		t.Fatalf("got %+v: %s", out, out.Payload)
	}

	out, err = client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: name, Payload: []byte(`"fail"`)})
	if err != nil {
		t.Fatal(err)
	}
	if out.StatusCode != 200 || aws.ToString(out.FunctionError) != "Unhandled" ||
		string(out.Payload) != `{"errorMessage":"refused","errorType":"errorString"}` || <-ran != `"fail"` {
		t.Fatalf("got %+v: %s", out, out.Payload)
	}

	out, err = client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: name, InvocationType: types.InvocationTypeEvent, Payload: []byte(`7`)})
	if err != nil || out.StatusCode != http.StatusAccepted || <-ran != "7" {
		t.Fatalf("got %+v, %v", out, err)
	}

	out, err = client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: name, InvocationType: types.InvocationTypeDryRun})
	if err != nil || out.StatusCode != http.StatusNoContent || len(ran) != 0 {
		t.Fatalf("got %+v, %v", out, err)
	}
}

func TestSDKInvokeRefused(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	register(t, s, lambda.Function{Name: "f", Handler: answering("1", nil)})
	client, _ := serve(t, s, nil)
	for _, c := range []struct {
		name, code string
		in         sdk.InvokeInput
	}{
		{"an unknown function", "ResourceNotFoundException", sdk.InvokeInput{FunctionName: aws.String("g")}},
		{"another version", "ResourceNotFoundException", sdk.InvokeInput{FunctionName: aws.String("f"), Qualifier: aws.String("PROD")}},
		{"no JSON", "InvalidRequestContentException", sdk.InvokeInput{FunctionName: aws.String("f"), Payload: []byte("{")}},
		{"over six megabytes", "RequestTooLargeException", sdk.InvokeInput{FunctionName: aws.String("f"), Payload: []byte(`"` + strings.Repeat("x", 6<<20) + `"`)}},
		{"an event over one megabyte", "RequestTooLargeException", sdk.InvokeInput{FunctionName: aws.String("f"), InvocationType: types.InvocationTypeEvent, Payload: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}},
		{"an unknown type", "InvalidParameterValueException", sdk.InvokeInput{FunctionName: aws.String("f"), InvocationType: "Later"}},
		{"a log", "NotImplemented", sdk.InvokeInput{FunctionName: aws.String("f"), LogType: types.LogTypeTail}},
		{"a client context", "NotImplemented", sdk.InvokeInput{FunctionName: aws.String("f"), ClientContext: aws.String("e30=")}},
		{"a tenant", "NotImplemented", sdk.InvokeInput{FunctionName: aws.String("f"), TenantId: aws.String("acme")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := client.Invoke(t.Context(), &c.in)
			wantCode(t, err, c.code)
		})
	}
	if got := s.Metrics(region, "f"); got.Invocations != 0 {
		t.Fatalf("got %+v", got)
	}
}

func TestSDKReads(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	register(t, s, lambda.Function{
		Name: "f", Timeout: time.Minute, Concurrency: 7, Handler: answering("1", nil),
		Env: []string{"EXPUNGE_TABLE=old", "EXPUNGE_TABLE=ledger=1", "EXPUNGE_EMPTY=", "AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID=f", "AWS_REGION=x"},
	})
	register(t, s, lambda.Function{Name: "g", Handler: answering("1", nil)})
	register(t, s, lambda.Function{Name: "h", Region: "us-east-1", Handler: answering("1", nil)})
	id, err := s.Map(lambda.Mapping{
		Region: region, Function: "f", Queue: queueARN, Source: newMemory(clock, 6*time.Minute),
		BatchSize: 4, MaximumConcurrency: 5, ReportBatchItemFailures: true, Window: time.Second, Stepped: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := serve(t, s, nil)

	function, err := client.GetFunction(t.Context(), &sdk.GetFunctionInput{FunctionName: aws.String("f")})
	if err != nil {
		t.Fatal(err)
	}
	if c := function.Configuration; aws.ToInt32(c.Timeout) != 60 || c.State != types.StateActive ||
		aws.ToInt32(function.Concurrency.ReservedConcurrentExecutions) != 7 {
		t.Fatalf("got %+v", function)
	}
	c := function.Configuration
	if got := c.Environment.Variables; !maps.Equal(got, map[string]string{"EXPUNGE_TABLE": "ledger=1", "EXPUNGE_EMPTY": "", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}) {
		t.Errorf("the environment is %v", got)
	}
	architecture := map[string]types.Architecture{"amd64": types.ArchitectureX8664, "arm64": types.ArchitectureArm64}[runtime.GOARCH]
	modified, err := time.Parse("2006-01-02T15:04:05.000-0700", aws.ToString(c.LastModified))
	if err != nil || !modified.Equal(start) || !slices.Equal(c.Architectures, []types.Architecture{architecture}) {
		t.Errorf("modified at %s, architectures %v, %v", aws.ToString(c.LastModified), c.Architectures, err)
	}
	for name, want := range map[string]int32{"f": 7, "g": 0} {
		out, err := client.GetFunctionConcurrency(t.Context(), &sdk.GetFunctionConcurrencyInput{FunctionName: &name})
		if err != nil || aws.ToInt32(out.ReservedConcurrentExecutions) != want || (out.ReservedConcurrentExecutions == nil) != (want == 0) {
			t.Errorf("the concurrency of %s is %+v, %v", name, out, err)
		}
	}
	_, err = client.GetFunctionConcurrency(t.Context(), &sdk.GetFunctionConcurrencyInput{FunctionName: aws.String("h")})
	wantCode(t, err, "ResourceNotFoundException")
	configuration, err := client.GetFunctionConfiguration(t.Context(), &sdk.GetFunctionConfigurationInput{FunctionName: aws.String("g")})
	if err != nil || aws.ToInt32(configuration.Timeout) != 3 || configuration.State != types.StateActive || configuration.Environment != nil {
		t.Fatalf("got %+v, %v", configuration, err)
	}
	pages := sdk.NewListFunctionsPaginator(client, &sdk.ListFunctionsInput{MaxItems: aws.Int32(1)})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Functions {
			names = append(names, aws.ToString(f.FunctionName))
		}
	}
	if strings.Join(names, " ") != "f g" {
		t.Fatalf("got %v", names)
	}

	list, err := client.ListEventSourceMappings(t.Context(), &sdk.ListEventSourceMappingsInput{FunctionName: aws.String("f")})
	if err != nil || len(list.EventSourceMappings) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	one, err := client.GetEventSourceMapping(t.Context(), &sdk.GetEventSourceMappingInput{UUID: &id})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToInt32(one.BatchSize) != 4 || aws.ToInt32(one.ScalingConfig.MaximumConcurrency) != 5 ||
		len(one.FunctionResponseTypes) != 1 || one.FunctionResponseTypes[0] != types.FunctionResponseTypeReportBatchItemFailures ||
		aws.ToString(one.State) != "Enabled" || aws.ToString(one.EventSourceArn) != queueARN || !one.LastModified.Equal(start) {
		t.Fatalf("got %+v", one)
	}
	for _, in := range []*sdk.ListEventSourceMappingsInput{{FunctionName: aws.String("g")}, {EventSourceArn: aws.String(queueARN + "2")}} {
		list, err := client.ListEventSourceMappings(t.Context(), in)
		if err != nil || len(list.EventSourceMappings) != 0 {
			t.Fatalf("got %+v, %v", list, err)
		}
	}
	_, err = client.GetEventSourceMapping(t.Context(), &sdk.GetEventSourceMappingInput{UUID: aws.String("none")})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.GetFunction(t.Context(), &sdk.GetFunctionInput{FunctionName: aws.String("h")})
	wantCode(t, err, "ResourceNotFoundException")
}

// Whatever the embedded Lambda does not do is an error, and never a silent success.
func TestSDKUnsupported(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	register(t, s, lambda.Function{Name: "f", Handler: answering("1", nil)})
	client, _ := serve(t, s, nil)
	name := aws.String("f")
	for operation, call := range map[string]func() error{
		"DeleteFunction": func() error {
			_, err := client.DeleteFunction(t.Context(), &sdk.DeleteFunctionInput{FunctionName: name})
			return err
		},
		"UpdateFunctionConfiguration": func() error {
			_, err := client.UpdateFunctionConfiguration(t.Context(), &sdk.UpdateFunctionConfigurationInput{FunctionName: name})
			return err
		},
		"PutFunctionConcurrency": func() error {
			_, err := client.PutFunctionConcurrency(t.Context(), &sdk.PutFunctionConcurrencyInput{FunctionName: name, ReservedConcurrentExecutions: aws.Int32(0)})
			return err
		},
		"CreateEventSourceMapping": func() error {
			_, err := client.CreateEventSourceMapping(t.Context(), &sdk.CreateEventSourceMappingInput{FunctionName: name})
			return err
		},
		"DeleteEventSourceMapping": func() error {
			_, err := client.DeleteEventSourceMapping(t.Context(), &sdk.DeleteEventSourceMappingInput{UUID: name})
			return err
		},
		"GetPolicy": func() error {
			_, err := client.GetPolicy(t.Context(), &sdk.GetPolicyInput{FunctionName: name})
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded", operation)
		} else {
			wantCode(t, err, "NotImplemented")
		}
	}
}

// A fault is answered in Lambda's form, and a lost answer leaves its effect.
func TestSDKFaults(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	register(t, s, lambda.Function{Name: "f", Handler: answering("1", nil)})
	fate := wire.Fate{Error: &wire.Error{Status: 429, Code: "TooManyRequestsException", Message: "Rate Exceeded."}}
	client, _ := serve(t, s, func(c wire.Call) wire.Fate {
		if c.Service != "lambda" || c.Operation != "Invoke" {
			t.Errorf("got %+v", c)
		}
		return fate
	})
	_, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f")})
	wantCode(t, err, "TooManyRequestsException")
	fate = wire.Fate{Lost: true}
	if _, err := client.Invoke(t.Context(), &sdk.InvokeInput{FunctionName: aws.String("f")}); err == nil {
		t.Fatal("a lost answer arrived")
	}
	if got := s.Metrics(region, "f"); got.Invocations != 1 {
		t.Fatalf("got %+v", got)
	}
}

// TestCommandLines sends Invoke as the command lines do: without a content type or
// with any, the function by its name or its whole ARN, and the payload as it is. The
// second line decodes base64 before it sends, unless it is told that there is none.
func TestCommandLines(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	ran := make(chan string, 1)
	register(t, s, lambda.Function{Name: "f", Handler: func(_ context.Context, payload []byte) ([]byte, error) {
		ran <- string(payload)
		if string(payload) == `"fail"` {
			return nil, errRefused
		}
		return payload, nil
	}})
	_, url := serve(t, s, nil)
	for _, c := range []struct {
		name, function, contentType, invocation, payload string
		status                                           int
		functionError, body                              string
	}{
		{"no content type", "f", "", "", `{"a":1}`, http.StatusOK, "", `{"a":1}`},
		{"bytes", "f", "application/octet-stream", "RequestResponse", `{"a":1}`, http.StatusOK, "", `{"a":1}`},
		{"an old SDK", "f", "binary/octet-stream", "", `{"a":1}`, http.StatusOK, "", `{"a":1}`},
		{"JSON", "f", "application/json", "", `{"a":1}`, http.StatusOK, "", `{"a":1}`},
		{"a form, says a plain client", "f", "application/x-www-form-urlencoded", "", `{"a":1}`, http.StatusOK, "", `{"a":1}`},
		{"no payload", "f", "", "", "", http.StatusOK, "", "{}"},
		{"the ARN", "arn%3Aaws%3Alambda%3Aeu-central-1%3A000000000000%3Afunction%3Af", "", "", `2`, http.StatusOK, "", `2`},
		{"an error of the function", "f", "", "", `"fail"`, http.StatusOK, "Unhandled", `{"errorMessage":"refused","errorType":"errorString"}`},
		{"an event", "f", "", "Event", `{"a":2}`, http.StatusAccepted, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/2015-03-31/functions/"+c.function+"/invocations", strings.NewReader(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=operator/20260308/eu-central-1/lambda/aws4_request, SignedHeaders=host, Signature=0")
			for header, value := range map[string]string{"Content-Type": c.contentType, "X-Amz-Invocation-Type": c.invocation} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != c.status || string(body) != c.body || response.Header.Get("X-Amz-Function-Error") != c.functionError {
				t.Errorf("status %d, error %q, %s, %v", response.StatusCode, response.Header.Get("X-Amz-Function-Error"), body, err)
			}
			if got := <-ran; got != c.payload && (got != "{}" || c.payload != "") {
				t.Errorf("the function got %s", got)
			}
		})
	}
}

// The lists answer boto3 too, which asks with a slash at the end.
func TestTrailingSlash(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	_, url := serve(t, s, nil)
	for _, path := range []string{"/2015-03-31/functions/", "/2015-03-31/event-source-mappings/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260308/eu-central-1/lambda/aws4_request, SignedHeaders=host, Signature=0")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "[]") {
			t.Fatalf("%s: %d %s", path, response.StatusCode, body)
		}
	}
}
