package policy

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// shareFrom is how many examined objects make a share meaningful: of ten
	// objects, six may well be expired.
	shareFrom = 1000
	// growthFrom is how many completed runs make a usual size: the fourth run is
	// the first to be compared.
	growthFrom = 3
	// growthWindow is how many of the last runs the median looks at.
	growthWindow = 7
)

// GuardFacts are what a run's complete scan found. All are counts.
type GuardFacts struct {
	Candidates int
	// Examined is how many items were listed.
	Examined int
	// History holds the candidates of the last completed runs, newest first. Only
	// the first seven are looked at.
	History []int
}

// Guard says what is out of proportion about a run, one plain sentence with its
// numbers for each finding (S9). Without findings the run may be released;
// exactly at a limit is within it.
//
// Growth is judged against the median of the last seven completed runs. When that
// median is 0, the class is idle most of the time, and the largest of those runs
// takes its place: a class that empties one batch a week does not trip every
// week. When all of them were 0, one object counts as the usual size: the first
// batch of a class is looked at once.
func (p Policy) Guard(f GuardFacts) []string {
	var findings []string
	if f.Candidates < 0 || f.Examined < 0 || f.Candidates > f.Examined {
		findings = append(findings, "The counts contradict each other: "+group(f.Candidates)+" candidates among "+
			group(f.Examined)+" examined objects.")
	}
	if f.Candidates > p.Limits.MaxObjects {
		findings = append(findings, group(f.Candidates)+" candidates are more than max_objects allows: "+
			group(p.Limits.MaxObjects)+".")
	}
	// Integers throughout: at a limit such as 0.29, floating point would say more.
	share := parts(p.Limits.MaxShare, shareParts)
	if f.Examined >= shareFrom && int64(f.Candidates)*shareParts > share*int64(f.Examined) {
		findings = append(findings, group(f.Candidates)+" candidates of "+group(f.Examined)+
			" examined objects are a larger share than max_share allows: "+percent(p.Limits.MaxShare)+".")
	}
	if finding := p.growth(f); finding != "" {
		findings = append(findings, finding)
	}
	return findings
}

// growth compares the run with the ones before it.
func (p Policy) growth(f GuardFacts) string {
	if len(f.History) < growthFrom {
		return ""
	}
	last := slices.Clone(f.History[:min(len(f.History), growthWindow)])
	slices.Sort(last)
	n := len(last)
	// Twice the median, so that the middle of an even number stays whole.
	usual, of := int64(last[n/2]+last[(n-1)/2]), "the median"
	if usual <= 0 {
		usual, of = 2*int64(last[n-1]), "the largest"
	}
	if usual <= 0 {
		usual, of = 2, "as if one object had been deleted in each"
	}
	if int64(f.Candidates)*2*growthParts <= parts(p.Limits.MaxGrowth, growthParts)*usual {
		return ""
	}
	return group(f.Candidates) + " candidates are more than max_growth allows: " + number(p.Limits.MaxGrowth) + " times " +
		half(usual) + ", " + of + " of the last " + strconv.Itoa(n) + " completed runs."
}

// Shares are kept to four decimals and growth to two.
const (
	shareParts  = 10_000
	growthParts = 100
)

// parts returns f as a whole number of parts.
func parts(f float64, scale int64) int64 { return int64(math.Round(f * float64(scale))) }

// inParts reports whether f is a whole number of parts.
func inParts(f float64, scale int64) bool {
	return float64(parts(f, scale))/float64(scale) == f
}

// group writes a number with a comma before every third digit: 18,240.
func group(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// half writes half of n.
func half(n int64) string {
	if n%2 == 0 {
		return group(int(n / 2))
	}
	return group(int(n/2)) + ".5"
}

// number writes a limit without trailing zeros.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// percent writes a share, which has at most four decimals.
func percent(f float64) string { return number(float64(parts(f, shareParts))/100) + " %" }
