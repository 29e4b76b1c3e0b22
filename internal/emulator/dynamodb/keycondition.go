package dynamodb

import (
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// keyTest is one comparison of a key condition expression: of a name with literals.
type keyTest struct {
	name     string
	operator string
	bounds   []value
}

// keyCondition picks the rows of one partition whose sort key passes one test.
type keyCondition struct {
	hash     value
	operator string // of the test on the sort key, "" without one
	bounds   []value
}

// keyTests parses a key condition expression. Whether its names are keys is up to
// the table: see over.
func (s *scope) keyTests(source *string) ([]keyTest, *wire.Error) {
	if source == nil {
		return nil, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	p := s.parser("KeyConditionExpression", *source)
	tests := p.keyTests()
	if problem := p.end(); problem != nil {
		return nil, problem
	}
	named := map[string]bool{}
	for _, t := range tests {
		if named[t.name] {
			return nil, invalid("KeyConditionExpressions must only contain one condition per key")
		}
		named[t.name] = true
	}
	if len(tests) > 2 {
		return nil, invalid("Conditions can be of length 1 or 2 only")
	}
	return tests, nil
}

// keyTests reads tests joined by AND, of which any may stand in parentheses.
func (p *parser) keyTests() []keyTest {
	var tests []keyTest
	for {
		switch {
		case p.is("NOT"):
			p.refuse(invalid("Invalid operator used in KeyConditionExpression: NOT"))
		case p.is("(") && !p.operandInParentheses():
			p.take()
			tests = append(tests, p.keyTests()...)
			p.expect(")")
		default:
			tests = append(tests, p.keyTest())
		}
		if p.is("OR") {
			p.refuse(invalid("Invalid operator used in KeyConditionExpression: OR"))
		}
		if !p.accept("AND") {
			return tests
		}
	}
}

// keyTest reads a comparison of one key attribute, on either side of the operator.
func (p *parser) keyTest() keyTest {
	if p.isCall() {
		return p.prefixTest()
	}
	left := p.operand()
	operator := p.take().text
	switch {
	case strings.EqualFold(operator, "BETWEEN"):
		low := p.operand()
		p.expect("AND")
		high := p.operand()
		p.checkBounds(low, high)
		return p.testOf("BETWEEN", left, low, high)
	case strings.EqualFold(operator, "IN"), operator == "<>":
		p.refuse(invalid("Invalid operator used in KeyConditionExpression: %s", strings.ToUpper(operator)))
	case !isComparator(operator):
		p.next--
		p.syntaxError()
	}
	right := p.operand()
	if left.literal != nil {
		return p.testOf(mirrored(operator), right, left)
	}
	return p.testOf(operator, left, right)
}

// mirrored returns the operator that says the same with its sides exchanged.
func mirrored(operator string) string {
	switch operator {
	case "<":
		return ">"
	case "<=":
		return ">="
	case ">":
		return "<"
	case ">=":
		return "<="
	}
	return operator
}

// prefixTest reads begins_with(a, b), the only function a key condition may have.
func (p *parser) prefixTest() keyTest {
	switch name := p.take().text; {
	case name == "size":
		p.refuse(invalid("KeyConditionExpressions cannot contain nested operations"))
	case functionArity(name) == 0:
		p.fail("Invalid function name; function: %s", name)
	case name != "begins_with":
		p.refuse(invalid("Invalid operator used in KeyConditionExpression: %s", name))
	}
	p.expect("(")
	left := p.operand()
	p.expect(",")
	right := p.operand()
	p.expect(")")
	p.checkPrefixKinds([]operand{right})
	return p.testOf("begins_with", left, right)
}

// testOf checks that a test compares one top-level name with literals.
func (p *parser) testOf(operator string, name operand, literals ...operand) keyTest {
	t := keyTest{operator: operator}
	switch {
	case p.problem != nil:
		return t
	case name.sized != nil:
		p.refuse(invalid("KeyConditionExpressions cannot contain nested operations"))
		return t
	case name.path == nil:
		p.refuse(invalid("Invalid condition in KeyConditionExpression: No key attribute specified"))
		return t
	case len(name.path) > 1:
		p.refuse(invalid("KeyConditionExpressions cannot have conditions on nested attributes"))
		return t
	}
	t.name = name.path.head()
	for _, o := range literals {
		if o.literal == nil {
			p.refuse(invalid("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"))
			return t
		}
		t.bounds = append(t.bounds, *o.literal)
	}
	return t
}

// over makes the tests a condition on keys of the schema.
func (s schema) over(tests []keyTest, types map[string]kind) (keyCondition, *wire.Error) {
	var c keyCondition
	found, sorted := false, false
	for _, t := range tests {
		isHash := t.name == s.hash
		if !isHash && (s.sort == "" || t.name != s.sort) {
			continue
		}
		for _, bound := range t.bounds {
			if bound.kind != types[t.name] {
				return c, badParameter("Condition parameter type does not match schema type")
			}
			if problem := checkKeyValue(t.name, bound, isHash); problem != nil {
				return c, problem
			}
		}
		switch {
		case !isHash:
			c.operator, c.bounds, sorted = t.operator, t.bounds, true
		case t.operator != "=":
			return c, invalid("Query key condition not supported")
		default:
			c.hash, found = t.bounds[0], true
		}
	}
	switch {
	case !found:
		return c, invalid("Query condition missed key schema element: %s", s.hash)
	case len(tests) == 2 && s.sort == "":
		return c, invalid("Query key condition not supported")
	case len(tests) == 2 && !sorted:
		return c, invalid("Query condition missed key schema element: %s", s.sort)
	}
	return c, nil
}
