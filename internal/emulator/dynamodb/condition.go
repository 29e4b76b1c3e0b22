package dynamodb

import (
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxInOperands is how many values an IN may list.
const maxInOperands = 100

// predicate answers whether an item meets a condition. An absent item is nil.
type predicate func(item) bool

// condition is a parsed condition or filter expression.
type condition struct {
	holds predicate
	paths []path
}

// condition parses a condition expression. An absent one always holds.
func (s *scope) condition(title string, source *string) (condition, *wire.Error) {
	if source == nil {
		return condition{holds: func(item) bool { return true }}, nil
	}
	p := s.parser(title, *source)
	holds, _ := p.disjunction()
	return condition{holds, p.paths}, p.end()
}

// disjunction reads a OR b. bare is false when all of it stood in one pair of parentheses.
func (p *parser) disjunction() (holds predicate, bare bool) {
	holds, bare = p.conjunction()
	for p.accept("OR") {
		left := holds
		right, _ := p.conjunction()
		holds, bare = func(it item) bool { return left(it) || right(it) }, true
	}
	return holds, bare
}

// conjunction reads a AND b.
func (p *parser) conjunction() (holds predicate, bare bool) {
	holds, bare = p.negation()
	for p.accept("AND") {
		left := holds
		right, _ := p.negation()
		holds, bare = func(it item) bool { return left(it) && right(it) }, true
	}
	return holds, bare
}

// negation reads NOT a.
func (p *parser) negation() (holds predicate, bare bool) {
	if !p.accept("NOT") {
		return p.primary()
	}
	inner, _ := p.negation()
	return func(it item) bool { return !inner(it) }, true
}

// primary reads a condition in parentheses, a function or a comparison.
func (p *parser) primary() (holds predicate, bare bool) {
	if p.is("(") && !p.operandInParentheses() {
		p.take()
		inner, bare := p.disjunction()
		if p.expect(")"); !bare {
			p.fail("The expression has redundant parentheses;")
		}
		return inner, false
	}
	if p.isCall() && p.peek().text != "size" {
		return p.function(), true
	}
	return p.comparison(), true
}

// operandInParentheses looks ahead for what follows the parenthesis that comes
// next: a comparison can follow only on an operand.
func (p *parser) operandInParentheses() bool {
	depth := 0
	for ahead := 0; ; ahead++ {
		switch p.at(ahead).text {
		case "":
			return false
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				after := p.at(ahead + 1).text
				return isComparator(after) || strings.EqualFold(after, "BETWEEN") || strings.EqualFold(after, "IN")
			}
		}
	}
}

// operand is what a comparison or a function looks at: a path, a literal value, or
// the size of one of them.
type operand struct {
	path    path
	literal *value
	sized   *operand
}

// of returns the operand's value for an item, if it has one.
func (o operand) of(it item) (value, bool) {
	switch {
	case o.literal != nil:
		return *o.literal, true
	case o.sized == nil:
		return o.path.of(it)
	}
	v, ok := o.sized.of(it)
	if !ok {
		return value{}, false
	}
	var n int
	switch v.kind {
	case kindString, kindBinary:
		n = len(v.text)
	case kindList:
		n = len(v.list)
	case kindMap:
		n = len(v.fields)
	case kindStrings, kindNumbers, kindBytes:
		n = len(v.set)
	default:
		return value{}, false
	}
	return value{kind: kindNumber, text: strconv.Itoa(n)}, true
}

// kind returns the operand's type where the expression alone determines it, else "".
func (o operand) kind() kind {
	switch {
	case o.literal != nil:
		return o.literal.kind
	case o.sized != nil:
		return kindNumber
	}
	return ""
}

// operand reads a path, a placeholder or size(a).
func (p *parser) operand() operand {
	switch {
	case p.accept("("):
		o := p.operand()
		p.expect(")")
		return o
	case p.peek().isPlaceholder(':'):
		v := p.value()
		return operand{literal: &v}
	case p.isCall():
		return p.size()
	}
	return operand{path: p.path()}
}

// size reads size(a), the only function that is an operand.
func (p *parser) size() operand {
	switch name := p.take().text; {
	case name != "size" && functionArity(name) == 0:
		p.fail("Invalid function name; function: %s", name)
	case name != "size":
		p.fail("The function is not allowed to be used this way in an expression; function: %s", name)
	}
	p.expect("(")
	inner := p.operand()
	p.expect(")")
	if k := inner.kind(); k == kindNumber || k == kindBool || k == kindNull {
		p.fail("Incorrect operand type for operator or function; operator or function: size, operand type: %s", inner.kind())
	}
	return operand{sized: &inner}
}

func isComparator(text string) bool {
	switch text {
	case "=", "<>", "<", "<=", ">", ">=":
		return true
	}
	return false
}

// comparison reads a = b, a BETWEEN b AND c, or a IN (b, c).
func (p *parser) comparison() predicate {
	left := p.operand()
	switch {
	case p.accept("BETWEEN"):
		low := p.operand()
		p.expect("AND")
		high := p.operand()
		p.checkBounds(low, high)
		return func(it item) bool { return compare(it, left, ">=", low) && compare(it, left, "<=", high) }
	case p.accept("IN"):
		return p.membership(left)
	}
	comparator := p.peek().text
	if !isComparator(comparator) {
		p.syntaxError()
		return nil
	}
	p.take()
	right := p.operand()
	p.checkDistinct(comparator, left, right)
	if comparator != "=" && comparator != "<>" {
		p.checkOrdered(comparator, left, right)
	}
	return func(it item) bool { return compare(it, left, comparator, right) }
}

