package job_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// declared returns the values of all constants of a type in a file of this package.
func declared(t *testing.T, file, typ string) []string {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, named := spec.Type.(*ast.Ident)
		text, literal := spec.Values[0].(*ast.BasicLit)
		if named && literal && name.Name == typ {
			value, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

func words[T ~string](list []T) []string {
	var all []string
	for _, w := range list {
		all = append(all, string(w))
	}
	return all
}

// A list that forgets a word would let a test that walks it pass.
func TestListsAreComplete(t *testing.T) {
	for _, c := range []struct {
		file, typ string
		list      []string
	}{
		{"page.go", "PageState", words(job.PageStates())},
		{"page.go", "PageEvent", words(job.PageEvents())},
		{"run.go", "RunState", words(job.RunStates())},
		{"run.go", "RunEvent", words(job.RunEvents())},
		{"reason.go", "Reason", words(job.Reasons())},
	} {
		want := declared(t, c.file, c.typ)
		if slices.Sort(want); len(want) == 0 {
			t.Errorf("no %s is declared in %s", c.typ, c.file)
		}
		got := slices.Clone(c.list)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: listed %q, declared %q", c.typ, got, want)
		}
	}
}

func TestOutcomeWords(t *testing.T) {
	want := []string{
		"deleted", "deleted_marker_only", "already_absent", "changed", "superseded", "held", "retained", "refused", "failed", "would_delete",
	}
	var got []string
	for _, o := range job.Outcomes() {
		got = append(got, o.String())
		if parsed, ok := job.ParseOutcome(o.String()); !ok || parsed != o {
			t.Errorf("%s parses to %v", o, parsed)
		}
		if o.Deletes() != (o == job.Deleted || o == job.DeletedMarkerOnly) {
			t.Errorf("%s claims a deletion: %v", o, o.Deletes())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("outcomes are %q", got)
	}
	if len(job.Counts{}) != len(want)+1 {
		t.Errorf("counts hold %d numbers", len(job.Counts{}))
	}
	for _, word := range []string{"", "Deleted", "deleted ", "moved", "gone"} {
		if o, ok := job.ParseOutcome(word); ok || o != job.NoOutcome {
			t.Errorf("%q parses to %v", word, o)
		}
	}
	if job.NoOutcome.String() != "" || job.Outcome(200).String() != "" || job.NoOutcome.Deletes() {
		t.Error("what is no outcome has a word or claims a deletion")
	}
}

// What redrive may move without a corrected policy or an override (S14).
func TestReasonClass(t *testing.T) {
	redrivable := []job.Reason{job.ReasonForbidden, job.ReasonAttempts, job.ReasonAge, job.ReasonNewerSchema}
	for _, r := range append(job.Reasons(), "", "a reason nobody knows") {
		want := job.Quarantined
		if slices.Contains(redrivable, r) {
			want = job.Redrivable
		}
		if r.Class() != want {
			t.Errorf("%s is %s", r, r.Class())
		}
	}
}

func TestSame(t *testing.T) {
	plain := job.Item{Key: "k", ETag: "e", Size: 5, Modified: now}
	version := job.Item{Key: "k", Version: "v", ETag: "e", Size: 5, Modified: now}
	change := func(i job.Item, f func(*job.Item)) job.Item { f(&i); return i }
	for _, c := range []struct {
		name          string
		planned, seen job.Item
		same          bool
	}{
		{"the same", plain, plain, true},
		{"in another zone", plain, change(plain, func(i *job.Item) { i.Modified = now.In(time.FixedZone("", 3600)) }), true},
		{"F5 the same bytes, uploaded later", plain, change(plain, func(i *job.Item) { i.Modified = in(time.Second) }), false},
		{"other bytes", plain, change(plain, func(i *job.Item) { i.ETag = "f" }), false},
		{"another size", plain, change(plain, func(i *job.Item) { i.Size++ }), false},
		{"another key", plain, change(plain, func(i *job.Item) { i.Key = "K" }), false},
		{"a version now", plain, version, false},
		{"no version now", version, plain, false},
		{"the exact version, whatever is said of it", version, change(version, func(i *job.Item) { i.ETag, i.Size, i.Modified = "", 0, time.Time{} }), true},
		{"another version of the same bytes", version, change(version, func(i *job.Item) { i.Version = "w" }), false},
	} {
		if got := c.planned.Same(c.seen); got != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if got := version.Ref(); got != (job.Ref{Key: "k", Version: "v"}) {
		t.Errorf("ref is %+v", got)
	}
}

// A zero answer, standing or outcome is none: a store that forgets an item can
// not have it counted.
func TestZeroValuesSayNothing(t *testing.T) {
	if (job.Answer(0)) != job.NoAnswer || job.Standing(0) != job.NoStanding || job.Outcome(0) != job.NoOutcome {
		t.Error("a zero value says something")
	}
	if job.PageState("").Terminal() || !job.PageState("").Open() {
		t.Error("a page without a state counts as done")
	}
}
