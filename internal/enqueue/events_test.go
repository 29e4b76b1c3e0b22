package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/expunge-aws/expunge/internal/job"
)

const events = "../../events"

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{events}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(s *jsonschema.Schema, payload string) bool {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(payload))
	return err == nil && s.Validate(doc) == nil
}

// Every sample is decoded, agrees with the schema, and starts a run.
func TestSamples(t *testing.T) {
	paths, err := filepath.Glob(events + "/enqueue/*.json")
	if err != nil || len(paths) < 2 {
		t.Fatal(paths, err)
	}
	s := schema(t, "request.schema.json")
	for _, path := range paths {
		if filepath.Base(path) == "resume.json" {
			continue // reconcile's, and no caller's
		}
		payload, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in, err := Decode(payload)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if !valid(s, string(payload)) {
			t.Errorf("%s: not of the schema", path)
		}
		r := newRegion(t, parse(t))
		r.put(31*day, "exports/school-42/1")
		if run := r.start(in); run.State != job.Released || run.Candidates != 1 {
			t.Errorf("%s: %+v", path, run)
		}
	}
}

// Decode and the schema agree about every sample. What a schema can not say is
// left out: the size of the payload, a name that stands twice, bytes that are no
// UTF-8.
func TestRequestSchemaAgreesWithDecode(t *testing.T) {
	s := schema(t, "request.schema.json")
	base := map[string]map[string]string{
		"tick":    {"policy": `"p"`, "scheduled": `"2026-03-09T12:00:00Z"`},
		"request": {"policy": `"p"`, "tenant": `"a"`, "request_id": `"r-1"`, "reason": `"because"`},
	}
	values := []string{
		`null`, `7`, `true`, `{}`, `[]`, `""`, `" "`, `"x"`, `"a b c d"`, `" abcdef"`, `"abcdef "`, `"      "`, `"abc\ndef"`, `"abc\u0000def"`, `"abc\u007fdef"`,
		`"1234"`, `"12345"`, `"\u00e9\u00e9\u00e9\u00e9\u00e9"`, `"\u00a0abcde"`, `".."`, `"."`, `"-a"`, `"_a"`, `"a/b"`, `"school-42"`, `"\u00e9"`, `"a\n"`,
		`"` + strings.Repeat("x", 64) + `"`, `"` + strings.Repeat("x", 65) + `"`, `"` + strings.Repeat("x", 128) + `"`,
		`"` + strings.Repeat("x", 129) + `"`, `"` + strings.Repeat("x", 200) + `"`, `"` + strings.Repeat("x", 201) + `"`,
		`"` + strings.Repeat("\u00e9", 200) + `"`, `"` + strings.Repeat("\u00e9", 201) + `"`,
		`"2026-03-09T12:00:00Z"`, `"2026-03-09T12:00:00.5Z"`, `"2026-03-09T12:00:00,5Z"`, `"2026-03-09T12:00:00+01:00"`, `"2026-03-09T12:00:00-23:59"`,
		`"2026-03-09T12:00:00+24:00"`, `"2026-03-09T12:00:00+0100"`, `"2026-03-09t12:00:00z"`, `"2026-03-09T1:00:00Z"`, `"2026-03-09T24:00:00Z"`,
		`"2026-03-09T23:59:60Z"`, `"2026-13-09T12:00:00Z"`, `"2026-02-29T12:00:00Z"`, `"2024-02-29T12:00:00Z"`, `"2026-03-09"`, `"<aws.scheduler.scheduled-time>"`,
	}
	accepted, refused := 0, 0
	agree := func(fields map[string]string) {
		t.Helper()
		payload := object(fields)
		_, err := Decode([]byte(payload))
		if ok := valid(s, payload); ok != (err == nil) {
			t.Errorf("%s: the schema says %t, Decode says %v", payload, ok, err)
		}
		if err == nil {
			accepted++
		} else {
			refused++
		}
	}
	for _, whole := range []string{`null`, `[]`, `"x"`, `7`, `{}`, `true`} {
		_, err := Decode([]byte(whole))
		if valid(s, whole) || err == nil {
			t.Errorf("%s is accepted", whole)
		}
	}
	for _, fields := range base {
		agree(fields)
		for name := range fields {
			without := maps.Clone(fields)
			delete(without, name)
			agree(without)
		}
		for _, name := range []string{"policy", "scheduled", "tenant", "request_id", "reason", "Policy", "cutoff", "retention_days"} {
			for _, value := range values {
				with := maps.Clone(fields)
				with[name] = value
				agree(with)
			}
		}
	}
	if accepted < 50 || refused < 400 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

func object(fields map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, `"`+name+`":`+fields[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestCommandSchemaAgreesWithDecode(t *testing.T) {
	s := schema(t, "command.schema.json")
	c := job.NewCommand(
		job.Run{ID: job.ScheduledRunID("eu-west-1", "exports", noon), Region: "eu-west-1", Policy: "exports", Version: 1, Mode: job.Enforce, Cutoff: noon},
		job.Page{ID: job.RangePageID("r", "a", ""), Tenant: "a", Kind: job.RangePage})
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.Encode(), &fields); err != nil {
		t.Fatal(err)
	}
	base := map[string]string{}
	for name, value := range fields {
		base[name] = string(value)
	}
	hex := strings.Repeat("0f", 16)
	values := []string{
		`null`, `""`, `"a"`, `"A"`, `"-a"`, `"a-"`, `"a_b"`, `"a.b"`, `".a"`, `"a b"`, `"\u00e9"`, `"a\n"`, `true`, `[]`, `{}`, `"1"`,
		`-1`, `0`, `1`, `2`, `1.5`, `1000000`, `9223372036854775807`, `9223372036854775808`,
		`"` + hex + `"`, `"` + strings.ToUpper(hex) + `"`, `"` + hex[1:] + `"`, `"` + hex + `0"`, `"` + hex[1:] + `g"`,
		`"` + strings.Repeat("a", 64) + `"`, `"` + strings.Repeat("a", 65) + `"`, `"` + strings.Repeat("a", 128) + `"`, `"` + strings.Repeat("a", 129) + `"`,
	}
	accepted, refused := 0, 0
	agree := func(fields map[string]string) {
		t.Helper()
		payload := object(fields)
		_, err := job.Decode([]byte(payload))
		if ok := valid(s, payload); ok != (err == nil) {
			t.Errorf("%s: the schema says %t, Decode says %v", payload, ok, err)
		}
		if err == nil {
			accepted++
		} else {
			refused++
		}
	}
	agree(base)
	for name := range base {
		without := maps.Clone(base)
		delete(without, name)
		agree(without)
	}
	for _, name := range append(slices.Sorted(maps.Keys(base)), "Schema", "presigned_url", "attempt") {
		for _, value := range values {
			with := maps.Clone(base)
			with[name] = value
			agree(with)
		}
	}
	if accepted < 30 || refused < 200 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// TestSchemasNameTheFieldsOfTheirTypes: a field that is added to a type must be
// added to its schema, and every object is closed.
func TestSchemasNameTheFieldsOfTheirTypes(t *testing.T) {
	type object struct {
		Properties           map[string]any
		Required             []string
		AdditionalProperties *bool
	}
	var request struct {
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(read(t, "request.schema.json"), &request); err != nil {
		t.Fatal(err)
	}
	var command object
	if err := json.Unmarshal(read(t, "command.schema.json"), &command); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, o := range []object{request.Defs["tick"], request.Defs["request"], command} {
		if o.AdditionalProperties == nil || *o.AdditionalProperties || len(o.Required) != len(o.Properties) || len(o.Properties) == 0 {
			t.Errorf("an object is open, or a field is not required: %+v", o)
		}
	}
	for _, name := range []string{"tick", "request"} {
		for field := range request.Defs[name].Properties {
			names[field] = true
		}
	}
	for got, typ := range map[*map[string]bool]reflect.Type{&names: reflect.TypeFor[Input](), keysOf(command.Properties): reflect.TypeFor[job.Command]()} {
		want := map[string]bool{}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			want[name] = true
		}
		if !maps.Equal(*got, want) {
			t.Errorf("%s: the schema names %v, the type %v", typ, *got, want)
		}
	}
}

func keysOf(m map[string]any) *map[string]bool {
	names := map[string]bool{}
	for k := range m {
		names[k] = true
	}
	return &names
}

// invoke is a stub of the Lambda Invoke API that runs the real Decode and Start.
type invoke struct {
	region *region
	seen   chan exchange
}

type exchange struct {
	method, path, signature string
	payload                 []byte
}

func (s *invoke) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	payload, _ := io.ReadAll(q.Body) // a short payload is one that Decode refuses
	s.seen <- exchange{q.Method, q.URL.Path, q.Header.Get("Authorization"), payload}
	in, err := Decode(payload)
	var answer any
	if err == nil {
		answer, err = s.region.Start(context.Background(), s.region.deadline(), in)
	}
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer = map[string]string{"errorMessage": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the example notices an answer that is cut
}

// sdkStub stands in for the AWS SDK for JavaScript, which the tests do not
// install: the two names that the example uses, with the requests they make.
const sdkStub = `
export class InvokeCommand { constructor(input) { this.input = input; } }
export class LambdaClient {
  async send({ input }) {
    const r = await fetch(process.env.AWS_ENDPOINT_URL_LAMBDA + "/2015-03-31/functions/" + input.FunctionName + "/invocations", {
      method: "POST", body: input.Payload, headers: { "X-Amz-Invocation-Type": input.InvocationType },
    });
    return { Payload: new Uint8Array(await r.arrayBuffer()), FunctionError: r.headers.get("x-amz-function-error") ?? undefined };
  }
}
`

// TestExamplesSendARequest runs both examples against the stub: what they send is
// a request that starts a run, the run's id is printed, and a refusal is a failure.
func TestExamplesSendARequest(t *testing.T) {
	dir := t.TempDir()
	sdk := filepath.Join(dir, "node_modules", "@aws-sdk", "client-lambda")
	if err := os.MkdirAll(sdk, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{
		filepath.Join(sdk, "package.json"): []byte(`{"name":"@aws-sdk/client-lambda","type":"module","exports":"./index.mjs"}`),
		filepath.Join(sdk, "index.mjs"):    []byte(sdkStub),
		filepath.Join(dir, "request.mjs"):  read(t, "enqueue", "request.mjs"),
	} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	examples := []struct {
		tool, check string
		command     []string
		signed      bool
	}{
		{"node", "--check", []string{"node", filepath.Join(dir, "request.mjs")}, false},
		{"curl", "-n", []string{"bash", events + "/enqueue/request.curl.sh"}, true},
	}
	for _, x := range examples {
		t.Run(x.tool, func(t *testing.T) {
			for _, tool := range []string{x.tool, x.command[0]} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed here; only a machine that has it can run this example", tool)
				}
			}
			if out, err := exec.Command(x.command[0], x.check, x.command[1]).CombinedOutput(); err != nil {
				t.Fatalf("syntax: %v\n%s", err, out)
			}
			stub := &invoke{region: newRegion(t, parse(t)), seen: make(chan exchange, 1)}
			stub.region.put(31*day, "exports/school-42/1")
			server := httptest.NewServer(stub)
			defer server.Close()
			run := func(args ...string) (out, errs string, err error) {
				cmd := exec.Command(x.command[0], append(x.command[1:], args...)...)
				cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_LAMBDA="+server.URL, "AWS_REGION=eu-west-1", "NO_PROXY=127.0.0.1",
					"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=not-a-secret", "AWS_SESSION_TOKEN=token")
				var o, e bytes.Buffer
				cmd.Stdout, cmd.Stderr = &o, &e
				err = cmd.Run()
				return o.String(), e.String(), err
			}
			out, errs, err := run("expunge-enqueue", "exports", "school-42", "ticket-4711", "contract ended, it's time")
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			seen := <-stub.seen
			want := Input{Policy: "exports", Tenant: "school-42", RequestID: "ticket-4711", Reason: "contract ended, it's time"}
			if in, err := Decode(seen.payload); err != nil || in != want {
				t.Errorf("%s: %+v, %v", seen.payload, in, err)
			}
			if id := string(stub.region.onlyRun().ID); !strings.Contains(out, id) {
				t.Errorf("it prints %q, the run is %s", out, id)
			}
			if seen.method != http.MethodPost || seen.path != "/2015-03-31/functions/expunge-enqueue/invocations" {
				t.Errorf("%s %s", seen.method, seen.path)
			}
			if x.signed && (!strings.HasPrefix(seen.signature, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") ||
				!strings.Contains(seen.signature, "/eu-west-1/lambda/aws4_request") || !strings.Contains(seen.signature, "x-amz-security-token")) {
				t.Errorf("signature %q", seen.signature)
			}
			if out, errs, err = run("expunge-enqueue", "exports", "other", "ticket-4711", "contract ended"); err == nil || !strings.Contains(errs, "another tenant") {
				t.Errorf("a refusal: %v, %q, %q", err, out, errs)
			}
			<-stub.seen
			if out, errs, err = run("expunge-enqueue", "exports", "a"); err == nil || !strings.Contains(errs, "usage") {
				t.Errorf("too few arguments: %v, %q, %q", err, out, errs)
			}
			if len(stub.seen) != 0 {
				t.Error("it was sent all the same")
			}
		})
	}
}
