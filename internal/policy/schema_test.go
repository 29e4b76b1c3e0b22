package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	generate "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../events/policy.schema.json"

// generated builds the schema from the struct: names and bounds from its tags,
// descriptions from its comments.
func generated(t *testing.T) []byte {
	r := generate.Reflector{
		Anonymous: true, RequiredFromJSONSchemaTags: true, ExpandedStruct: true, DoNotReference: true,
		Mapper: func(of reflect.Type) *generate.Schema {
			if of != reflect.TypeFor[time.Duration]() {
				return nil
			}
			shortest := uint64(2)
			return &generate.Schema{Type: "string", MinLength: &shortest, Pattern: "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}
		},
	}
	if err := r.AddGoComments("github.com/expunge-aws/expunge/internal/policy", "./"); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.CommentMap {
		r.CommentMap[name] = strings.Join(strings.Fields(text), " ")
	}
	s := r.Reflect(Policy{})
	s.Title = "Expunge policy"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func compiled(t *testing.T) *jsonschema.Schema {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("policy.schema.json")
}

// asValue reads YAML as an editor does that knows nothing but the schema.
func asValue(t *testing.T, text string) (any, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
}

func TestSchemaIsGeneratedFromTheStruct(t *testing.T) {
	got := generated(t)
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; -update rewrites it\n%s", schemaFile, got)
	}
}

// What Parse accepts, an editor that checks against the schema must not mark.
func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	schema := compiled(t)
	texts := map[string]string{}
	for _, c := range accepted {
		texts[c.name] = with(t, c.old, c.replacement)
	}
	files, _ := filepath.Glob("../../infra/policies/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(data)
	}
	for name, text := range texts {
		v, err := asValue(t, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The canonical form is of the same schema.
		canonical, err := jsonschema.UnmarshalJSON(strings.NewReader(string(valid(t, text).Canonical())))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(canonical); err != nil {
			t.Errorf("%s, canonical: %v", name, err)
		}
	}
}

// The defaults an editor shows are those a silent file gets.
func TestSchemaNamesTheDefaults(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Default    any
			Properties map[string]struct{ Default any }
		}
	}
	if err := json.Unmarshal(generated(t), &schema); err != nil {
		t.Fatal(err)
	}
	d := defaults()
	limits := schema.Properties["limits"].Properties
	catchUp := schema.Properties["schedule"].Properties["catch_up"]
	for name, pair := range map[string][2]any{
		"max_objects":       {limits["max_objects"].Default, float64(d.Limits.MaxObjects)},
		"max_share":         {limits["max_share"].Default, d.Limits.MaxShare},
		"max_growth":        {limits["max_growth"].Default, d.Limits.MaxGrowth},
		"max_rate":          {limits["max_rate"].Default, float64(d.Limits.MaxRate)},
		"objective":         {schema.Properties["objective"].Default, "15m"},
		"urgent":            {schema.Properties["urgent"].Default, d.Urgent},
		"versions":          {schema.Properties["versions"].Default, string(d.Versions)},
		"catch_up":          {catchUp.Default, d.Schedule.CatchUp},
		"report_only_dates": {schema.Properties["report_only_dates"].Default, float64(d.ReportOnlyDatesNeeded())},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the schema says %v, a silent file gets %v", name, pair[0], pair[1])
		}
	}
	for name, property := range schema.Properties {
		if property.Default != nil && !slices.Contains([]string{"limits", "objective", "urgent", "versions", "report_only_dates"}, name) {
			t.Errorf("HP-08: %s must have no default", name)
		}
	}
	for name, property := range schema.Properties["schedule"].Properties {
		if property.Default != nil && name != "catch_up" {
			t.Errorf("HP-08: schedule.%s must have no default", name)
		}
	}
}

// beyondTheSchema are mistakes that JSON Schema can not say, or says only at a
// length nobody reads; Parse alone finds them. Everything else in the table of
// refusals that an editor can read at all is refused by the schema too.
var beyondTheSchema = map[string]bool{
	"HP-04 whole fraction": true, "HP-04 octal": true, "HP-04 hexadecimal": true,
	"HP-04 underscore": true, "HP-04 plus": true,
	"tag": true, "tagged table": true, "merge key": true, "explicit key": true, "anchor": true, "anchored table": true, "anchor on a key": true,
	"directive": true, "second document": true, "second document after an end": true, "empty second document": true,
	"text direction mark": true, "byte order mark inside": true, "line separator": true, "one byte too many": true, "lone carriage return": true,
	"bucket two dots": true, "bucket is an address": true, "bucket reserved prefix": true, "bucket is a documentation name": true,
	"bucket is a directory bucket": true, "bucket is an access point alias": true,
	"S10 only the tenant": true, "S3-10 text after the tenant": true, "keys text before the tenant": true,
	"keys tenant twice": true, "keys tenant twice in a segment": true, "keys another placeholder": true, "keys placeholder in capitals": true,
	"keys open brace": true, "keys empty segment": true, "keys empty last segment": true, "keys dot": true, "keys dots": true,
	"keys star": true, "keys question mark": true, "keys IAM variable": true, "keys bracket": true, "keys backslash": true, "keys blank": true,
	"keys control character": true, "S3-12 keys beyond ASCII": true, "keys a bucket address": true,
	"S5 fixed tenant beside the placeholder": true, "S5 neither tenant nor placeholder": true,
	"pattern does not compile": true, "pattern closes a group it did not open": true, "pattern that would swallow the end": true,
	"pattern with a look-ahead": true,
	"objective zero":            true, "objective below a minute": true, "objective over a week": true,
	"schedule weekly without a day": true, "schedule daily with a day": true,
	"HP-06 zone of the host": true, "HP-06 zone in another case": true, "HP-06 zone unknown": true, "HP-06 zone folder": true, "HP-06 zone path": true,
	"S9 share five decimals": true, "S9 share without a zero": true, "S9 growth three decimals": true,
}

func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	schema := compiled(t)
	checked := 0
	for _, r := range refusals {
		text := r.replacement
		if r.old != "" {
			text = with(t, r.old, r.replacement)
		}
		v, err := asValue(t, text)
		if err != nil {
			continue // no editor gets as far as the schema
		}
		checked++
		if ok := schema.Validate(v) == nil; ok != beyondTheSchema[r.name] {
			t.Errorf("%s: the schema says %v, this test %v", r.name, ok, beyondTheSchema[r.name])
		}
	}
	if checked < 100 {
		t.Errorf("only %d refusals were read", checked)
	}
}
