package sim

// Fault is one kind of thing that goes wrong, or that somebody does at a bad moment.
type Fault uint8

// The kinds. A run in which one of them never happened proves nothing about it, and
// fails.
const (
	// A process.
	CrashBefore       Fault = iota // dies before a call has an effect
	CrashAfter                     // dies after it, before the answer
	Stall                          // a call takes longer than leases and timeouts
	Thawed                         // stands still past its end and goes on
	TimedOut                       // is ended by the platform at its limit
	SkewedClock                    // its clock is up to 20 seconds off
	InvokeLost                     // an asynchronous invocation never starts
	InvokeTwice                    // an asynchronous invocation starts twice
	InvokeAgain                    // a failed asynchronous invocation is tried again
	OldCode                        // an invocation runs the code of before the release
	LedgerThrottled                // refused for rate
	LedgerLost                     // no answer, and nothing happened
	LedgerUnsure                   // no answer, and it happened
	LedgerLate                     // no answer, and it happens later
	LedgerRetried                  // the client sent it twice: its own success is in its way
	LedgerBusy                     // a transaction meets another one
	LedgerUnread                   // a read fails
	IndexLags                      // an index does not show what is there
	HoldsCutShort                  // an answer lacks the newest holds
	SentTwice                      // a message is delivered to two workers at once
	SentLate                       // a message is delivered long after it was sent
	SendRefused                    // the queue takes a part of a batch
	SendLost                       // no answer to a batch, and it was not taken
	SendUnsure                     // no answer to a batch, and it was taken
	AckLost                        // a message comes again although its page is settled
	DelayLost                      // a message is not given back for later
	LetterLost                     // no dead letter is written
	LetterUnsure                   // it is, without an answer
	LettersUnread                  // dead letters can not be read or removed
	MovedBySQS                     // the queue moves a message to the dead letters by itself
	MovedByHand                    // somebody moves all dead letters back in the console
	MessageGone                    // a message is lost: purged, or expired
	Malformed                      // a body that is no command
	Forged                         // a command that nobody sent
	Misrouted                      // a command of another region, or in the wrong queue
	NewerSchema                    // a message of the next release
	StrayLetter                    // a dead letter of unknown origin
	StoreThrottled                 // a call of the store is refused for rate
	StoreLost                      // no answer from the store, and nothing happened
	DeleteUnsure                   // no answer to a delete, and it happened
	DeleteLate                     // a delete lands after its sender has given up
	DeleteOrphaned                 // a delete lands after its sender has died
	KeySlow                        // one key of a delete is refused for rate
	KeyDenied                      // one key may not be deleted, for a while
	KeyUnsure                      // one key is answered with an internal error
	AnswersCut                     // the store's answer lacks some keys
	TokenExpired                   // a listing can not be continued
	Interleaved                    // others act between two keys of one delete
	EvidenceLost                   // evidence is not kept
	EvidenceUnsure                 // it is kept, without an answer
	EvidenceUnread                 // evidence can not be read
	Replaced                       // somebody uploads another object under the key
	Twin                           // somebody uploads the same bytes again
	Removed                        // somebody removes an object
	Uploaded                       // somebody uploads a new object
	Barred                         // a permission is taken away, for a while
	Locked                         // somebody locks an object in the store
	TickTwice                      // the schedule fires twice
	TickNever                      // the schedule does not fire
	TickLate                       // the schedule fires late
	TickEarly                      // a tick names a date that has not come
	SkippedDate                    // a clock change takes the schedule's time away
	Requested                      // somebody requests a run of one tenant
	HoldPlaced                     // a hold is placed while a run is under way
	HoldReleased                   // and released
	HoldAsked                      // and asked about
	BrakeSet                       // a brake is set, and released later
	Superseded                     // a newer policy version is published
	GuardTrips                     // a run waits for a person
	RunApproved                    // who releases it
	RunRejected                    // or rejects it
	RedriveApplied                 // dead pages are moved back
	RedriveOverridden              // passing over gates
	PageDiscarded                  // a dead page is given up
	LetterDiscarded                // a letter is removed
	AutoSwitched                   // the scheduled redrive is switched on or off
	ScheduledRedrive               // a schedule redrives
	VersionApproved                // a person lets a policy version delete
	SecondDate                     // another policy of the region has its date
	DrillBegun                     // a drill ends a page
	DrillPassed                    // and has brought it back
	DrillFailed                    // or not
	PolicyLost                     // policy versions are lost from the ledger, for a while
	OrderAbroad                    // a plan of another region is to be applied
	faults
)

