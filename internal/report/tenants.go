package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
)

// tenants writes the table of tenants, the largest first: candidates, a column
// for each outcome that occurs, and bytes. Columns that do not fit go to a table
// of their own below.
func (t *sheet) tenants() {
	if len(t.r.Tenants) == 0 {
		return
	}
	t.heading("Tenants")
	rows := slices.Clone(t.r.Tenants)
	slices.SortFunc(rows, func(a, b Tenant) int {
		return cmp.Or(cmp.Compare(b.Candidates, a.Candidates), cmp.Compare(a.Tenant, b.Tenant))
	})
	if more := len(rows) - topTenants; more > 0 {
		rest := Tenant{Tenant: "and " + group(int64(more)) + " more"}
		for _, tenant := range rows[topTenants:] {
			rest.Totals = rest.plus(tenant.Totals)
		}
		rows = append(rows[:topTenants:topTenants], rest)
	}
	g := grid{columns: []column{{head: "tenant", max: 32}}, footer: []string{"total"}}
	for _, tenant := range rows {
		g.row(clip(clean(tenant.Tenant), 32))
	}
	add := func(head string, value func(Totals) string) {
		g.columns = append(g.columns, column{head: head, right: true})
		for i, tenant := range rows {
			g.rows[i] = append(g.rows[i], value(tenant.Totals))
		}
		g.footer = append(g.footer, value(t.r.Totals))
	}
	add("candidates", func(s Totals) string { return group(int64(s.Candidates)) })
	for _, o := range job.Outcomes() {
		if t.r.Totals.Of(o) > 0 {
			add(strings.ReplaceAll(o.String(), "_", "\n"), func(s Totals) string { return group(int64(s.Of(o))) })
		}
	}
	if t.r.Totals.WouldDelete == 0 || t.r.Totals.BytesReclaimed > 0 {
		add("reclaimed", func(s Totals) string { return human(s.BytesReclaimed) })
		add("bytes\nreclaimed", func(s Totals) string { return group(s.BytesReclaimed) })
	}
	if t.r.Totals.WouldDelete > 0 {
		add("would\nreclaim", func(s Totals) string { return human(s.BytesWouldReclaim) })
		add("bytes would\nreclaim", func(s Totals) string { return group(s.BytesWouldReclaim) })
	}
	t.grid(g)
	if len(t.r.Tenants) > topTenants && t.opts.File != "" {
		t.line("All tenants are in ", clean(t.opts.File), ".")
	}
}
