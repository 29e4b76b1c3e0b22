package local

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
)

// progressStep is how many more settled pages make the next line: at least ten,
// and a tenth of those so far, so that a large run has a hundred lines and not ten
// thousand.
func progressStep(pages int) int { return max(10, pages/10) }

// progress tells a person what happens while it happens, line by line.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time // nil before there is a clock
	pages   int
	next    int // the number of settled pages that makes the next line
	settled int
}

func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(text)
}

func (p *progress) line(text string) {
	at := "            "
	if p.now != nil {
		at = p.now().UTC().Format("15:04:05.000")
	}
	fmt.Fprintf(p.w, "%s  %s\n", at, text)
}

// Emit turns the events that a person waits for into lines.
func (p *progress) Emit(e audit.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := fmt.Sprintf("%s@%d", e.Policy, e.Version)
	switch e.Event {
	case audit.RunOpened:
		p.line(where + ": scanning")
	case audit.RunReleased:
		p.line(fmt.Sprintf("%s: released, %s", where, plural(e.Count, "candidate")))
	case audit.GuardTripped:
		p.line(fmt.Sprintf("%s: stopped by the guard, %s to be approved", where, plural(e.Count, "candidate")))
	case audit.Succeeded:
		p.pages++
		p.settled += e.Count
		if p.pages >= p.next {
			p.next = p.pages + progressStep(p.pages)
			p.line(fmt.Sprintf("%s settled, %s", plural(p.pages, "page"), plural(p.settled, "item")))
		}
	case audit.DuplicateObserved:
		p.line(fmt.Sprintf("%s: a page of %s was delivered again: nothing to do", where, e.TenantID))
	case audit.Retried:
		p.line(fmt.Sprintf("%s: a page of %s goes back after attempt %d (%s)", where, e.TenantID, e.Attempt, e.FailureClass))
	case audit.DeadLettered:
		p.line(fmt.Sprintf("%s: dead letter, %s", where, e.Reason))
	case audit.RunClosed:
		p.line(fmt.Sprintf("%s: closed, %s settled", where, plural(e.Count, "item")))
	case audit.TotalsMismatch:
		p.line(where + ": the pages do not add up to what the scan recorded")
	default: // the log has it, and nobody waits for it
	}
}
