package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// as is somebody who acts with a function's role: with the very session that the
// function has once it was started. ministack derives its credentials from the names of
// function and role (execution_credentials in its core/lambda_runtime.py).
func (n *night) as(ctx context.Context, t *testing.T, function string) aws.Config {
	t.Helper()
	out, err := n.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	if err != nil {
		t.Fatal(err)
	}
	digest := hash(*out.FunctionArn + ":" + *out.Role)
	session := credentials.NewStaticCredentialsProvider("ASIA"+strings.ToUpper(digest[:16]), hash("secret:"+digest), hash("token:"+digest))
	return aws.Config{Region: home, BaseEndpoint: &n.front.url, Credentials: session, RetryMaxAttempts: 1}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// attempt is a call that a role must be refused.
type attempt struct {
	function, what string
	call           func(context.Context, aws.Config) error
}

// roles tries with the session of each function what its role must not do. That it may
// do what it has to is shown by every other step.
func (n *night) roles(ctx context.Context, t *testing.T) {
	young := "exports/" + plain + "/csv/recent-000.csv"
	document := n.anyDocument(ctx, t)
	o := n.outputs
	for _, a := range []attempt{
		{o.ReportWorker, "delete an artifact", remove(exportsBucket, young)},
		{o.ReportWorker, "read an artifact", read(exportsBucket, young)},
		{o.ReportWorker, "take a page that enforces", receive(o.PagesQueue)},
		{o.Enqueue, "delete an artifact", remove(exportsBucket, young)},
		{o.Enqueue, "write evidence", put(o.Evidence, contract.EvidenceReceipts+"forged")},
		{o.Worker, "delete what a policy only reports on", remove(digestsBucket, "digests/"+plain+"/recent-000.html")},
		{o.Worker, "delete outside the policies' prefixes", remove(exportsBucket, "other/file.csv")},
		{o.Worker, "write an artifact", put(exportsBucket, young)},
		{o.Worker, "list outside the policies' prefixes", list(exportsBucket, "")},
		{o.Worker, "remove evidence", remove(o.Evidence, document)},
		{o.Worker, "remove a row of the ledger", forget(o.Table)},
		{o.Worker, "send a page", send(o.PagesQueue)},
		{o.Reconcile, "delete an artifact", remove(exportsBucket, young)},
		{o.Reconcile, "remove evidence", remove(o.Evidence, document)},
		{o.Redrive, "delete an artifact", remove(exportsBucket, young)},
		{o.Hold, "send a page", send(o.PagesQueue)},
		{o.Hold, "write evidence", put(o.Evidence, contract.EvidencePlans+"forged")},
	} {
		if err := a.call(ctx, n.as(ctx, t, a.function)); !strings.HasPrefix(sdk.Code(err), "AccessDenied") {
			t.Errorf("%s: to %s is not refused: %v", a.function, a.what, err)
		}
	}
	if err := read(o.Evidence, document)(ctx, n.as(ctx, t, o.Worker)); err != nil {
		t.Errorf("the worker can not read a document, so the refusals say nothing: %v", err)
	}
}

// anyDocument is the key of some receipt.
func (n *night) anyDocument(ctx context.Context, t *testing.T) string {
	t.Helper()
	out, err := n.buckets.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &n.outputs.Evidence, Prefix: aws.String(contract.EvidenceReceipts)})
	if err != nil || len(out.Contents) == 0 {
		t.Fatalf("no receipt lies among the evidence: %v", err)
	}
	return *out.Contents[0].Key
}

func store(c aws.Config) *s3.Client {
	return s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true })
}

func remove(bucket, key string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		_, err := store(c).DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
		return err
	}
}

func read(bucket, key string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		out, err := store(c).GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return err
		}
		return out.Body.Close()
	}
}

func put(bucket, key string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		_, err := store(c).PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, IfNoneMatch: aws.String("*"), Body: strings.NewReader("forged")})
		return err
	}
}

func list(bucket, prefix string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		_, err := store(c).ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
		return err
	}
}

func send(queue string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		_, err := sqs.NewFromConfig(c).SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String(notAPage)})
		return err
	}
}

func receive(queue string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		_, err := sqs.NewFromConfig(c).ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue})
		return err
	}
}

func forget(table string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, c aws.Config) error {
		key := map[string]dynamotypes.AttributeValue{
			contract.LedgerPartitionKey: &dynamotypes.AttributeValueMemberS{Value: "a row"},
			contract.LedgerSortKey:      &dynamotypes.AttributeValueMemberB{Value: []byte("of the ledger")},
		}
		_, err := dynamodb.NewFromConfig(c).DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key})
		return err
	}
}
