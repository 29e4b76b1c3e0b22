package contract

import (
	"reflect"
	"testing"
	"time"
)

// Each relation of Validate, broken alone.
func TestEveryRelationIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Settings){
		"no signing margin":               func(s *Settings) { s.SigningMargin = 0 },
		"signing margin = take margin":    func(s *Settings) { s.SigningMargin = s.TakeMargin },
		"take margin = timeout":           func(s *Settings) { s.TakeMargin = s.FunctionTimeout },
		"a pass under the worker's limit": func(s *Settings) { s.ReconcileTimeout = s.FunctionTimeout - 1 },
		"a scan under a pass's limit":     func(s *Settings) { s.ScanTimeout = s.ReconcileTimeout - 1 },
		"a scan over Lambda's limit":      func(s *Settings) { s.ScanTimeout = 15*time.Minute + 1 },
		"lifetime below 15 minutes":       func(s *Settings) { s.RequestLifetime = 15*s.FunctionTimeout - 1 },
		"overdue at the age ceiling":      func(s *Settings) { s.AgeCeiling, s.BackoffCap = s.Overdue(), time.Minute },
		"age ceiling = source retention":  func(s *Settings) { s.AgeCeiling, s.DeadLetterRetention = s.SourceRetention, 365*24*time.Hour },
		"dead letters a week longer only": func(s *Settings) { s.DeadLetterRetention = s.SourceRetention + 7*s.AgeCeiling },
		"no back-off":                     func(s *Settings) { s.BackoffBase = 0 },
		"back-off base = cap":             func(s *Settings) { s.BackoffBase = s.BackoffCap },
		"back-off cap = age ceiling":      func(s *Settings) { s.BackoffCap = s.AgeCeiling },
		"no attempt":                      func(s *Settings) { s.MaxAttempts = 0 },
		"receives below twice":            func(s *Settings) { s.MaxReceives = 2*s.MaxAttempts - 1 },
		"no delete round":                 func(s *Settings) { s.DeleteRounds = 0 },
		"no item":                         func(s *Settings) { s.PageItems = 0 },
		"items over the bulk limit":       func(s *Settings) { s.PageItems = 1001 },
		"lists less than it holds":        func(s *Settings) { s.PageListed = s.PageItems - 1 },
		"no split":                        func(s *Settings) { s.SplitItems = 0 },
		"26 split-off items":              func(s *Settings) { s.SplitItems = 26 },
		"one worker":                      func(s *Settings) { s.Concurrency = 1 },
		"1,001 workers":                   func(s *Settings) { s.Concurrency = MaxConcurrency + 1 },
		"reconcile at the objective":      func(s *Settings) { s.ReconcileEvery = s.Objective },
	} {
		s := Production()
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A duration that is added must be scaled, and a count must not.
func TestScaledCoversEveryDuration(t *testing.T) {
	before, after := reflect.ValueOf(Production()), reflect.ValueOf(Production().Scaled(20))
	for i := range before.NumField() {
		f := before.Type().Field(i)
		want := before.Field(i).Int()
		if f.Type == reflect.TypeFor[time.Duration]() {
			want /= 20
		}
		if before.Field(i).IsZero() {
			t.Errorf("%s has no default", f.Name)
		}
		if got := after.Field(i).Int(); got != want {
			t.Errorf("%s is scaled to %d, want %d", f.Name, got, want)
		}
	}
}
