package dynamodb

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// kind is a data type by the letters that stand for it on the wire.
type kind string

const (
	kindString  kind = "S"
	kindNumber  kind = "N"
	kindBinary  kind = "B"
	kindBool    kind = "BOOL"
	kindNull    kind = "NULL"
	kindList    kind = "L"
	kindMap     kind = "M"
	kindStrings kind = "SS"
	kindNumbers kind = "NS"
	kindBytes   kind = "BS"
)

// isSet reports whether values of the kind are sets.
func (k kind) isSet() bool { return k == kindStrings || k == kindNumbers || k == kindBytes }

// known reports whether there is such a kind.
func (k kind) known() bool {
	switch k {
	case kindString, kindNumber, kindBinary, kindBool, kindNull, kindList, kindMap:
		return true
	default:
		return k.isSet()
	}
}

// value is one attribute value. It is never changed once it is made: rows, answers
// and expressions share values.
type value struct {
	kind   kind
	text   string   // a string, a number in its plain form, or raw bytes
	truth  bool     // a BOOL
	list   []value  // an L
	fields item     // an M
	set    []string // members in the form of text, in the order in which they came
}

// item is a row, a key, or the values of a map.
type item map[string]value

func numberValue(d decimal) value { return value{kind: kindNumber, text: d.String()} }

// compare orders two values of one scalar kind. Others have no order.
func (v value) compare(w value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case kindString, kindBinary:
		return strings.Compare(v.text, w.text), true
	case kindNumber:
		return decimalOf(v.text).compare(decimalOf(w.text)), true
	default:
		return 0, false
	}
}

// equal reports whether two values are the same. A set's order does not matter.
func (v value) equal(w value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case kindBool:
		return v.truth == w.truth
	case kindNull:
		return true
	case kindList:
		return slices.EqualFunc(v.list, w.list, value.equal)
	case kindMap:
		return v.fields.equal(w.fields)
	case kindStrings, kindNumbers, kindBytes:
		return slices.Equal(slices.Sorted(slices.Values(v.set)), slices.Sorted(slices.Values(w.set)))
	default:
		return v.text == w.text
	}
}

func (it item) equal(other item) bool { return maps.EqualFunc(it, other, value.equal) }

// only returns the item with no more than the named attributes.
func (it item) only(names ...string) item {
	some := make(item, len(names))
	for _, name := range names {
		if v, ok := it[name]; ok {
			some[name] = v
		}
	}
	return some
}

// union returns the members of a set and those of another, each once.
func union(set, more []string) []string {
	return append(minus(set, more), more...)
}

// minus returns the members of a set that are not in the other, in a new slice.
func minus(set, less []string) []string {
	gone := make(map[string]bool, len(less))
	for _, member := range less {
		gone[member] = true
	}
	kept := make([]string, 0, len(set)+len(less))
	for _, member := range set {
		if !gone[member] {
			kept = append(kept, member)
		}
	}
	return kept
}

// UnmarshalJSON reads a value from its form on the wire, {"S": "text"}.
func (v *value) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	if len(members) > 1 {
		return invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	}
	for name, body := range members {
		v.kind = kind(name)
		return v.decode(body)
	}
	return emptyValue()
}

func emptyValue() *wire.Error {
	return invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
}

// decode reads the body of a value whose kind is known.
func (v *value) decode(body json.RawMessage) error {
	switch v.kind {
	case kindString:
		return json.Unmarshal(body, &v.text)
	case kindNumber:
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			return err
		}
		d, refusal := parseDecimal(text)
		if refusal != nil {
			return refusal
		}
		v.text = d.String()
	case kindBinary:
		var raw []byte
		if err := json.Unmarshal(body, &raw); err != nil {
			return err
		}
		v.text = string(raw)
	case kindBool:
		return json.Unmarshal(body, &v.truth)
	case kindNull:
		if err := json.Unmarshal(body, &v.truth); err != nil {
			return err
		}
		if !v.truth {
			return badParameter("Null attribute value types must have the value of true")
		}
	case kindList:
		v.list = []value{}
		return json.Unmarshal(body, &v.list)
	case kindMap:
		if err := json.Unmarshal(body, &v.fields); err != nil || v.fields != nil {
			return err
		}
		v.fields = item{} // a map can be written to
	case kindStrings, kindNumbers, kindBytes:
		return v.decodeSet(body)
	default:
		return emptyValue()
	}
	return nil
}

// decodeSet reads a set, which has members and each of them once.
func (v *value) decodeSet(body json.RawMessage) error {
	if err := json.Unmarshal(body, &v.set); err != nil {
		return err
	}
	if len(v.set) == 0 {
		switch v.kind {
		case kindStrings:
			return badParameter("An string set  may not be empty") // DynamoDB's own spelling
		case kindNumbers:
			return badParameter("An number set  may not be empty")
		default:
			return badParameter("Binary sets should not be empty")
		}
	}
	seen := make(map[string]bool, len(v.set))
	for i, shown := range v.set {
		member, err := v.kind.member(shown)
		if err != nil {
			return err
		}
		if seen[member] {
			return badParameter("Input collection [%s] contains duplicates.", strings.Join(v.set, ", "))
		}
		seen[member], v.set[i] = true, member
	}
	return nil
}

// member returns a set's member in the form of text.
func (k kind) member(shown string) (string, error) {
	switch k {
	case kindNumbers:
		d, refusal := parseDecimal(shown)
		if refusal != nil {
			return "", refusal
		}
		return d.String(), nil
	case kindBytes:
		raw, err := base64.StdEncoding.DecodeString(shown)
		return string(raw), err
	default:
		return shown, nil
	}
}

// MarshalJSON writes a value in its form on the wire.
func (v value) MarshalJSON() ([]byte, error) { return v.appendJSON(nil), nil }

// MarshalJSON writes an item with its attributes in order.
func (it item) MarshalJSON() ([]byte, error) { return it.appendJSON(nil), nil }

func (it item) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(it)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
		b = append(b, ':')
		b = it[name].appendJSON(b)
	}
	return append(b, '}')
}

func (v value) appendJSON(b []byte) []byte {
	b = append(b, `{"`...)
	b = append(b, v.kind...)
	b = append(b, `":`...)
	switch v.kind {
	case kindBool, kindNull:
		if v.truth {
			b = append(b, "true"...)
		} else {
			b = append(b, "false"...)
		}
	case kindList:
		b = appendAll(b, v.list, func(b []byte, v value) []byte { return v.appendJSON(b) })
	case kindMap:
		b = v.fields.appendJSON(b)
	case kindBinary:
		b = appendBytes(b, v.text)
	case kindBytes:
		b = appendAll(b, v.set, appendBytes)
	case kindStrings, kindNumbers:
		b = appendAll(b, v.set, appendString)
	default:
		b = appendString(b, v.text)
	}
	return append(b, '}')
}

// appendAll writes a JSON array.
func appendAll[T any](b []byte, all []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, t := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, t)
	}
	return append(b, ']')
}

// appendBytes writes raw bytes as JSON does, in base 64.
func appendBytes(b []byte, raw string) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(raw))
	return append(b, '"')
}

// appendString writes a JSON string. Plain text, which most of it is, needs no escape.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always has a JSON form
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
