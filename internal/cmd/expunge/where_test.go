package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// inAWS lets the tool find the region by its stack, as in AWS.
func (r *region) inAWS() {
	r.t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			r.t.Setenv(name, "")
		}
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": r.url, "AWS_ACCESS_KEY_ID": "ana", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		r.t.Setenv(name, value)
	}
	r.declare("expunge-dev", r.outputs.Render())
}

func (r *region) declare(name string, outputs map[string]string) {
	r.t.Helper()
	must(r.t, r.stacks.Declare(cloudformation.Stack{Region: regionName, Name: name, Outputs: outputs}))
}

func TestDeploymentByItsStack(t *testing.T) {
	r := newRegion(t, at)
	r.inAWS()
	s := r.ok("runs", "--region=eu-west-1", "--stage=dev")
	if !strings.HasPrefix(s.out, "expunge-dev in eu-west-1\n") {
		t.Error(s.out)
	}
	r.ends(exitWrong, "there is no stack expunge-prod in eu-west-1", "runs", "--region=eu-west-1")
	r.ends(exitWrong, "there is no stack expunge-dev in us-east-1", "runs", "--region=us-east-1", "--stage=dev")
	r.declare("expunge-other", map[string]string{"Bucket": "photos"})
	r.ends(exitWrong, "lacks the outputs Region, Stage, LedgerTable", "runs", "--region=eu-west-1", "--stage=other")
	elsewhere := r.outputs
	elsewhere.Region = "us-east-1"
	r.declare("expunge-moved", elsewhere.Render())
	r.ends(exitWrong, "says it is in us-east-1, and was found in eu-west-1", "runs", "--region=eu-west-1", "--stage=moved")
	r.ends(exitWrong, "your AWS configuration does not load", "runs", "--region=eu-west-1", "--profile=nobody")
}

// Whoever has no credentials is told so, and not to say it again. Nothing is asked of AWS
// before that, and a local deployment needs none.
func TestNoCredentials(t *testing.T) {
	r := newRegion(t, at)
	r.inAWS()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	asked := 0
	r.meet(func(wire.Call) wire.Fate {
		asked++
		return wire.Fate{}
	})
	s := r.ends(exitUsage, "no AWS credentials were found", "runs", "--region=eu-west-1", "--stage=dev")
	for _, want := range []string{"--profile", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"} {
		if !strings.Contains(s.err, want) {
			t.Errorf("it does not speak of %s: %s", want, s.err)
		}
	}
	if strings.Contains(s.err, "say it again") || strings.Contains(s.err, "IMDS") {
		t.Error(s.err)
	}
	if asked != 0 {
		t.Errorf("AWS was asked %d times", asked)
	}
	r.ok("runs")
}

// What a service answered that was asked for the credentials of a role, or that it did
// not, is no lack of credentials. Nothing of the SDK's words is told.
func TestCredentialsOfARole(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"refused":    {t.Context(), &smithy.OperationError{ServiceID: "STS", Err: &smithy.GenericAPIError{Code: "AccessDenied", Message: "AKIDSECRET"}}, "get your AWS credentials: forbidden: AccessDenied"},
		"no answer":  {t.Context(), &smithy.OperationError{ServiceID: "STS", Err: errors.New("dial AKIDSECRET")}, "get your AWS credentials: network: no answer"},
		"stopped":    {gone, context.Canceled, "get your AWS credentials: network: context canceled"},
		"metadata":   {t.Context(), &smithy.OperationError{ServiceID: metadata, Err: errors.New("dial AKIDSECRET")}, "no AWS credentials were found"},
		"no profile": {t.Context(), errors.New("AKIDSECRET"), "no AWS credentials were found"},
	} {
		err := identified(c.ctx, aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, c.err })})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "AKID") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// A profile is looked at, and a difference is counted with credentials too.
func TestAProfileWithoutCredentials(t *testing.T) {
	r := newRegion(t, at)
	r.inAWS()
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte("[profile empty]\nregion = eu-west-1\n"), 0o600))
	for name, value := range map[string]string{"AWS_CONFIG_FILE": path, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""} {
		t.Setenv(name, value)
	}
	r.ends(exitUsage, "no AWS credentials were found", "runs", "--profile=empty")
	d := desk{where: where{Profile: "empty"}}
	if _, err := d.credentials(t.Context(), regionName); err == nil || !strings.Contains(err.Error(), "no AWS credentials were found") {
		t.Error(err)
	}
}

// The local deployment is asked when it is there and nothing names another.
func TestLocalDeployment(t *testing.T) {
	r := newRegion(t, at)
	s := r.ok("runs")
	if !strings.HasPrefix(s.out, "expunge-dev in eu-west-1, local, http://127.0.0.1:4566\n") {
		t.Error(s.out)
	}
	path := filepath.Join(t.TempDir(), "other.json")
	must(t, os.Rename(filepath.Join(r.dir, upFile), path))
	r.ok("runs", "--local="+path)
	r.ends(exitWrong, "no local deployment is up", "runs", "--local")
	r.inAWS()
	r.ends(exitUsage, "your AWS configuration names no region", "runs")
	t.Setenv("AWS_REGION", regionName)
	r.ends(exitWrong, "there is no stack expunge-prod", "runs")
}

