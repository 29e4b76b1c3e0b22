package main

import (
	"context"
	"strings"

	"github.com/expunge-aws/expunge/internal/audit"
)

// reason is the flag of every order.
type reason struct {
	Reason string `required:"" placeholder:"WHY" help:"Why, in 5 to 200 characters. It is kept with your name."`
}

// sign returns who orders and why. A reason that no function would take is refused
// before any is asked.
func (r reason) sign(ctx context.Context, where *deployment) (audit.Signature, error) {
	s := audit.Signature{By: "somebody", Reason: r.Reason}
	if err := s.Check("order"); err != nil {
		_, text, _ := strings.Cut(err.Error(), ": invalid: ")
		return s, usage("--reason: " + text)
	}
	var err error
	s.By, err = where.signer(ctx)
	return s, err
}
