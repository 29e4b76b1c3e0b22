package invariant

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
)

// The filter only ever saves work: a key is found if and only if it is there.
func TestNoKeyIsMissed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("ab/-\xff\x00"[r.IntN(6)])
		}
		return b.String()
	}
	found := 0
	for range 300 {
		text := random(r.IntN(4000))
		w := newWords(Facts{Letters: []job.Letter{{Policy: text}}}, nil)
		for range 50 {
			key := random(9 + r.IntN(12))
			if len(text) > 40 && r.IntN(2) == 0 {
				at := r.IntN(len(text) - 30)
				key = text[at : at+9+r.IntN(21)]
			}
			before := w.hits
			w.lookFor(key, "a test")
			if got, want := w.hits > before, strings.Contains(text, key); got != want {
				t.Fatalf("found %v, is there %v: %q", got, want, key)
			}
			found = w.hits + found - before
		}
	}
	if found == 0 {
		t.Error("no key was ever there")
	}
}

func TestShortKeysAreNotLookedFor(t *testing.T) {
	w := newWords(Facts{Letters: []job.Letter{{Policy: "x/y/z"}}}, nil)
	w.lookFor("x/y/z", "a test")
	if w.hits != 0 || w.looked != 0 {
		t.Errorf("%d hits, %d looked for", w.hits, w.looked)
	}
	w.lookFor("exports/acme/1", "a text that is shorter than the key")
	if w.hits != 0 || w.looked != 1 {
		t.Errorf("%d hits, %d looked for", w.hits, w.looked)
	}
}
