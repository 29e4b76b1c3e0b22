package dynamodb

import (
	"time"

	"github.com/tidwall/btree"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// index is a global secondary index: rows of the table that have its keys, cut
// down to what it projects, in its own order.
type index struct {
	definition indexInput
	keys       schema
	attributes []string // what it keeps of an item; nil keeps everything
	rows       btree.Map[string, row]
	bytes      int
	pending    []indexChange // written to the table and not visible here yet, oldest first
}

// indexChange is what one write of the table does to an index. Either key is ""
// where there is nothing to remove or to put.
type indexChange struct {
	index       *index
	at          time.Time
	remove, put string
	row         row
}

// entry returns an item's row in the index and its key, "" when the item lacks a
// key attribute: the index is sparse.
func (x *index) entry(of item, primary string) (key string, r row) {
	for _, name := range x.keys.names() {
		if _, ok := of[name]; !ok {
			return "", row{}
		}
	}
	kept := of
	if x.attributes != nil {
		kept = of.only(x.attributes...)
	}
	return x.keys.treeKey(of) + primary, row{kept, kept.size()}
}

// change returns what replacing one item by another does to the index, and the
// write units that it takes. ok is false when it does nothing.
func (x *index) change(before, after item, primary string) (c indexChange, units float64, ok bool) {
	var old row
	c.index = x
	c.remove, old = x.entry(before, primary)
	c.put, c.row = x.entry(after, primary)
	switch {
	case c.remove == c.put && c.put == "", c.remove == c.put && old.item.equal(c.row.item):
		return c, 0, false
	case c.remove == c.put:
		return c, writeUnits(max(old.size, c.row.size)), true
	}
	if c.remove != "" {
		units += writeUnits(old.size)
	}
	if c.put != "" {
		units += writeUnits(c.row.size)
	}
	return c, units, true
}

// settle makes the changes visible that are older than the lag, in their order.
func (x *index) settle(now time.Time, lag time.Duration) {
	n := 0
	for n < len(x.pending) && now.Sub(x.pending[n].at) >= lag {
		x.apply(x.pending[n])
		n++
	}
	if x.pending = x.pending[n:]; len(x.pending) == 0 {
		x.pending = nil // gives the array back
	}
}

func (x *index) apply(c indexChange) {
	if c.remove != "" {
		gone, _ := x.rows.Delete(c.remove)
		x.bytes -= gone.size
	}
	if c.put != "" {
		replaced, _ := x.rows.Set(c.put, c.row)
		x.bytes += c.row.size - replaced.size
	}
}

// lag returns how far an index of the table is behind.
func (g *region) lag(t *table, x *index) time.Duration {
	if g.service.Lag == nil {
		return 0
	}
	return g.service.Lag(t.definition.TableName, x.definition.IndexName)
}

// checkIndexKeys refuses an item whose attributes can not be keys of an index.
func (t *table) checkIndexKeys(it item) *wire.Error {
	for _, x := range t.indexes {
		for _, name := range x.keys.names() {
			v, ok := it[name]
			if !ok {
				continue
			}
			if v.kind != t.types[name] {
				return badParameter("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", name, t.types[name], v.kind, x.definition.IndexName)
			}
			if v.kind != kindNumber && v.text == "" {
				return invalid("One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
					"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: %s, IndexKey: %s", x.definition.IndexName, name)
			}
			if problem := checkKeyValue(name, v, name == x.keys.hash); problem != nil {
				return problem
			}
		}
	}
	return nil
}
