package dynamodb

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	maxTransaction     = 100     // actions
	maxTransactionSize = 4 << 20 // bytes of items
	maxToken           = 36
	// tokenLife is how long a transaction is remembered by its token.
	tokenLife = 10 * time.Minute
)

const (
	reasonNone            = "None"
	reasonConditionFailed = "ConditionalCheckFailed"
	reasonInvalid         = "ValidationError"
)

type (
	transactWriteInput struct {
		TransactItems               json.RawMessage
		ClientRequestToken          string
		ReturnConsumedCapacity      string
		ReturnItemCollectionMetrics string
	}

	transactWriteItem struct {
		ConditionCheck *deleteInput
		Put            *putInput
		Delete         *deleteInput
		Update         *updateInput
	}

	transactGetInput struct {
		TransactItems          []struct{ Get *getInput }
		ReturnConsumedCapacity string
	}

	transactOutput struct {
		Responses        []getOutput         `json:",omitempty"`
		ConsumedCapacity []*consumedCapacity `json:",omitempty"`
	}

	cancellationReason struct {
		Code    string
		Message string `json:",omitempty"`
		Item    item   `json:",omitempty"`
	}
)

// settled is a transaction that was carried out, remembered by its token.
type settled struct {
	asked [sha256.Size]byte
	at    time.Time
	reads bill // what telling its result once more takes
}

// memory keeps the transactions that were carried out, for as long as a client may
// ask for one again.
type memory struct {
	byToken map[string]*settled
	oldest  []string // tokens, in the order of their transactions
}

// recall returns the transaction that was carried out under the token, if it is
// still remembered, and refuses another one under the same.
func (m *memory) recall(token string, asked *settled) (*settled, *wire.Error) {
	for len(m.oldest) > 0 && asked.at.Sub(m.byToken[m.oldest[0]].at) > tokenLife {
		delete(m.byToken, m.oldest[0])
		m.oldest = m.oldest[1:]
	}
	known, ok := m.byToken[token]
	if ok && known.asked != asked.asked {
		return nil, refused("IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request.")
	}
	return known, nil
}

// keep remembers a transaction that has a token.
func (m *memory) keep(token string, done *settled) {
	if token == "" {
		return
	}
	m.byToken[token] = done
	m.oldest = append(m.oldest, token)
}

// canonical returns a digest of JSON that does not depend on the order in which
// an SDK writes the members of its objects, which some do at random.
func canonical(raw json.RawMessage) [sha256.Size]byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var content any
	_ = d.Decode(&content)             // the caller has decoded it already
	sorted, _ := json.Marshal(content) // what was decoded can be encoded
	return sha256.Sum256(sorted)
}

// checkCount refuses transactions of no action or of too many.
func checkCount(n int) *wire.Error {
	if n == 0 || n > maxTransaction {
		return constraint("'["+strconv.Itoa(n)+" members]'", "transactItems",
			"Member must have length less than or equal to 100, Member must have length greater than or equal to 1")
	}
	return nil
}

// change makes a write of one action of a transaction.
func (in transactWriteItem) change() (*change, *wire.Error) {
	n := 0
	for _, given := range [...]bool{in.ConditionCheck != nil, in.Put != nil, in.Delete != nil, in.Update != nil} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return nil, invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	case in.Put != nil:
		return in.Put.prepare()
	case in.Delete != nil:
		return in.Delete.prepare()
	case in.Update != nil && in.Update.UpdateExpression == nil:
		return nil, constraint("null", "transactItems.member.update.updateExpression", "Member must not be null")
	case in.Update != nil:
		return in.Update.prepare()
	case in.ConditionCheck == nil:
		return nil, invalid("Invalid Request: TransactWriteRequest should contain Delete or Put or Update request")
	case in.ConditionCheck.ConditionExpression == nil:
		return nil, constraint("null", "transactItems.member.conditionCheck.conditionExpression", "Member must not be null")
	}
	c, problem := in.ConditionCheck.prepare()
	if problem == nil {
		c.check = true
	}
	return c, problem
}

func (c *call) transactWriteItems(in *transactWriteInput) (any, *wire.Error) {
	var items []transactWriteItem
	if in.TransactItems != nil {
		if problem := decode(c.Operation, in.TransactItems, &items); problem != nil {
			return nil, problem
		}
	}
	if problem := checkCount(len(items)); problem != nil {
		return nil, problem
	}
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	if len(in.ClientRequestToken) > maxToken {
		return nil, constraint("'"+in.ClientRequestToken+"'", "clientRequestToken", "Member must have length less than or equal to 36")
	}
	changes := make([]*change, len(items))
	for i, item := range items {
		var problem *wire.Error
		if changes[i], problem = item.change(); problem != nil {
			return nil, problem
		}
	}
	return c.writeAll(changes, in)
}

