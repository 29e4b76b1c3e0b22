package invariant

import (
	"encoding/binary"
	"strings"
)

// words is everything in which no key may stand (S17), joined, and a filter over
// it. Keys are many and the text is large, so a key is first taken apart into
// windows of eight bytes: if any of them is not in the text, neither is the key.
// The filter may err only towards looking closer, so no key is missed.
type words struct {
	text   string
	filter []uint64
	shift  uint
	count  int // texts
	looked int // keys
	// found are where keys were found, by the hash of the key.
	found []string
	hits  int
}

// window is the length of what the filter knows. Shorter keys are not looked for:
// they stand in identifiers by chance.
const window = 8

// newWords joins what left the process: bodies, attributes of dead letters and
// events. A body that nobody of ours can have written is somebody else's word and
// left out.
func newWords(f Facts, ours func(body []byte) bool) words {
	var w words
	var b strings.Builder
	add := func(values ...string) {
		w.count++
		for _, v := range values {
			b.WriteString(v)
			b.WriteByte('\n')
		}
	}
	for _, a := range f.Acks {
		if ours(a.Body) {
			add(string(a.Body))
		}
	}
	for _, body := range f.Waiting {
		if ours(body) {
			add(string(body))
		}
	}
	for _, l := range f.Letters {
		add(string(l.Reason), string(l.RunID), string(l.PageID), l.Policy, l.Region)
	}
	for _, e := range f.Events {
		add(string(e.Event), e.Region, string(e.RunID), string(e.JobID), e.TenantID, e.Policy,
			string(e.FailureClass), string(e.Reason), e.MessageID, e.CodeVersion)
	}
	w.text = b.String()
	w.build()
	return w
}

// build sets one bit for each window of the text, with at least 16 bits to each.
func (w *words) build() {
	bits := uint(12)
	for bits < 30 && 1<<bits < 16*len(w.text) {
		bits++
	}
	w.shift = 64 - bits
	w.filter = make([]uint64, 1<<(bits-6))
	for i := 0; i+window <= len(w.text); i++ {
		h := w.hash(w.text[i:])
		w.filter[h>>6] |= 1 << (h & 63)
	}
}

// hash spreads the first window of s over the filter.
func (w *words) hash(s string) uint64 {
	var raw [window]byte
	copy(raw[:], s)
	return (binary.LittleEndian.Uint64(raw[:]) * 0x9E3779B97F4A7C15) >> w.shift
}

// lookFor notes where the key stands.
func (w *words) lookFor(key, where string) {
	if len(key) <= window {
		return
	}
	w.looked++
	for i := 0; i+window <= len(key); i++ {
		if h := w.hash(key[i:]); w.filter[h>>6]&(1<<(h&63)) == 0 {
			return
		}
	}
	if !strings.Contains(w.text, key) {
		return
	}
	w.hits++
	if len(w.found) < maxExamples {
		w.found = append(w.found, masked(key)+" of "+where)
	}
}
