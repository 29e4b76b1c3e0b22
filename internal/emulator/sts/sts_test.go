package sts_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// open returns a client with the access key, and the URL that it asks.
func open(t *testing.T, key string, faults wire.Faults) (*sdk.Client, string) {
	t.Helper()
	server := httptest.NewServer(emulator.New(wire.Wall{}, faults, sts.New()))
	t.Cleanup(server.Close)
	return sdk.New(sdk.Options{
		Region: "eu-central-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(key, "test", ""),
	}), server.URL
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestGetCallerIdentity(t *testing.T) {
	for _, key := range []string{"local", "report-worker", "a/b"} {
		client, _ := open(t, key, nil)
		out, err := client.GetCallerIdentity(t.Context(), &sdk.GetCallerIdentityInput{})
		if err != nil {
			t.Fatal(err)
		}
		if aws.ToString(out.Account) != wire.Account || aws.ToString(out.Arn) != "arn:aws:iam::000000000000:user/"+key || aws.ToString(out.UserId) != key {
			t.Errorf("got account %s, ARN %s, user %s", aws.ToString(out.Account), aws.ToString(out.Arn), aws.ToString(out.UserId))
		}
	}
}

// No credentials are given out, and no question is answered that was not asked.
func TestNotOffered(t *testing.T) {
	client, url := open(t, "local", nil)
	_, err := client.AssumeRole(t.Context(), &sdk.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::000000000000:role/x"), RoleSessionName: aws.String("xx")})
	wantCode(t, err, "NotImplemented")
	_, err = client.GetSessionToken(t.Context(), &sdk.GetSessionTokenInput{})
	wantCode(t, err, "NotImplemented")
	for _, c := range []struct {
		key, form string
		status    int
	}{
		{"local", "Action=GetCallerIdentity&Version=2011-06-15", http.StatusOK},
		{"local", "Action=GetCallerIdentity&Version=2011-06-15&Something=1", http.StatusNotImplemented},
		{"local", "Action=GetCallerIdentity&Something=%", http.StatusBadRequest},
		{"local", "", http.StatusNotImplemented},
		{"", "Action=GetCallerIdentity", http.StatusForbidden},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(c.form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.key+"/20260308/eu-central-1/sts/aws4_request, SignedHeaders=host, Signature=0")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%q asks %q: status %d, want %d", c.key, c.form, response.StatusCode, c.status)
		}
	}
}

// A fault knows the operation by its name and the caller by his key.
func TestFaults(t *testing.T) {
	client, _ := open(t, "local", func(c wire.Call) wire.Fate {
		if c.Service != "sts" || c.Operation != "GetCallerIdentity" || c.Caller != "local" {
			t.Errorf("got %+v", c)
		}
		return wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "ExpiredToken", Message: "The security token included in the request is expired"}}
	})
	_, err := client.GetCallerIdentity(t.Context(), &sdk.GetCallerIdentityInput{})
	wantCode(t, err, "ExpiredToken")
}
