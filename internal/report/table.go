package report

import "github.com/expunge-aws/expunge/internal/job"

// Table is a table of plain text in the style of the report, for other programs of
// ours. The zero value is empty. Cells are printed as they are: clean what comes
// from outside.
type Table struct{ g grid }

// Column adds a column; right aligns it as numbers are. Longer cells than most
// characters are wrapped; 0 wraps none.
func (t *Table) Column(head string, right bool, most int) {
	t.g.columns = append(t.g.columns, column{head: head, right: right, max: most})
}

// Row adds a row: one cell for each column.
func (t *Table) Row(cells ...string) { t.g.row(cells...) }

// Text returns the table's lines. Columns that do not fit into the width stand in a
// table below, again behind the first one.
func (t *Table) Text(width int) string {
	text := ""
	for i, part := range t.g.fit(width) {
		if i > 0 {
			text += "\n"
		}
		text += part.render()
	}
	return text
}

// Clean escapes what would move the cursor, change a terminal's state or reorder a
// line, and what is not UTF-8.
func Clean(s string) string { return clean(s) }

// Wrap breaks a text between words. Every line begins with the indent and ends with
// a newline.
func Wrap(s, indent string, width int) string { return wrap(s, indent, width) }

// Count writes a number with its noun: "1 item", "1,000 items".
func Count(n int, noun string) string { return count(n, noun) }

// Group writes a number with a comma before every third digit: 18,240.
func Group(n int64) string { return group(n) }

// Human writes a number of bytes with three digits at most: 17.4 MiB.
func Human(n int64) string { return human(n) }

// Advice is what an operator does next about a dead letter with the reason; "" is
// one that the queue moved by itself.
func Advice(r job.Reason) string { return advice(r) }