// writeAll stores every change, or none.
func (c *call) writeAll(changes []*change, in *transactWriteInput) (any, *wire.Error) {
	g := c.region
	now := g.now()
	conflicts := refusals(c.fate.Entries, len(changes))
	asked := &settled{asked: canonical(in.TransactItems), at: now, reads: bill{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, problem := g.memory.recall(in.ClientRequestToken, asked); known != nil || problem != nil {
		return known.output(in.ReturnConsumedCapacity), problem
	}
	writes, problem := g.planAll(changes)
	if problem != nil {
		return nil, problem
	}
	if problem := cancelled(writes, conflicts); problem != nil {
		return nil, problem
	}
	used := bill{}
	for i, w := range writes {
		g.commit(w, now)
		used.of(changes[i].table).add(w.consumed, transactional)
		asked.reads.of(changes[i].table).table += transactional * readUnits(w.new.size, true)
	}
	g.memory.keep(in.ClientRequestToken, asked)
	out := transactOutput{ConsumedCapacity: used.report(in.ReturnConsumedCapacity)}
	for _, said := range out.ConsumedCapacity {
		said.WriteCapacityUnits = said.CapacityUnits
	}
	return out, nil
}

// output is the answer to a transaction that was carried out before.
func (t *settled) output(report string) any {
	if t == nil {
		return nil
	}
	out := transactOutput{ConsumedCapacity: t.reads.report(report)}
	for _, said := range out.ConsumedCapacity {
		said.ReadCapacityUnits = said.CapacityUnits
	}
	return out
}

// planAll plans the changes of a transaction, which all address different rows.
func (g *region) planAll(changes []*change) ([]*write, *wire.Error) {
	writes := make([]*write, len(changes))
	seen := map[string]bool{}
	size := 0
	for i, c := range changes {
		w, problem := g.plan(c)
		if problem != nil {
			return nil, problem
		}
		row := c.table + "/" + w.key // a table's name holds no slash
		if w.key != "" && seen[row] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[row], writes[i] = true, w
		size += w.new.size
	}
	if size > maxTransactionSize {
		return nil, invalid("Item size to update has exceeded the maximum allowed size: the items of a transaction cannot exceed 4 MB in total")
	}
	return writes, nil
}

// cancelled returns the error for a transaction of which a write has a problem, or
// is refused by the fault hook, with a reason for each of its writes. A write with
// a problem of its own keeps that reason.
func cancelled(writes []*write, conflicts []*wire.Error) *wire.Error {
	reasons := make([]cancellationReason, len(writes))
	codes := make([]string, len(writes))
	failed := false
	for i, w := range writes {
		reasons[i] = cancellationReason{Code: reasonNone}
		switch {
		case w.problem != nil:
			reasons[i] = reasonOf(w.problem)
		case conflicts[i] != nil:
			reasons[i] = cancellationReason{Code: plainCode(conflicts[i]), Message: conflicts[i].Message}
		}
		codes[i] = reasons[i].Code
		failed = failed || codes[i] != reasonNone
	}
	if !failed {
		return nil
	}
	e := refused("TransactionCanceledException",
		"Transaction cancelled, please refer cancellation reasons for specific reasons ["+strings.Join(codes, ", ")+"]")
	e.Fields = map[string]any{"CancellationReasons": reasons}
	return e
}

// reasonOf says in a transaction's words why a write can not be done.
func reasonOf(problem *wire.Error) cancellationReason {
	r := cancellationReason{Code: reasonInvalid, Message: problem.Message}
	if plainCode(problem) == conditionFailed {
		r.Code = reasonConditionFailed
		r.Item, _ = problem.Fields["Item"].(item)
	}
	return r
}

func (g *region) transactGetItems(in *transactGetInput) (any, *wire.Error) {
	if problem := checkCount(len(in.TransactItems)); problem != nil {
		return nil, problem
	}
	if problem := checkReport(in.ReturnConsumedCapacity); problem != nil {
		return nil, problem
	}
	projections := make([]*projection, len(in.TransactItems))
	for i, asked := range in.TransactItems {
		if asked.Get == nil {
			return nil, constraint("null", "transactItems.member.get", "Member must not be null")
		}
		var problem *wire.Error
		if projections[i], problem = asked.Get.prepare(); problem != nil {
			return nil, problem
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var out transactOutput
	used := bill{}
	seen := map[string]bool{}
	size := 0
	for i, asked := range in.TransactItems {
		r, key, problem := g.get(asked.Get.TableName, asked.Get.Key)
		if problem != nil {
			return nil, problem
		}
		if key = asked.Get.TableName + "/" + key; seen[key] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[key] = true
		size += r.size
		used.of(asked.Get.TableName).table += transactional * readUnits(r.size, true)
		var answer getOutput
		if r.item != nil {
			kept := projections[i].of(r.item)
			answer.Item = &kept
		}
		out.Responses = append(out.Responses, answer)
	}
	if size > maxTransactionSize {
		return nil, invalid("The items of a transaction cannot exceed 4 MB in total")
	}
	out.ConsumedCapacity = used.report(in.ReturnConsumedCapacity)
	for _, said := range out.ConsumedCapacity {
		said.ReadCapacityUnits = said.CapacityUnits
	}
	return out, nil
}
