// Package contract holds the names and numbers that the stack and the functions must agree on.
//
// Numbers travel as values, not as constants inside the steps: the local
// environment runs the same code on the same numbers divided by one factor, and
// a test keeps every relation between them true at both scales. A relation that
// matters to safety is checked by Validate, which synthesis and every main call.
package contract

import (
	"fmt"
	"time"
)

// Settings are the numbers of one deployment. The zero value is not usable;
// start from Production.
type Settings struct {
	// FunctionTimeout is the worker's limit for one invocation. A claim's lease
	// ends with the invocation, so this is also the longest lease.
	FunctionTimeout time.Duration
	// ScanTimeout is enqueue's limit for one invocation, Lambda's own largest: a scan
	// that does not fit goes on in another. Half of it raises an alarm (R80).
	ScanTimeout time.Duration
	// ReconcileTimeout is reconcile's limit for one pass: closing a run of some
	// thousand tenants takes minutes.
	ReconcileTimeout time.Duration
	// RequestLifetime is Q: how long a request that was already signed can still
	// take effect after its sender is gone. A signature is valid for 15 minutes
	// (AWS SigV4); one minute is added for clock skew.
	RequestLifetime time.Duration
	// SigningMargin is how long before the lease ends the worker stops signing deletes.
	SigningMargin time.Duration
	// TakeMargin is the time an invocation must have left to start another message.
	TakeMargin time.Duration

	// MaxAttempts counts executed attempts: the fifth failure is the last (ruling C3).
	MaxAttempts int
	// AgeCeiling is how long after its first failure a page is still retried.
	AgeCeiling time.Duration
	// BackoffBase and BackoffCap bound the full-jitter wait between attempts.
	BackoffBase, BackoffCap time.Duration
	// DeleteRounds is how often one claim sends what is left of a sub-batch.
	DeleteRounds int

	// MaxReceives is SQS's own maxReceiveCount, the backstop behind MaxAttempts. It is
	// also how often a message of a later release is handed out to wait for a worker
	// that knows it, a visibility timeout each time.
	MaxReceives int
	// SourceRetention and DeadLetterRetention are the queues' message retention.
	// A standard queue's dead letter keeps its first enqueue time, so the second
	// must exceed the first by the recovery window.
	SourceRetention, DeadLetterRetention time.Duration

	// RedriveAfterFailure and RedriveAfterDeath are how long after its first failure
	// and after its death a page may be redriven at the earliest: a retry storm is over
	// by then (R85).
	RedriveAfterFailure, RedriveAfterDeath time.Duration
	// RedriveAttempts is how many attempts a page may have in all its lives (R86).
	RedriveAttempts int
	// RedriveLife is how long a redrive plan may be applied.
	RedriveLife time.Duration
	// RedrivePlan is how many pages one plan may hold, RedriveBatch how many one call
	// moves, RedriveRate how many of them in a second (R91).
	RedrivePlan, RedriveBatch, RedriveRate int
	// DrillLife is for how long a passed drill allows a scheduled redrive (R16).
	DrillLife time.Duration
	// MissedAfter is how long after its instant a scheduled date without a run is missed.
	MissedAfter time.Duration

	// ReconcileEvery is the period of the reconcile function.
	ReconcileEvery time.Duration
	// Objective is how soon after it may run a page should be settled;
	// the page alarm fires at 80 % of it.
	Objective time.Duration
	// Concurrency is the region's maximum number of concurrent workers.
	Concurrency int

	// PageItems and PageListed close a page: whichever comes first (design, page).
	PageItems, PageListed int
	// SplitItems is how many items a page may split off when it completes; a
	// DynamoDB transaction holds 100 actions, and more failures than this are the
	// page's own.
	SplitItems int
	// GuardHistory is how many completed runs the growth guard looks back on.
	GuardHistory int
	// ClockSkew is how far ahead of the function's clock a scheduled instant may be.
	ClockSkew time.Duration
}

// Visibility is the queue's visibility timeout: six function timeouts, as AWS
// asks of a queue read by an event source mapping.
func (s Settings) Visibility() time.Duration { return 6 * s.FunctionTimeout }

// Overdue is how long after its expected delivery an open page is sent again.
func (s Settings) Overdue() time.Duration { return 2 * s.Visibility() }

// MaxConcurrency is the largest maximum concurrency of an event source mapping:
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
const MaxConcurrency = 1000

