package emulator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// A service that is not there says so in a form that its clients can read.
func TestUnknownServices(t *testing.T) {
	server := httptest.NewServer(emulator.New(wire.Wall{}, nil, sts.New()))
	t.Cleanup(server.Close)
	for _, c := range []struct{ scope, contentType, want string }{
		{"iam", "application/x-www-form-urlencoded; charset=utf-8", "<Type>Receiver</Type><Code>NotImplemented</Code><Message>the embedded AWS does not offer the service iam</Message>"},
		{"kms", "application/x-amz-json-1.1", `"message":"the embedded AWS does not offer the service kms"`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("Action=ListUsers"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260308/eu-central-1/"+c.scope+"/aws4_request, SignedHeaders=host, Signature=0")
		r.Header.Set("Content-Type", c.contentType)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusNotImplemented || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %s, %v", c.scope, response.StatusCode, body, err)
		}
	}
}
