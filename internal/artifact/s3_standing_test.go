package artifact

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// before is where a listing begins that must not miss its key, and shared is a
// prefix that both ends of it have.
func TestWhereALookBegins(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	letters := []string{"a", "b", "0", "/", " ", "\x00", "\x01", "\x7f", "\u0080", "\u00e9", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\xff", "\x80"}
	key := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	for range 20_000 {
		a, b := key(), key()
		if s := before(a); s >= a || utf8.ValidString(a) && !utf8.ValidString(s) {
			t.Fatalf("before %q is %q", a, s)
		}
		if s := shared(a, b); !strings.HasPrefix(a, s) || !strings.HasPrefix(b, s) || utf8.ValidString(a) && !utf8.ValidString(s) {
			t.Fatalf("%q and %q share %q", a, b, s)
		}
	}
	for _, last := range []string{"b", "\u20ac", "\U00010000"} {
		long := strings.Repeat("k", MaxKeyBytes-len(last)) + last
		if s := before(long); len(s) > MaxKeyBytes || s >= long {
			t.Errorf("before a key of %d bytes is one of %d", len(long), len(s))
		}
	}
	if got := before("exports/42"); got != "exports/41\U0010ffff" {
		t.Errorf("before exports/42 is %q", got)
	}
}
