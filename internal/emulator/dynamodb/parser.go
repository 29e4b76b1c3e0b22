package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxExpression is the longest expression that DynamoDB reads, in bytes.
const maxExpression = 4096

// scope holds the placeholders of one request and notes which of them its
// expressions use: DynamoDB refuses a request with one too many.
type scope struct {
	names  map[string]string
	values item
	used   map[string]bool
}

// newScope checks the placeholders of a request. given tells whether the request
// has any expression to use them in.
func newScope(names map[string]string, values item, given bool) (*scope, *wire.Error) {
	switch {
	case names != nil && !given:
		return nil, invalid("ExpressionAttributeNames can only be specified when using expressions")
	case values != nil && !given:
		return nil, invalid("ExpressionAttributeValues can only be specified when using expressions")
	case names != nil && len(names) == 0:
		return nil, invalid("ExpressionAttributeNames must not be empty")
	case values != nil && len(values) == 0:
		return nil, invalid("ExpressionAttributeValues must not be empty")
	}
	for name := range names {
		if !validPlaceholder(name, '#') {
			return nil, invalid("ExpressionAttributeNames contains invalid key: Syntax error; key: %q", name)
		}
	}
	for name := range values {
		if !validPlaceholder(name, ':') {
			return nil, invalid("ExpressionAttributeValues contains invalid key: Syntax error; key: %q", name)
		}
	}
	return &scope{names: names, values: values, used: make(map[string]bool, len(names)+len(values))}, nil
}

// validPlaceholder reports whether the name is one token with its mark.
func validPlaceholder(name string, mark byte) bool {
	return len(name) > 1 && name[0] == mark && tokenLength(name) == len(name)
}

// finish refuses placeholders that no expression has used.
func (s *scope) finish() *wire.Error {
	unused := func(names []string) string {
		names = slices.DeleteFunc(names, func(name string) bool { return s.used[name] })
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	if left := unused(slices.Collect(maps.Keys(s.names))); left != "" {
		return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", left)
	}
	if left := unused(slices.Collect(maps.Keys(s.values))); left != "" {
		return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", left)
	}
	return nil
}

// parser reads one expression. After the first problem every token reads as the
// end, so that the rules of the grammar unwind by themselves.
type parser struct {
	*scope
	title   string // such as "ConditionExpression", for messages
	source  string
	tokens  []token
	next    int
	paths   []path // every document path, in the order in which it came
	problem *wire.Error
}

func (s *scope) parser(title, source string) *parser {
	p := &parser{scope: s, title: title, source: source}
	if len(source) > maxExpression {
		p.fail("Expression size has exceeded the maximum allowed size; expression size: %d", len(source))
		return p
	}
	if p.tokens = lex(source); len(p.tokens) == 0 {
		p.fail("The expression can not be empty;")
	}
	return p
}

// fail notes the first problem and ends the reading.
func (p *parser) fail(format string, args ...any) {
	p.refuse(invalid("Invalid %s: %s", p.title, fmt.Sprintf(format, args...)))
}

// refuse notes a problem that has its own sentence.
func (p *parser) refuse(problem *wire.Error) {
	if p.problem == nil {
		p.problem = problem
	}
	p.next = len(p.tokens)
}

// syntaxError fails at the next token, and shows it between its neighbours.
func (p *parser) syntaxError() {
	if p.problem != nil {
		return
	}
	shown := "<EOF>"
	from, to := 0, len(p.source)
	if p.next < len(p.tokens) {
		shown = p.tokens[p.next].text
	}
	if i := min(p.next, len(p.tokens)) - 1; i >= 0 {
		from = p.tokens[i].at
	}
	if i := p.next + 1; i < len(p.tokens) {
		to = p.tokens[i].at + len(p.tokens[i].text)
	}
	p.fail("Syntax error; token: \"%s\", near: \"%s\"", shown, strings.TrimSpace(p.source[from:to]))
}

// at returns the token that is ahead by that many.
func (p *parser) at(ahead int) token {
	if i := p.next + ahead; i < len(p.tokens) {
		return p.tokens[i]
	}
	return token{}
}

func (p *parser) peek() token { return p.at(0) }

// take returns the next token and goes on.
func (p *parser) take() token {
	t := p.peek()
	p.next++
	return t
}

// is reports whether the next token is this sign, or this keyword in any case.
func (p *parser) is(text string) bool { return strings.EqualFold(p.peek().text, text) }

// accept takes the next token if it is this one.
func (p *parser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.next++
	return true
}

// expect takes the next token, which must be this one.
func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.syntaxError()
	}
}

// end returns what went wrong. Tokens that are left did.
func (p *parser) end() *wire.Error {
	if p.problem == nil && p.next < len(p.tokens) {
		p.syntaxError()
	}
	return p.problem
}

// isCall reports whether a function's name and its parenthesis come next.
func (p *parser) isCall() bool { return p.peek().isWord() && p.at(1).text == "(" && !p.isKeyword() }

// isKeyword reports whether a word of the grammar comes next.
func (p *parser) isKeyword() bool {
	return p.is("AND") || p.is("OR") || p.is("NOT") || p.is("BETWEEN") || p.is("IN")
}

// name reads an attribute's name or the placeholder of one.
func (p *parser) name() string {
	t := p.peek()
	switch {
	case t.isPlaceholder('#'):
		p.next++
		name, ok := p.names[t.text]
		if !ok {
			p.fail("An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
		}
		p.used[t.text] = true
		return name
	case !t.isWord() || p.isKeyword():
		p.syntaxError()
	case isReserved(t.text):
		p.fail("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
	}
	p.next++
	return t.text
}

// path reads a document path such as a.b[1].
func (p *parser) path() path {
	route := path{{name: p.name()}}
	for {
		switch {
		case p.accept("."):
			route = append(route, step{name: p.name()})
		case p.accept("["):
			index, err := strconv.Atoi(p.peek().text)
			if err != nil || index < 0 {
				p.syntaxError()
			}
			p.next++
			p.expect("]")
			route = append(route, step{index: index, element: true})
		default:
			p.paths = append(p.paths, route)
			return route
		}
	}
}

// value reads the placeholder of a value.
func (p *parser) value() value {
	t := p.peek()
	if !t.isPlaceholder(':') {
		p.syntaxError()
		return value{}
	}
	p.next++
	v, ok := p.values[t.text]
	if !ok {
		p.fail("An expression attribute value used in expression is not defined; attribute value: %s", t.text)
	}
	p.used[t.text] = true
	return v
}
