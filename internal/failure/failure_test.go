package failure_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
)

// next is what to do with each class.
var next = map[failure.Class]struct{ retryable, ambiguous bool }{
	failure.Throttled:     {true, false},
	failure.Network:       {true, true},
	failure.Conflict:      {true, false},
	failure.Absent:        {false, false},
	failure.Forbidden:     {false, false},
	failure.Invalid:       {false, false},
	failure.UnknownPolicy: {false, false},
	failure.Bug:           {true, true}, // the careful side: try again, and look before acting
}

func TestEveryClass(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range failure.Classes() {
		want, known := next[c]
		if !known {
			t.Errorf("%s is not in the table: say what to do with it", c)
		}
		if c.Retryable() != want.retryable || c.Ambiguous() != want.ambiguous {
			t.Errorf("%s: retryable %v, ambiguous %v", c, c.Retryable(), c.Ambiguous())
		}
		for name, err := range map[string]error{
			"new":     failure.New(c, "do", "text"),
			"wrapped": failure.Wrap(c, "do", cause),
			"deeper":  fmt.Errorf("outside: %w", failure.Wrap(c, "do", cause)),
			"joined":  errors.Join(cause, nil, failure.Wrap(c, "do", cause)),
			"%w twice": fmt.Errorf("%w and %w", cause,
				fmt.Errorf("deep: %w", failure.Wrap(c, "do", cause))),
		} {
			if got := failure.Of(err); got != c {
				t.Errorf("%s of class %s is %s", name, c, got)
			}
			for _, other := range failure.Classes() {
				if failure.Is(err, other) != (other == c) {
					t.Errorf("%s of class %s is %s: %v", name, c, other, other != c)
				}
			}
		}
		if err := failure.Wrap(c, "do", cause); !errors.Is(err, cause) {
			t.Errorf("%s loses its cause", c)
		}
	}
	if len(next) != len(failure.Classes()) {
		t.Errorf("%d classes in the table, %d listed", len(next), len(failure.Classes()))
	}
}

func TestClassesAreComplete(t *testing.T) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "failure.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var declared []failure.Class
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, named := spec.Type.(*ast.Ident)
		text, literal := spec.Values[0].(*ast.BasicLit)
		if named && literal && name.Name == "Class" {
			word, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, failure.Class(word))
		}
		return true
	})
	if !slices.Equal(declared, failure.Classes()) {
		t.Errorf("listed %q, declared %q", failure.Classes(), declared)
	}
}

// An unknown class is not one that a retry may heal, nor one that is known to
// have done nothing; only Of makes classes of errors, and it answers Bug.
func TestForeignErrorsAreBugs(t *testing.T) {
	for _, err := range []error{
		io.EOF, context.Canceled, context.DeadlineExceeded, errors.New("throttled"), errors.Join(io.EOF, io.ErrUnexpectedEOF),
		fmt.Errorf("throttled: %w", io.EOF), &text{},
	} {
		if got := failure.Of(err); got != failure.Bug || !failure.Is(err, failure.Bug) {
			t.Errorf("%v is %s", err, got)
		}
		if failure.RetryAfter(err) != 0 {
			t.Errorf("%v asks to wait", err)
		}
	}
}

type text struct{}

func (*text) Error() string { return "text" }

func TestNoErrorHasNoClass(t *testing.T) {
	if failure.Of(nil) != "" || failure.RetryAfter(nil) != 0 {
		t.Error("nil has a class")
	}
	for _, c := range append(failure.Classes(), "") {
		if failure.Is(nil, c) {
			t.Errorf("nil is %q", c)
		}
		if failure.Wrap(c, "do", nil) != nil {
			t.Errorf("nil wrapped as %q is an error", c)
		}
	}
}

// The outermost class counts: whoever is nearer to the caller knows more.
func TestOutermostClass(t *testing.T) {
	inner := failure.New(failure.Network, "inner", "text")
	for name, c := range map[string]struct {
		err  error
		want failure.Class
	}{
		"wrapped again":        {failure.Wrap(failure.UnknownPolicy, "outer", inner), failure.UnknownPolicy},
		"through a plain wrap": {failure.Wrap(failure.Invalid, "outer", fmt.Errorf("middle: %w", inner)), failure.Invalid},
		"the first of a join":  {errors.Join(failure.New(failure.Conflict, "a", "t"), inner), failure.Conflict},
		"a join in a wrap":     {failure.Wrap(failure.Bug, "outer", errors.Join(inner, io.EOF)), failure.Bug},
	} {
		if got := failure.Of(c.err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	slow := &failure.Error{Class: failure.Throttled, Op: "send", RetryAfter: 7 * time.Second, Err: io.EOF}
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"said":            {slow, 7 * time.Second},
		"said, deeper":    {fmt.Errorf("outer: %w", slow), 7 * time.Second},
		"said, joined":    {errors.Join(io.EOF, slow), 7 * time.Second},
		"not said":        {failure.New(failure.Throttled, "send", "slow down"), 0},
		"foreign":         {io.EOF, 0},
		"classified over": {failure.Wrap(failure.Network, "outer", slow), 0}, // the outer one did not say
	} {
		if got := failure.RetryAfter(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOp(t *testing.T) {
	inner := failure.Wrap(failure.Network, "delete page", errors.New("secret"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":             {nil, ""},
		"foreign":          {io.EOF, ""},
		"said":             {inner, "delete page"},
		"deeper":           {fmt.Errorf("outer: %w", inner), "delete page"},
		"joined":           {errors.Join(io.EOF, inner), "delete page"},
		"the outermost is": {failure.Wrap(failure.Bug, "work", inner), "work"},
	} {
		if got := failure.Op(c.err); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	err := fmt.Errorf("outer: %w", failure.Wrap(failure.Conflict, "claim page 7", errors.New("the row has moved on")))
	if got, want := err.Error(), "outer: claim page 7: conflict: the row has moved on"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestHook(t *testing.T) {
	broken, natural := errors.New("broken"), errors.New("natural")
	for name, c := range map[string]struct {
		hook    failure.Hook
		applied int
		err     error
		dies    bool
	}{
		"none":                   {nil, 1, natural, false},
		"lets through":           {func(_ string, apply func() error) error { return apply() }, 1, natural, false},
		"failed":                 {func(string, func() error) error { return broken }, 0, broken, false},
		"failed but it happened": {func(_ string, apply func() error) error { _ = apply(); return broken }, 1, broken, false},
		"hides the answer":       {func(_ string, apply func() error) error { _ = apply(); return nil }, 1, nil, false},
		"delivered twice":        {func(_ string, apply func() error) error { _ = apply(); return apply() }, 2, natural, false},
		"died before":            {func(string, func() error) error { runtime.Goexit(); return nil }, 0, nil, true},
		"died after":             {func(_ string, apply func() error) error { _ = apply(); runtime.Goexit(); return nil }, 1, nil, true},
	} {
		op, applied := "", 0
		hook := c.hook
		if hook != nil {
			hook = func(name string, apply func() error) error {
				op = name
				return c.hook(name, apply)
			}
		}
		var err error
		dies := true
		var wg sync.WaitGroup
		wg.Go(func() {
			err = hook.Do("write", func() error {
				applied++
				return natural
			})
			dies = false
		})
		wg.Wait()
		if applied != c.applied || !errors.Is(err, c.err) || dies != c.dies {
			t.Errorf("%s: applied %d times, %v, died %v", name, applied, err, dies)
		}
		if c.hook != nil && op != "write" {
			t.Errorf("%s: the operation was %q", name, op)
		}
	}
}
