package dynamodb

import (
	"slices"
	"strconv"

	"github.com/tidwall/btree"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxPage is after how many bytes of rows, filtered out or not, a page ends.
const maxPage = 1 << 20

const maxSegments = 1_000_000

// What an answer is to hold of the rows it finds.
const (
	selectAll       = "ALL_ATTRIBUTES"
	selectProjected = "ALL_PROJECTED_ATTRIBUTES"
	selectSpecific  = "SPECIFIC_ATTRIBUTES"
	selectCount     = "COUNT"
)

type (
	// readInput is what Query and Scan have in common.
	readInput struct {
		TableName                 string
		IndexName                 *string
		ConsistentRead            bool
		ExclusiveStartKey         item
		ExpressionAttributeNames  map[string]string
		ExpressionAttributeValues item
		FilterExpression          *string
		ProjectionExpression      *string
		Limit                     *int
		Select                    string
		ReturnConsumedCapacity    string
	}

	queryInput struct {
		readInput
		KeyConditionExpression *string
		ScanIndexForward       *bool
	}

	scanInput struct {
		readInput
		Segment       *int
		TotalSegments *int
	}

	readOutput struct {
		Count            int
		ScannedCount     int
		Items            *[]item           `json:",omitempty"` // none is not the same as not asked for
		LastEvaluatedKey item              `json:",omitempty"`
		ConsumedCapacity *consumedCapacity `json:",omitempty"`
	}
)

// reading is a Query or a Scan with its expressions parsed.
type reading struct {
	*readInput
	tests      []keyTest // of a Query
	isQuery    bool
	filter     condition
	projection *projection
	backward   bool
	limit      int // 0 without one
	segment    int
	segments   int // 0 when the scan is not divided
}

func (g *region) query(in *queryInput) (any, *wire.Error) {
	r := &reading{readInput: &in.readInput, isQuery: true, backward: in.ScanIndexForward != nil && !*in.ScanIndexForward}
	s, problem := newScope(in.ExpressionAttributeNames, in.ExpressionAttributeValues,
		in.KeyConditionExpression != nil || in.FilterExpression != nil || in.ProjectionExpression != nil)
	if problem != nil {
		return nil, problem
	}
	if r.tests, problem = s.keyTests(in.KeyConditionExpression); problem != nil {
		return nil, problem
	}
	if problem := r.prepare(s); problem != nil {
		return nil, problem
	}
	return g.read(r)
}

func (g *region) scan(in *scanInput) (any, *wire.Error) {
	r := &reading{readInput: &in.readInput}
	switch {
	case in.Segment == nil && in.TotalSegments == nil:
	case in.TotalSegments == nil:
		return nil, invalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case in.Segment == nil:
		return nil, invalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *in.TotalSegments < 1 || *in.TotalSegments > maxSegments:
		return nil, constraint("'"+strconv.Itoa(*in.TotalSegments)+"'", "totalSegments", "Member must have value between 1 and 1000000")
	case *in.Segment < 0:
		return nil, constraint("'"+strconv.Itoa(*in.Segment)+"'", "segment", "Member must have value greater than or equal to 0")
	case *in.Segment >= *in.TotalSegments:
		return nil, invalid("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d",
			*in.Segment, *in.TotalSegments)
	default:
		r.segment, r.segments = *in.Segment, *in.TotalSegments
	}
	s, problem := newScope(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.FilterExpression != nil || in.ProjectionExpression != nil)
	if problem != nil {
		return nil, problem
	}
	if problem := r.prepare(s); problem != nil {
		return nil, problem
	}
	return g.read(r)
}

// prepare parses and checks what does not need the table.
func (r *reading) prepare(s *scope) (problem *wire.Error) {
	if r.Limit != nil {
		if r.limit = *r.Limit; r.limit < 1 {
			return constraint("'"+strconv.Itoa(r.limit)+"'", "limit", "Member must have value greater than or equal to 1")
		}
	}
	if problem := oneOf("select", r.Select, selectSpecific, selectCount, selectAll, selectProjected); problem != nil {
		return problem
	}
	if problem := checkReport(r.ReturnConsumedCapacity); problem != nil {
		return problem
	}
	switch {
	case r.Select == selectProjected && r.IndexName == nil:
		return badParameter("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	case r.Select == selectSpecific && r.ProjectionExpression == nil:
		return badParameter("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case r.ProjectionExpression != nil && r.Select != "" && r.Select != selectSpecific:
		return badParameter("Cannot specify the ProjectionExpression when choosing to get %s", r.Select)
	}
	if r.filter, problem = s.condition("FilterExpression", r.FilterExpression); problem != nil {
		return problem
	}
	if r.projection, problem = s.projection(r.ProjectionExpression); problem != nil {
		return problem
	}
	return s.finish()
}

// readSource is the table or the index that is read.
type readSource struct {
	table *table
	index *index // nil for the table itself
	keys  schema
	rows  *btree.Map[string, row]
}

// read carries a Query or a Scan out.
func (g *region) read(r *reading) (any, *wire.Error) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	src, problem := g.source(r)
	if problem != nil {
		return nil, problem
	}
	if src.index != nil {
		src.index.settle(now, g.lag(src.table, src.index))
	}
	if problem := src.checkPaths(r); problem != nil {
		return nil, problem
	}
	var where span
	if r.isQuery {
		c, problem := src.keys.over(r.tests, src.table.types)
		if problem != nil {
			return nil, problem
		}
		where = c.span()
	}
	start, problem := src.startKey(r, where)
	if problem != nil {
		return nil, problem
	}
	p := &page{reading: r}
	p.collect(src.rows, where, start)
	return p.output(src), nil
}

// source returns what is to be read.
func (g *region) source(r *reading) (*readSource, *wire.Error) {
	t, problem := g.table(r.TableName)
	if problem != nil {
		return nil, problem
	}
	src := &readSource{table: t, keys: t.keys, rows: &t.rows}
	if r.IndexName == nil {
		return src, nil
	}
	x, problem := t.index(*r.IndexName)
	switch {
	case problem != nil:
		return nil, problem
	case r.ConsistentRead:
		return nil, invalid("Consistent reads are not supported on global secondary indexes")
	case r.Select == selectAll && x.attributes != nil:
		return nil, badParameter("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", *r.IndexName)
	}
	src.index, src.keys, src.rows = x, x.keys, &x.rows
	return src, nil
}

// keyNames returns the attributes of a start key: those of the table's key, and of the index's.
func (s *readSource) keyNames() []string {
	names := s.table.keys.names()
	for _, name := range s.keys.names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkPaths refuses filters and projections that this source can not answer.
func (s *readSource) checkPaths(r *reading) *wire.Error {
	var projected []path
	if r.projection != nil {
		projected = r.projection.paths
	}
	for _, p := range slices.Concat(r.filter.paths, projected) {
		if len(p) > 1 && s.table.types[p.head()] != "" {
			return invalid("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", p.head())
		}
	}
	for _, p := range r.filter.paths {
		if r.isQuery && slices.Contains(s.keys.names(), p.head()) {
			return invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", p.head())
		}
	}
	if s.index == nil || s.index.attributes == nil {
		return nil
	}
	for _, p := range projected {
		if !slices.Contains(s.index.attributes, p.head()) {
			return badParameter("Global secondary index %s does not project [%s]", *r.IndexName, p.head())
		}
	}
	return nil
}

// startKey returns the tree key after which the page begins, "" for the beginning.
// The row under it need not be there any more.
func (s *readSource) startKey(r *reading, where span) (string, *wire.Error) {
	given := r.ExclusiveStartKey
	if given == nil {
		return "", nil
	}
	names := s.keyNames()
	if len(given) != len(names) {
		return "", invalid("The provided starting key is invalid")
	}
	for _, name := range names {
		if v, ok := given[name]; !ok || v.kind != s.table.types[name] {
			return "", invalid("The provided starting key is invalid: The provided key element does not match the schema")
		}
	}
	key, problem := s.table.givenKey(given.only(s.table.keys.names()...))
	if problem != nil {
		return "", invalid("The provided starting key is invalid: %s", problem.Message)
	}
	if s.index != nil {
		key, _ = s.index.entry(given, key)
	}
	if !where.has(key) {
		return "", invalid("The provided starting key is outside query boundaries based on provided conditions")
	}
	return key, nil
}

// page is what one answer collects.
type page struct {
	*reading
	items   []item
	scanned int
	bytes   int
	last    item // the last row scanned
	ended   bool // by a limit, and not because there was no more
}

// collect reads the rows of the span that come after start.
func (p *page) collect(rows *btree.Map[string, row], where span, start string) {
	visit := func(key string, r row) bool {
		switch {
		case p.backward && key < where.from, !p.backward && where.to != "" && key >= where.to:
			return false
		case key == start, p.backward && key >= where.to, p.segments > 0 && segment(key, p.segments) != p.segment:
			return true
		}
		p.scanned++
		p.bytes += r.size
		p.last = r.item
		if p.filter.holds(r.item) {
			p.items = append(p.items, r.item)
		}
		p.ended = p.scanned == p.limit || p.bytes >= maxPage
		return !p.ended
	}
	switch {
	case !p.backward:
		rows.Ascend(max(start, where.from), visit)
	case start != "":
		rows.Descend(start, visit)
	default:
		rows.Descend(where.to, visit) // only a Query goes backward, and its span has an end
	}
}

// output makes the answer of the page.
func (p *page) output(s *readSource) readOutput {
	out := readOutput{Count: len(p.items), ScannedCount: p.scanned}
	if p.ended {
		out.LastEvaluatedKey = p.last.only(s.keyNames()...)
	}
	var used consumption
	if units := readUnits(p.bytes, p.ConsistentRead); s.index != nil {
		used.addIndex(*p.IndexName, units)
	} else {
		used.table = units
	}
	out.ConsumedCapacity = used.report(p.TableName, p.ReturnConsumedCapacity)
	if p.Select == selectCount {
		return out
	}
	kept := make([]item, len(p.items))
	for i, it := range p.items {
		kept[i] = p.projection.of(it)
	}
	out.Items = &kept
	return out
}
