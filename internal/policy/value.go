package policy

import (
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

var (
	wholeForm    = regexp.MustCompile(`\A-?(0|[1-9][0-9]*)\z`)
	decimalForm  = regexp.MustCompile(`\A-?(0|[1-9][0-9]*)(\.[0-9]+)?\z`)
	durationForm = regexp.MustCompile(`\A([0-9]+h)?([0-9]+m)?([0-9]+s)?\z`)
)

// text takes a string on one line, quoted or not. What YAML reads as a number or
// a truth value is none.
func text[T ~string](to *T) func(ast.Node) string {
	return func(n ast.Node) string {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return kind(n)
		}
		*to = T(s.Value)
		return ""
	}
}

// filled is text for an optional field: leaving it out is one thing, and
// leaving it blank is a mistake.
func filled(to *string) func(ast.Node) string {
	return func(n ast.Node) string {
		if s, ok := n.(*ast.StringNode); ok && s.Value == "" {
			return "empty"
		}
		return text(to)(n)
	}
}

// whole takes a decimal integer as people write it: no sign but minus, no
// leading zero, no 1e3, no 1_000.
func whole(to *int) func(ast.Node) string {
	return func(n ast.Node) string {
		word, wrong := plain(n)
		if wrong != "" {
			return wrong
		}
		if !wholeForm.MatchString(word) {
			return quote(word)
		}
		i, err := strconv.Atoi(word)
		if err != nil {
			return word
		}
		*to = i
		return ""
	}
}

// some is whole for an optional field in which 0 stands for a file that is
// silent: whoever writes a 0 means something else.
func some(to *int) func(ast.Node) string {
	return func(n ast.Node) string {
		wrong := whole(to)(n)
		if wrong == "" && *to == 0 {
			return "0"
		}
		return wrong
	}
}

// decimal takes a number as people write it.
func decimal(to *float64) func(ast.Node) string {
	return func(n ast.Node) string {
		word, wrong := plain(n)
		if wrong != "" {
			return wrong
		}
		if !decimalForm.MatchString(word) {
			return quote(word)
		}
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return quote(word)
		}
		*to = f
		return ""
	}
}

// plain returns the characters of an unquoted scalar, whatever YAML takes it for.
func plain(n ast.Node) (word, wrong string) {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, ""
	case *ast.StringNode:
		if n.GetToken().Type == token.StringType {
			return n.Value, ""
		}
		return "", "the text " + quote(n.Value)
	}
	return "", kind(n)
}

func duration(to *time.Duration) func(ast.Node) string {
	return func(n ast.Node) string {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return kind(n)
		}
		d, err := time.ParseDuration(s.Value)
		if err != nil || !durationForm.MatchString(s.Value) {
			return quote(s.Value)
		}
		*to = d
		return ""
	}
}

func truth(to *bool) func(ast.Node) string {
	return func(n ast.Node) string {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return kind(n)
		}
		*to = b.Value
		return ""
	}
}

// kind names what stands where something else was expected.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return "the text " + quote(n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return "the truth value " + n.GetToken().Value
	case *ast.NullNode:
		return "without a value"
	case *ast.LiteralNode:
		return "a text block"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a table"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode:
		return "an anchor (&)"
	case *ast.AliasNode:
		return "an alias (*)"
	case *ast.TagNode:
		return "a tag (!)"
	case *ast.MergeKeyNode:
		return "a merge key (<<)"
	case *ast.MappingKeyNode:
		return "an explicit key (?)"
	default:
		return "a " + n.Type().String()
	}
}
