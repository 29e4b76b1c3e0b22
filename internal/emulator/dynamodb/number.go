package dynamodb

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// What a number may be: 38 significant digits, from 1E-130 to below 1E+126.
const (
	maxDigits   = 38
	maxExponent = 126
	minExponent = -129
)

// decimal is an exact number: 0.digits × 10^exponent. Its digits have no zeros at
// either end, so that equal numbers have one form; zero has none at all.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// parseDecimal reads a number in plain or scientific notation.
func parseDecimal(s string) (decimal, *wire.Error) {
	notNumeric := invalid("The parameter cannot be converted to a numeric value: %s", s)
	rest := strings.TrimPrefix(s, "-")
	d := decimal{negative: rest != s}
	if !d.negative {
		rest = strings.TrimPrefix(s, "+")
	}
	mantissa, shift := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var ok bool
		mantissa = rest[:i]
		if shift, ok = parseShift(rest[i+1:]); !ok {
			return decimal{}, notNumeric
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	if all == "" || !onlyDigits(all) {
		return decimal{}, notNumeric
	}
	d.digits = strings.TrimLeft(all, "0")
	d.exponent = len(whole) + shift - (len(all) - len(d.digits))
	d.digits = strings.TrimRight(d.digits, "0")
	return d.checked()
}

// parseShift reads the exponent of scientific notation. Ones far beyond the range
// of numbers are cut, lest they overflow on the way to being refused.
func parseShift(s string) (int, bool) {
	const far = 1 << 30
	unsigned := strings.TrimLeft(s, "+-")
	if len(s)-len(unsigned) > 1 || unsigned == "" || !onlyDigits(unsigned) {
		return 0, false
	}
	shift, err := strconv.Atoi(unsigned)
	if err != nil || shift > far {
		shift = far
	}
	if s[0] == '-' {
		shift = -shift
	}
	return shift, true
}

func onlyDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// checked returns d, or the reason why DynamoDB can not store it.
func (d decimal) checked() (decimal, *wire.Error) {
	switch {
	case d.digits == "":
		return decimal{}, nil
	case d.exponent > maxExponent:
		return decimal{}, invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case d.exponent < minExponent:
		return decimal{}, invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	case len(d.digits) > maxDigits:
		return decimal{}, invalid("Attempting to store more than 38 significant digits in a Number")
	}
	return d, nil
}

// String returns the one plain form in which DynamoDB gives a number back.
func (d decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	text := d.digits
	switch n := len(text); {
	case d.exponent <= 0:
		text = "0." + strings.Repeat("0", -d.exponent) + text
	case d.exponent >= n:
		text += strings.Repeat("0", d.exponent-n)
	default:
		text = text[:d.exponent] + "." + text[d.exponent:]
	}
	if d.negative {
		return "-" + text
	}
	return text
}

// sign returns -1, 0 or 1.
func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// compare orders two numbers by their value.
func (d decimal) compare(e decimal) int {
	if s, t := d.sign(), e.sign(); s != t || s == 0 {
		return cmp.Compare(s, t)
	}
	magnitude := cmp.Or(cmp.Compare(d.exponent, e.exponent), strings.Compare(d.digits, e.digits))
	return magnitude * d.sign()
}

// negated returns -d.
func (d decimal) negated() decimal {
	d.negative = d.digits != "" && !d.negative
	return d
}

// plus returns the exact sum, or an error when it can not be stored.
func (d decimal) plus(e decimal) (decimal, *wire.Error) {
	scale := min(d.exponent-len(d.digits), e.exponent-len(e.digits))
	sum := new(big.Int).Add(d.scaled(scale), e.scaled(scale))
	text := new(big.Int).Abs(sum).String()
	return decimal{
		negative: sum.Sign() < 0,
		digits:   strings.Trim(text, "0"), // a sum other than zero begins with no zero
		exponent: len(text) + scale,
	}.checked()
}

// scaled returns d / 10^scale, which is whole for every scale that plus picks.
func (d decimal) scaled(scale int) *big.Int {
	if d.digits == "" {
		return new(big.Int)
	}
	n, _ := new(big.Int).SetString(d.digits+strings.Repeat("0", d.exponent-len(d.digits)-scale), 10) // digits are digits
	if d.negative {
		n.Neg(n)
	}
	return n
}

// size returns the bytes of a stored number: one, and one for each pair of digits
// counted from the decimal point, and one more for a minus sign.
func (d decimal) size() int {
	if d.digits == "" {
		return 1
	}
	digits := len(d.digits)
	if d.exponent%2 != 0 { // the first digit has a pair to itself
		digits++
	}
	n := 1 + (digits+1)/2
	if d.negative {
		n++
	}
	return n
}

// decimalOf returns the number of a text that this package wrote itself.
func decimalOf(canonical string) decimal {
	d, _ := parseDecimal(canonical)
	return d
}