// Production returns the defaults of a deployed region.
func Production() Settings {
	return Settings{
		FunctionTimeout:     60 * time.Second,
		ScanTimeout:         15 * time.Minute,
		ReconcileTimeout:    5 * time.Minute,
		RequestLifetime:     16 * time.Minute,
		SigningMargin:       2 * time.Second,
		TakeMargin:          15 * time.Second,
		MaxAttempts:         5,
		AgeCeiling:          24 * time.Hour,
		BackoffBase:         time.Second,
		BackoffCap:          15 * time.Minute,
		DeleteRounds:        4,
		MaxReceives:         10,
		SourceRetention:     4 * 24 * time.Hour,
		DeadLetterRetention: 14 * 24 * time.Hour,
		RedriveAfterFailure: 15 * time.Minute,
		RedriveAfterDeath:   5 * time.Minute,
		RedriveAttempts:     15,
		RedriveLife:         10 * time.Minute,
		RedrivePlan:         1000,
		RedriveBatch:        100,
		RedriveRate:         10,
		DrillLife:           30 * 24 * time.Hour,
		MissedAfter:         time.Hour,
		ReconcileEvery:      5 * time.Minute,
		Objective:           15 * time.Minute,
		Concurrency:         5,
		PageItems:           1000,
		PageListed:          10000,
		SplitItems:          25,
		GuardHistory:        7,
		ClockSkew:           15 * time.Minute,
	}
}

// Scaled divides every duration by the factor and keeps every count.
func (s Settings) Scaled(by int) Settings {
	for _, d := range []*time.Duration{
		&s.FunctionTimeout, &s.ScanTimeout, &s.ReconcileTimeout, &s.RequestLifetime, &s.SigningMargin, &s.TakeMargin, &s.AgeCeiling,
		&s.BackoffBase, &s.BackoffCap, &s.SourceRetention, &s.DeadLetterRetention,
		&s.RedriveAfterFailure, &s.RedriveAfterDeath, &s.RedriveLife, &s.DrillLife, &s.MissedAfter,
		&s.ReconcileEvery, &s.Objective, &s.ClockSkew,
	} {
		*d /= time.Duration(by)
	}
	return s
}

// Validate reports the first relation between the numbers that does not hold.
func (s Settings) Validate() error {
	relations := []struct {
		holds bool
		text  string
	}{
		{s.SigningMargin > 0 && s.SigningMargin < s.TakeMargin, "signing margin must be positive and below the take margin"},
		{s.TakeMargin < s.FunctionTimeout, "take margin must be below the function timeout"},
		{s.FunctionTimeout <= s.ReconcileTimeout && s.ReconcileTimeout <= s.ScanTimeout && s.ScanTimeout <= 15*time.Minute,
			"function timeout <= reconcile timeout <= scan timeout <= Lambda's 15 minutes"},
		{s.RequestLifetime >= 15*s.FunctionTimeout, "request lifetime must cover a signature's 15 minutes at this scale"},
		{s.Overdue() < s.AgeCeiling, "a page must be resent at least once before its age ceiling"},
		{s.AgeCeiling < s.SourceRetention, "age ceiling must end before the source queue forgets the message"},
		{s.SourceRetention+7*s.AgeCeiling < s.DeadLetterRetention, "dead letters must outlive the source retention by a week"},
		{s.BackoffBase > 0 && s.BackoffBase < s.BackoffCap && s.BackoffCap < s.AgeCeiling, "back-off base < cap < age ceiling"},
		{s.MaxAttempts >= 1 && s.MaxReceives >= 2*s.MaxAttempts, "maxReceiveCount must leave room for throttled receives: twice the attempts"},
		{s.DeleteRounds >= 1, "at least one delete round"},
		{s.PageItems >= 1 && s.PageItems <= 1000 && s.PageListed >= s.PageItems, "a page holds 1 to 1,000 items and lists at least as many"},
		{s.SplitItems >= 1 && s.SplitItems <= 25, "1 to 25 split-off items fit the completing transaction"},
		{s.Concurrency >= 2 && s.Concurrency <= MaxConcurrency, "an event source mapping's maximum concurrency is 2 to 1,000"},
		{s.ReconcileEvery < s.Objective, "reconcile must run within the objective"},
		{s.RedriveAfterDeath > 0 && s.RedriveAfterDeath <= s.RedriveAfterFailure, "a redrive waits after the death, and at least as long after the first failure"},
		{s.RedriveAttempts > s.MaxAttempts, "a page must be redriven at least once before its attempts are used up"},
		{s.RedriveLife > 0 && s.RedriveLife < s.AgeCeiling, "a redrive plan expires before what it has seen is old"},
		{s.RedriveRate >= 1 && s.RedriveBatch >= s.RedriveRate && s.RedrivePlan >= s.RedriveBatch, "redrive rate <= batch <= plan"},
		{s.RedrivePlan <= 1000, "a redrive plan's pages fit a DynamoDB transaction of 4 MB"},
		{s.DrillLife > 0 && s.MissedAfter >= s.Objective, "a date is missed only after its objective"},
	}
	for _, r := range relations {
		if !r.holds {
			return fmt.Errorf("contract: %s", r.text)
		}
	}
	return nil
}
