package receipt

import (
	"strconv"

	"github.com/expunge-aws/expunge/internal/job"
)

// check reports the first thing that a manifest of ours never says.
func (m Manifest) check() *LineError {
	if text := m.Header.check(); text != "" {
		return &LineError{Line: 1, Text: text}
	}
	var c pageCheck
	for i := range m.Pages {
		if text := c.page(&m.Pages[i]); text != "" {
			return &LineError{Line: itemLine(i), Text: text}
		}
	}
	return c.sums(m.Header)
}

// check looks at the header alone.
func (h *ManifestHeader) check() string {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"schema", h.Schema == Schema},
		{"run_id", isHex(string(h.RunID), 32)},
		{"region", isText(h.Region)},
		{"policy", isText(h.Policy)},
		{"policy_version", h.PolicyVersion >= 1},
		{"policy_sha256", isHex(h.PolicySHA256, 64)},
		{"mode", h.Mode == job.Enforce || h.Mode == job.ReportOnly},
		{"request_id", h.RequestID == "" || isText(h.RequestID)},
		{"scheduled", !h.Scheduled.IsZero()},
		{"cutoff", !h.Cutoff.IsZero()},
		{"code_version", isText(h.CodeVersion)},
	} {
		if !f.ok {
			return f.name + " is missing or not of its form"
		}
	}
	return ""
}

// pageCheck looks at the entries one after the other.
type pageCheck struct {
	pageSums
	last   ManifestPage
	ranges map[job.PageID]bool // of the tenant so far
}

// page looks at the next entry.
func (c *pageCheck) page(p *ManifestPage) string {
	text := p.check()
	if text == "" && c.pages == MaxManifestPages {
		text = "more than " + strconv.Itoa(MaxManifestPages) + " pages"
	}
	if text == "" {
		text = c.order(p)
	}
	c.add(p)
	c.last = *p
	return text
}

// order looks at the entry's place. Where a range starts is a key and stands
// nowhere, so among ranges only a repetition is wrong here; VerifyRun sees their
// order by what their receipts hold.
func (c *pageCheck) order(p *ManifestPage) string {
	switch {
	case p.Tenant < c.last.Tenant:
		return "tenants do not ascend"
	case p.Tenant > c.last.Tenant:
		c.ranges = make(map[job.PageID]bool)
	}
	switch {
	case c.ranges[p.ID] || p.ID == c.last.ID:
		return "the page is listed twice"
	case p.Kind == job.RangePage && p.Tenant == c.last.Tenant && c.last.Kind == job.ItemPage:
		return "a range after a split-off item"
	case p.Kind == job.RangePage:
		c.ranges[p.ID] = true
	case p.Tenant == c.last.Tenant && c.last.Kind == job.ItemPage && p.ID < c.last.ID:
		return "split-off items do not ascend"
	case !c.ranges[p.Parent]:
		return "the parent is no range of the tenant"
	}
	return ""
}

// sums compares the header with what the entries add up to.
func (c *pageCheck) sums(h ManifestHeader) *LineError {
	sums := h
	c.into(&sums)
	if sums != h {
		return &LineError{Line: 1, Text: "the totals are not the sums of the pages"}
	}
	return nil
}

// check looks at the entry alone.
func (p *ManifestPage) check() string {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"page_id", isHex(string(p.ID), 32)},
		{"tenant", job.ValidTenant(p.Tenant)},
		{"kind or parent", p.Kind == job.RangePage && p.Parent == "" || p.Kind == job.ItemPage && isHex(string(p.Parent), 32)},
		{"state", p.State.Terminal()},
		{"plan", p.Plan == "" || isHex(p.Plan, 64)},
		{"receipt", p.Receipt == "" || isHex(p.Receipt, 64)},
		{"recorded", p.Recorded >= 0},
		{"moved", p.Moved >= 0},
		{"counts", p.Totals.Counts[job.NoOutcome] == 0 && least(p.Totals.Counts) >= 0},
		{"bytes", p.Totals.Bytes >= 0},
		{"candidates", p.Totals.Candidates == p.Totals.Counts.Sum()},
	} {
		if !f.ok {
			return f.name + " is missing or not of its form"
		}
	}
	return ""
}

func least(c job.Counts) int {
	n := c[0]
	for _, v := range c {
		n = min(n, v)
	}
	return n
}
