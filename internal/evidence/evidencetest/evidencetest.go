// Package evidencetest is the promise of package evidence as a suite that every store runs.
//
// A fake earns trust by passing what the real store passes. Exercise asks for no
// hook and runs against anything, a bucket included; Faults walks each write of a
// fake through "it failed" and "it failed, but it happened".
package evidencetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Store is what the suite exercises: the methods that package evidence describes.
type Store interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	List(ctx context.Context, prefix, after string, limit int) ([]string, error)
}

// Exercise runs the suite. open returns an empty store that lives until its test
// ends.
func Exercise(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"put then get":                           putThenGet,
		"absent":                                 absent,
		"equal bytes again are nil":              equalAgain,
		"other bytes are refused":                otherBytes,
		"racing writers of the same bytes":       raceSame,
		"racing writers of different bytes":      raceDifferent,
		"readers never see half":                 raceReaders,
		"list ascends":                           listAscends,
		"list pages":                             listPages,
		"list narrows to a prefix":               listPrefix,
		"list refuses a limit below one":         listLimit,
		"5 MiB":                                  large,
		"odd but valid names":                    oddNames,
		"invalid names are refused":              badNames,
		"bytes are copied in and out":            noAlias,
		"a cancelled call changes nothing wrong": cancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

const one = "plan/0000000000000000000000000000000a/0000000000000000000000000000000b/" +
	"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.jsonl.gz"

func put(t *testing.T, s Store, name string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, data); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func want(t *testing.T, s Store, name string, data []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatalf("get %s: %v", name, err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("get %s: %d bytes, not the %d that were put", name, len(got), len(data))
	}
}

func wantClass(t *testing.T, err error, class failure.Class) {
	t.Helper()
	if !failure.Is(err, class) {
		t.Errorf("error is %v, want class %s", err, class)
	}
}

func wantList(t *testing.T, s Store, prefix, after string, limit int, names ...string) {
	t.Helper()
	got, err := s.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatalf("list %q after %q: %v", prefix, after, err)
	}
	if !slices.Equal(got, names) {
		t.Errorf("list %q after %q, %d: got %q, want %q", prefix, after, limit, got, names)
	}
}

func putThenGet(t *testing.T, s Store) {
	put(t, s, one, []byte("\x00\xffbytes\r\n"))
	put(t, s, "plan/empty.json", nil)
	want(t, s, one, []byte("\x00\xffbytes\r\n"))
	want(t, s, "plan/empty.json", nil)
}

func absent(t *testing.T, s Store) {
	_, err := s.Get(t.Context(), one)
	wantClass(t, err, failure.Absent)
	put(t, s, one, []byte("x"))
	_, err = s.Get(t.Context(), strings.Replace(one, "ccc", "ddd", 1))
	wantClass(t, err, failure.Absent)
	_, err = s.Get(t.Context(), one+".json")
	wantClass(t, err, failure.Absent)
}

func equalAgain(t *testing.T, s Store) {
	for range 3 {
		put(t, s, one, []byte("same"))
	}
	want(t, s, one, []byte("same"))
	wantList(t, s, "", "", 10, one)
}

func otherBytes(t *testing.T, s Store) {
	put(t, s, one, []byte("first"))
	for _, other := range []string{"second", "first ", "firs", "", "First"} {
		wantClass(t, s.Put(t.Context(), one, []byte(other)), failure.Invalid)
	}
	want(t, s, one, []byte("first"))
}

const writers = 16

// race starts all writers at once and returns their errors.
func race(s Store, ctx context.Context, data func(i int) []byte) []error {
	errs := make([]error, writers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			<-start
			errs[i] = s.Put(ctx, one, data(i))
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func raceSame(t *testing.T, s Store) {
	data := bytes.Repeat([]byte("same"), 1<<14)
	for i, err := range race(s, t.Context(), func(int) []byte { return data }) {
		if err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	want(t, s, one, data)
}

func raceDifferent(t *testing.T, s Store) {
	data := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1<<16) }
	winner := -1
	for i, err := range race(s, t.Context(), data) {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("writers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		default:
			wantClass(t, err, failure.Invalid)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	want(t, s, one, data(winner))
}

func raceReaders(t *testing.T, s Store) {
	data := bytes.Repeat([]byte("whole"), 1<<18)
	done := make(chan error, 1)
	go func() { done <- s.Put(t.Context(), one, data) }()
	for written := false; !written; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			written = true
		default:
		}
		names, err := s.List(t.Context(), "", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), one)
		switch {
		case failure.Is(err, failure.Absent) && len(names) == 0 && !written:
		case err != nil:
			t.Fatalf("listed %d, written %v: %v", len(names), written, err)
		case !bytes.Equal(got, data):
			t.Fatalf("a reader saw %d of %d bytes", len(got), len(data))
		}
	}
}

