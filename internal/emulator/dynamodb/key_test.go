package dynamodb

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// keyValues is every short string over bytes that are awkward to encode.
func keyValues(k kind) []value {
	texts := []string{""}
	for from := 0; len(texts) < 40; {
		to := len(texts)
		for _, text := range texts[from:to] {
			for _, c := range []string{"\x00", "\x01", "a", "\xfe", "\xff"} {
				texts = append(texts, text+c)
			}
		}
		from = to
	}
	values := make([]value, 0, len(texts))
	for _, text := range texts[1:] {
		values = append(values, value{kind: k, text: text})
	}
	return values
}

// TestSpans compares what lies in the span of a key condition with the comparison itself.
func TestSpans(t *testing.T) {
	numbers := []value{}
	for _, text := range []string{"-1e125", "-12", "-10", "-1.5", "-1", "-0.5", "-1e-130", "0", "1e-130", "0.5", "1", "1.5", "10", "12", "1e125"} {
		d := decimalOf(text)
		numbers = append(numbers, numberValue(d))
	}
	for _, all := range [][]value{keyValues(kindBinary), numbers} {
		for i := 0; i < len(all); i += 3 {
			low := all[i]
			for j := range all {
				high := all[(i+j*7)%len(all)]
				checkSpans(t, low, high, all[j])
			}
		}
	}
}

func checkSpans(t *testing.T, low, high, v value) {
	t.Helper()
	hash := value{kind: kindString, text: "p\x00"}
	key := schema{hash: "h", sort: "s"}.treeKey(item{"h": hash, "s": v})
	toLow, _ := v.compare(low)
	toHigh, _ := v.compare(high)
	for operator, want := range map[string]bool{
		"": true, "=": toLow == 0, "<": toLow < 0, "<=": toLow <= 0, ">": toLow > 0, ">=": toLow >= 0,
		"BETWEEN": toLow >= 0 && toHigh <= 0, "begins_with": strings.HasPrefix(v.text, low.text),
	} {
		if operator == "begins_with" && v.kind == kindNumber {
			continue
		}
		c := keyCondition{hash: hash, operator: operator, bounds: []value{low, high}}
		if got := c.span().has(key); got != want {
			t.Fatalf("%q %s %q (and %q): %v, want %v", v.text, operator, low.text, high.text, got, want)
		}
		c.hash.text = "p"
		if c.span().has(key) {
			t.Fatalf("%q lies in another partition", v.text)
		}
	}
}

func TestSegmentsShareAllPartitions(t *testing.T) {
	for _, total := range []int{1, 4, 7} {
		counts := make([]int, total)
		for i := range 1000 {
			counts[segment(partition(value{kind: kindString, text: "tenant-" + strconv.Itoa(i)}), total)]++
		}
		if slices.Min(counts) == 0 {
			t.Errorf("of %d segments: %v", total, counts)
		}
	}
}
