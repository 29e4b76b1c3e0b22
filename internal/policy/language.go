package policy

import "regexp/syntax"

const (
	// maxTenantBytes is the longest tenant of the grammar.
	maxTenantBytes = 128
	// tenantFirst holds what a tenant may start with, tenantAlphabet all it may hold.
	tenantFirst    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	tenantAlphabet = tenantFirst + "._-"
)

// commonTenant reports whether some valid tenant matches both patterns as a
// whole; "" matches every tenant. It follows the automata of both over the tenant
// alphabet, breadth first, so that every state is met at its shortest tenant.
func commonTenant(a, b string) bool {
	left, right := automaton(a), automaton(b)
	if left == nil || right == nil {
		return false
	}
	start := state{left.Start, right.Start, -1}
	seen, level := map[state]bool{}, []state{start}
	for length := 0; length <= maxTenantBytes && len(level) > 0; length++ {
		alphabet := tenantAlphabet
		if length == 0 {
			alphabet = tenantFirst
		}
		var next []state
		for _, s := range level {
			if length > 0 && ends(left, s.left, s.before) && ends(right, s.right, s.before) {
				return true
			}
			for _, c := range alphabet {
				for _, to := range step(left, right, s, c) {
					if !seen[to] {
						seen[to] = true
						next = append(next, to)
					}
				}
			}
		}
		level = next
	}
	return false
}

// state is a point in each automaton, and the character before it, on which
// assertions such as \b depend: -1 is none.
type state struct {
	left, right int
	before      rune
}

func automaton(pattern string) *syntax.Prog {
	if pattern == "" {
		pattern = "(?s).*"
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil
	}
	return prog
}

// step returns where both automata can be once they have read c.
func step(left, right *syntax.Prog, s state, c rune) []state {
	// Of the character before, only its being part of a word matters.
	before := 'a'
	if !syntax.IsWordChar(c) {
		before = '-'
	}
	var to []state
	for _, l := range reads(left, s.left, s.before, c) {
		for _, r := range reads(right, s.right, s.before, c) {
			to = append(to, state{l, r, before})
		}
	}
	return to
}

// ends reports whether the automaton can stop here, with nothing coming.
func ends(prog *syntax.Prog, pc int, before rune) bool {
	found := false
	follow(prog, pc, before, -1, func(i *syntax.Inst) {
		found = found || i.Op == syntax.InstMatch
	})
	return found
}

// reads returns where the automaton can be once it has read c.
func reads(prog *syntax.Prog, pc int, before, c rune) []int {
	var to []int
	follow(prog, pc, before, c, func(i *syntax.Inst) {
		if i.MatchRune(c) {
			to = append(to, int(i.Out))
		}
	})
	return to
}

// follow visits every instruction that can be reached from pc without reading,
// between the characters before and c.
func follow(prog *syntax.Prog, pc int, before, c rune, visit func(*syntax.Inst)) {
	context := syntax.EmptyOpContext(before, c)
	visited := map[int]bool{}
	for stack := []int{pc}; len(stack) > 0; {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if visited[pc] {
			continue
		}
		visited[pc] = true
		switch i := &prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, int(i.Out), int(i.Arg))
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, int(i.Out))
		case syntax.InstEmptyWidth:
			// What is asked for here must all hold in this place.
			if i.Arg&^uint32(context) == 0 {
				stack = append(stack, int(i.Out))
			}
		case syntax.InstMatch, syntax.InstFail, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			visit(i)
		}
	}
}