// membership reads the list of an IN.
func (p *parser) membership(left operand) predicate {
	p.expect("(")
	list := []operand{p.operand()}
	for p.accept(",") {
		list = append(list, p.operand())
	}
	p.expect(")")
	if len(list) > maxInOperands {
		p.fail("The IN operator is provided with too many operands; number of operands: %d", len(list))
	}
	return func(it item) bool {
		return slices.ContainsFunc(list, func(o operand) bool { return compare(it, left, "=", o) })
	}
}

// compare evaluates one comparison. What is absent is unequal to everything and
// has no order.
func compare(it item, left operand, comparator string, right operand) bool {
	a, leftThere := left.of(it)
	b, rightThere := right.of(it)
	there := leftThere && rightThere
	switch comparator {
	case "=":
		return there && a.equal(b)
	case "<>":
		return !there || !a.equal(b)
	}
	if !there {
		return false
	}
	order, ok := a.compare(b)
	if !ok {
		return false
	}
	switch comparator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// checkBounds refuses literal bounds that no value can lie between.
func (p *parser) checkBounds(low, high operand) {
	p.checkOrdered("BETWEEN", low, high)
	if low.literal == nil || high.literal == nil {
		return
	}
	shown := func(o operand) string {
		return "AttributeValue: {" + string(o.literal.kind) + ":" + o.literal.text + "}"
	}
	rule := ""
	if order, ok := low.literal.compare(*high.literal); !ok {
		rule = "same data type for lower and upper bounds"
	} else if order > 0 {
		rule = "upper bound to be greater than or equal to lower bound"
	}
	if rule != "" {
		p.fail("The BETWEEN operator requires %s; lower bound operand: %s, upper bound operand: %s", rule, shown(low), shown(high))
	}
}

// checkOrdered refuses literals of types that have no order.
func (p *parser) checkOrdered(operator string, operands ...operand) {
	for _, o := range operands {
		switch k := o.kind(); k {
		case "", kindString, kindNumber, kindBinary:
		default:
			p.fail("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, k)
		}
	}
}

// checkDistinct refuses a comparison of a path with itself.
func (p *parser) checkDistinct(operator string, left, right operand) {
	if left.path != nil && left.path.equal(right.path) {
		p.fail("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s",
			operator, left.path)
	}
}

// functionArity returns how many operands a function of conditions takes, 0 if there is no such one.
func functionArity(name string) int {
	switch name {
	case "attribute_exists", "attribute_not_exists", "size":
		return 1
	case "attribute_type", "begins_with", "contains":
		return 2
	}
	return 0
}

// function reads a function that is a condition by itself.
func (p *parser) function() predicate {
	name := p.take().text
	if functionArity(name) == 0 {
		p.fail("Invalid function name; function: %s", name)
		return nil
	}
	p.expect("(")
	operands := []operand{p.operand()}
	for p.accept(",") {
		operands = append(operands, p.operand())
	}
	p.expect(")")
	if len(operands) != functionArity(name) {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(operands))
		return nil
	}
	first, last := operands[0], operands[len(operands)-1]
	switch name {
	case "attribute_exists", "attribute_not_exists":
		if first.path == nil {
			p.fail("Operator or function requires a document path; operator or function: %s", name)
		}
		want := name == "attribute_exists"
		return func(it item) bool { _, there := first.of(it); return there == want }
	case "attribute_type":
		p.checkTypeName(last)
		return bothThere(first, last, func(v, name value) bool { return string(v.kind) == name.text })
	case "begins_with":
		p.checkDistinct(name, first, last)
		p.checkPrefixKinds(operands)
		return bothThere(first, last, func(v, prefix value) bool {
			return v.kind == prefix.kind && (v.kind == kindString || v.kind == kindBinary) && strings.HasPrefix(v.text, prefix.text)
		})
	}
	p.checkDistinct(name, first, last)
	return bothThere(first, last, value.contains)
}

// bothThere returns a predicate that holds for no item that lacks an operand.
func bothThere(first, last operand, holds func(a, b value) bool) predicate {
	return func(it item) bool {
		a, firstThere := first.of(it)
		b, lastThere := last.of(it)
		return firstThere && lastThere && holds(a, b)
	}
}

// contains reports whether part is a substring, a member or an element of v.
func (v value) contains(part value) bool {
	switch v.kind {
	case kindString, kindBinary:
		return part.kind == v.kind && strings.Contains(v.text, part.text)
	case kindList:
		return slices.ContainsFunc(v.list, part.equal)
	case kindStrings, kindNumbers, kindBytes:
		return part.kind+"S" == v.kind && slices.Contains(v.set, part.text)
	default:
		return false
	}
}

// checkTypeName refuses anything but the name of a type, given as a literal.
func (p *parser) checkTypeName(o operand) {
	switch {
	case o.kind() != kindString:
		shown := string(o.kind())
		if shown == "" {
			shown = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"
		}
		p.fail("Incorrect operand type for operator or function; operator or function: attribute_type, operand type: %s", shown)
	case !kind(o.literal.text).known():
		p.fail("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", o.literal.text)
	}
}

// checkPrefixKinds refuses literals that no prefix can be taken of.
func (p *parser) checkPrefixKinds(operands []operand) {
	for _, o := range operands {
		switch k := o.kind(); k {
		case "", kindString, kindBinary:
		default:
			p.fail("Incorrect operand type for operator or function; operator or function: begins_with, operand type: %s", k)
		}
	}
}