// tree returns names in ascending order of bytes: '-' < '.' < '/' < '0' < '_' < 'a'.
func tree() []string {
	return []string{
		"a-b/x.json", "a-b/x/y.json", "a.json", "a/0.json", "a/x-1.json", "a/x.json", "a/x/0.json", "a/x/z.json",
		"a/x0.json", "a0.json", "a0/x.json", "a_/x.json", "b.json",
	}
}

func plant(t *testing.T, s Store) {
	t.Helper()
	names := tree()
	for _, i := range rand.Perm(len(names)) {
		put(t, s, names[i], []byte(names[i]))
	}
}

func listAscends(t *testing.T, s Store) {
	wantList(t, s, "", "", 100)
	plant(t, s)
	if !slices.IsSorted(tree()) {
		t.Fatal("the suite's own list is not sorted")
	}
	wantList(t, s, "", "", 100, tree()...)
}

func listPages(t *testing.T, s Store) {
	plant(t, s)
	all := tree()
	for limit := 1; limit <= len(all)+1; limit++ {
		after := ""
		for i := 0; i < len(all); i += limit {
			part := all[i:min(i+limit, len(all))]
			wantList(t, s, "", after, limit, part...)
			after = part[len(part)-1]
		}
		wantList(t, s, "", after, limit)
	}
	// after need not be a name that is kept
	wantList(t, s, "", "a", 1, "a-b/x.json")
	wantList(t, s, "", "a/", 1, "a/0.json")
	wantList(t, s, "", "a/x/", 2, "a/x/0.json", "a/x/z.json")
	wantList(t, s, "", "a/x0", 1, "a/x0.json")
	wantList(t, s, "", "zzz", 1)
}

func listPrefix(t *testing.T, s Store) {
	plant(t, s)
	for _, prefix := range []string{"a", "a-", "a/", "a/x", "a/x/", "a/x/z.json", "a/x/z.json.gz", "a0", "b", "c", "../", "/"} {
		for _, after := range []string{"", "a/x", "a/x.json", "a/x/0.json", "z"} {
			var names []string
			for _, name := range tree() {
				if strings.HasPrefix(name, prefix) && name > after {
					names = append(names, name)
				}
			}
			wantList(t, s, prefix, after, 100, names...)
			wantList(t, s, prefix, after, 2, names[:min(2, len(names))]...)
		}
	}
}

func listLimit(t *testing.T, s Store) {
	plant(t, s)
	for _, limit := range []int{0, -1} {
		_, err := s.List(t.Context(), "", "", limit)
		wantClass(t, err, failure.Invalid)
	}
}

func large(t *testing.T, s Store) {
	data := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{1})
	if _, err := random.Read(data); err != nil {
		t.Fatal(err)
	}
	put(t, s, one, data)
	put(t, s, one, data)
	want(t, s, one, data)
	other := bytes.Clone(data)
	other[len(other)-1] ^= 1
	wantClass(t, s.Put(t.Context(), one, other), failure.Invalid)
	want(t, s, one, data)
}

func oddNames(t *testing.T, s Store) {
	long := strings.Repeat("d", 200)
	names := []string{
		"0.0", "-.-", "_._", "a.b.c.d", "-/--/_/__.x",
		strings.Repeat("x", 250) + ".json",
		strings.Join([]string{long, long, long, long, long, "f.json"}, "/"),
	}
	for _, name := range names {
		put(t, s, name, []byte(name))
	}
	for _, name := range names {
		want(t, s, name, []byte(name))
	}
	slices.Sort(names)
	wantList(t, s, "", "", 100, names...)
}

