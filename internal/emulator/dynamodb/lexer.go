package dynamodb

import "strings"

// token is one word or sign of an expression. The end of it has no text.
type token struct {
	text string
	at   int // of the first byte in the source
}

// lex takes an expression apart. Where it meets a byte that belongs to none, that
// byte becomes a token, which no rule of the grammar accepts.
func lex(source string) []token {
	tokens := make([]token, 0, 16)
	for i := 0; i < len(source); {
		if strings.IndexByte(" \t\r\n", source[i]) >= 0 {
			i++
			continue
		}
		n := tokenLength(source[i:])
		tokens = append(tokens, token{source[i : i+n], i})
		i += n
	}
	return tokens
}

// tokenLength returns the length of the token that s begins with.
func tokenLength(s string) int {
	if len(s) >= 2 {
		switch s[:2] {
		case "<>", "<=", ">=":
			return 2
		}
	}
	n := 0
	if isMark(s[0]) {
		n++
	}
	for n < len(s) && isWordByte(s[n]) {
		n++
	}
	return max(n, 1)
}

// isMark reports whether c begins a placeholder.
func isMark(c byte) bool { return c == '#' || c == ':' }

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isWord reports whether the token can be an attribute's name as it stands.
func (t token) isWord() bool {
	return t.text != "" && isWordByte(t.text[0]) && (t.text[0] < '0' || t.text[0] > '9')
}

// isPlaceholder reports whether the token is a name with the given mark before it.
func (t token) isPlaceholder(mark byte) bool { return len(t.text) > 1 && t.text[0] == mark }
