package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// grid is a table of plain text.
type grid struct {
	columns []column
	rows    [][]string
	footer  []string // "" for none
}

type column struct {
	head  string // lines are separated by \n
	right bool
	max   int // longer cells are wrapped; 0 never
}

// gap is what stands between two columns.
const gap = "  "

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

// render returns the table's lines.
//
// The style is our own, and its colours are none: those of the library follow the
// environment of the process.
func (g *grid) render() string {
	w := table.NewWriter()
	w.SetStyle(table.Style{
		Name:    "expunge",
		Box:     table.BoxStyle{MiddleHorizontal: "-", PaddingRight: gap},
		Options: table.Options{SeparateHeader: true, SeparateFooter: true},
		Format:  table.FormatOptions{Header: text.FormatDefault, Footer: text.FormatDefault, Row: text.FormatDefault},
	})
	head, configs := table.Row{}, []table.ColumnConfig{}
	for i, c := range g.columns {
		head = append(head, c.head)
		cfg := table.ColumnConfig{Number: i + 1, WidthMax: c.max, WidthMaxEnforcer: text.WrapSoft, VAlignHeader: text.VAlignBottom}
		if c.right {
			cfg.Align, cfg.AlignHeader, cfg.AlignFooter = text.AlignRight, text.AlignRight, text.AlignRight
		}
		configs = append(configs, cfg)
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(head)
	for _, cells := range g.rows {
		w.AppendRow(tableRow(cells))
	}
	if g.footer != nil {
		w.AppendFooter(tableRow(g.footer))
	}
	return trim(w.Render())
}

// trim takes away what the last column's padding left: blanks, and the ends of
// the rules, which are as long as the longest line.
func trim(table string) string {
	lines, longest := strings.Split(table, "\n"), 0
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
		if !isRule(line) {
			longest = max(longest, utf8.RuneCountInString(lines[i]))
		}
	}
	for i, line := range lines {
		if isRule(line) && len(line) > longest {
			lines[i] = line[:longest]
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func isRule(line string) bool { return line != "" && strings.Trim(line, "-") == "" }

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// fit cuts the grid between its columns so that each part has at most the width.
// The first column stands in every part.
func (g *grid) fit(width int) []*grid {
	first := g.cut([]int{0})
	room := width - g.width(0)
	var parts []*grid
	var taken []int
	used := 0
	for i := 1; i < len(g.columns); i++ {
		need := len(gap) + g.width(i)
		if used+need > room && len(taken) > 0 {
			parts = append(parts, g.cut(append([]int{0}, taken...)))
			taken, used = nil, 0
		}
		taken, used = append(taken, i), used+need
	}
	if len(taken) == 0 {
		return []*grid{first}
	}
	return append(parts, g.cut(append([]int{0}, taken...)))
}

// cut returns the grid of some columns.
func (g *grid) cut(columns []int) *grid {
	part := &grid{rows: make([][]string, len(g.rows))}
	for _, i := range columns {
		part.columns = append(part.columns, g.columns[i])
		for r := range g.rows {
			part.rows[r] = append(part.rows[r], g.rows[r][i])
		}
		if g.footer != nil {
			part.footer = append(part.footer, g.footer[i])
		}
	}
	return part
}

// width is how wide a column is.
func (g *grid) width(i int) int {
	w := text.LongestLineLen(g.columns[i].head)
	for _, cells := range g.rows {
		w = max(w, text.LongestLineLen(cells[i]))
	}
	if g.footer != nil {
		w = max(w, text.LongestLineLen(g.footer[i]))
	}
	if most := g.columns[i].max; most > 0 {
		w = min(w, most)
	}
	return w
}

// wrap breaks a text between words. Every line begins with the indent.
func wrap(s, indent string, width int) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(s) {
		if len(line) > len(indent) && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}

// clean escapes what would move the cursor, change a terminal's state or reorder
// a line, and what is not UTF-8.
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += n
	}
	return b.String()
}

// clip shortens a text to at most n characters.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-3]) + "..."
}

// count writes a number with its noun: "1 item", "1,000 items".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return group(int64(n)) + " " + noun + "s"
}

// group writes a number with a comma before every third digit: 18,240.
func group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// human writes a number of bytes with three digits at most: 17.4 MiB.
func human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n), 0
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	digits := 2
	switch {
	case value >= 99.95:
		digits = 0
	case value >= 9.995:
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + units[unit]
}
