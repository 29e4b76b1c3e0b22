package dynamodb

import (
	"maps"
	"slices"
	"strconv"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	maxBatchWrites = 25
	maxBatchGets   = 100
	// maxBatchAnswer is how many bytes of items one BatchGetItem answers with.
	maxBatchAnswer = 16 << 20
)

type (
	writeRequest struct {
		PutRequest *struct {
			Item item
		} `json:",omitempty"`
		DeleteRequest *struct {
			Key item
		} `json:",omitempty"`
	}

	batchWriteInput struct {
		RequestItems                map[string][]writeRequest
		ReturnConsumedCapacity      string
		ReturnItemCollectionMetrics string
	}

	batchWriteOutput struct {
		UnprocessedItems map[string][]writeRequest
		ConsumedCapacity []*consumedCapacity `json:",omitempty"`
	}

	batchGetTable struct {
		Keys                     []item
		ConsistentRead           bool              `json:",omitempty"`
		ProjectionExpression     *string           `json:",omitempty"`
		ExpressionAttributeNames map[string]string `json:",omitempty"`
	}

	batchGetInput struct {
		RequestItems           map[string]batchGetTable
		ReturnConsumedCapacity string
	}

	batchGetOutput struct {
		Responses       map[string][]item
		UnprocessedKeys map[string]batchGetTable

		ConsumedCapacity []*consumedCapacity `json:",omitempty"`
	}
)

// refusals asks a fault hook about the first n entries of a request. They are
// numbered from 0 through all tables, which come in the order of their names: a
// map of the wire has no order of its own. Nothing is locked meanwhile.
func refusals(hook func(id string) *wire.Error, n int) []*wire.Error {
	all := make([]*wire.Error, n)
	for i := range all {
		if hook != nil {
			all[i] = hook(strconv.Itoa(i))
		}
	}
	return all
}

// batched is one write of a batch.
type batched struct {
	request writeRequest
	change  *change
}

// change makes a write of the request, which has exactly one of its members.
func (r writeRequest) change(table string) (*change, *wire.Error) {
	in := guarded{TableName: table}
	switch {
	case (r.PutRequest == nil) == (r.DeleteRequest == nil):
		return nil, invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	case r.PutRequest != nil:
		return (&putInput{guarded: in, Item: r.PutRequest.Item}).prepare()
	}
	return (&deleteInput{guarded: in, Key: r.DeleteRequest.Key}).prepare()
}

func (c *call) batchWriteItem(in *batchWriteInput) (any, *wire.Error) {
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	var all []batched
	for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
		for _, r := range in.RequestItems[table] {
			prepared, problem := r.change(table)
			if problem != nil {
				return nil, problem
			}
			all = append(all, batched{r, prepared})
		}
	}
	switch {
	case len(all) == 0:
		return nil, constraint("'{}'", "requestItems", "Member must have length greater than or equal to 1")
	case len(all) > maxBatchWrites:
		return nil, invalid("Too many items requested for the BatchWriteItem call")
	}
	return c.writeBatch(all, in.ReturnConsumedCapacity)
}

// writeBatch checks every write of a batch, and then stores each by itself.
func (c *call) writeBatch(all []batched, report string) (any, *wire.Error) {
	g := c.region
	now := g.now()
	before, after := refusals(c.fate.Entries, len(all)), refusals(c.fate.EntriesAfter, len(all))
	out := batchWriteOutput{UnprocessedItems: map[string][]writeRequest{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	writes, problem := g.planEach(all)
	if problem != nil {
		return nil, problem
	}
	used := bill{}
	for i, w := range writes {
		table := all[i].change.table
		if before[i] != nil || after[i] != nil {
			out.UnprocessedItems[table] = append(out.UnprocessedItems[table], all[i].request)
		}
		if before[i] == nil {
			g.commit(w, now)
			used.of(table).add(w.consumed, 1)
		}
	}
	out.ConsumedCapacity = used.report(report)
	return out, nil
}

// planEach plans the writes of a batch, which all address different rows.
func (g *region) planEach(all []batched) ([]*write, *wire.Error) {
	writes := make([]*write, len(all))
	seen := map[string]bool{}
	for i, b := range all {
		w, problem := g.plan(b.change)
		if problem == nil {
			problem = w.problem
		}
		if problem != nil {
			return nil, problem
		}
		row := b.change.table + "/" + w.key // a table's name holds no slash
		if seen[row] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[row], writes[i] = true, w
	}
	return writes, nil
}

func (c *call) batchGetItem(in *batchGetInput) (any, *wire.Error) {
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	total := 0
	projections := map[string]*projection{}
	for name, t := range in.RequestItems {
		if len(t.Keys) == 0 {
			return nil, constraint("'[]'", "requestItems."+name+".member.keys", "Member must have length greater than or equal to 1")
		}
		p, problem := (&projected{t.ProjectionExpression, t.ExpressionAttributeNames}).prepare()
		if problem != nil {
			return nil, problem
		}
		projections[name] = p
		total += len(t.Keys)
	}
	switch {
	case total == 0:
		return nil, constraint("'{}'", "requestItems", "Member must have length greater than or equal to 1")
	case total > maxBatchGets:
		return nil, invalid("Too many items requested for the BatchGetItem call")
	}
	return c.region.readBatch(in, projections, refusals(c.fate.Entries, total))
}

// readBatch reads every key of a batch, up to the size of an answer.
func (g *region) readBatch(in *batchGetInput, projections map[string]*projection, refused []*wire.Error) (any, *wire.Error) {
	out := batchGetOutput{Responses: map[string][]item{}, UnprocessedKeys: map[string]batchGetTable{}}
	used := bill{}
	entry, bytes := 0, 0
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(in.RequestItems)) {
		asked := in.RequestItems[name]
		left := asked
		left.Keys = nil
		out.Responses[name] = []item{}
		seen := map[string]bool{}
		for _, key := range asked.Keys {
			r, treeKey, problem := g.get(name, key)
			if problem != nil {
				return nil, problem
			}
			if seen[treeKey] {
				return nil, invalid("Provided list of item keys contains duplicates")
			}
			seen[treeKey] = true
			if refused[entry] != nil || bytes+r.size > maxBatchAnswer {
				left.Keys = append(left.Keys, key)
			} else {
				used.of(name).table += readUnits(r.size, asked.ConsistentRead)
				bytes += r.size
				if r.item != nil {
					out.Responses[name] = append(out.Responses[name], projections[name].of(r.item))
				}
			}
			entry++
		}
		if left.Keys != nil {
			out.UnprocessedKeys[name] = left
		}
	}
	out.ConsumedCapacity = used.report(in.ReturnConsumedCapacity)
	return out, nil
}
