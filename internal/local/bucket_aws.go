package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/sdk"
)

// onlyReading makes a client whose connection carries nothing but GET: the second
// lock on the door, of another make than the type that has no other call. Every
// request that changes something in S3 has another method.
func onlyReading(limits sdk.Settings) func(*s3.Options) {
	return func(o *s3.Options) {
		client := limits.Client()
		client.Transport = gets{client.Transport}
		o.HTTPClient = client
		o.UsePathStyle = o.BaseEndpoint != nil // an endpoint of one's own has no host name for each bucket
	}
}

// gets refuses every request whose method is not GET, before it is sent.
type gets struct{ next http.RoundTripper }

func (t gets) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if r.Body != nil {
			_ = r.Body.Close() // a transport closes the body, whatever happens
		}
		return nil, errors.New("local: a real bucket is only read")
	}
	return t.next.RoundTrip(r)
}

// loopback reports whether an endpoint is on this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// ownEndpoints refuses an environment that points the SDK at another machine: what
// runs here talks to loopback, unless BUCKET asks for AWS itself.
func ownEndpoints() error {
	if strings.EqualFold(os.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") {
		return nil
	}
	var strange []string
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		named := name == "AWS_ENDPOINT_URL" || strings.HasPrefix(name, "AWS_ENDPOINT_URL_")
		if named && value != "" && !loopback(value) {
			strange = append(strange, name)
		}
	}
	if len(strange) == 0 {
		return nil
	}
	slices.Sort(strange)
	return fmt.Errorf("%s names an endpoint that is not on loopback, and the local run talks to no other: unset it, or give BUCKET to read a bucket of AWS", strings.Join(strange, ", "))
}

var errNoCredentials = errors.New("BUCKET: there are no AWS credentials that work: sign in (aws sso login, or aws configure), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")

// unreadableConfig says what is wrong with the caller's AWS configuration. The
// SDK's own words are left out: they may quote it.
func unreadableConfig(err error) error {
	if absent, ok := errors.AsType[config.SharedConfigProfileNotExistError](err); ok {
		return fmt.Errorf("BUCKET: there is no AWS profile %q: look at AWS_PROFILE and ~/.aws/config", absent.Profile)
	}
	return errors.New("BUCKET: your AWS configuration can not be read: look at AWS_PROFILE, ~/.aws/config and ~/.aws/credentials")
}

// regionForm and codeForm are what a region and an error code look like. Nothing
// else of an answer is shown: its words may hold a key.
var (
	regionForm = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+$`)
	codeForm   = regexp.MustCompile(`^[A-Za-z0-9.]{1,64}$`)
)

// explain says in a sentence why the bucket can not be listed, and what to do.
func (b *liveBucket) explain(err error) error {
	code, status, header := "", 0, http.Header{}
	if api, ok := errors.AsType[smithy.APIError](err); ok && codeForm.MatchString(api.ErrorCode()) {
		code = api.ErrorCode()
	}
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && answer.Response != nil {
		status, header = answer.HTTPStatusCode(), answer.Response.Header
	}
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("BUCKET: interrupted; nothing was changed")
	case slices.Contains([]string{"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}, code), status == http.StatusMovedPermanently:
		home := header.Get("X-Amz-Bucket-Region")
		if !regionForm.MatchString(home) || home == b.region {
			home = "the bucket's region"
		}
		return fmt.Errorf("BUCKET: s3://%s is not in %s: set AWS_REGION to %s and run again", b.name, b.region, home)
	case code == "NoSuchBucket":
		return fmt.Errorf("BUCKET: there is no bucket s3://%s: look for a typing mistake, or for another account's credentials", b.name)
	case slices.Contains([]string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidSecurity"}, code):
		return fmt.Errorf("BUCKET: AWS does not accept your credentials (%s): sign in again, or look at AWS_PROFILE", code)
	case code == "RequestTimeTooSkewed":
		return errors.New("BUCKET: AWS refuses requests of another time: set this machine's clock")
	case status == http.StatusForbidden:
		return fmt.Errorf("BUCKET: your credentials may not list s3://%s: they need s3:ListBucket on the bucket, and s3:ListBucketVersions for a policy with versions: all", b.name)
	case code != "":
		return fmt.Errorf("BUCKET: S3 refuses to list s3://%s (%s, status %d)", b.name, code, status)
	case strings.Contains(err.Error(), "credentials"): // the SDK has no type for it
		return errNoCredentials
	default:
		return fmt.Errorf("BUCKET: there was no answer from S3 in %s: look at the network, the region and any proxy", b.region)
	}
}
