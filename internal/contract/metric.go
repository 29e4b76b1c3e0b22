package contract

// Namespace is the CloudWatch namespace of a stage's metrics. Two stages in one account
// must not share one: the reconcile of the first would hide the silence of the second's.
func Namespace(stage string) string {
	if stage == "" {
		return "Expunge"
	}
	return "Expunge/" + stage
}

// AlarmShare is at which part of an objective somebody is told: while there is still
// time to meet it (R82). The stack's alarms and what the tool suggests read the same.
const AlarmShare = 0.8

// The dimensions of a metric. Every metric has DimensionService, the step that
// measured; one about a policy has DimensionPolicy too, and DeadLetters has
// DimensionReason. Never a tenant, a key or a text (R101).
const (
	DimensionService = "service"
	DimensionPolicy  = "policy"
	DimensionReason  = "reason"
)

// The values of DimensionService. The worker that only reports is a worker. All but
// DeadLetters comes from one of them alone, so that one alarm sees all of a metric.
const (
	ServiceEnqueue   = "enqueue"
	ServiceWorker    = "worker"
	ServiceReconcile = "reconcile"
	ServiceRedrive   = "redrive"
	ServiceHold      = "hold" // it has counted nothing so far
)

// Metric is a name in CloudWatch. The list is closed: what measures and what raises
// an alarm read the same word.
type Metric string

// What a pass of reconcile measures, once for each policy and, where it says so,
// once for the region. A value is published while it is above 0 only: a metric costs
// money for each hour in which it has a value.
const (
	// OldestOpenPageAge is for how long the oldest page of a policy that may run has
	// not ended, in seconds.
	OldestOpenPageAge Metric = "OldestOpenPageAge"
	// OldestIncompletePageAge is the same of pages that a worker has begun, and of the
	// region the oldest of all policies.
	OldestIncompletePageAge Metric = "OldestIncompletePageAge"
	// BusinessDateLag is how many scheduled dates after the newest closed run should
	// have been closed by now (R112). The region's is the largest of its policies', and
	// is published at the end of every pass that could find it out, 0 included: where it
	// is missing, nobody reconciles, or nobody knows.
	BusinessDateLag Metric = "BusinessDateLag"
	// MissedDates is how many scheduled dates of a policy were found without a run in
	// this pass.
	MissedDates Metric = "MissedDates"
	// DeadPages is how many pages of a policy wait for an operator.
	DeadPages Metric = "DeadPages"
	// TotalsMismatches is how many runs of the region do not add up in this pass. It is
	// the region's alone.
	TotalsMismatches Metric = "TotalsMismatches"
)

// What the worker counts when it happens. From here on a metric has the dimension
// service alone, and DeadLetters the reason too; its event in the log names the policy
// and the run. What is counted may be counted once more when the answer to a write was
// lost, and is not when the process dies right after the write: the ledger knows.
const (
	// PagesCompleted is how many pages ended with an outcome for each item.
	PagesCompleted Metric = "PagesCompleted"
	// PagesRetried is how many attempts failed for now.
	PagesRetried Metric = "PagesRetried"
	// Duplicates is how many deliveries found their page settled, dead, or in the hands
	// of another worker.
	Duplicates Metric = "Duplicates"
	// ItemsDeleted and ItemsHeld are how many items of the pages that ended are gone, or
	// lie under a marker of ours, and how many a hold or a lock has kept. A run that only
	// reports has held items too.
	ItemsDeleted Metric = "ItemsDeleted"
	ItemsHeld    Metric = "ItemsHeld"
	// RedrivesCompleted is how many of the pages that were sent on their way again
	// completed.
	RedrivesCompleted Metric = "RedrivesCompleted"
	// RecoveryTime is the time from a page's first failure to its completion, in seconds
	// (R106). A page that never failed has none.
	RecoveryTime Metric = "RecoveryTime"
	// EvidenceFailures is how many plans or receipts could not be written. Without them
	// nothing is deleted, or nothing is settled. A manifest is counted by SealFailures.
	EvidenceFailures Metric = "EvidenceFailures"
	// MarkersUndone is how many delete markers covered another version than planned and
	// were removed.
	MarkersUndone Metric = "MarkersUndone"
)

// What enqueue counts.
const (
	// GuardsTripped is how many runs wait for approval because they would delete more
	// than their limits allow.
	GuardsTripped Metric = "GuardsTripped"
	// VersionsNotApproved is how many runs only report for want of an approval.
	VersionsNotApproved Metric = "VersionsNotApproved"
	// BucketsRefused is how many runs were not opened because their bucket can not be
	// listed, or could not be looked at.
	BucketsRefused Metric = "BucketsRefused"
	// PoliciesRefused is how often a policy version had other content than the one on
	// record.
	PoliciesRefused Metric = "PoliciesRefused"
)

// What other steps count.
const (
	// DeadLetters is how many messages became dead letters, by reason. The worker and
	// reconcile both write them, so an alarm adds up their services. A letter that came
	// back without an approved redrive, and is returned, is none.
	DeadLetters Metric = "DeadLetters"
	// PagesRedriven is how many dead pages redrive sent on their way again.
	PagesRedriven Metric = "PagesRedriven"
	// SealFailures is how often reconcile could not keep the manifest of a run.
	SealFailures Metric = "SealFailures"
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
