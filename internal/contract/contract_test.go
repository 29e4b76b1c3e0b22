package contract

import (
	"testing"
	"time"
)

func TestRelationsHoldAtBothScales(t *testing.T) {
	for _, by := range []int{1, 20} {
		if err := Production().Scaled(by).Validate(); err != nil {
			t.Errorf("scale 1/%d: %v", by, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Settings){
		"margin over the timeout":  func(s *Settings) { s.TakeMargin = s.FunctionTimeout },
		"short request lifetime":   func(s *Settings) { s.RequestLifetime = time.Minute },
		"equal retentions":         func(s *Settings) { s.DeadLetterRetention = s.SourceRetention },
		"receive count one":        func(s *Settings) { s.MaxReceives = 1 },
		"page over the bulk limit": func(s *Settings) { s.PageItems = 1001 },
		"zero value":               func(s *Settings) { *s = Settings{} },
		"concurrency one":          func(s *Settings) { s.Concurrency = 1 },
	} {
		s := Production()
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestVisibilityFollowsTheTimeout(t *testing.T) {
	s := Production()
	if s.Visibility() != 6*time.Minute || s.Overdue() != 12*time.Minute {
		t.Errorf("visibility %v, overdue %v", s.Visibility(), s.Overdue())
	}
}
