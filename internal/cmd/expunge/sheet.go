package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/report"
)

// The colours of a terminal.
const (
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	red   = "\x1b[1;31m"
	amber = "\x1b[33m"
	plain = "\x1b[0m"
)

// defaultWidth is how many columns a text has where the terminal does not say.
const defaultWidth = 120

// sheet is a text while it is written.
type sheet struct {
	b     strings.Builder
	color bool
	width int
}

// columns is how wide a text may be.
func (d *desk) columns() int {
	if n, err := strconv.Atoi(d.Env("COLUMNS")); err == nil && n >= 60 { // below, an id and a word no longer fit
		return n
	}
	return defaultWidth
}

func (s *sheet) line(parts ...string) {
	for _, p := range parts {
		s.b.WriteString(p)
	}
	s.b.WriteByte('\n')
}

// heading starts a section.
func (s *sheet) heading(text string) {
	s.line()
	s.line(s.paint(bold, text))
}

// sentence writes a text of several lines, cleaned.
func (s *sheet) sentence(indent, text string) {
	s.b.WriteString(report.Wrap(report.Clean(text), indent, s.width))
}

// alert is a sentence that must not be overlooked.
func (s *sheet) alert(color, text string) {
	wrapped := strings.TrimSuffix(report.Wrap(report.Clean(text), "", s.width), "\n")
	for _, l := range strings.Split(wrapped, "\n") {
		s.line(s.paint(color, l))
	}
}

func (s *sheet) paint(color, text string) string {
	if !s.color {
		return text
	}
	return color + text + plain
}

func (s *sheet) table(t *report.Table) { s.b.WriteString(t.Text(s.width)) }

// facts writes names and values, one pair a line.
func (s *sheet) facts(pairs ...[2]string) {
	longest := 0
	for _, p := range pairs {
		longest = max(longest, len(p[0]))
	}
	for _, p := range pairs {
		if p[1] != "" {
			s.line(p[0], strings.Repeat(" ", longest-len(p[0])+2), report.Clean(p[1]))
		}
	}
}

// next names the commands that could follow. They are never broken: somebody copies
// them.
func (s *sheet) next(commands []string) {
	for _, c := range commands {
		s.line(s.paint(faint, "next: "), report.Clean(c))
	}
}

// column is one column of a table.
type column struct {
	head  string
	right bool
	max   int
}

func left(head string) column           { return column{head: head} }
func right(head string) column          { return column{head: head, right: true} }
func wide(head string, most int) column { return column{head: head, max: most} }

func newTable(columns ...column) *report.Table {
	t := &report.Table{}
	for _, c := range columns {
		t.Column(c.head, c.right, c.max)
	}
	return t
}

// instant writes a time to the second, in UTC; "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// minute writes a time for a table: to the minute, in UTC.
func minute(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// span writes a duration with its two largest units: 2h5m, 3d4h, 40s.
func span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := sign + strconv.Itoa(int(d/u.size)) + u.name
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += strconv.Itoa(int(rest)) + units[i+1].name
			}
		}
		return text
	}
	return "0s"
}

// number writes a count for a table; 0 is a dash, so that what is there stands out.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return report.Group(int64(n))
}

// words writes a state or an outcome for people.
func words(s string) string { return report.Clean(strings.ReplaceAll(s, "_", " ")) }
