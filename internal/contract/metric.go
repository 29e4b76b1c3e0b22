package contract

// Namespace is the CloudWatch namespace of every metric.
const Namespace = "Expunge"

// The dimensions of a metric. Every metric has DimensionService, the step that
// measured; one about a policy has DimensionPolicy too, and DeadLetters has
// DimensionReason. Never a tenant, a key or a text (R101).
const (
	DimensionService = "service"
	DimensionPolicy  = "policy"
	DimensionReason  = "reason"
)

// Metric is a name in CloudWatch. The list is closed: what measures and what raises
// an alarm read the same word.
type Metric string

// What a pass of reconcile measures, once for each policy and, where it says so,
// once for the region. A value of a policy is published while it is above 0 only: a
// metric costs money for each hour in which it has a value.
const (
	// OldestOpenPageAge is for how long the oldest page of a policy that may run has
	// not ended, in seconds.
	OldestOpenPageAge Metric = "OldestOpenPageAge"
	// OldestIncompletePageAge is the same of pages that a worker has begun, and of the
	// region the oldest of all policies.
	OldestIncompletePageAge Metric = "OldestIncompletePageAge"
	// BusinessDateLag is how many scheduled dates after the newest closed run should
	// have been closed by now (R112). The region's is the largest of its policies', and
	// is published by every pass, 0 included: where it is missing, nobody reconciles.
	BusinessDateLag Metric = "BusinessDateLag"
	// MissedDates is how many scheduled dates were found without a run in this pass.
	MissedDates Metric = "MissedDates"
	// DeadPages is how many pages of a policy wait for an operator.
	DeadPages Metric = "DeadPages"
	// TotalsMismatches is how many runs of the region do not add up in this pass.
	TotalsMismatches Metric = "TotalsMismatches"
)

// What is counted when it happens. Each has the dimension service alone, so that an
// alarm on it is one alarm; its event in the log names the policy and the run.
const (
	PagesCompleted Metric = "PagesCompleted"
	PagesRetried   Metric = "PagesRetried"
	// Duplicates is how many deliveries found their page already settled.
	Duplicates   Metric = "Duplicates"
	ItemsDeleted Metric = "ItemsDeleted"
	ItemsHeld    Metric = "ItemsHeld"
	// DeadLetters is how many dead letters were sent, by reason.
	DeadLetters Metric = "DeadLetters"
	// PagesRedriven is how many dead pages were sent on their way again, and
	// RedrivesCompleted how many of such pages completed.
	PagesRedriven     Metric = "PagesRedriven"
	RedrivesCompleted Metric = "RedrivesCompleted"
	// RecoveryTime is the time from a page's first failure to its completion, in seconds (R106).
	RecoveryTime Metric = "RecoveryTime"

	// GuardsTripped is how many runs wait for approval because they would delete more
	// than their limits allow.
	GuardsTripped Metric = "GuardsTripped"
	// EvidenceFailures is how many plans, receipts or manifests could not be written.
	// Without them nothing is deleted.
	EvidenceFailures Metric = "EvidenceFailures"
	// SealFailures is how often a run could not be sealed.
	SealFailures Metric = "SealFailures"
	// VersionsNotApproved is how many runs only report for want of an approval.
	VersionsNotApproved Metric = "VersionsNotApproved"
	// BucketsRefused is how many runs were not opened because their bucket can not be listed.
	BucketsRefused Metric = "BucketsRefused"
	// PoliciesRefused is how often a policy version had other content than the one on record.
	PoliciesRefused Metric = "PoliciesRefused"
	// MarkersUndone is how many delete markers covered another version than planned and were removed.
	MarkersUndone Metric = "MarkersUndone"
)

// Unit is the unit of a metric, as CloudWatch names it.
func (m Metric) Unit() string {
	switch m {
	case OldestOpenPageAge, OldestIncompletePageAge, RecoveryTime:
		return "Seconds"
	default:
		return "Count"
	}
}
