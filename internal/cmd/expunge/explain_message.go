package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/report"
)

// letterView is one dead letter. Its body is not shown: nobody knows what is in it.
type letterView struct {
	MessageID string     `json:"message_id"`
	SentAt    time.Time  `json:"sent_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	Reason    job.Reason `json:"reason,omitzero"` // as its writer said; none where nobody did
	Origin    job.Mode   `json:"origin,omitzero"` // of the queue from which SQS moved it by itself
	Damaged   bool       `json:"damaged"`
	Size      int        `json:"size"` // of the body, in bytes
	SHA256    string     `json:"sha256"`
	// What the body names, where it is a command.
	RunID  job.RunID  `json:"run_id,omitzero"`
	PageID job.PageID `json:"page_id,omitzero"`
	Tenant string     `json:"tenant_id,omitzero"`
}

// message explains a dead letter.
func (x *explaining) message(ctx context.Context) error {
	x.e.Subject = "message"
	l, err := x.letter(ctx, strings.ToLower(x.What))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(l.Body)
	x.e.Message = &letterView{
		MessageID: l.MessageID, SentAt: l.SentAt.UTC(), ExpiresAt: l.SentAt.Add(x.r.settings.DeadLetterRetention).UTC(), Reason: l.Letter.Reason,
		Origin: l.Origin, Damaged: l.Damaged, Size: len(l.Body), SHA256: hex.EncodeToString(sum[:]),
	}
	command, err := job.Decode(l.Body)
	if err != nil {
		x.e.Brakes = []brakeView{}
		x.failed("The message is a dead letter: " + x.why(l) + " Its body is no command that this tool can read: " + decodeText(err) + ".")
		x.changed("Nothing: a message is read before anything else, and this one went no further.")
		x.again("It is refused again. It moves only to where somebody can read it; what its page owed is in the ledger, and reconcile sends that by itself.")
		x.then("discard", l.MessageID, "--reason="+blank)
		return nil
	}
	v := x.e.Message
	v.RunID, v.PageID, v.Tenant = command.RunID, command.PageID, command.TenantID
	page, err := x.r.records.Page(ctx, command.RunID, command.TenantID, command.PageID)
	if failure.Is(err, failure.Absent) {
		x.e.Brakes = []brakeView{}
		x.failed("The message is a dead letter: " + x.why(l) + " It names a page that is not on record in " + x.r.outputs.Region + ".")
		x.changed("Nothing: a page that is not on record can not be claimed.")
		x.again("It is refused again.")
		x.then("discard", l.MessageID, "--reason="+blank)
		return nil
	}
	if err != nil {
		return err
	}
	x.failed("The message is a dead letter: " + x.why(l))
	return x.aPage(ctx, page)
}

// why says for what reason a letter is dead.
func (x *explaining) why(l job.DeadLetter) string {
	switch {
	case l.Damaged:
		return "its attributes do not read, or are not those of its body."
	case l.Letter.Reason != "":
		return string(l.Letter.Reason) + " (" + string(l.Letter.Reason.Class()) + "). What to do: " + report.Advice(l.Letter.Reason) + "."
	case l.Origin != "":
		return "SQS moved it from the " + string(l.Origin) + " queue after too many receives."
	default:
		return "nobody wrote why, and no queue of ours moved it: find out who sent it."
	}
}

// decodeText is why a body is no command. It quotes nothing of it.
func decodeText(err error) string {
	if why, ok := errors.AsType[*job.DecodeError](err); ok {
		return why.Text
	}
	return "it does not read"
}

const (
	// peekMost is the most letters of one answer of SQS.
	peekMost = 10
	// peeks is how often the dead letters are looked at for one of them. SQS shows a
	// part of a queue at a time, and what somebody holds not at all.
	peeks = 100
	// idlePeeks is after how many answers without anything new all have been seen.
	idlePeeks = 5
)

// letter looks for a dead letter.
func (x *explaining) letter(ctx context.Context, id string) (job.DeadLetter, error) {
	seen := map[string]bool{}
	for idle, n := 0, 0; n < peeks && idle < idlePeeks; n++ {
		some, err := x.r.letters.Peek(ctx, peekMost)
		if err != nil {
			return job.DeadLetter{}, err
		}
		idle++
		for _, l := range some {
			if strings.ToLower(l.MessageID) == id {
				return l, nil
			}
			if !seen[l.MessageID] {
				seen[l.MessageID], idle = true, 0
			}
		}
	}
	return job.DeadLetter{}, wrong("no dead letter has this message id, of the "+report.Count(len(seen), "letter")+" that can be seen: a message that a worker is about to take is in no queue that can be looked into. "+
		"The log line that has the message id has its run and page too", x.d.command("dlq"))
}
