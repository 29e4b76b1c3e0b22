package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSentence(t *testing.T) {
	var b strings.Builder
	files, _ := filepath.Glob("../../infra/policies/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(valid(t, string(data)).Sentence() + "\n")
	}
	b.WriteString(valid(t, base).Sentence() + "\n")
	b.WriteString(valid(t, "name: a\nversion: 1\nregion: us-east-1\nbucket: abc\nkeys: a/\ntenant: t\nretention_days: 1\nmode: enforce\n"+
		"versions: all\nobjective: 1m1s\nlimits: {max_share: 1, max_objects: 1, max_growth: 1.25}\n"+
		"schedule: {every: weekly, weekday: thursday, at: 00:00, zone: Asia/Tokyo}\n").Sentence() + "\n")
	for _, c := range [][2]string{
		{"mode: enforce", "mode: enforce\nreport_only_dates: 5"}, {"mode: enforce", "mode: report-only\nreport_only_dates: 1"},
		{"every: daily", "every: daily\n  catch_up: true"},
	} {
		b.WriteString(valid(t, with(t, c[0], c[1])).Sentence() + "\n")
	}
	golden(t, "sentences.golden", b.String())
	if usual := with(t, "mode: enforce", "mode: enforce\nreport_only_dates: 3"); valid(t, usual).Sentence() != valid(t, base).Sentence() {
		t.Error("what is usual is said")
	}
}

func TestSentenceOfTheZeroValueClaimsNoDeletion(t *testing.T) {
	if got := (Policy{}).Sentence(); strings.Contains(got, "deletes") {
		t.Error(got)
	}
}

func TestNumbersInWords(t *testing.T) {
	for want, got := range map[string]string{
		"0": group(0), "7": group(7), "999": group(999), "1,000": group(1000), "18,240": group(18240), "50,000,000": group(50_000_000),
		"-1,000": group(-1000), "-999": group(-999),
		"1 day": count(1, "day"), "2 days": count(2, "day"), "36,500 days": count(36_500, "day"),
		"2.5": half(5), "3,000": half(6000), "0.5": half(1),
		"50 %": percent(0.5), "0.01 %": percent(0.0001), "28.57 %": percent(0.2857), "100 %": percent(1),
		"1 hour 30 minutes": spell(90 * time.Minute), "15 minutes": spell(15 * time.Minute), "168 hours": spell(MaxObjective),
		"1 minute 1 second": spell(61 * time.Second), "1 hour 1 second": spell(time.Hour + time.Second),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
