package dynamodb

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	maxHashKey = 2048
	maxSortKey = 1024
)

// schema names the key attributes of a table or an index.
type schema struct {
	hash string
	sort string // "" where rows have no sort key
}

// names returns the key attributes, in order.
func (s schema) names() []string {
	if s.sort == "" {
		return []string{s.hash}
	}
	return []string{s.hash, s.sort}
}

// A row's key in the tree is the partition, and then the sort key. A partition
// begins with a digest, as DynamoDB spreads partitions by theirs: rows of
// different partitions come in no order that code could lean on.
//
// Each part is escaped and closed: a zero byte becomes 00 FF, and the end is
// 00 01. So bytes sort as the values do, no part can run into the next one, and
// everything that begins with a prefix is one range.
const (
	closing       = "\x00\x01"
	afterClosing  = "\x00\x02"
	digestLength  = 8
	exponentShift = 1 << 15 // makes a number's exponent positive
)

// escaped returns the value's bytes in DynamoDB's order, open at the end.
func escaped(v value) string {
	text := v.text
	if v.kind == kindNumber {
		text = decimalOf(text).ordered()
	}
	return strings.ReplaceAll(text, "\x00", "\x00\xff")
}

// ordered returns bytes that sort as numbers do: by sign, exponent and digits.
func (d decimal) ordered() string {
	if d.digits == "" {
		return "\x02"
	}
	magnitude := append(binary.BigEndian.AppendUint16(nil, uint16(d.exponent+exponentShift)), d.digits...) //nolint:gosec // the range of exponents is ±130
	if !d.negative {
		return "\x03" + string(magnitude)
	}
	magnitude = append(magnitude, 0) // so that, turned over, the shorter of two sorts last
	for i := range magnitude {
		magnitude[i] = ^magnitude[i]
	}
	return "\x01" + string(magnitude)
}

// partition returns what the tree keys of all rows with this hash key begin with.
func partition(hash value) string {
	part := escaped(hash) + closing
	digest := sha256.Sum256([]byte(part))
	return string(digest[:digestLength]) + part
}

// treeKey returns the key of an item that has the schema's attributes.
func (s schema) treeKey(it item) string {
	key := partition(it[s.hash])
	if s.sort != "" {
		key += escaped(it[s.sort]) + closing
	}
	return key
}

// segment returns which of total equal shares of the partitions a tree key lies in.
func segment(key string, total int) int {
	share, _ := bits.Mul64(binary.BigEndian.Uint64([]byte(key[:digestLength])), uint64(total)) //nolint:gosec // total is at least 1
	return int(share)                                                                          //nolint:gosec // below total
}

// span is the range of tree keys from one, inclusive, to another, exclusive.
// The zero value is everything.
type span struct{ from, to string }

// has reports whether the key lies in the span.
func (s span) has(key string) bool { return key >= s.from && (s.to == "" || key < s.to) }

// span returns where the rows lie that meet the condition.
func (c keyCondition) span() span {
	all := partition(c.hash)
	s := span{all, strings.TrimSuffix(all, closing) + afterClosing}
	if c.operator == "" {
		return s
	}
	open := all + escaped(c.bounds[0])
	switch c.operator {
	case "=":
		return span{open + closing, open + afterClosing}
	case "<":
		s.to = open + closing
	case "<=":
		s.to = open + afterClosing
	case ">":
		s.from = open + afterClosing
	case ">=":
		s.from = open + closing
	case "BETWEEN":
		s = span{open + closing, all + escaped(c.bounds[1]) + afterClosing}
	case "begins_with":
		s = span{open, afterPrefix(open)}
	}
	return s
}

// afterPrefix returns the first key that sorts after all that begin with prefix.
func afterPrefix(prefix string) string {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff { // a closed partition is in front, so something is left
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// checkKeyValue refuses what can not be a key although its type is right.
func checkKeyValue(name string, v value, hash bool) *wire.Error {
	switch {
	case v.kind == kindNumber:
	case v.text == "" && v.kind == kindString:
		return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", name)
	case v.text == "":
		return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: %s", name)
	case hash && len(v.text) > maxHashKey:
		return badParameter("Size of hashkey has exceeded the maximum size limit of2048 bytes") // DynamoDB's own spelling
	case !hash && len(v.text) > maxSortKey:
		return badParameter("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
	return nil
}
