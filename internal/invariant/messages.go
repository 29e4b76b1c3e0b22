package invariant

import (
	"bytes"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// mail is what a body names.
type mail struct {
	command job.Command
	decodes bool
	// page is the recorded one whose command this is, byte by byte; nil for none.
	page *job.Page
	run  *job.Run
}

func (j *judge) mailOf(body []byte) mail {
	var m mail
	var err error
	if m.command, err = job.Decode(body); err != nil {
		return m
	}
	m.decodes = true
	i, ok := j.pages[pageKey{m.command.RunID, m.command.PageID}]
	r := j.runs[m.command.RunID]
	if !ok || r == nil || m.command != job.NewCommand(*r, j.Pages[i]) {
		return m
	}
	m.page, m.run = &j.Pages[i], r
	return m
}

// attributed reports whether a body may be one of ours: it is a command, or no
// dead letter keeps it.
func (j *judge) attributed(body []byte) bool {
	if _, err := job.Decode(body); err == nil {
		return true
	}
	for _, l := range j.Letters {
		if bytes.Equal(l.Body, body) {
			return false
		}
	}
	return true
}

// judgeMessages judges what was acknowledged and what became a dead letter.
func (j *judge) judgeMessages() {
	post := j.post()
	for i := range j.Letters {
		l := &j.Letters[i]
		v := j.on("S6")
		v.look(1)
		if l.Region != "" && l.Region != j.Region && l.Reason != job.ReasonWrongRegion {
			v.fail("dead letter of run %q page %q: of region %q for the reason %s", l.RunID, l.PageID, l.Region, l.Reason)
		}
		if l.Reason != "" && l.Reason.Class() == job.Quarantined {
			j.on("S7").look(1) // what it did is judged with the deletes
		}
	}
	for i := range j.Acks {
		a := &j.Acks[i]
		m := j.mailOf(a.Body)
		lettered := post.letters[string(a.Body)]
		v := j.on("S6")
		v.look(1)
		if m.decodes && m.command.Region != j.Region && !lettered {
			v.fail("a command of region %q was acknowledged and is no dead letter", m.command.Region)
		}
		v = j.on("E1")
		v.look(1)
		if m.page == nil {
			j.on("S7").look(1)
			if !lettered {
				j.on("S7").fail("a message that is no command of a recorded page was acknowledged and is no dead letter")
				v.fail("a message that is no command of a recorded page is gone")
			}
			continue
		}
		if why := j.unsettled(a, m, post); why != "" && !lettered {
			v.fail("%s: acknowledged, and the page is %s", about(m.page), why)
		}
	}
}

// post indexes messages.
type post struct {
	letters, waiting map[string]bool // by body
	pages            map[job.PageID]bool
	// excused are the messages, by id, and pages of which an event says that they
	// were parked or made a dead letter; again those seen again.
	excused, again map[string]bool
}

func (j *judge) post() post {
	p := post{letters: map[string]bool{}, waiting: map[string]bool{}, pages: map[job.PageID]bool{}, excused: map[string]bool{}, again: map[string]bool{}}
	for _, l := range j.Letters {
		p.letters[string(l.Body)] = true
		if l.PageID != "" {
			p.pages[l.PageID] = true
		}
	}
	for _, b := range j.Waiting {
		p.waiting[string(b)] = true
	}
	for _, e := range j.Events {
		if e.Event == audit.Parked || e.Event == audit.DeadLettered || e.Event == audit.RedriveRefused {
			p.excused["message "+e.MessageID] = e.MessageID != ""
			p.excused["page "+string(e.JobID)] = e.JobID != ""
		}
		if e.Event == audit.DuplicateObserved && e.MessageID != "" {
			p.again[e.MessageID] = true
		}
	}
	return p
}

// unsettled says why the page did not allow its message to be acknowledged, "" if
// it did. The page may have moved on since from planned or dead: then the run's
// release or an event tells where it stood.
func (j *judge) unsettled(a *Ack, m mail, post post) string {
	p := m.page
	switch {
	case p.State.Terminal() && (p.Receipt != "" || p.Candidates == 0 || !settled(p)):
		return ""
	case p.State.Terminal():
		return string(p.State) + " without a receipt"
	case p.State == job.Planned:
		return ""
	case p.State == job.Dead && !p.Death.LetterAt.IsZero():
		return ""
	case m.run.ReleasedAt.IsZero() || !a.At.After(m.run.ReleasedAt):
		return "" // the run was not released: the page was planned
	case a.MessageID != "" && post.excused["message "+a.MessageID], a.MessageID == "" && post.excused["page "+string(p.ID)]:
		return ""
	case p.Death.Reason != "" && post.again[a.MessageID]:
		return "" // a copy of the message that died, seen before the page was redriven
	default:
		return string(p.State)
	}
}

// judgeLiveness judges L1 and L2.
func (j *judge) judgeLiveness() {
	post := j.post()
	one, two := j.on("L1"), j.on("L2")
	quiet := true
	for _, body := range j.Waiting {
		quiet = quiet && j.mailOf(body).page == nil
	}
	for _, i := range j.order {
		p := &j.Pages[i]
		r := j.runs[p.Run]
		if r == nil {
			continue
		}
		one.look(1)
		open := p.State.Open() && !unreleased(r) && !j.braked(r)
		if !open && p.State != job.Dead {
			if quiet {
				two.look(1)
			}
			continue
		}
		body := job.NewCommand(*r, *p).Encode()
		visible := post.waiting[string(body)] || post.letters[string(body)] || p.State == job.Dead && post.pages[p.ID]
		if !visible {
			one.fail("%s: %s, without a message and without a dead letter", about(p), p.State)
		}
		if quiet {
			two.look(1)
			if open {
				two.fail("%s: %s, and nothing is under way", about(p), p.State)
			}
		}
	}
	if !quiet {
		return
	}
	for i := range j.Runs {
		two.look(1)
		if r := &j.Runs[i]; r.State == job.Scanning {
			two.fail("run %s: its scan is unfinished", r.ID)
		}
	}
}

func (j *judge) braked(r *job.Run) bool {
	for _, b := range j.Brakes {
		if b.Covers(r.Policy, r.Version) {
			return true
		}
	}
	return false
}
