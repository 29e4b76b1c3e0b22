package invariant

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
)

// Check judges every invariant that end-state facts can decide, in fixed order.
func Check(f Facts) []Result {
	j := newJudge(f)
	j.judgeRuns()
	j.judgePages()
	j.judgeEffects()
	j.judgeMessages()
	j.judgeLiveness()
	j.judgeSeals()
	j.strays()
	results := make([]Result, len(rules))
	for i, r := range rules {
		results[i] = j.verdicts[r.id].result(r)
	}
	return results
}

// verdict collects what was found about one invariant.
type verdict struct {
	checked, bad int
	examples     []string // the first few violations
	notes        []string
}

// maxExamples is how many violations a detail spells out.
const maxExamples = 3

// look counts things that were looked at.
func (v *verdict) look(n int) { v.checked += n }

// fail notes a violation. The arguments are only formatted while there is room.
func (v *verdict) fail(format string, args ...any) {
	v.bad++
	if len(v.examples) < maxExamples {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// note adds a remark about what was looked at.
func (v *verdict) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

func (v *verdict) result(r rule) Result {
	res := Result{ID: r.id, Holds: v.bad == 0, Checked: v.checked}
	var parts []string
	switch {
	case v.bad > 0:
		text := strconv.Itoa(v.bad) + " wrong among " + strconv.Itoa(v.checked) + " " + r.counts + ": " + strings.Join(v.examples, "; ")
		if more := v.bad - len(v.examples); more > 0 {
			text += "; and " + strconv.Itoa(more) + " more"
		}
		parts = append(parts, text)
	case v.checked == 0:
		parts = append(parts, "looked at nothing: "+r.nothing)
	default:
		parts = append(parts, strconv.Itoa(v.checked)+" "+r.counts)
	}
	res.Detail = strings.Join(append(parts, v.notes...), "; ")
	return res
}

// judge is one Check.
type judge struct {
	Facts
	verdicts map[string]*verdict
	runs     map[job.RunID]*job.Run
	scopes   map[policyVersion]*scope
	ordered  []*scope        // as in Policies
	pages    map[pageKey]int // where in Pages
	order    []int           // of Pages: by run, tenant, range pages before split-off ones
	traces   traces
	words    words
	// read is what was verified already, true where it was good.
	read map[string]bool
	// owed counts deletes that nobody has settled yet.
	owed int
	// parent is the document read last for a split-off page: its siblings need it too.
	parent cached
}

type policyVersion struct {
	name    string
	version int
}

type pageKey struct {
	run  job.RunID
	page job.PageID
}

func newJudge(f Facts) *judge {
	j := &judge{
		Facts:    f,
		verdicts: make(map[string]*verdict, len(rules)),
		runs:     make(map[job.RunID]*job.Run, len(f.Runs)),
		scopes:   make(map[policyVersion]*scope, len(f.Policies)),
		pages:    make(map[pageKey]int, len(f.Pages)),
		order:    make([]int, len(f.Pages)),
		read:     make(map[string]bool, len(f.Evidence)),
	}
	for _, r := range rules {
		j.verdicts[r.id] = &verdict{}
	}
	for i := range f.Runs {
		j.runs[f.Runs[i].ID] = &f.Runs[i]
	}
	for _, p := range f.Policies {
		s := newScope(p)
		j.scopes[policyVersion{p.Name, p.Version}] = s
		j.ordered = append(j.ordered, s)
	}
	for i := range f.Pages {
		j.pages[pageKey{f.Pages[i].Run, f.Pages[i].ID}] = i
		j.order[i] = i
	}
	slices.SortFunc(j.order, func(a, b int) int {
		p, q := &f.Pages[a], &f.Pages[b]
		return cmp.Or(cmp.Compare(p.Run, q.Run), cmp.Compare(p.Tenant, q.Tenant), cmp.Compare(kindOrder(p), kindOrder(q)),
			cmp.Compare(p.Parent, q.Parent), cmp.Compare(p.After, q.After), cmp.Compare(p.ID, q.ID))
	})
	j.traces = newTraces(f.Effects)
	j.words = newWords(f, j.attributed)
	return j
}

func kindOrder(p *job.Page) int {
	if p.Kind == job.ItemPage {
		return 1
	}
	return 0
}

// on returns the verdict of an invariant.
func (j *judge) on(id string) *verdict { return j.verdicts[id] }

// scopeOf returns the published policy version of a run, nil when there is none or
// its content is not the pinned one.
func (j *judge) scopeOf(r *job.Run) *scope {
	s := j.scopes[policyVersion{r.Policy, r.Version}]
	if s == nil || s.sha256 != r.PolicySHA256 {
		return nil
	}
	return s
}

// unreleased reports whether the run's pages must not have been touched.
func unreleased(r *job.Run) bool {
	return r.State == job.Scanning || r.State == job.AwaitingApproval || r.State == job.Rejected
}

// about names a page for a detail.
func about(p *job.Page) string {
	return "run " + string(p.Run) + " page " + string(p.ID) + " tenant " + p.Tenant
}

// masked stands for a key in a detail.
func masked(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key#" + hex.EncodeToString(sum[:8])
}
