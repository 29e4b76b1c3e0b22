package region

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// A thing is a resource as a check reads it: under the construct's name, and with
// every intrinsic function written out, so that a reference is one word.
type thing struct {
	name       string         // the logical id without its digest
	id         string         // the logical id
	kind       string         // such as AWS::SQS::Queue
	properties map[string]any // without intrinsic functions: see written
	deletion   [2]string      // DeletionPolicy and UpdateReplacePolicy
}

func (x thing) at(path ...any) any { return at(x.properties, path...) }

// word is a property as one text, "" where it is absent.
func (x thing) word(path ...any) string { return word(x.at(path...)) }

// number is a property as a number, -1 where it is absent.
func (x thing) number(path ...any) float64 {
	n, ok := x.at(path...).(float64)
	if !ok {
		return -1
	}
	return n
}

func (x thing) arn() string { return "<" + x.name + ".Arn>" }
func (x thing) ref() string { return "<" + x.name + ">" }

// things returns the resources of a kind in order of name; of all kinds for "".
func (t template) things(kind string) []thing {
	var found []thing
	for id, r := range t.Resources {
		if kind == "" || r.Type == kind {
			found = append(found, t.read(id, r))
		}
	}
	slices.SortFunc(found, func(a, b thing) int { return strings.Compare(a.id, b.id) })
	return found
}

func (t template) read(id string, r resource) thing {
	properties, _ := t.written(r.Properties).(map[string]any)
	return thing{t.short(id), id, r.Type, properties, [2]string{r.DeletionPolicy, r.UpdateReplacePolicy}}
}

// thing returns the resource of a kind that was declared under a name, and an empty one
// if there is none: what a check then misses, it reports.
func (t template) thing(kind, name string) thing {
	for id, r := range t.Resources {
		if r.Type == kind && t.short(id) == name {
			return t.read(id, r)
		}
	}
	return thing{name: name, kind: kind}
}

var digest = regexp.MustCompile(`[0-9A-F]{8}$`)

// short is a logical id without its digest.
func (t template) short(id string) string { return digest.ReplaceAllString(id, "") }

// written replaces intrinsic functions by words: <Pages> is a Ref, <Pages.Arn> a GetAtt.
func (t template) written(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.written(v[i])
		}
		return out
	case map[string]any:
		if text, ok := t.intrinsic(v); ok {
			return text
		}
		out := map[string]any{}
		for name, value := range v {
			out[name] = t.written(value)
		}
		return out
	default:
		return v
	}
}

func (t template) intrinsic(v map[string]any) (string, bool) {
	if len(v) != 1 {
		return "", false
	}
	if id, ok := v["Ref"].(string); ok {
		return "<" + t.short(id) + ">", true
	}
	if id, ok := at(v, "Fn::GetAtt", 0).(string); ok {
		return "<" + t.short(id) + "." + word(at(v, "Fn::GetAtt", 1)) + ">", true
	}
	if text, ok := v["Fn::Sub"].(string); ok {
		return strings.NewReplacer("${", "<", "}", ">").Replace(text), true
	}
	if _, ok := v["Fn::Join"]; ok {
		var parts []string
		for _, part := range values(at(v, "Fn::Join", 1)) {
			parts = append(parts, word(t.written(part)))
		}
		return strings.Join(parts, word(at(v, "Fn::Join", 0))), true
	}
	return "", false
}

// word is a value as one text: JSON with its names in order, if it is not text already.
func word(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		data, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(data)
	}
}

// words is a property that is one text or a list of them, in order.
func words(v any) []string {
	var out []string
	for _, item := range values(v) {
		out = append(out, word(item))
	}
	slices.Sort(out)
	return out
}

// A statement is one of a policy document.
type statement struct {
	sid, effect, principal string
	actions, resources     []string
	condition              string // JSON, "" without
}

// statements reads a policy document that is written out. What says "not this" instead
// of this shows in its words, and equals nothing that a check allows.
func statements(document any) []statement {
	var out []statement
	for _, s := range values(at(document, "Statement")) {
		one := statement{
			sid: word(at(s, "Sid")), effect: word(at(s, "Effect")), principal: word(at(s, "Principal")),
			actions: words(at(s, "Action")), resources: words(at(s, "Resource")), condition: word(at(s, "Condition")),
		}
		for _, not := range []string{"NotAction", "NotResource", "NotPrincipal"} {
			if v := at(s, not); v != nil {
				one.actions = append(one.actions, not+" "+word(v))
			}
		}
		out = append(out, one)
	}
	return out
}

// on returns the statements of the resource policies that a queue, a topic, a bucket or
// a key has.
func (t template) on(x thing) []statement {
	if x.kind == "AWS::KMS::Key" {
		return statements(x.at("KeyPolicy"))
	}
	var out []statement
	for _, policy := range t.things(x.kind + "Policy") {
		attached := append(words(policy.at("Queues")), words(policy.at("Topics"))...)
		if slices.Contains(append(attached, policy.word("Bucket")), x.ref()) {
			out = append(out, statements(policy.at("PolicyDocument"))...)
		}
	}
	return out
}

// A grant is one line of who may do what.
type grant struct{ role, effect, action, resource, condition string }

// grants returns what every role of the stack may do, in order.
func (t template) grants() []grant {
	if len(*t.may) > 0 {
		return slices.Clone(*t.may)
	}
	var out []grant
	add := func(role string, document any) {
		for _, s := range statements(document) {
			for _, action := range s.actions {
				for _, resource := range s.resources {
					out = append(out, grant{role, s.effect, action, resource, s.condition})
				}
			}
		}
	}
	for _, role := range t.things("AWS::IAM::Role") {
		for _, inline := range values(role.at("Policies")) {
			add(role.name, at(inline, "PolicyDocument"))
		}
	}
	// What does not fit the one policy of a role is in managed ones of the stack.
	for _, policy := range append(t.things("AWS::IAM::Policy"), t.things("AWS::IAM::ManagedPolicy")...) {
		for _, role := range values(policy.at("Roles")) {
			add(strings.Trim(word(role), "<>"), policy.at("PolicyDocument"))
		}
	}
	slices.SortFunc(out, func(a, b grant) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	*t.may = slices.Compact(out)
	return slices.Clone(*t.may)
}

// grantsOf returns what one role may do.
func (t template) grantsOf(role string) []grant {
	return slices.DeleteFunc(t.grants(), func(g grant) bool { return g.role != role })
}

// granted returns "action resource" of one role's grants, in order.
func (t template) granted(role string) []string {
	set := map[string]bool{}
	for _, g := range t.grantsOf(role) {
		set[g.action+" "+g.resource] = true
	}
	return slices.Sorted(maps.Keys(set))
}
