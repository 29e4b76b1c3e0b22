package s3

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func TestVersionIDs(t *testing.T) {
	var ids []string
	for sequence := range uint64(1000) {
		id := versionID(sequence)
		if back, ok := sequenceOf(id); !ok || back != sequence || len(id) != 32 {
			t.Fatalf("%d is %s, and back %d, %v", sequence, id, back, ok)
		}
		ids = append(ids, id)
	}
	if slices.IsSorted(ids) {
		t.Error("the ids sort by age: somebody will rely on it")
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 1000 {
		t.Error("two versions have one id")
	}
	for _, id := range []string{"", "null", "v1", strings.Repeat("0", 31) + "1", strings.ToUpper(versionID(7)), versionID(7)[:31], versionID(7) + "0"} {
		if _, ok := sequenceOf(id); ok {
			t.Errorf("%q is taken for an id", id)
		}
	}
}

// TestListing compares listings in pages with the sorted keys themselves.
func TestListing(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := &bucket{}
		var keys []string
		for range 200 {
			key := fmt.Sprintf("%c%c%c%c", "a/b"[rng.IntN(3)], "a/\xff"[rng.IntN(3)], "/b"[rng.IntN(2)], "abc/"[rng.IntN(4)])
			if b.current(key) == nil {
				keys = append(keys, key)
			}
			b.add(key, version{})
		}
		slices.Sort(keys)
		for _, l := range []listing{
			{}, {prefix: "a"}, {prefix: "a/"}, {delimiter: "/"}, {prefix: "a", delimiter: "/"}, {delimiter: "b"}, {after: "a/"}, {after: "b", delimiter: "/"}, {prefix: "b", after: "a"},
		} {
			l.most = 1 + rng.IntN(7)
			want := expected(keys, l)
			var got []string
			for {
				entries, truncated := b.list(l)
				for _, e := range entries {
					got = append(got, e.key)
				}
				if !truncated {
					break
				}
				l.after = got[len(got)-1]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %+v: %q, want %q", seed, l, got, want)
			}
		}
	}
}

// expected is a listing by the words of its description.
func expected(keys []string, l listing) (want []string) {
	skip := ""
	if common, ok := l.fold(l.after); ok {
		skip = common
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, l.prefix) || key <= l.after || skip != "" && strings.HasPrefix(key, skip) {
			continue
		}
		if common, ok := l.fold(key); ok {
			key = common
		}
		if len(want) == 0 || want[len(want)-1] != key {
			want = append(want, key)
		}
	}
	return want
}

func TestBounds(t *testing.T) {
	for spec, want := range map[string][2]int{"0-0": {0, 0}, "2-": {2, 9}, "-3": {7, 9}, "-99": {0, 9}, "5-99": {5, 9}, "-0": {10, 10}} {
		if from, to, ok := bounds(spec, 10); !ok || from != want[0] || to != want[1] {
			t.Errorf("%s: %d to %d, %v", spec, from, to, ok)
		}
	}
	for _, spec := range []string{"", "-", "5", "5-2", "a-b", "1-b", "--1"} {
		if _, _, ok := bounds(spec, 10); ok {
			t.Errorf("%q is taken for a range", spec)
		}
	}
}

// Whatever an operation needs can be named in a policy, and every operation on a
// bucket needs something: the policy itself nothing, and a bulk delete by the key.
func TestEveryOperationHasItsActions(t *testing.T) {
	known := strings.Fields(bucketActions + " " + objectActions)
	for _, op := range New(wire.Wall{}).operations {
		if op.on == onService || op.name == "CreateBucket" {
			continue
		}
		for _, version := range []string{"", nullVersion} {
			c := &call{Request: httptest.NewRequest(op.method, "/b/k", nil), query: url.Values{"versionId": {version}}}
			actions := c.actions(op.name)
			if free := op.sub == "policy" || op.name == "DeleteObjects"; free != (len(actions) == 0) {
				t.Errorf("%s needs %v", op.name, actions)
			}
			for _, action := range actions {
				if !slices.Contains(known, action) {
					t.Errorf("%s needs %s, which no policy can deny", op.name, action)
				}
			}
		}
	}
}

func TestWildcards(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*", "a", true}, {"a*", "a/b/c", true}, {"a*", "b", false}, {"*", "", true}, {"a?c", "abc", true}, {"a?c", "a\nc", true}, {"a?c", "aéc", true},
		{"a?c", "ac", false}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c", false}, {"a.c", "abc", false}, {`a\*`, `a\b`, true}, {"a", "ab", false}, {"b", "ab", false},
		{"a*c", "a\xffc", true}, {"[ab]", "a", false}, {"A", "a", false},
	} {
		if got := wildcards(c.pattern, "").MatchString(c.text); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.text, got)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"Version":"2012-10-17","Id":"x","Statement":[{"Sid":"1","Effect":"Deny","Principal":{"AWS":["*"]},"Action":["s3:*"],"Resource":"arn:aws:s3:::b/*"}]}`))
	f.Add([]byte(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"arn:aws:s3:::b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readPolicy("b", text)
		if err != nil {
			return
		}
		for _, d := range p.deny {
			if len(d.principals) == 0 || len(d.actions) == 0 || len(d.resources) == 0 {
				t.Errorf("%s: a statement that denies nothing was taken", text)
			}
		}
	})
}

func FuzzUnframe(f *testing.F) {
	for _, seed := range []string{"4\r\nbody\r\n0\r\n\r\n", "0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n", "4;chunk-signature=0\r\nbody\r\n", "ffffffff\r\n", "\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, framed []byte) {
		if payload, _, err := unframe(framed); err == nil && len(payload) > len(framed) {
			t.Errorf("%d bytes out of %d", len(payload), len(framed))
		}
	})
}