func badNames(t *testing.T, s Store) {
	for _, name := range []string{
		"", ".", "..", "/", "a", "a/b", "/a.json", "a.json/", "a//b.json", "./a.json", "../a.json", "a/../b.json",
		"a/..", "a/.json", ".a.json", "a./b.json", "a.d/b.json", "a.", "a..json", "A.json", "a b.json", "a\\b.json",
		"a\x00.json", "a\n.json", "é.json", "\xff.json", "a:b.json", "~/a.json", "%2e%2e/a.json", "a.json?x", "a*.json",
		strings.Repeat("x", 256) + ".json", strings.Repeat("x", 251) + ".json", strings.Repeat("d/", 512) + "a.json",
	} {
		wantClass(t, s.Put(t.Context(), name, []byte("x")), failure.Invalid)
		_, err := s.Get(t.Context(), name)
		wantClass(t, err, failure.Invalid)
	}
	wantList(t, s, "", "", 100)
}

func noAlias(t *testing.T, s Store) {
	data := []byte("bytes")
	put(t, s, one, data)
	data[0] = 'X'
	want(t, s, one, []byte("bytes"))
	got, err := s.Get(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	got[0] = 'X'
	_ = append(got, "more"...)
	want(t, s, one, []byte("bytes"))
}

func cancelled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errPut := s.Put(ctx, one, []byte("x"))
	_, errGet := s.Get(ctx, one)
	_, errList := s.List(ctx, "", "", 1)
	for _, err := range []error{errPut, errGet, errList} {
		wantClass(t, err, failure.Network)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not say that the call was cancelled", err)
		}
	}
	put(t, s, one, []byte("x"))
	want(t, s, one, []byte("x"))
}

// Faults walks a put through every way to fail. open returns an empty store that
// consults the hook on each write, under the name "put".
func Faults(t *testing.T, open func(t *testing.T, hook failure.Hook) Store) {
	broken := failure.New(failure.Network, "put evidence", "connection reset")
	before := func(func() error) error { return broken }
	after := func(apply func() error) error { return errors.Join(broken, apply()) }
	diesBefore := func(func() error) error { runtime.Goexit(); return nil }
	diesAfter := func(apply func() error) error { _ = apply(); runtime.Goexit(); return nil }
	for _, c := range []struct {
		name    string
		fate    func(apply func() error) error
		happens bool
		dies    bool
	}{
		{"failed", before, false, false},
		{"failed but it happened", after, true, false},
		{"died before", diesBefore, false, true},
		{"died after", diesAfter, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			hook := &script{fates: []func(func() error) error{c.fate}}
			s := open(t, hook.do)
			returned, err := puts(t.Context(), s, []byte("x"))
			if returned == c.dies {
				t.Fatalf("the writer returned: %v", returned)
			}
			if returned {
				wantClass(t, err, failure.Network)
			}
			if c.happens {
				want(t, s, one, []byte("x"))
				wantList(t, s, "", "", 10, one)
				wantClass(t, s.Put(t.Context(), one, []byte("y")), failure.Invalid)
			} else {
				_, err := s.Get(t.Context(), one)
				wantClass(t, err, failure.Absent)
				wantList(t, s, "", "", 10)
			}
			put(t, s, one, []byte("x")) // the retry
			want(t, s, one, []byte("x"))
			if got := fmt.Sprint(hook.ops); strings.Trim(got, "[] put") != "" {
				t.Errorf("the hook saw %s, want only put", got)
			}
			if len(hook.ops) < 2 {
				t.Errorf("the hook saw %d writes", len(hook.ops))
			}
		})
	}
}

// puts writes from a goroutine of its own, which may die; returned is false then.
func puts(ctx context.Context, s Store, data []byte) (returned bool, err error) {
	var wg sync.WaitGroup
	wg.Go(func() {
		err = s.Put(ctx, one, data)
		returned = true
	})
	wg.Wait()
	return returned, err
}

// script applies its fates to the first writes and lets the rest through.
type script struct {
	mu    sync.Mutex
	fates []func(apply func() error) error
	ops   []string
}

func (s *script) do(op string, apply func() error) error {
	s.mu.Lock()
	s.ops = append(s.ops, op)
	fate := func(apply func() error) error { return apply() }
	if len(s.fates) > 0 {
		fate, s.fates = s.fates[0], s.fates[1:]
	}
	s.mu.Unlock()
	return fate(apply)
}
