package hold

import (
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Word is how far a hold reaches.
type Word string

// The words. The first three are said of a page, and of a hold as a whole.
const (
	// Held: from now on no delete by Expunge takes effect on what the hold covers.
	Held Word = "HELD"
	// InFlight: an intent was committed before the hold. It may or may not take
	// effect, until the instant that stands beside it.
	InFlight Word = "IN_FLIGHT"
	// TooLate: something that the hold covers was deleted before. What is left of the
	// page is held.
	TooLate Word = "TOO_LATE"
	// Ended: the hold was released and holds nothing any more.
	Ended Word = "RELEASED"
)

// Record is a hold as the ledger has it.
type Record struct {
	ID         string    `json:"id"`
	Tenant     string    `json:"tenant"`
	Scope      Scope     `json:"scope"`
	Value      string    `json:"value,omitzero"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Epoch      int64     `json:"epoch"`
	PlacedAt   time.Time `json:"placed_at"`
	ReleasedAt time.Time `json:"released_at,omitzero"` // absent while in force
}

// Record returns the hold in the form of an answer.
func (h Hold) Record() Record {
	return Record{h.ID, h.Tenant, h.Scope, h.Value, h.By, h.Reason, h.Epoch, h.PlacedAt, h.ReleasedAt}
}

// Status is the answer to place and ask.
type Status struct {
	Hold Record `json:"hold"`
	// Answer is IN_FLIGHT while any page is, or while some could not be read; else
	// TOO_LATE when anything was deleted before; else HELD.
	Answer Word `json:"answer"`
	// Complete says that every page that can still act was read and judged. Until
	// bounds what was not, too.
	Complete bool `json:"complete"`
	// Pages counts the pages within the hold's scope. Those of ended runs count only
	// when they deleted something of it.
	Pages Counts `json:"pages"`
	// Until is when the last of what is in flight can take effect; absent when
	// nothing is. Asking again then settles it. Only a page in which an item had been
	// answered for before the hold, and which was resumed since, waits once more; 34
	// minutes after the placement, in production, nothing does.
	Until time.Time `json:"until,omitzero"`
	// Listed are the pages that are not HELD, at most 1,000; More is how many do not
	// stand here.
	Listed []Page `json:"listed"`
	More   int    `json:"more"`
	// ScanningRuns is how many runs are still finding pages: those to come are HELD.
	ScanningRuns int `json:"scanning_runs"`
	// EndedRuns is how many runs of the tenant are over. What they deleted is history
	// and is not counted here, with two exceptions: a run that could still act when the
	// hold was placed, and all of them for an item, for which they are searched, newest
	// first, up to one that deleted it. UnreadRuns is how many that left out because
	// they could not be read or time was over.
	EndedRuns  int `json:"ended_runs"`
	UnreadRuns int `json:"unread_runs"`
	// Text says the same in sentences.
	Text string `json:"text"`
	// Notes are what the caller should look at: a value that no policy knows.
	Notes []string `json:"notes,omitempty"`
}

// Counts are numbers of pages.
type Counts struct {
	Held     int `json:"held"`
	InFlight int `json:"in_flight"`
	TooLate  int `json:"too_late"`
}

// Page is one page that is not HELD.
type Page struct {
	RunID  job.RunID  `json:"run_id"`
	Policy string     `json:"policy"`
	PageID job.PageID `json:"page_id"`
	Answer Word       `json:"answer"`
	Until  time.Time  `json:"until,omitzero"` // of what is in flight
	// Items is how many of the items that the hold covers are gone.
	Items int `json:"items,omitzero"`
	// Outcomes counts them by the word of the receipt: deleted, deleted_marker_only,
	// or superseded, where another object stands now and who removed the planned one
	// can not be proven. Gone stands for items of a page that is not settled: an
	// intent named them, and a look did not find them. A versioned bucket may still
	// have their bytes under a delete marker.
	Outcomes map[string]int `json:"outcomes,omitempty"`
	// Receipt is the hash of the receipt that says so; absent when there is none yet.
	Receipt string `json:"receipt,omitzero"`
	// Proof is answered when the store confirmed every deletion, inferred when any
	// was concluded by looking, and absent when only the receipt says.
	Proof job.Proof `json:"proof,omitzero"`
}

// Gone is the word for items that a look did not find.
const Gone = "gone"

// Released is the answer to release.
type Released struct {
	Hold Record `json:"hold"`
	Text string `json:"text"`
}

// Holds is the answer to list: all holds of a tenant in the order in which they were
// placed, and its hold epoch.
type Holds struct {
	Tenant string   `json:"tenant"`
	Epoch  int64    `json:"epoch"`
	Holds  []Record `json:"holds"`
}

const releasedText = "Released: the hold protects nothing any more. What had been decided before it was placed does not come back to life; " +
	"a later run decides anew, under its policy and the holds in force then."

// sum derives what the parts of a status say together.
func (s *Status) sum() {
	switch {
	case s.Pages.InFlight > 0 || !s.Complete:
		s.Answer = InFlight
	case s.Pages.TooLate > 0:
		s.Answer = TooLate
	default:
		s.Answer = Held
	}
	s.Text = strings.Join(s.sentences(), " ")
}

// sentences say for a person what the numbers mean.
func (s *Status) sentences() []string {
	var text []string
	if n := s.Pages.InFlight; n > 0 {
		text = append(text, "Not held yet: "+count(n, "page was", "pages were")+" decided before the hold, and what was decided may still take effect until "+
			clockText(s.Until)+".")
	}
	if !s.Complete {
		text = append(text, "The hold is in force, but not every page could be read in this call. What was decided before it may take effect until "+
			clockText(s.Until)+"; nothing decided since can.")
	}
	if s.Answer == InFlight {
		text = append(text, "Ask again then.")
	}
	if n := s.Pages.TooLate; n > 0 {
		text = append(text, "Too late in "+count(n, "page", "pages")+": a deletion decided before the hold was carried out, as listed.")
	}
	switch {
	case s.Answer == Held:
		text = append(text, "Held: from now on no delete by Expunge takes effect on what the hold covers.")
	case s.Complete:
		text = append(text, "Everything else that the hold covers is held from now on.")
	}
	if n := s.ScanningRuns; n > 0 {
		text = append(text, count(n, "run is", "runs are")+" still being scanned; the hold covers the pages to come.")
	}
	if n := s.EndedRuns; n > 0 && s.Hold.Scope != Item {
		text = append(text, count(n, "earlier run is", "earlier runs are")+" over; what was deleted before the hold stands in the reports.")
	}
	if n := s.UnreadRuns; n > 0 {
		text = append(text, "Whether something of it was deleted earlier was not looked up in "+count(n, "run", "runs")+".")
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// clockText writes an instant in whole seconds, never earlier than it is.
func clockText(t time.Time) string {
	return t.Add(time.Second - 1).UTC().Truncate(time.Second).Format(time.RFC3339)
}
