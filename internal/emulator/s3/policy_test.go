package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// deny is a policy of one statement about the keys of the test's bucket that begin
// with prefix.
func deny(principal, action, prefix string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Sid":"one","Effect":"Deny","Principal":%s,"Action":%q,"Resource":"arn:aws:s3:::exports/%s*"}]}`,
		principal, action, prefix)
}

const everybody = `"*"`

func (b *bed) putPolicy(t *testing.T, text string) {
	t.Helper()
	if _, err := b.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(bucket), Policy: &text}); err != nil {
		t.Fatal(err)
	}
}

// as is the bucket's client with another access key.
func (b *bed) as(key string) *bed {
	o := b.Options()
	o.Credentials = credentials.NewStaticCredentialsProvider(key, "testtest", "")
	other := *b
	other.Client = awss3.New(o)
	return &other
}

// code returns "" for no error, an API error's code, and the status of an answer
// without a body.
func code(err error) string {
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusForbidden:
		return "AccessDenied"
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return err.Error()
}

// The rehearsal of an operator: a prefix is denied, the others go on, and after the
// policy is removed the rest goes too.
func TestADeniedPrefix(t *testing.T) {
	b := open(t)
	b.seed(t, "a/1", "a/2", "b/1", "b/2")
	b.putPolicy(t, deny(everybody, "s3:DeleteObject", "b/"))
	same(t, "answers", b.remove(t, "a/1", "b/1", "b/none"), "a/1", "b/1 AccessDenied", "b/none AccessDenied")
	_, err := b.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String("b/2")})
	if code(err) != "AccessDenied" || !strings.Contains(err.Error(), "arn:aws:iam::000000000000:user/test is not authorized to perform: s3:DeleteObject") ||
		!strings.Contains(err.Error(), "explicit deny") {
		t.Errorf("got %v", err)
	}
	if _, err := b.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String("b/2")}); err != nil {
		t.Errorf("it may be read: %v", err)
	}
	same(t, "left", b.keys(t), "a/2", "b/1", "b/2")
	effects, err := b.service.Effects(bucket)
	if err != nil || len(effects) != 1 || effects[0].Key != "a/1" {
		t.Errorf("the deletes changed %v, %v", effects, err)
	}
	if _, err := b.DeleteBucketPolicy(t.Context(), &awss3.DeleteBucketPolicyInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	same(t, "answers", b.remove(t, "a/2", "b/1", "b/2"), "a/2", "b/1", "b/2")
	same(t, "left", b.keys(t))
}

// A statement names everybody, or users by their access keys.
func TestWhoIsDenied(t *testing.T) {
	const worker, other = `"arn:aws:iam::000000000000:user/worker"`, `"arn:aws:iam::000000000000:user/report-worker"`
	for principal, want := range map[string]string{
		everybody: "worker report-worker", `{"AWS":"*"}`: "worker report-worker", `{"AWS":["*"]}`: "worker report-worker",
		`{"AWS":` + worker + `}`: "worker", `{"AWS":[` + worker + `,` + other + `]}`: "worker report-worker", `{"AWS":[` + other + `]}`: "report-worker",
	} {
		b := open(t)
		b.seed(t, "k")
		b.putPolicy(t, deny(principal, "s3:GetObject", ""))
		var denied []string
		for _, key := range []string{"worker", "report-worker"} {
			if _, err := b.as(key).HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("k")}); code(err) == "AccessDenied" {
				denied = append(denied, key)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(denied, " "); got != want {
			t.Errorf("%s denies %s, want %s", principal, got, want)
		}
	}
	// Whoever does not sign is nobody's user.
	b := open(t)
	b.seed(t, "k")
	for principal, want := range map[string]int{everybody: http.StatusForbidden, `{"AWS":` + worker + `}`: http.StatusOK} {
		b.putPolicy(t, deny(principal, "s3:GetObject", ""))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/exports/k", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: an unsigned request is answered with %d, want %d", principal, response.StatusCode, want)
		}
	}
}

