package sns_test

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/sns"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const region = "eu-central-1"

func open(t *testing.T, faults wire.Faults) (*sns.Service, *sdk.Client) {
	t.Helper()
	s := sns.New()
	server := httptest.NewServer(emulator.New(wire.Wall{}, faults, s))
	t.Cleanup(server.Close)
	return s, sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("local", "test", ""),
	})
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func declare(t *testing.T, s *sns.Service, topic sns.Topic) *string {
	t.Helper()
	arn, err := s.Declare(topic)
	if err != nil {
		t.Fatal(err)
	}
	return &arn
}

// Whoever confirmed has an ARN, whoever did not is told apart by the lack of one.
func TestTopic(t *testing.T) {
	s, client := open(t, nil)
	arn := declare(t, s, sns.Topic{Region: region, Name: "alarms", Subscriptions: []sns.Subscription{
		{Protocol: "email", Endpoint: "on-call@example.org"}, {Protocol: "https", Endpoint: "https://example.org/hook?a=1&b=2", Pending: true},
	}})
	if *arn != "arn:aws:sns:eu-central-1:000000000000:alarms" {
		t.Errorf("the ARN is %s", *arn)
	}
	out, err := client.ListSubscriptionsByTopic(t.Context(), &sdk.ListSubscriptionsByTopicInput{TopicArn: arn})
	if err != nil || len(out.Subscriptions) != 2 || out.NextToken != nil {
		t.Fatalf("got %+v, %v", out, err)
	}
	confirmed, pending := out.Subscriptions[0], out.Subscriptions[1]
	if aws.ToString(confirmed.Endpoint) != "on-call@example.org" || aws.ToString(confirmed.Protocol) != "email" || aws.ToString(confirmed.Owner) != wire.Account ||
		aws.ToString(confirmed.TopicArn) != *arn || !strings.HasPrefix(aws.ToString(confirmed.SubscriptionArn), *arn+":") {
		t.Errorf("confirmed: %+v", confirmed)
	}
	if aws.ToString(pending.Endpoint) != "https://example.org/hook?a=1&b=2" || aws.ToString(pending.SubscriptionArn) != "PendingConfirmation" {
		t.Errorf("pending: %+v", pending)
	}
	topic, err := client.GetTopicAttributes(t.Context(), &sdk.GetTopicAttributesInput{TopicArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"TopicArn": *arn, "Owner": wire.Account, "SubscriptionsConfirmed": "1", "SubscriptionsPending": "1", "SubscriptionsDeleted": "0", "DisplayName": "",
	} {
		if got, has := topic.Attributes[name]; !has || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	declare(t, s, sns.Topic{Region: region, Name: "alarms"})
	out, err = client.ListSubscriptionsByTopic(t.Context(), &sdk.ListSubscriptionsByTopicInput{TopicArn: arn})
	if err != nil || len(out.Subscriptions) != 0 {
		t.Errorf("declared again without subscriptions: %+v, %v", out, err)
	}
}

func TestUnknownTopics(t *testing.T) {
	s, client := open(t, nil)
	abroad := declare(t, s, sns.Topic{Region: "us-east-1", Name: "alarms"})
	for arn, code := range map[string]string{"arn:aws:sns:eu-central-1:000000000000:alarms": "NotFound", *abroad: "NotFound", "alarms": "InvalidParameter"} {
		_, err := client.GetTopicAttributes(t.Context(), &sdk.GetTopicAttributesInput{TopicArn: &arn})
		wantCode(t, err, code)
		_, err = client.ListSubscriptionsByTopic(t.Context(), &sdk.ListSubscriptionsByTopicInput{TopicArn: &arn})
		wantCode(t, err, code)
	}
}

func TestNotOffered(t *testing.T) {
	s, client := open(t, nil)
	arn := declare(t, s, sns.Topic{Region: region, Name: "alarms"})
	_, err := client.Publish(t.Context(), &sdk.PublishInput{TopicArn: arn, Message: aws.String("fire")})
	wantCode(t, err, "NotImplemented")
	_, err = client.CreateTopic(t.Context(), &sdk.CreateTopicInput{Name: aws.String("x")})
	wantCode(t, err, "NotImplemented")
	_, err = client.ListSubscriptionsByTopic(t.Context(), &sdk.ListSubscriptionsByTopicInput{TopicArn: arn, NextToken: aws.String("2")})
	wantCode(t, err, "NotImplemented")
}

func TestFaults(t *testing.T) {
	_, client := open(t, func(c wire.Call) wire.Fate {
		if c.Service != "sns" || c.Operation != "GetTopicAttributes" {
			t.Errorf("got %+v", c)
		}
		return wire.Fate{Error: wire.Bad("Throttled", "Rate exceeded")}
	})
	_, err := client.GetTopicAttributes(t.Context(), &sdk.GetTopicAttributesInput{TopicArn: aws.String("arn:aws:sns:eu-central-1:000000000000:alarms")})
	wantCode(t, err, "Throttled")
}

func TestDeclarationsThatAreNone(t *testing.T) {
	s := sns.New()
	for what, topic := range map[string]sns.Topic{
		"a region": {Name: "x"}, "a name": {Region: region, Name: "a b"}, "no name": {Region: region},
		"no protocol":       {Region: region, Name: "x", Subscriptions: []sns.Subscription{{Endpoint: "e"}}},
		"no endpoint":       {Region: region, Name: "x", Subscriptions: []sns.Subscription{{Protocol: "email"}}},
		"101 subscriptions": {Region: region, Name: "x", Subscriptions: slices.Repeat([]sns.Subscription{{Protocol: "email", Endpoint: "e"}}, 101)},
	} {
		if _, err := s.Declare(topic); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
