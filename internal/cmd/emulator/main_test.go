package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Every service answers where the printed line says, until the context ends.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, "127.0.0.1:0", out)
		_ = out.Close()
	}()
	endpoint := ""
	for lines := bufio.NewScanner(said); endpoint == "" && lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "AWS_ENDPOINT_URL="); ok {
			endpoint, _, _ = strings.Cut(rest, " ")
		}
	}
	c := aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	none := func(err error, code string) error { // what a service without stacks or topics has to answer
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorCode() == code {
			return nil
		}
		return fmt.Errorf("got %w, want %s", err, code)
	}
	for name, ask := range map[string]func() error{
		"s3":        func() error { _, err := s3.NewFromConfig(c).ListBuckets(ctx, nil); return err },
		"sqs":       func() error { _, err := sqs.NewFromConfig(c).ListQueues(ctx, nil); return err },
		"dynamodb":  func() error { _, err := dynamodb.NewFromConfig(c).ListTables(ctx, nil); return err },
		"scheduler": func() error { _, err := scheduler.NewFromConfig(c).ListSchedules(ctx, nil); return err },
		"sts":       func() error { _, err := sts.NewFromConfig(c).GetCallerIdentity(ctx, nil); return err },
		"cloudformation": func() error {
			_, err := cloudformation.NewFromConfig(c).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: aws.String("Expunge")})
			return none(err, "ValidationError")
		},
		"sns": func() error {
			_, err := sns.NewFromConfig(c).GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: aws.String("arn:aws:sns:us-east-1:000000000000:alarms")})
			return none(err, "NotFound")
		},
	} {
		if err := ask(); err != nil {
			t.Errorf("%s at %q: %v", name, endpoint, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := serve(t.Context(), "0.0.0.0:0", io.Discard); err == nil {
		t.Error("it listens to strangers")
	}
}
