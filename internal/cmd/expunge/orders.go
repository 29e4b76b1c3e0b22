package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/report"
)

// ordersCommand shows what operators ordered.
type ordersCommand struct {
	Since string `default:"7d" placeholder:"WHEN" help:"From when on: an instant such as 2026-03-08T02:30:00Z, a date, or how long ago, such as 12h or 30d; ${default} when not given."`
	Limit int    `default:"100" help:"How many to show at most, the newest first."`
}

func (c *ordersCommand) exits() exits { return exits{Done: "shown"} }

// orderList is the answer.
type orderList struct {
	Head
	Since  time.Time     `json:"since"`
	Until  time.Time     `json:"until"`
	Orders []audit.Entry `json:"orders"`
	// More: there are older ones that --limit cut off.
	More bool `json:"more"`
}

func (c *ordersCommand) run(ctx context.Context, d *desk) error {
	now := d.Clock.Now().UTC()
	since, ok := ago(c.Since, now)
	switch {
	case !ok:
		return usage("--since is "+c.Since+": it must be an instant in RFC 3339, a date such as 2026-03-08, or how long ago, such as 90m, 12h or 30d", d.command("orders", "--since=30d"))
	case c.Limit < 1 || c.Limit > 10_000:
		return usage("--limit is "+strconv.Itoa(c.Limit)+": it must be 1 to 10000", d.command("orders", "--limit=100"))
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	// An order of this second, by a clock that is ahead of this one's, is one too.
	list := &orderList{Since: since, Until: now.Add(r.settings.ClockSkew)}
	list.Orders, err = r.records.Entries(ctx, since, list.Until, c.Limit+1)
	if err != nil {
		return err
	}
	if list.More = len(list.Orders) > c.Limit; list.More {
		list.Orders = list.Orders[:c.Limit]
		list.Next = append(list.Next, d.command("orders", "--since="+c.Since, "--limit="+strconv.Itoa(10*c.Limit)))
	}
	for i := range list.Orders {
		list.Orders[i].At = list.Orders[i].At.UTC()
	}
	return d.show(list)
}

// ago reads an instant, a date, or how long before now.
func ago(s string, now time.Time) (time.Time, bool) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t.UTC(), true
		}
	}
	if n := len(s) - 1; n > 0 && s[n] == 'd' {
		days, err := strconv.ParseUint(s[:n], 10, 16)
		return now.AddDate(0, 0, -int(days)), err == nil
	}
	d, err := time.ParseDuration(s)
	return now.Add(-d), err == nil && d > 0
}

func (l *orderList) write(s *sheet) {
	if len(l.Orders) == 0 {
		s.line("No order since " + instant(l.Since) + ".")
		return
	}
	longest := 0
	for _, e := range l.Orders {
		longest = max(longest, len(e.Act))
	}
	for _, e := range l.Orders {
		act := words(string(e.Act))
		s.line(instant(e.At), "  ", s.paint(bold, act), strings.Repeat(" ", max(longest-len(act), 0)+2), about(e))
		s.sentence("    ", e.Reason+" ("+e.By+")")
		if e.Override != "" {
			s.sentence("    ", "Gates were passed over: "+e.Override)
		}
	}
}

// about names what an order is about.
func about(e audit.Entry) string {
	text := ""
	add := func(name, value string) {
		if value == "" {
			return
		}
		if text != "" {
			text += " "
		}
		text += name + report.Clean(value)
	}
	policy := e.Policy
	if e.Version > 0 {
		policy += "@" + strconv.Itoa(e.Version)
	}
	add("", policy)
	add("run ", string(e.RunID))
	add("page ", string(e.PageID))
	add("tenant ", e.TenantID)
	add("hold ", e.HoldID)
	add("redrive ", string(e.RedriveID))
	add("message ", e.MessageID)
	add("", extent(e))
	return text
}

// extent writes what an order's count counts. Of one letter or one page the id says
// enough.
func extent(e audit.Entry) string {
	switch {
	case e.Count == 0:
		return ""
	case e.Act == audit.RedriveApplied, e.Act == audit.RedriveClosed:
		return report.Count(e.Count, "page")
	case e.Act == audit.RunApproved, e.Act == audit.RunRejected, e.Act == audit.VersionApproved, e.Act == audit.DrillPassed, e.Act == audit.DrillFailed:
		return report.Count(e.Count, "candidate")
	case e.Act == audit.AutoRedriveSet:
		return words(string(e.Death)) + ", at most " + report.Count(e.Count, "page") + " a round"
	}
	return ""
}
