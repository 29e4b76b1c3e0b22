package evidence_test

import (
	"testing"

	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/evidence/evidencetest"
	"github.com/expunge-aws/expunge/internal/failure"
)

func TestMemory(t *testing.T) {
	evidencetest.Exercise(t, func(*testing.T) evidencetest.Store { return new(evidence.Memory) })
	evidencetest.Faults(t, func(_ *testing.T, hook failure.Hook) evidencetest.Store {
		return &evidence.Memory{Hook: hook}
	})
}
