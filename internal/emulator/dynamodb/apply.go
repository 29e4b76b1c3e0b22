package dynamodb

import (
	"cmp"
	"maps"
	"slices"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// placement is where an update puts a value; erasure where it takes one away.
type placement struct {
	path  path
	value value
}

// apply returns the item that the update makes of the old one. Every action sees
// the item as it was, whatever the others do, and the old item stays as it is.
func (u update) apply(old item) (item, *wire.Error) {
	var put []placement
	var erase []path
	for _, a := range u.actions {
		switch v, keep, problem := a.outcome(old); {
		case problem != nil:
			return nil, problem
		case keep:
			put = append(put, placement{a.path, v})
		default:
			erase = append(erase, a.path)
		}
	}
	// Elements past the end of a list are appended in the order of their indexes.
	slices.SortStableFunc(put, func(a, b placement) int { return cmp.Compare(a.path.last().index, b.path.last().index) })
	// Elements keep their indexes until all of them are gone: the last goes first.
	slices.SortFunc(erase, func(a, b path) int { return b.compare(a) })
	changed := maps.Clone(old)
	for _, p := range put {
		if problem := changed.edit(p.path, &p.value); problem != nil {
			return nil, problem
		}
	}
	for _, p := range erase {
		if problem := changed.edit(p, nil); problem != nil {
			return nil, problem
		}
	}
	return changed, nil
}

// last returns the step that names what the path leads to.
func (p path) last() step { return p[len(p)-1] }

// outcome computes what an action leaves at its path. keep is false when that is nothing.
func (a action) outcome(old item) (v value, keep bool, problem *wire.Error) {
	switch a.section {
	case "SET":
		v, problem = a.source(old)
		return v, true, problem
	case "REMOVE":
		return value{}, false, nil
	}
	before, there := a.path.of(old)
	if there && before.kind != a.operand.kind {
		return value{}, false, wrongOperand()
	}
	switch {
	case a.section == "DELETE":
		before.set = minus(before.set, a.operand.set)
		return before, len(before.set) > 0, nil
	case !there:
		return a.operand, true, nil
	case a.operand.kind == kindNumber:
		sum, problem := decimalOf(before.text).plus(decimalOf(a.operand.text))
		return numberValue(sum), true, problem
	}
	before.set = union(before.set, a.operand.set)
	return before, true, nil
}

// edit puts the value at the path, or takes away what is there if v is nil. The
// item is the caller's own; what lies inside it is shared, and copied on the way.
func (it item) edit(p path, v *value) *wire.Error {
	if len(p) == 1 {
		it.assign(p.head(), v)
		return nil
	}
	parent, ok := it[p.head()]
	if !ok {
		return wrongPath()
	}
	changed, problem := parent.edited(p[1:], v)
	if problem != nil {
		return problem
	}
	it[p.head()] = changed
	return nil
}

func (it item) assign(name string, v *value) {
	if v == nil {
		delete(it, name)
		return
	}
	it[name] = *v
}

func wrongPath() *wire.Error {
	return invalid("The document path provided in the update expression is invalid for update")
}

// edited returns v with the value at the path inside it, or without it if put is nil.
func (v value) edited(p path, put *value) (value, *wire.Error) {
	s := p[0]
	if s.element && v.kind != kindList || !s.element && v.kind != kindMap {
		return value{}, wrongPath()
	}
	if len(p) > 1 {
		inner, ok := v.at(s)
		if !ok {
			return value{}, wrongPath()
		}
		changed, problem := inner.edited(p[1:], put)
		if problem != nil {
			return value{}, problem
		}
		put = &changed
	}
	if !s.element {
		v.fields = maps.Clone(v.fields)
		v.fields.assign(s.name, put)
		return v, nil
	}
	v.list = slices.Clone(v.list)
	switch past := s.index >= len(v.list); {
	case put == nil && past:
	case put == nil:
		v.list = slices.Delete(v.list, s.index, s.index+1)
	case past:
		v.list = append(v.list, *put)
	default:
		v.list[s.index] = *put
	}
	return v, nil
}
