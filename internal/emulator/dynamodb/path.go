package dynamodb

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// step is one part of a document path: an attribute's or field's name, or the
// index of an element.
type step struct {
	name    string
	index   int
	element bool
}

// path leads to a value inside an item. It has at least one step, a name.
type path []step

// head returns the attribute that the path begins at.
func (p path) head() string { return p[0].name }

// of returns the value that the path leads to in the item, if there is one.
func (p path) of(it item) (value, bool) {
	v, ok := it[p.head()]
	for _, s := range p[1:] {
		if !ok {
			break
		}
		v, ok = v.at(s)
	}
	return v, ok
}

// at returns the value one step inside v, if there is one.
func (v value) at(s step) (value, bool) {
	if s.element {
		if v.kind != kindList || s.index >= len(v.list) {
			return value{}, false
		}
		return v.list[s.index], true
	}
	inside, ok := v.fields[s.name]
	return inside, ok
}

// String returns the path as DynamoDB shows it in messages.
func (p path) String() string {
	shown := make([]string, len(p))
	for i, s := range p {
		if shown[i] = s.name; s.element {
			shown[i] = "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

func (p path) equal(q path) bool { return slices.Equal(p, q) }

// compare orders paths step by step, elements by their index.
func (p path) compare(q path) int {
	return slices.CompareFunc(p, q, func(s, t step) int {
		return cmp.Or(cmp.Compare(s.index, t.index), strings.Compare(s.name, t.name))
	})
}

// apart refuses paths of which one leads through another: the result would depend
// on which of them came first.
func apart(paths []path) (problem string) {
	for i, p := range paths {
		for _, q := range paths[:i] {
			if what := p.meets(q); what != "" {
				return "Two document paths " + what + " with each other; must remove or rewrite one of these paths; " +
					"path one: " + q.String() + ", path two: " + p.String()
			}
		}
	}
	return ""
}

// meets says how two paths get in each other's way, "" if they do not.
func (p path) meets(q path) string {
	for i := range min(len(p), len(q)) {
		switch {
		case p[i].element != q[i].element:
			return "conflict"
		case p[i] != q[i]:
			return ""
		}
	}
	return "overlap"
}

// mask says which parts of an item to keep. A nil mask keeps everything.
type mask struct {
	whole    bool
	fields   map[string]*mask
	elements map[int]*mask
}

// newMask returns the mask of the paths, which are apart.
func newMask(paths []path) *mask {
	root := &mask{}
	for _, p := range paths {
		at := root
		for _, s := range p {
			at = at.child(s)
		}
		at.whole = true
	}
	return root
}

// child returns the mask of what lies one step inside, and makes it if need be.
func (m *mask) child(s step) *mask {
	if s.element {
		if m.elements == nil {
			m.elements = map[int]*mask{}
		}
		if m.elements[s.index] == nil {
			m.elements[s.index] = &mask{}
		}
		return m.elements[s.index]
	}
	if m.fields == nil {
		m.fields = map[string]*mask{}
	}
	if m.fields[s.name] == nil {
		m.fields[s.name] = &mask{}
	}
	return m.fields[s.name]
}

// of returns what the mask keeps of the item.
func (m *mask) of(it item) item {
	if m == nil {
		return it
	}
	kept := item{}
	for name, inner := range m.fields {
		if v, ok := it[name]; ok {
			if part, some := inner.ofValue(v); some {
				kept[name] = part
			}
		}
	}
	return kept
}

// ofValue returns what the mask keeps of a value, and whether that is anything.
func (m *mask) ofValue(v value) (value, bool) {
	switch {
	case m.whole:
		return v, true
	case v.kind == kindMap && m.fields != nil:
		v.fields = m.of(v.fields)
		return v, len(v.fields) > 0
	case v.kind == kindList && m.elements != nil:
		var kept []value
		for _, i := range slices.Sorted(maps.Keys(m.elements)) {
			if i < len(v.list) {
				if part, some := m.elements[i].ofValue(v.list[i]); some {
					kept = append(kept, part)
				}
			}
		}
		v.list = kept
		return v, len(kept) > 0
	}
	return value{}, false
}

// projection parses the paths that an answer is to be cut down to. An absent
// expression is nil, which keeps everything.
func (s *scope) projection(source *string) (*projection, *wire.Error) {
	if source == nil {
		return nil, nil
	}
	p := s.parser("ProjectionExpression", *source)
	p.path()
	for p.accept(",") {
		p.path()
	}
	if problem := p.end(); problem != nil {
		return nil, problem
	}
	if problem := apart(p.paths); problem != "" {
		return nil, invalid("Invalid ProjectionExpression: %s", problem)
	}
	return &projection{p.paths, newMask(p.paths)}, nil
}

// projection is a parsed projection expression.
type projection struct {
	paths []path
	mask  *mask
}

// of returns what the projection keeps of an item.
func (p *projection) of(it item) item {
	if p == nil {
		return it
	}
	return p.mask.of(it)
}
