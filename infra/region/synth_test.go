package region

import (
	"debug/elf"
	"encoding/binary"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/go-json-experiment/json"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain ends the CDK's kernel: a deferred call would be passed by.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	jsii.Close()
	if work.made {
		_ = os.RemoveAll(work.folder)
	}
	os.Exit(code)
}

// work is where the tests of this package put packages and templates.
var work struct {
	made   bool
	folder string
}

// folder returns a new folder that lasts as long as the tests: the CDK reads its
// output again when it is asked about a stack.
var folder = func() func(name string) string {
	root := sync.OnceValue(func() string {
		dir, err := os.MkdirTemp("", "expunge-infra-")
		if err != nil {
			panic(err)
		}
		work.made, work.folder = true, dir
		return dir
	})
	return func(name string) string {
		dir := filepath.Join(root(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			panic(err)
		}
		return dir
	}
}()

// program is a file that a Linux machine would take for a program: its head alone.
func program(machine elf.Machine) []byte {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(head[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(head[18:], uint16(machine))
	binary.LittleEndian.PutUint32(head[20:], 1)
	binary.LittleEndian.PutUint16(head[52:], 64)
	binary.LittleEndian.PutUint16(head[54:], 56)
	binary.LittleEndian.PutUint16(head[58:], 64)
	return head
}

// built is a folder of packages for arm64 that nobody had to compile.
func built() string { return builtFor(ARM64) }

// builtFor is such a folder for either machine.
func builtFor(a Architecture) string {
	dir := folder("packages-" + string(a))
	for _, name := range packages {
		path := filepath.Join(dir, name, bootstrap)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			panic(err)
		}
		if err := pack(path, append(program(a.machine()), name...), 0o755); err != nil {
			panic(err)
		}
	}
	return dir
}

// cdkContext is cdk.json's: feature flags are the same as in a deploy.
var cdkContext = sync.OnceValue(func() map[string]any {
	data, err := os.ReadFile("../../cdk.json")
	if err != nil {
		panic(err)
	}
	var file struct {
		Context map[string]any `json:"context"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		panic(err)
	}
	return file.Context
})

// given is the context of a deployment of the test's policies, changed by edits:
// pairs of a key and a value.
func given(edits ...any) map[string]any {
	c := maps.Clone(cdkContext())
	maps.Copy(c, map[string]any{
		"regions": []any{"eu-west-1", "us-east-1", "ap-southeast-2"}, "policies": "testdata/policies", "packages": built(),
		"page_emails": "oncall@example.com", "ticket_emails": []any{"team@example.com"}, "page_urls": "https://example.com/incidents",
	})
	for i := 0; i < len(edits); i += 2 {
		key, ok := edits[i].(string)
		if !ok {
			panic("a key is text")
		}
		c[key] = edits[i+1]
	}
	return c
}

// configs reads a context as the application does.
func configs(context map[string]any) ([]Config, error) {
	return Configs(context)
}

// synthesise declares the regions of a context and returns their templates by region.
func synthesise(context map[string]any, out string) (map[string]template, error) {
	all, err := configs(context)
	if err != nil {
		return nil, err
	}
	dir := folder(out)
	app := awscdk.NewApp(&awscdk.AppProps{
		Context: &context, Outdir: &dir, AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false), StackTraces: jsii.Bool(false),
		BuiltinCloudFormationValidation: jsii.Bool(false),
	})
	for _, c := range all {
		if _, err := New(app, c); err != nil {
			return nil, err
		}
	}
	app.Synth(nil)
	templates := map[string]template{}
	for _, c := range all {
		data, err := os.ReadFile(filepath.Join(dir, "Expunge-"+c.Region+".template.json"))
		if err != nil {
			return nil, err
		}
		t := parse(data)
		t.config = c
		templates[c.Region] = t
	}
	return templates, nil
}

// deployed are the templates of given(): the synth that the tests share.
var deployed = sync.OnceValue(func() map[string]template {
	templates, err := synthesise(given(), "deployed")
	if err != nil {
		panic(err)
	}
	return templates
})

// one is the template that most tests look at.
func one() template { return deployed()["eu-west-1"] }

// template is a CloudFormation template, and the bytes that it was read from.
type template struct {
	Resources map[string]resource `json:"Resources"`
	Outputs   map[string]any      `json:"Outputs"`

	text   []byte
	config Config   // what it was declared from
	may    *[]grant // what its roles may do, once somebody has asked
}

type resource struct {
	Type                string         `json:"Type"`
	Properties          map[string]any `json:"Properties"`
	DeletionPolicy      string         `json:"DeletionPolicy"`
	UpdateReplacePolicy string         `json:"UpdateReplacePolicy"`
	DependsOn           any            `json:"DependsOn"`
}

func parse(data []byte) template {
	t := template{text: data, may: new([]grant)}
	if err := json.Unmarshal(data, &t); err != nil {
		panic(err)
	}
	return t
}

// of returns the resources of a type by logical id.
func (t template) of(kind string) map[string]resource {
	found := map[string]resource{}
	for id, r := range t.Resources {
		if r.Type == kind {
			found[id] = r
		}
	}
	return found
}

// named returns the logical id that the stack gave the resource: the construct's id and
// a digest.
func (t template) named(kind, construct string) string {
	for id := range t.of(kind) {
		if rest, ok := strings.CutPrefix(id, construct); ok && (rest == "" || len(rest) == 8) {
			return id
		}
	}
	return ""
}

// at walks a value along names and indices; nil is "nothing there".
func at(value any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := value.(map[string]any)
			if !ok {
				return nil
			}
			value = m[s]
		case int:
			l, ok := value.([]any)
			if !ok || s >= len(l) {
				return nil
			}
			value = l[s]
		}
	}
	return value
}

// values is a property that CloudFormation takes as one value or as a list.
func values(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}
