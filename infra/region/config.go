package region

import (
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Config is what one region's stack is declared from.
type Config struct {
	Region, Stage string
	// Policies are the region's own, by name in order.
	Policies []policy.Policy
	Settings contract.Settings
	// Emulator says that the stack is for a local emulator: what that can not deploy is
	// left out.
	Emulator bool
}
