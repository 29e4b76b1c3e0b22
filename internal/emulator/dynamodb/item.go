package dynamodb

import "github.com/expunge-aws/expunge/internal/emulator/wire"

// The members that the single writes have besides what they write.
type answered struct {
	ReturnValues           string
	ReturnConsumedCapacity string
	// ReturnItemCollectionMetrics matters to tables with local indexes only, which
	// this package does not offer.
	ReturnItemCollectionMetrics string
}

type (
	putInput struct {
		guarded
		Item item
	}

	updateInput struct {
		guarded
		Key              item
		UpdateExpression *string
	}

	deleteInput struct {
		guarded
		Key item
	}

	putItemInput struct {
		putInput
		answered
	}

	updateItemInput struct {
		updateInput
		answered
	}

	deleteItemInput struct {
		deleteInput
		answered
	}

	writeOutput struct {
		Attributes       item              `json:",omitempty"`
		ConsumedCapacity *consumedCapacity `json:",omitempty"`
	}
)

func (in *putInput) prepare() (*change, *wire.Error) {
	if in.Item == nil {
		return nil, constraint("null", "item", "Member must not be null")
	}
	if problem := checkPut(in.Item); problem != nil {
		return nil, problem
	}
	c, problem := in.guarded.prepare(false, nil)
	if problem == nil {
		c.put = in.Item
	}
	return c, problem
}

func (in *updateInput) prepare() (*change, *wire.Error) {
	c, problem := in.guarded.prepare(true, in.UpdateExpression)
	return withKey(c, in.Key, problem)
}

func (in *deleteInput) prepare() (*change, *wire.Error) {
	c, problem := in.guarded.prepare(false, nil)
	return withKey(c, in.Key, problem)
}

// withKey completes a change that addresses its row by a key.
func withKey(c *change, key item, problem *wire.Error) (*change, *wire.Error) {
	if problem != nil {
		return nil, problem
	}
	if key == nil {
		return nil, constraint("null", "key", "Member must not be null")
	}
	c.key = key
	return c, nil
}

func (g *region) putItem(in *putItemInput) (any, *wire.Error) {
	if in.ReturnValues != "" && in.ReturnValues != "NONE" && in.ReturnValues != "ALL_OLD" {
		return nil, invalid("ReturnValues can only be ALL_OLD or NONE")
	}
	c, problem := in.prepare()
	return g.writeOne(c, problem, &in.answered)
}

func (g *region) updateItem(in *updateItemInput) (any, *wire.Error) {
	if problem := oneOf("returnValues", in.ReturnValues, "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"); problem != nil {
		return nil, problem
	}
	c, problem := in.prepare()
	return g.writeOne(c, problem, &in.answered)
}

func (g *region) deleteItem(in *deleteItemInput) (any, *wire.Error) {
	if in.ReturnValues != "" && in.ReturnValues != "NONE" && in.ReturnValues != "ALL_OLD" {
		return nil, invalid("ReturnValues can only be ALL_OLD or NONE")
	}
	c, problem := in.prepare()
	return g.writeOne(c, problem, &in.answered)
}

// writeOne carries out one write by itself.
func (g *region) writeOne(c *change, problem *wire.Error, in *answered) (any, *wire.Error) {
	if problem != nil {
		return nil, problem
	}
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	w, problem := g.plan(c)
	if problem != nil {
		return nil, problem
	}
	if w.problem != nil {
		return nil, w.problem
	}
	g.commit(w, now)
	return writeOutput{w.returned(in.ReturnValues), w.consumed.report(c.table, in.ReturnConsumedCapacity)}, nil
}

// returned returns the attributes that a write was asked to answer with.
func (w *write) returned(values string) item {
	switch values {
	case "ALL_OLD":
		return w.old.item
	case "ALL_NEW":
		return w.new.item
	case "UPDATED_OLD":
		return newMask(w.touched).of(w.old.item)
	case "UPDATED_NEW":
		return newMask(w.touched).of(w.new.item)
	}
	return nil
}

// The members that every read of single items has.
type projected struct {
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

func (in *projected) prepare() (*projection, *wire.Error) {
	s, problem := newScope(in.ExpressionAttributeNames, nil, in.ProjectionExpression != nil)
	if problem != nil {
		return nil, problem
	}
	p, problem := s.projection(in.ProjectionExpression)
	if problem != nil {
		return nil, problem
	}
	return p, s.finish()
}

type getInput struct {
	projected
	TableName string
	Key       item
}

type getItemInput struct {
	getInput
	ConsistentRead         bool
	ReturnConsumedCapacity string
}

type getOutput struct {
	Item             *item             `json:",omitempty"` // there and empty is not absent
	ConsumedCapacity *consumedCapacity `json:",omitempty"`
}

func (g *region) getItem(in *getItemInput) (any, *wire.Error) {
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	p, problem := in.prepare()
	if problem != nil {
		return nil, problem
	}
	g.mu.Lock()
	r, _, problem := g.get(in.TableName, in.Key)
	g.mu.Unlock()
	if problem != nil {
		return nil, problem
	}
	used := consumption{table: readUnits(r.size, in.ConsistentRead)}
	out := getOutput{ConsumedCapacity: used.report(in.TableName, in.ReturnConsumedCapacity)}
	if r.item != nil {
		kept := p.of(r.item)
		out.Item = &kept
	}
	return out, nil
}

// get returns the row under a key, empty if there is none, and its key in the
// tree. The caller holds the lock.
func (g *region) get(tableName string, key item) (r row, treeKey string, problem *wire.Error) {
	t, problem := g.table(tableName)
	if problem != nil {
		return row{}, "", problem
	}
	if treeKey, problem = t.givenKey(key); problem != nil {
		return row{}, "", problem
	}
	r, _ = t.rows.Get(treeKey)
	return r, treeKey, nil
}
