package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/job"
)

// requestCommand evaluates a policy for one tenant.
type requestCommand struct {
	Policy string `arg:"" help:"The policy, at the version that is deployed."`
	Tenant string `arg:"" help:"The tenant."`
	Reason string `required:"" placeholder:"WHY" help:"Why, in 5 to 200 characters. It is kept in the ledger."`
	ID     string `placeholder:"ID" help:"The request's own id: the same id is the same request. When not given, the same words on the same day (UTC) are."`
}

func (c *requestCommand) exits() exits {
	return exits{Done: "the request is on record; it is not carried out yet", Wrong: "it was refused: the reason is on stderr"}
}

// requested is the answer.
type requested struct {
	Head
	RequestID string       `json:"request_id"`
	RunID     job.RunID    `json:"run_id"`
	State     job.RunState `json:"state"`
}

func (c *requestCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	in := enqueue.Input{Policy: c.Policy, Tenant: c.Tenant, RequestID: c.ID, Reason: c.Reason}
	if in.RequestID == "" {
		in.RequestID = requestID(in, d.Clock.Now())
	}
	payload, err := json.Marshal(in)
	if err != nil {
		return usage("the arguments are no text: " + err.Error())
	}
	if _, err := enqueue.Decode(payload); err != nil { // the function's own rules, before it is asked
		return usage(err.Error(), "expunge request --help")
	}
	var answer enqueue.Receipt
	if err := r.ask(ctx, r.outputs.Enqueue, in, &answer); err != nil {
		return err
	}
	return d.show(&requested{
		Head:      Head{Next: []string{d.command("explain", string(answer.RunID)), d.command("runs", "--policy="+c.Policy)}},
		RequestID: in.RequestID, RunID: answer.RunID, State: answer.State,
	})
}

// requestID derives an id from the request and the day: said again, because its
// answer was lost or by mistake, it is the same request.
func requestID(in enqueue.Input, now time.Time) string {
	h := sha256.New()
	for _, part := range []string{in.Policy, in.Tenant, in.Reason} {
		h.Write([]byte(part + "\x00")) // no part holds a zero byte: the function refuses control characters
	}
	return now.UTC().Format("2006-01-02-") + hex.EncodeToString(h.Sum(nil))[:12]
}

func (a *requested) write(s *sheet) {
	s.line("The request is on record. It deletes nothing that the policy's next scheduled run would not.")
	s.facts([2]string{"run", string(a.RunID)}, [2]string{"request", a.RequestID}, [2]string{"state", words(string(a.State))})
}
