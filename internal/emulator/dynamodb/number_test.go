package dynamodb

import (
	"math/big"
	"strings"
	"testing"
)

func TestNumbersHaveOneForm(t *testing.T) {
	long := strings.Repeat("1234567890", 4)[:38]
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "0e999999999999": "0", "+7": "7", "007.500": "7.5", ".5": "0.5", "5.": "5",
		"1e3": "1000", "1E+3": "1000", "1.5e-3": "0.0015", "-12.30": "-12.3", "100": "100", "1.0": "1",
		"1e125": "1" + strings.Repeat("0", 125), "1e-130": "0." + strings.Repeat("0", 129) + "1",
		long: long, long + "000": long + "000", "-0.00" + long: "-0.00" + long,
	} {
		d, problem := parseDecimal(text)
		if problem != nil || d.String() != want {
			t.Errorf("%s is %s (%v), want %s", text, d, problem, want)
		}
	}
}

func TestNumbersThatCanNotBe(t *testing.T) {
	for text, want := range map[string]string{
		"": "numeric value", "-": "numeric value", "+-1": "numeric value", "--1": "numeric value", "0x1": "numeric value",
		"1\t": "numeric value", "1e": "numeric value", "1e+": "numeric value", "1e--5": "numeric value", "e5": "numeric value", ".": "numeric value", "1.2.3": "numeric value",
		"NaN": "numeric value", "Infinity": "numeric value", "١": "numeric value",
		"1e126": "overflow", "-1e126": "overflow", "1e99999999999999999999": "overflow", "1e-131": "underflow", "1e-99999999999999999999": "underflow",
		strings.Repeat("1", 39): "38 significant digits",
	} {
		if d, problem := parseDecimal(text); problem == nil || !strings.Contains(problem.Message, want) {
			t.Errorf("%q is %s (%v), want an error of %q", text, d, problem, want)
		}
	}
}

func TestSums(t *testing.T) {
	for _, k := range [][3]string{
		{"9007199254740993", "1", "9007199254740994"}, {"0.1", "0.2", "0.3"}, {"1", "-1", "0"}, {"99", "1", "100"},
		{"-5", "2.5", "-2.5"}, {"1e37", "1", "1" + strings.Repeat("0", 36) + "1"}, {"0", "-7", "-7"}, {"0.5", "0.5", "1"},
	} {
		sum, problem := decimalOf(k[0]).plus(decimalOf(k[1]))
		if problem != nil || sum.String() != k[2] {
			t.Errorf("%s + %s = %s (%v), want %s", k[0], k[1], sum, problem, k[2])
		}
	}
	if _, problem := decimalOf("1e38").plus(decimalOf("0.1")); problem == nil {
		t.Error("a sum of 40 digits was rounded")
	}
	if _, problem := decimalOf("9e125").plus(decimalOf("9e125")); problem == nil {
		t.Error("a sum beyond the range was stored")
	}
}

func TestSizesOfNumbers(t *testing.T) {
	for text, want := range map[string]int{"0": 1, "1": 2, "-1": 3, "12": 2, "123": 3, "1000": 2, "10000": 2, "0.1": 2, "0.01": 2, "1.5": 3} {
		if got := decimalOf(text).size(); got != want {
			t.Errorf("%s takes %d bytes, want %d", text, got, want)
		}
	}
}

// exact returns the number as math/big reads it, which has a limit for exponents
// that does not spare zero.
func exact(t *testing.T, d decimal, text string) *big.Rat {
	if d.sign() == 0 {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number to math/big", text)
	}
	return r
}

// FuzzNumbers compares with exact rational arithmetic: form, order, order of the
// key bytes, and sums.
func FuzzNumbers(f *testing.F) {
	for _, k := range [][2]string{{"1", "2"}, {"-0.10", "1e2"}, {"99e124", "-1e-130"}, {"12345678901234567890", "-12345678901234567890.5"}, {"x", "1e"}, {"0", "-0.0"}} {
		f.Add(k[0], k[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, problem := parseDecimal(a)
		y, other := parseDecimal(b)
		if problem != nil || other != nil {
			return
		}
		exactX, exactY := exact(t, x, a), exact(t, y, b)
		for _, d := range []decimal{x, y} {
			if again, problem := parseDecimal(d.String()); problem != nil || again != d {
				t.Errorf("%s reads back as %s (%v)", d, again, problem)
			}
		}
		if again, _ := new(big.Rat).SetString(x.String()); again.Cmp(exactX) != 0 {
			t.Errorf("%s became %s", a, x)
		}
		want := exactX.Cmp(exactY)
		if got := x.compare(y); got != want {
			t.Errorf("%s against %s: %d, want %d", x, y, got, want)
		}
		keyX, keyY := escaped(numberValue(x))+closing, escaped(numberValue(y))+closing
		if got := strings.Compare(keyX, keyY); got != want {
			t.Errorf("keys of %s and %s: %d, want %d", x, y, got, want)
		}
		if sum, problem := x.plus(y); problem == nil {
			got, _ := new(big.Rat).SetString(sum.String())
			if got.Cmp(new(big.Rat).Add(exactX, exactY)) != 0 {
				t.Errorf("%s + %s = %s", x, y, sum)
			}
		}
	})
}
