package dynamodb

import (
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The members that every guarded write has, alone or in a transaction.
type guarded struct {
	TableName                           string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           item
	ReturnValuesOnConditionCheckFailure string
}

// change is one write with its expressions parsed, before it meets a row.
type change struct {
	table     string
	key       item // nil for a put
	put       item
	update    *update
	check     bool // writes nothing
	condition condition
	returnOld bool // with a failed condition
}

// prepare parses a guarded write. update is the expression of an update, which may
// be absent.
func (in *guarded) prepare(updates bool, expression *string) (*change, *wire.Error) {
	c := &change{table: in.TableName, returnOld: in.ReturnValuesOnConditionCheckFailure == "ALL_OLD"}
	if problem := oneOf("returnValuesOnConditionCheckFailure", in.ReturnValuesOnConditionCheckFailure, "ALL_OLD", "NONE"); problem != nil {
		return nil, problem
	}
	given := expression != nil || in.ConditionExpression != nil
	s, problem := newScope(in.ExpressionAttributeNames, in.ExpressionAttributeValues, given)
	if problem != nil {
		return nil, problem
	}
	if updates {
		u, problem := s.update(expression)
		if problem != nil {
			return nil, problem
		}
		c.update = &u
	}
	if c.condition, problem = s.condition("ConditionExpression", in.ConditionExpression); problem != nil {
		return nil, problem
	}
	return c, s.finish()
}

// write is one change worked out against the row it meets. Nothing is stored
// before commit.
type write struct {
	table    *table
	key      string // in the tree
	old, new row
	check    bool
	touched  []path // by an update
	indexes  []indexChange
	consumed consumption
	problem  *wire.Error // why it can not be done: a failed condition, or what the update met
}

// plan works a change out. An error refuses the request as a whole; write.problem
// refuses this change. The caller holds the lock.
func (g *region) plan(c *change) (*write, *wire.Error) {
	t, problem := g.table(c.table)
	if problem != nil {
		return nil, problem
	}
	w := &write{table: t, check: c.check}
	w.problem = w.meet(c)
	return w, nil
}

// meet works the change out against its row, and returns why it can not be done.
func (w *write) meet(c *change) *wire.Error {
	if problem := w.address(c); problem != nil {
		return problem
	}
	w.old, _ = w.table.rows.Get(w.key)
	if c.condition.holds(w.old.item) {
		return w.workOut(c)
	}
	failed := refused(conditionFailed, "The conditional request failed")
	if c.returnOld && w.old.item != nil {
		failed.Fields = map[string]any{"Item": w.old.item}
	}
	return failed
}

// address finds the key in the tree, and checks what the table's schema asks for.
func (w *write) address(c *change) (problem *wire.Error) {
	if c.key == nil {
		w.key, problem = w.table.putKey(c.put)
		return problem
	}
	if w.key, problem = w.table.givenKey(c.key); problem != nil || c.update == nil {
		return problem
	}
	w.touched = c.update.paths
	return w.table.keepsKeys(c.update.paths)
}

// workOut computes the new row of a change whose condition holds.
func (w *write) workOut(c *change) *wire.Error {
	after := c.put
	switch {
	case c.check:
		w.consumed.table = writeUnits(w.old.size)
		return nil
	case c.update != nil:
		before := w.old.item
		if before == nil {
			before = c.key
		}
		var problem *wire.Error
		if after, problem = c.update.apply(before); problem != nil {
			return problem
		}
		if problem := w.table.checkIndexKeys(after); problem != nil {
			return invalid("The update expression attempted to update the secondary index key to unsupported type. %s", problem.Message)
		}
		if problem := after.checkNesting(); problem != nil {
			return problem
		}
	}
	w.finish(after)
	if w.new.size > maxItemSize {
		return invalid("Item size to update has exceeded the maximum allowed size")
	}
	return nil
}

// finish fills in what follows from the new item, which is nil for a deletion.
func (w *write) finish(after item) {
	w.new = row{after, after.size()}
	w.consumed.table = writeUnits(max(w.old.size, w.new.size))
	for _, x := range w.table.indexes {
		if c, units, ok := x.change(w.old.item, after, w.key); ok {
			w.indexes = append(w.indexes, c)
			w.consumed.addIndex(x.definition.IndexName, units)
		}
	}
}

// commit stores a write that has no problem. The caller holds the lock.
func (g *region) commit(w *write, now time.Time) {
	if w.check {
		return
	}
	w.table.bytes += w.new.size - w.old.size
	if w.new.item == nil {
		w.table.rows.Delete(w.key)
	} else {
		w.table.rows.Set(w.key, w.new)
	}
	for _, c := range w.indexes {
		c.at = now
		c.index.pending = append(c.index.pending, c)
		c.index.settle(now, g.lag(w.table, c.index))
	}
}

// givenKey returns the tree key for a key of a request, which holds the key
// attributes and nothing else.
func (t *table) givenKey(key item) (string, *wire.Error) {
	mismatch := invalid("The provided key element does not match the schema")
	names := t.keys.names()
	if len(key) != len(names) {
		return "", mismatch
	}
	for _, name := range names {
		v, ok := key[name]
		if !ok || v.kind != t.types[name] {
			return "", mismatch
		}
		if problem := checkKeyValue(name, v, name == t.keys.hash); problem != nil {
			return "", problem
		}
	}
	return t.keys.treeKey(key), nil
}

// putKey checks an item that is to be stored whole, and returns its tree key.
func (t *table) putKey(it item) (string, *wire.Error) {
	for _, name := range t.keys.names() {
		v, ok := it[name]
		if !ok {
			return "", badParameter("Missing the key %s in the item", name)
		}
		if v.kind != t.types[name] {
			return "", badParameter("Type mismatch for key %s expected: %s actual: %s", name, t.types[name], v.kind)
		}
		if problem := checkKeyValue(name, v, name == t.keys.hash); problem != nil {
			return "", problem
		}
	}
	if problem := t.checkIndexKeys(it); problem != nil {
		return "", problem
	}
	return t.keys.treeKey(it), nil
}

// keepsKeys refuses updates of the key attributes.
func (t *table) keepsKeys(paths []path) *wire.Error {
	for _, p := range paths {
		if p.head() == t.keys.hash || p.head() == t.keys.sort {
			return badParameter("Cannot update attribute %s. This attribute is part of the key", p.head())
		}
	}
	return nil
}

// checkPut refuses an item that no table can store.
func checkPut(it item) *wire.Error {
	if it.size() > maxItemSize {
		return invalid("Item size has exceeded the maximum allowed size")
	}
	return it.checkNesting()
}
