package s3

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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
