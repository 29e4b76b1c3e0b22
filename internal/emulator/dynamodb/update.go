package dynamodb

import (
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxUpdateOperators is how many functions and operators an update may have.
const maxUpdateOperators = 300

// source computes the value that a SET stores, from the item as it was.
type source func(item) (value, *wire.Error)

// action is one assignment of an update expression.
type action struct {
	section string // SET, REMOVE, ADD or DELETE
	path    path
	source  source // of a SET
	operand value  // of an ADD or a DELETE
}

// update is a parsed update expression.
type update struct {
	actions []action
	paths   []path // where the actions write
}

// update parses an update expression. An absent one has no actions.
func (s *scope) update(expression *string) (update, *wire.Error) {
	var u update
	if expression == nil {
		return u, nil
	}
	p := &updateParser{parser: s.parser("UpdateExpression", *expression)}
	sections := map[string]bool{}
	for p.next < len(p.tokens) {
		section := strings.ToUpper(p.peek().text)
		switch section {
		case "SET", "REMOVE", "ADD", "DELETE":
		default:
			p.syntaxError()
		}
		p.take()
		if sections[section] {
			p.fail("The \"%s\" section can only be used once in an update expression;", section)
		}
		sections[section] = true
		u.actions = append(u.actions, p.action(section))
		for p.accept(",") {
			u.actions = append(u.actions, p.action(section))
		}
	}
	if problem := p.end(); problem != nil {
		return u, problem
	}
	for _, a := range u.actions {
		u.paths = append(u.paths, a.path)
	}
	if problem := apart(u.paths); problem != "" {
		return u, invalid("Invalid UpdateExpression: %s", problem)
	}
	if p.operators > maxUpdateOperators {
		return u, invalid("Invalid UpdateExpression: The expression contains too many operators; operator count: %d", p.operators)
	}
	return u, nil
}

// updateParser reads the grammar of update expressions.
type updateParser struct {
	*parser
	operators int
}

// action reads one assignment of the section.
func (p *updateParser) action(section string) action {
	a := action{section: section, path: p.path()}
	p.operators++
	switch section {
	case "SET":
		p.expect("=")
		a.source = p.sum()
	case "ADD", "DELETE":
		a.operand = p.value()
		if k := a.operand.kind; p.problem == nil && !k.isSet() && (section == "DELETE" || k != kindNumber) {
			p.fail("Incorrect operand type for operator or function; operator: %s, operand type: %s", section, longName(k))
		}
	}
	return a
}

// longName is a type as this one message calls it.
func longName(k kind) string {
	switch k {
	case kindString:
		return "STRING"
	case kindNumber:
		return "NUMBER"
	case kindBinary:
		return "BINARY"
	case kindBool:
		return "BOOLEAN"
	case kindList:
		return "LIST"
	case kindMap:
		return "MAP"
	default:
		return string(k)
	}
}

// setOperand is one side of a sum or one argument of a function.
type setOperand struct {
	source  source
	path    path  // when it is nothing but a path
	literal *kind // the type of a literal
}

// sum reads a, a + b or a - b, each as a whole in parentheses or not.
func (p *updateParser) sum() source {
	if p.is("(") && p.sumInParentheses() {
		p.take()
		s := p.sum()
		p.expect(")")
		return s
	}
	left := p.setOperand()
	sign := p.peek().text
	if sign != "+" && sign != "-" {
		return left.source
	}
	p.take()
	p.operators++
	right := p.setOperand()
	p.checkLiterals(sign, kindNumber, left, right)
	return func(it item) (value, *wire.Error) {
		a, b, problem := both(left.source, right.source, it, kindNumber)
		if problem != nil {
			return value{}, problem
		}
		second := decimalOf(b.text)
		if sign == "-" {
			second = second.negated()
		}
		d, problem := decimalOf(a.text).plus(second)
		return numberValue(d), problem
	}
}

// sumInParentheses looks ahead for a sum that is as a whole in the parenthesis that
// comes next, rather than only its first operand.
func (p *updateParser) sumInParentheses() bool {
	depth := 0
	for ahead := 0; ; ahead++ {
		switch p.at(ahead).text {
		case "":
			return true // which the sum will report
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				after := p.at(ahead + 1).text
				return after != "+" && after != "-"
			}
		}
	}
}

// both computes two operands, which have to be of the kind.
func both(left, right source, it item, want kind) (a, b value, problem *wire.Error) {
	if a, problem = left(it); problem != nil {
		return a, b, problem
	}
	if b, problem = right(it); problem != nil {
		return a, b, problem
	}
	if a.kind != want || b.kind != want {
		return a, b, wrongOperand()
	}
	return a, b, nil
}

func wrongOperand() *wire.Error {
	return invalid("An operand in the update expression has an incorrect data type")
}

// setOperand reads a path, a placeholder or a function.
func (p *updateParser) setOperand() setOperand {
	switch {
	case p.accept("("):
		o := p.setOperand()
		p.expect(")")
		return o
	case p.isCall():
		return p.function()
	case p.peek().isPlaceholder(':'):
		v := p.value()
		return setOperand{source: func(item) (value, *wire.Error) { return v, nil }, literal: &v.kind}
	}
	at := p.path()
	return setOperand{path: at, source: func(it item) (value, *wire.Error) {
		v, ok := at.of(it)
		if !ok {
			return v, invalid("The provided expression refers to an attribute that does not exist in the item")
		}
		return v, nil
	}}
}

// function reads if_not_exists(path, a) or list_append(a, b).
func (p *updateParser) function() setOperand {
	name := p.take().text
	if name != "if_not_exists" && name != "list_append" {
		p.fail("Invalid function name; function: %s", name)
	}
	p.operators++
	p.expect("(")
	operands := []setOperand{p.setOperand()}
	for p.accept(",") {
		operands = append(operands, p.setOperand())
	}
	p.expect(")")
	if len(operands) != 2 {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(operands))
		return setOperand{}
	}
	first, second := operands[0], operands[1]
	if name == "if_not_exists" {
		if first.path == nil {
			p.fail("Operator or function requires a document path; operator or function: if_not_exists")
		}
		return setOperand{source: func(it item) (value, *wire.Error) {
			if v, ok := first.path.of(it); ok {
				return v, nil
			}
			return second.source(it)
		}}
	}
	p.checkLiterals(name, kindList, first, second)
	return setOperand{source: func(it item) (value, *wire.Error) {
		a, b, problem := both(first.source, second.source, it, kindList)
		return value{kind: kindList, list: append(a.list[:len(a.list):len(a.list)], b.list...)}, problem
	}}
}

// checkLiterals refuses literals of another type than the operator takes.
func (p *updateParser) checkLiterals(operator string, want kind, operands ...setOperand) {
	for _, o := range operands {
		if o.literal != nil && *o.literal != want {
			p.fail("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, *o.literal)
		}
	}
}
