package contract

// The ledger's table: its key, and its sparse index of what is open. Both keys are
// strings except the sort key, which is binary and orders the rows of a partition by
// their bytes. The index projects the keys alone.
const (
	LedgerPartitionKey = "pk"
	LedgerSortKey      = "sk"
	LedgerIndex        = "open-since"
	LedgerIndexKey     = "open"  // what kind of open work the row is; absent when it is none
	LedgerIndexSortKey = "since" // since when, which never changes
)

// The folders of the evidence bucket: what the pages of runs leave behind, the
// manifests that seal runs, and the reports of drills.
const (
	EvidencePlans     = "plan/"
	EvidenceReceipts  = "receipt/"
	EvidenceManifests = "manifest/"
	EvidenceDrills    = "drills/"
)