func TestUpFileIsReadStrictly(t *testing.T) {
	outputs := `"outputs":{}`
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":           {`endpoint: here`, "does not read"},
		"an unknown field":  {`{"endpoint":"http://127.0.0.1:1",` + outputs + `,"key":"x"}`, "does not read"},
		"a field twice":     {`{"endpoint":"http://127.0.0.1:1","endpoint":"http://127.0.0.1:1",` + outputs + `}`, "does not read"},
		"too large":         {`{"endpoint":"http://127.0.0.1:1",` + outputs + `}` + strings.Repeat(" ", maxUp), "does not read"},
		"another machine":   {`{"endpoint":"http://10.0.0.1:4566",` + outputs + `}`, "not on this machine"},
		"a name":            {`{"endpoint":"http://localhost.example.com:4566",` + outputs + `}`, "not on this machine"},
		"TLS":               {`{"endpoint":"https://127.0.0.1:4566",` + outputs + `}`, "not on this machine"},
		"a user":            {`{"endpoint":"http://10.0.0.1@127.0.0.1:4566",` + outputs + `}`, "not on this machine"},
		"a path":            {`{"endpoint":"http://127.0.0.1:4566/x",` + outputs + `}`, "not on this machine"},
		"no endpoint":       {`{` + outputs + `}`, "not on this machine"},
		"outputs that lack": {`{"endpoint":"http://127.0.0.1:4566",` + outputs + `}`, "lacks Region, Stage"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, ".expunge"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, upFile), []byte(c.text), 0o644))
			s := run(t, Process{Args: []string{"runs"}, Dir: dir, Clock: &hands{}})
			if s.status != exitWrong || !strings.Contains(s.err, c.want) || !strings.Contains(s.err, "next: make up") {
				t.Errorf("status %d, want %q:\n%s", s.status, c.want, s.err)
			}
		})
	}
}

// A machine gets one JSON object whatever happens.
func TestErrorsAreJSONToo(t *testing.T) {
	r := newRegion(t, at)
	s := r.ends(exitWrong, "no policy exports", "runs", "--policy=exports", "--json")
	golden(t, "error-json", s.out)
}

func TestAnswersOfAnUnreachableDeployment(t *testing.T) {
	r := newRegion(t, at)
	r.meet(func(wire.Call) wire.Fate {
		return wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: "InternalServerError"}}
	})
	r.ends(exitWrong, "say it again, which is safe", "runs")
	r.meet(refusing("dynamodb", "", http.StatusBadRequest, "AccessDeniedException"))
	s := r.ends(exitWrong, "your credentials do not allow this", "runs")
	if !strings.Contains(s.err, "next: aws sts get-caller-identity") {
		t.Error(s.err)
	}
}

// The tool can not write to the ledger: nothing that it holds has a method for it.
func TestRecordsHaveNoWrite(t *testing.T) {
	want := strings.Fields("Approval AutoRedrive AwaitingRuns Brakes ClosedRuns DeadPages Entries Epoch Holds LatestPolicy Look OpenPages" +
		" OpenRedrives OpenRuns Page PageAt PageByID Pages Policy PolicyNames RecentRuns Redrive RedrivePages Run RunsOf Tenants Watch")
	var got []string
	methods := reflect.TypeFor[records]()
	for i := range methods.NumMethod() {
		got = append(got, methods.Method(i).Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the ledger that the tool holds can %v", got)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"run": "run", "--reason=...": "--reason=...", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "": "''", "<why>": "'<why>'",
	} {
		if got := quote(word); got != want {
			t.Errorf("%q is written %s, want %s", word, got, want)
		}
	}
}

func TestColour(t *testing.T) {
	m := newMorning(t)
	for name, c := range map[string]struct {
		terminal bool
		env      map[string]string
		coloured bool
	}{
		"a terminal":      {true, nil, true},
		"a file":          {false, nil, false},
		"NO_COLOR":        {true, map[string]string{"NO_COLOR": "1"}, false},
		"a dumb terminal": {true, map[string]string{"TERM": "dumb"}, false},
	} {
		s := run(t, Process{Args: []string{"runs"}, Dir: m.dir, Clock: m.now, Terminal: c.terminal, Env: func(name string) string { return c.env[name] }})
		if s.status != exitDone || strings.Contains(s.out, "\x1b[") != c.coloured {
			t.Errorf("%s: status %d, %q", name, s.status, s.out)
		}
	}
}

func TestNarrowTerminal(t *testing.T) {
	m := newMorning(t)
	s := run(t, Process{Args: []string{"runs"}, Dir: m.dir, Clock: m.now, Env: func(name string) string { return map[string]string{"COLUMNS": "80"}[name] }})
	for line := range strings.Lines(s.out) {
		if len(line) > 81 && !strings.HasPrefix(line, "next: ") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

// A local deployment that was killed leaves its description behind: nobody answers.
func TestALocalDeploymentThatIsGone(t *testing.T) {
	r := newRegion(t, at)
	r.url = "http://127.0.0.1:1" // a port at which nobody listens
	r.up()
	r.ends(exitWrong, "if nothing listens at http://127.0.0.1:1 any more, make up starts a region anew", "runs")
}
