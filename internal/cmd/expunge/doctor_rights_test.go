package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// What a bucket's policy denies is found in every form in which AWS takes it; what
// this tool does not judge is told as unsure and never as allowed.
func TestDenials(t *testing.T) {
	const role = "arn:aws:iam::111122223333:role/expunge-worker"
	p, err := policy.Parse("p.yaml", []byte(exportsPolicy))
	must(t, err)
	statement := func(text string) string { return `{"Version":"2012-10-17","Statement":[` + text + `]}` }
	const all = `"Resource":["arn:aws:s3:::acme-exports","arn:aws:s3:::acme-exports/*"]`
	for name, c := range map[string]struct{ text, denied, unsure string }{
		"no policy":            {"", "", ""},
		"an allow":             {statement(`{"Effect":"Allow","Principal":"*","Action":"*",` + all + `}`), "", ""},
		"everybody":            {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject",` + all + `}`), "s3:DeleteObject (statement 1)", ""},
		"one statement":        {`{"Statement":{"Sid":"X","Effect":"Deny","Principal":{"AWS":"*"},"Action":["s3:Delete*"],"Resource":"arn:aws:s3:::acme-exports/exports/*"}}`, "s3:DeleteObject (X)", ""},
		"the role":             {statement(`{"Effect":"Deny","Principal":{"AWS":["` + role + `"]},"Action":"s3:*",` + all + `}`), "s3:ListBucket (statement 1); s3:GetObject (statement 1); s3:DeleteObject (statement 1)", ""},
		"another role":         {statement(`{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::111122223333:role/other"},"Action":"s3:*",` + all + `}`), "", ""},
		"its account":          {statement(`{"Effect":"Deny","Principal":{"AWS":"111122223333"},"Action":"s3:DeleteObject",` + all + `}`), "", "s3:DeleteObject (statement 1)"},
		"another account":      {statement(`{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::999999999999:root"},"Action":"s3:DeleteObject",` + all + `}`), "", ""},
		"a service":            {statement(`{"Effect":"Deny","Principal":{"Service":"lambda.amazonaws.com"},"Action":"s3:DeleteObject",` + all + `}`), "", ""},
		"a condition":          {statement(`{"Sid":"Tls","Effect":"Deny","Principal":"*","Action":"s3:DeleteObject",` + all + `,"Condition":{"Bool":{"aws:SecureTransport":"false"}}}`), "", "s3:DeleteObject (Tls)"},
		"all but the role":     {statement(`{"Effect":"Deny","NotPrincipal":{"AWS":"` + role + `"},"Action":"s3:*",` + all + `}`), "", ""},
		"all but another":      {statement(`{"Effect":"Deny","NotPrincipal":{"AWS":"arn:aws:iam::111122223333:role/x"},"Action":"s3:DeleteObject",` + all + `}`), "", "s3:DeleteObject (statement 1)"},
		"all but an action":    {statement(`{"Effect":"Deny","Principal":"*","NotAction":["s3:GetObject","s3:ListBucket"],` + all + `}`), "", "s3:DeleteObject (statement 1)"},
		"all but a resource":   {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","NotResource":"arn:aws:s3:::acme-exports/tmp/*"}`), "", "s3:DeleteObject (statement 1)"},
		"the resource but not": {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","NotResource":"arn:aws:s3:::acme-exports/exports/*"}`), "", ""},
		"another prefix":       {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::acme-exports/digests/*"}`), "", ""},
		"one tenant":           {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::acme-exports/exports/acme-eu/*"}`), "", "s3:DeleteObject on arn:aws:s3:::acme-exports/exports/acme-eu/* (statement 1)"},
		"another case":         {statement(`{"Effect":"Deny","Principal":"*","Action":"S3:deleteobject",` + all + `}`), "s3:DeleteObject (statement 1)", ""},
		"a single character":   {statement(`{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObjec?",` + all + `}`), "s3:DeleteObject (statement 1)", ""},
		"it does not read":     {`{"Statement":7}`, "", "something: it does not read"},
	} {
		t.Run(name, func(t *testing.T) {
			denied, unsure := denials(c.text, role, permissionsFor(p))
			if got := strings.Join(denied, "; "); got != c.denied {
				t.Errorf("denied %q, want %q", got, c.denied)
			}
			if got := strings.Join(unsure, "; "); got != c.unsure {
				t.Errorf("unsure %q, want %q", got, c.unsure)
			}
		})
	}
}

// A worker is asked about what its policy makes it do, and no more.
func TestPermissionsFor(t *testing.T) {
	for text, want := range map[string]string{
		exportsPolicy: "s3:ListBucket, s3:GetObject, s3:DeleteObject",
		changed(t, exportsPolicy, "mode: enforce", "mode: report-only"):            "s3:ListBucket",
		changed(t, exportsPolicy, "mode: enforce", "mode: enforce\nversions: all"): "s3:ListBucketVersions, s3:DeleteObjectVersion",
	} {
		p, err := policy.Parse("p.yaml", []byte(text))
		must(t, err)
		if got := actions(permissionsFor(p)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// iam answers as IAM does: the action's decision, or a refusal.
func iam(t *testing.T, status int, body func(action string) string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		form, bad := url.ParseQuery(string(text))
		signed := strings.Contains(r.Header.Get("Authorization"), "/us-east-1/iam/aws4_request")
		if err != nil || bad != nil || !signed || form.Get("Action") != "SimulatePrincipalPolicy" || form.Get("PolicySourceArn") != "arn:aws:iam::1:role/w" || form.Get("ResourceArns.member.1") == "" {
			t.Errorf("asked %s, signed %v", text, signed)
		}
		asked.note("doctor", "iam "+form.Get("Action")+" roles")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body(form.Get("ActionNames.member.1")))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func decided(decision string) func(string) string {
	return func(action string) string {
		return fmt.Sprintf(`<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated>`+
			`<EvaluationResults><member><EvalActionName>%s</EvalActionName><EvalDecision>%s</EvalDecision></member></EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>`, action, decision)
	}
}

func TestSimulation(t *testing.T) {
	c := sdk.Defaults().Configure(aws.Config{Region: regionName, Credentials: credentials.NewStaticCredentialsProvider("ana", "test", "")})
	refusal := func(code string) func(string) string {
		return func(string) string { return `<ErrorResponse><Error><Code>` + code + `</Code></Error></ErrorResponse>` }
	}
	for name, x := range map[string]struct {
		endpoint   string
		want, fail string
	}{
		"allowed":          {iam(t, 200, decided("allowed")), "allowed", ""},
		"not allowed":      {iam(t, 200, decided("implicitDeny")), "implicitDeny", ""},
		"may not be asked": {iam(t, 403, refusal("AccessDenied")), "", "may not use iam:SimulatePrincipalPolicy"},
		"no such role":     {iam(t, 404, refusal("NoSuchEntity")), "", "IAM refused, NoSuchEntity"},
		"no answer":        {iam(t, 200, func(string) string { return "" }), "", "does not read"},
		"something else":   {iam(t, 502, func(string) string { return "<html>" }), "", "IAM refused, status Bad Gateway"},
		"nobody":           {"http://127.0.0.1:1/", "", "IAM did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := simulation(t.Context(), c.Config, x.endpoint, "arn:aws:iam::1:role/w", permission{"s3:DeleteObject", "arn:aws:s3:::b/k", ""})
			if got != x.want || (err != nil) != (x.fail != "") || err != nil && !strings.Contains(err.Error(), x.fail) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// In a partition whose endpoint is not known, and in a local deployment, nobody is
// asked, and the reason is told.
func TestSimulateUnasked(t *testing.T) {
	for role, want := range map[string]string{"": "not known", "arn:aws-cn:iam::1:role/w": "partition"} {
		if _, err := (&deployment{}).simulate(t.Context(), role, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if _, err := (&deployment{local: true}).simulate(t.Context(), "arn:aws:iam::1:role/w", nil); err == nil || !strings.Contains(err.Error(), "no IAM") {
		t.Errorf("%v", err)
	}
}
