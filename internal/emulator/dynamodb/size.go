package dynamodb

import "github.com/expunge-aws/expunge/internal/emulator/wire"

const (
	maxItemSize = 400 << 10
	// maxNesting is how deep lists and maps may lie in each other.
	maxNesting = 32
)

// size returns the bytes that an item is stored and billed by: its names and values.
func (it item) size() int {
	n := 0
	for name, v := range it {
		n += len(name) + v.size()
	}
	return n
}

// size returns a value's bytes as DynamoDB counts them, which it documents as
// "approximately" for numbers.
func (v value) size() int {
	switch v.kind {
	case kindNumber:
		return decimalOf(v.text).size()
	case kindBool, kindNull:
		return 1
	case kindList:
		n := 3
		for _, element := range v.list {
			n += 1 + element.size()
		}
		return n
	case kindMap:
		return 3 + len(v.fields) + v.fields.size()
	case kindNumbers:
		n := 0
		for _, member := range v.set {
			n += decimalOf(member).size()
		}
		return n
	case kindStrings, kindBytes:
		n := 0
		for _, member := range v.set {
			n += len(member)
		}
		return n
	default:
		return len(v.text)
	}
}

// checkNesting refuses an item whose lists and maps lie too deep in each other.
func (it item) checkNesting() *wire.Error {
	for _, v := range it {
		if v.deeperThan(maxNesting) {
			return invalid("Nesting Levels have exceeded supported limits")
		}
	}
	return nil
}

func (v value) deeperThan(levels int) bool {
	if levels < 0 {
		return true
	}
	for _, element := range v.list {
		if element.deeperThan(levels - 1) {
			return true
		}
	}
	for _, field := range v.fields {
		if field.deeperThan(levels - 1) {
			return true
		}
	}
	return false
}
