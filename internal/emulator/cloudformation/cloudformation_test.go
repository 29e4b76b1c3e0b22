package cloudformation_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

var start = time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)

const region = "eu-central-1"

func open(t *testing.T, clock wire.Clock, faults wire.Faults) (*cloudformation.Service, *sdk.Client) {
	t.Helper()
	s := cloudformation.New(clock)
	server := httptest.NewServer(emulator.New(clock, faults, s))
	t.Cleanup(server.Close)
	return s, sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("local", "test", ""),
	})
}

func describe(t *testing.T, client *sdk.Client, name *string) []types.Stack {
	t.Helper()
	out, err := client.DescribeStacks(t.Context(), &sdk.DescribeStacksInput{StackName: name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Stacks
}

// wantError fails the test unless err has the code, the message and the status.
func wantError(t *testing.T, err error, status int, code, message string) {
	t.Helper()
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &answer) || answer.HTTPStatusCode() != status || api.ErrorCode() != code || !strings.Contains(api.ErrorMessage(), message) {
		t.Errorf("got %v, want %d %s: %s", err, status, code, message)
	}
}

func TestDescribeStacks(t *testing.T) {
	clock := wire.NewManual(start)
	s, client := open(t, clock, nil)
	stack := cloudformation.Stack{
		Region: region, Name: "Expunge-local", Description: "deletes what has expired & proves it <here>",
		Outputs: map[string]string{"TableName": "ledger", "PagesQueue": "http://127.0.0.1:4566/000000000000/pages?a&b"}, Tags: map[string]string{"expunge:stage": "local"},
	}
	if err := s.Declare(stack); err != nil {
		t.Fatal(err)
	}
	for _, other := range []cloudformation.Stack{{Region: region, Name: "Other", Status: "UPDATE_ROLLBACK_COMPLETE"}, {Region: "us-east-1", Name: "Abroad"}} {
		if err := s.Declare(other); err != nil {
			t.Fatal(err)
		}
	}
	got := describe(t, client, aws.String("Expunge-local"))
	if len(got) != 1 {
		t.Fatalf("got %d stacks", len(got))
	}
	x := got[0]
	if aws.ToString(x.StackName) != stack.Name || x.StackStatus != types.StackStatusCreateComplete || aws.ToString(x.Description) != stack.Description ||
		!x.CreationTime.Equal(start) || x.LastUpdatedTime != nil || !strings.HasPrefix(aws.ToString(x.StackId), "arn:aws:cloudformation:eu-central-1:000000000000:stack/Expunge-local/") {
		t.Errorf("got %+v", x)
	}
	outputs := map[string]string{}
	for _, o := range x.Outputs {
		outputs[*o.OutputKey] = *o.OutputValue
	}
	if len(outputs) != 2 || outputs["TableName"] != "ledger" || outputs["PagesQueue"] != stack.Outputs["PagesQueue"] ||
		len(x.Tags) != 1 || *x.Tags[0].Key != "expunge:stage" || *x.Tags[0].Value != "local" {
		t.Errorf("got outputs %v, tags %+v", outputs, x.Tags)
	}

	clock.Advance(time.Hour)
	stack.Status, stack.Description, stack.Tags = "UPDATE_COMPLETE", "", nil
	if err := s.Declare(stack); err != nil {
		t.Fatal(err)
	}
	again := describe(t, client, x.StackId)
	if len(again) != 1 || *again[0].StackId != *x.StackId || again[0].StackStatus != types.StackStatusUpdateComplete || again[0].Description != nil || len(again[0].Tags) != 0 ||
		!again[0].CreationTime.Equal(start) || !again[0].LastUpdatedTime.Equal(start.Add(time.Hour)) {
		t.Errorf("after an update, by its id: %+v", again)
	}
	if all := describe(t, client, nil); len(all) != 2 || *all[0].StackName != "Expunge-local" || *all[1].StackName != "Other" || all[1].StackStatus != types.StackStatusUpdateRollbackComplete {
		t.Errorf("all of the region: %+v", all)
	}
}

func TestUnknownStacks(t *testing.T) {
	s, client := open(t, wire.Wall{}, nil)
	if got := describe(t, client, nil); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	if err := s.Declare(cloudformation.Stack{Region: "us-east-1", Name: "Abroad"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Nowhere", "Abroad", "Abr"} {
		_, err := client.DescribeStacks(t.Context(), &sdk.DescribeStacksInput{StackName: &name})
		wantError(t, err, http.StatusBadRequest, "ValidationError", "Stack with id "+name+" does not exist")
	}
}

func TestNotOffered(t *testing.T) {
	s, client := open(t, wire.Wall{}, nil)
	if err := s.Declare(cloudformation.Stack{Region: region, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	_, err := client.DeleteStack(t.Context(), &sdk.DeleteStackInput{StackName: aws.String("x")})
	wantError(t, err, http.StatusNotImplemented, "NotImplemented", `"DeleteStack"`)
	_, err = client.CreateStack(t.Context(), &sdk.CreateStackInput{StackName: aws.String("y"), TemplateBody: aws.String("{}")})
	wantError(t, err, http.StatusNotImplemented, "NotImplemented", `"CreateStack"`)
	_, err = client.DescribeStacks(t.Context(), &sdk.DescribeStacksInput{NextToken: aws.String("2")})
	wantError(t, err, http.StatusNotImplemented, "NotImplemented", "the parameter NextToken of DescribeStacks")
	if got := describe(t, client, nil); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestFaults(t *testing.T) {
	_, client := open(t, wire.Wall{}, func(c wire.Call) wire.Fate {
		if c.Service != "cloudformation" || c.Operation != "DescribeStacks" {
			t.Errorf("got %+v", c)
		}
		return wire.Fate{Error: wire.Bad("Throttling", "Rate exceeded")}
	})
	_, err := client.DescribeStacks(t.Context(), &sdk.DescribeStacksInput{})
	wantError(t, err, http.StatusBadRequest, "Throttling", "Rate exceeded")
}

func TestDeclarationsThatAreNone(t *testing.T) {
	s := cloudformation.New(wire.Wall{})
	for what, stack := range map[string]cloudformation.Stack{
		"a region": {Name: "x"}, "a name": {Region: region, Name: "1x"}, "no name": {Region: region},
		"a status": {Region: region, Name: "x", Status: "DONE"}, "one that is gone": {Region: region, Name: "x", Status: "DELETE_COMPLETE"},
		"an output's key":   {Region: region, Name: "x", Outputs: map[string]string{"Table-Name": "ledger"}},
		"an output's value": {Region: region, Name: "x", Outputs: map[string]string{"TableName": ""}},
	} {
		if err := s.Declare(stack); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for _, status := range types.StackStatus("").Values() {
		err := s.Declare(cloudformation.Stack{Region: region, Name: "x", Status: string(status)})
		if (err != nil) != (status == types.StackStatusDeleteComplete) {
			t.Errorf("%s: %v", status, err)
		}
	}
}
