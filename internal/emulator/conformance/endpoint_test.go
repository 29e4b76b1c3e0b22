package conformance_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// What make conformance and .ci/run tell TestEndpoint.
const (
	// endpointKey is a URL, or "aws" for the SDK's own endpoints.
	endpointKey = "EXPUNGE_ENDPOINT"
	// differencesKey is "moto" where the endpoint is one.
	differencesKey = "EXPUNGE_DIFFERENCES"
)

// TestEndpoint runs every check against an endpoint that somebody named. It runs a
// few minutes, less with -short, which leaves out what only time shows.
func TestEndpoint(t *testing.T) {
	given := os.Getenv(endpointKey)
	if given == "" {
		t.Skipf("%s names no endpoint: see make conformance", endpointKey)
	}
	target := targetOf(t, given)
	t.Run("S3", func(t *testing.T) { conformance.S3(t, target) })
	t.Run("SQS", func(t *testing.T) { conformance.SQS(t, target) })
	t.Run("DynamoDB", func(t *testing.T) { conformance.DynamoDB(t, target) })
	t.Run("Operator", func(t *testing.T) { conformance.Operator(t, target) })
	t.Run("SQS over time", func(t *testing.T) {
		if testing.Short() {
			t.Skip("-short")
		}
		conformance.SQSOverTime(t, target, time.Sleep)
	})
}

// targetOf returns the target that was named: on loopback with made-up
// credentials, anywhere else with the caller's own and a warning.
func targetOf(t *testing.T, given string) conformance.Target {
	t.Helper()
	if given != "aws" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			t.Fatal("the endpoint must be aws or a URL such as http://127.0.0.1:5000")
		}
		if loopback(u) {
			target := conformance.Loopback(given)
			if os.Getenv(differencesKey) == "moto" {
				target = conformance.Moto(given)
			}
			target.Config.HTTPClient = &http.Client{Transport: sdk.Repair(&http.Transport{MaxIdleConnsPerHost: 64})}
			return target
		}
	}
	base, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal("your AWS configuration can not be read: look at AWS_PROFILE, ~/.aws/config and ~/.aws/credentials")
	}
	search, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	if _, err := base.Credentials.Retrieve(search); err != nil {
		t.Fatal("there are no AWS credentials that work: sign in, or set AWS_PROFILE")
	}
	target := conformance.Target{Endpoint: given, Config: base}
	if given == "aws" {
		target.Endpoint = ""
		for _, diverted := range target.Diverted() {
			if u, err := url.Parse(diverted); err != nil || !loopback(u) {
				t.Fatal("your AWS configuration names an endpoint of its own: give it as ENDPOINT=URL, or unset AWS_ENDPOINT_URL and its like")
			}
		}
	}
	t.Log("WARNING: your AWS credentials are used at " + given + ". In us-east-1 and eu-west-1 the checks make, and remove again, " +
		"about a hundred buckets (bkt-*, eub-*), as many queues (q-*) and a few tables (tbl-*) under fresh random names, with some ten " +
		"thousand small objects, messages and rows; a few objects are locked, one of them for three seconds beyond any bypass, and a few buckets get a policy. They touch " +
		"nothing else and cost a few cents. What an interrupted run leaves behind has these names.")
	return target
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