var faultNames = [faults]string{
	"crash-before-effect", "crash-after-effect", "stall", "thawed-process", "timeout-kill", "skewed-clock", "invoke-lost", "invoke-twice",
	"invoke-again", "old-code", "ledger-throttled", "ledger-lost", "ledger-answer-lost", "ledger-lands-late", "ledger-sdk-retry", "ledger-contention",
	"ledger-unread", "index-lags", "holds-cut-short", "delivered-twice", "delivered-late", "send-partly-refused", "send-lost",
	"send-answer-lost", "ack-lost", "delay-lost", "letter-lost", "letter-answer-lost", "letters-unread", "moved-by-sqs", "moved-by-hand",
	"message-gone", "malformed", "forged", "misrouted", "newer-schema", "stray-letter", "store-throttled", "store-lost",
	"delete-answer-lost", "delete-lands-late", "delete-orphaned", "key-slow", "key-denied", "key-unsure", "answers-cut", "token-expired",
	"interleaved-delete", "evidence-lost", "evidence-answer-lost", "evidence-unread", "object-replaced", "object-twin", "object-removed",
	"object-uploaded", "permission-lost", "object-locked", "tick-twice", "tick-never", "tick-late", "tick-early", "date-skipped", "request", "hold-placed", "hold-released",
	"hold-asked", "brake", "policy-superseded", "guard-trips", "run-approved", "run-rejected", "redrive", "redrive-override",
	"page-discarded", "letter-discarded", "auto-redrive-switched", "scheduled-redrive", "version-approved", "second-policy", "drill-begun", "drill-passed", "drill-failed", "policy-lost", "order-of-another-region",
}

func (f Fault) String() string { return faultNames[f] }

// Faults lists every kind once.
func Faults() []Fault {
	all := make([]Fault, faults)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// Hits counts how often each kind happened.
type Hits [faults]int

// Add adds those of another world.
func (h *Hits) Add(o *Hits) {
	for i, n := range o {
		h[i] += n
	}
}

// rates say how often each kind strikes where it can, in 1,024 cases.
type rates [faults]int

// usual is how often a kind strikes where it is common. Where it is rare it is an
// eighth of that, and at least one.
var usual = rates{
	CrashBefore: 10, CrashAfter: 20, Stall: 12, Thawed: 4, SkewedClock: 700, InvokeLost: 150, InvokeTwice: 150, OldCode: 300,
	LedgerThrottled: 16, LedgerLost: 10, LedgerUnsure: 14, LedgerLate: 8, LedgerRetried: 16, LedgerBusy: 60, LedgerUnread: 6,
	IndexLags: 120, HoldsCutShort: 100, SentTwice: 200, SentLate: 60, SendRefused: 120, SendLost: 80, SendUnsure: 80, AckLost: 120, DelayLost: 150,
	LetterLost: 150, LetterUnsure: 150, LettersUnread: 60, StoreThrottled: 40, StoreLost: 16, DeleteUnsure: 120, DeleteLate: 160,
	DeleteOrphaned: 160, KeySlow: 90, KeyDenied: 50, KeyUnsure: 120, AnswersCut: 60, TokenExpired: 60, Interleaved: 200,
	EvidenceLost: 40, EvidenceUnsure: 40, EvidenceUnread: 30, TickTwice: 400, TickNever: 250, TickLate: 300, NewerSchema: 250,
}

// draw gives every kind its rate in this world: off, rare or common. Worlds in which
// everything goes wrong at once look all alike (swarm testing).
func (r *rates) draw(c *chance) {
	for i, common := range usual {
		switch c.n(3) {
		case 1:
			r[i] = max(common/8, min(common, 1))
		case 2:
			r[i] = common
		}
	}
}