// What would only be kept is refused, and so is what AWS refuses; the policy that
// was there before stays.
func TestRefusedPolicies(t *testing.T) {
	const malformed, notOffered = "MalformedPolicy", "NotImplemented"
	b := open(t)
	good := deny(everybody, "s3:GetObject", "")
	b.putPolicy(t, good)
	statement := func(old, replaced string) string {
		text := strings.Replace(good, old, replaced, 1)
		if text == good {
			t.Fatalf("the policy does not hold %s", old)
		}
		return text
	}
	for name, c := range map[string]struct{ code, text string }{
		"no JSON":                    {malformed, "deny everything"},
		"an empty one":               {malformed, "{}"},
		"cut off":                    {malformed, good[:len(good)-1]},
		"more than one":              {malformed, good + good},
		"no statement":               {malformed, `{"Statement":[]}`},
		"a version":                  {malformed, statement("2012-10-17", "2026-01-01")},
		"an effect":                  {malformed, statement(`"Deny"`, `"Refuse"`)},
		"no effect":                  {malformed, statement(`"Effect":"Deny",`, ``)},
		"no principal":               {malformed, statement(`"Principal":"*",`, ``)},
		"an empty principal":         {malformed, statement(`"Principal":"*"`, `"Principal":{"AWS":[]}`)},
		"a principal without a kind": {malformed, statement(`"Principal":"*"`, `"Principal":"arn:aws:iam::000000000000:user/worker"`)},
		"another account":            {malformed, statement(`"Principal":"*"`, `"Principal":{"AWS":"arn:aws:iam::111111111111:user/worker"}`)},
		"a pattern of users":         {malformed, statement(`"Principal":"*"`, `"Principal":{"AWS":"arn:aws:iam::000000000000:user/w*"}`)},
		"no action":                  {malformed, statement(`"Action":"s3:GetObject",`, ``)},
		"an action of DynamoDB":      {malformed, statement("s3:GetObject", "dynamodb:GetItem")},
		"no resource":                {malformed, statement(`,"Resource":"arn:aws:s3:::exports/*"`, ``)},
		"another bucket":             {malformed, statement(":::exports/", ":::evidence/")},
		"a bucket with its name":     {malformed, statement(":::exports/", ":::exports2/")},
		"a queue":                    {malformed, statement("arn:aws:s3:::exports/", "arn:aws:sqs:::exports/")},
		"a bucket's action on keys":  {malformed, statement("s3:GetObject", "s3:ListBucket")},
		"a key's action on a bucket": {malformed, statement("exports/*", "exports")},
		"an element twice":           {malformed, statement(`"Effect":"Deny"`, `"Effect":"Deny","Effect":"Deny"`)},
		"too long":                   {malformed, good + strings.Repeat(" ", 20<<10)},

		"an Allow":                {notOffered, statement(`"Deny"`, `"Allow"`)},
		"a condition":             {notOffered, statement(`"Sid":"one"`, `"Condition":{"Bool":{"aws:SecureTransport":"false"}}`)},
		"all principals but":      {notOffered, statement(`"Principal"`, `"NotPrincipal"`)},
		"all actions but":         {notOffered, statement(`"Action"`, `"NotAction"`)},
		"all resources but":       {notOffered, statement(`"Resource"`, `"NotResource"`)},
		"a role":                  {notOffered, statement(`"Principal":"*"`, `"Principal":{"AWS":"arn:aws:iam::000000000000:role/worker"}`)},
		"the account":             {notOffered, statement(`"Principal":"*"`, `"Principal":{"AWS":"000000000000"}`)},
		"the account by its root": {notOffered, statement(`"Principal":"*"`, `"Principal":{"AWS":["*","arn:aws:iam::000000000000:root"]}`)},
		"a service":               {notOffered, statement(`"Principal":"*"`, `"Principal":{"Service":"logging.s3.amazonaws.com"}`)},
		"an action without use":   {notOffered, statement("s3:GetObject", "s3:PutLifecycleConfiguration")},
		"the policy's own action": {notOffered, statement("s3:GetObject", "s3:PutBucketPolicy")},
		"a pattern of buckets":    {notOffered, statement(":::exports/", ":::ex*/")},
		"every resource":          {notOffered, statement("arn:aws:s3:::exports/*", "*")},
		"a variable":              {notOffered, statement(":::exports/", ":::exports/${aws:username}/")},
	} {
		_, err := b.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(bucket), Policy: &c.text})
		if code(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	got, err := b.GetBucketPolicy(t.Context(), &awss3.GetBucketPolicyInput{Bucket: aws.String(bucket)})
	if err != nil || aws.ToString(got.Policy) != good {
		t.Errorf("the policy is %v, %v", got, err)
	}
}

// A fault of a key comes before the policy, and a key that is denied is not one that
// was deleted before its answer was lost.
func TestFatesOfDeniedKeys(t *testing.T) {
	b := open(t)
	b.seed(t, "a", "b")
	b.putPolicy(t, deny(everybody, "s3:Delete*", "a"))
	b.fate = wire.Fate{EntriesAfter: func(string) *wire.Error { return wire.Bad("InternalError", "lost") }}
	same(t, "answers", b.remove(t, "a", "b"), "a AccessDenied", "b InternalError")
	b.fate = wire.Fate{Entries: func(string) *wire.Error { return wire.Bad("SlowDown", "slower") }}
	same(t, "answers", b.remove(t, "a"), "a SlowDown")
	b.fate = wire.Fate{}
	same(t, "left", b.keys(t), "a")
}

// What a tool asks about a bucket that nobody has configured.
func TestAnswersAboutABucket(t *testing.T) {
	b := open(t)
	ctx, name := t.Context(), aws.String(bucket)
	head, err := b.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: name})
	if err != nil || aws.ToString(head.BucketRegion) != "us-east-1" {
		t.Errorf("head: %+v, %v", head, err)
	}
	_, err = b.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: name})
	if code(err) != "NoSuchBucketPolicy" {
		t.Errorf("policy: %v", err)
	}
	if _, err := b.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: name}); err != nil {
		t.Errorf("removing no policy: %v", err)
	}
	for payer, on := range map[types.Payer]bool{types.PayerBucketOwner: false, types.PayerRequester: true} {
		if err := b.service.SetRequesterPays(bucket, on); err != nil {
			t.Fatal(err)
		}
		if out, err := b.GetBucketRequestPayment(ctx, &awss3.GetBucketRequestPaymentInput{Bucket: name}); err != nil || out.Payer != payer {
			t.Errorf("payer: %+v, %v, want %s", out, err, payer)
		}
	}
	for what, err := range map[string]error{
		"policy":    second(b.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: aws.String("nowhere")})),
		"put":       second(b.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: aws.String("nowhere"), Policy: aws.String("{}")})),
		"delete":    second(b.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: aws.String("nowhere")})),
		"payer":     second(b.GetBucketRequestPayment(ctx, &awss3.GetBucketRequestPaymentInput{Bucket: aws.String("nowhere")})),
		"encrypted": second(b.GetBucketEncryption(ctx, &awss3.GetBucketEncryptionInput{Bucket: aws.String("nowhere")})),
		"public":    second(b.GetPublicAccessBlock(ctx, &awss3.GetPublicAccessBlockInput{Bucket: aws.String("nowhere")})),
	} {
		if code(err) != "NoSuchBucket" {
			t.Errorf("%s of no bucket: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
