package dynamodb

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Service is DynamoDB in every region. It is safe for concurrent use.
type Service struct {
	// Lag is how long after a write a global index shows it, asked anew at every
	// read and write; nil shows it at once. It is set before the first request, and
	// called under a lock: it must not call the service.
	Lag func(table, index string) time.Duration

	clock   wire.Clock
	mu      sync.Mutex // guards regions, not what is in them
	regions map[string]*region
}

// New returns a DynamoDB without tables.
func New(clock wire.Clock) *Service {
	return &Service{clock: clock, regions: map[string]*region{}}
}

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "dynamodb" }

// target is what the X-Amz-Target header of every operation begins with.
const target = "DynamoDB_20120810."

// Operation names the operation of a request.
func (s *Service) Operation(r *http.Request) string { return wire.Target(r, target) }

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	c := &call{Request: r, fate: wire.FateOf(r.Context()), region: s.region(r.Region)}
	if c.fate.Error != nil {
		wire.WriteJSON(w, nil, inNamespace(c.fate.Error))
		return
	}
	result, failed := c.answer()
	wire.WriteJSON(w, result, failed)
}

// Sweep deletes the region's rows that are past their time to live, which AWS does
// within days of it, and returns how many there were.
func (s *Service) Sweep(regionName string) int { return s.region(regionName).sweep() }

func (s *Service) region(name string) *region {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.regions[name]
	if !ok {
		g = &region{service: s, name: name, tables: map[string]*table{}, memory: memory{byToken: map[string]*settled{}}}
		s.regions[name] = g
	}
	return g
}

// region is DynamoDB in one region. Its lock is held while a request is evaluated
// and stored, never while one is read, parsed, delayed or answered.
type region struct {
	service *Service
	name    string

	mu     sync.Mutex
	tables map[string]*table
	memory memory
}

// now returns the region's time.
func (g *region) now() time.Time { return g.service.clock.Now() }

// table returns a table by its name. The caller holds the lock.
func (g *region) table(name string) (*table, *wire.Error) {
	if name == "" {
		return nil, constraint("null", "tableName", "Member must not be null")
	}
	t, ok := g.tables[name]
	if !ok {
		return nil, refused("ResourceNotFoundException", "Requested resource not found: Table: "+name+" not found")
	}
	return t, nil
}

// call is one request on its way to an answer.
type call struct {
	*wire.Request
	fate   wire.Fate
	region *region
}

// answer carries the request out.
func (c *call) answer() (any, *wire.Error) {
	switch c.Operation {
	case "CreateTable":
		return handle(c, c.region.createTable)
	case "DescribeTable":
		return handle(c, c.region.describeTable)
	case "ListTables":
		return handle(c, c.region.listTables)
	case "DeleteTable":
		return handle(c, c.region.deleteTable)
	case "UpdateTimeToLive":
		return handle(c, c.region.updateTimeToLive)
	case "DescribeTimeToLive":
		return handle(c, c.region.describeTimeToLive)
	case "GetItem":
		return handle(c, c.region.getItem)
	case "PutItem":
		return handle(c, c.region.putItem)
	case "UpdateItem":
		return handle(c, c.region.updateItem)
	case "DeleteItem":
		return handle(c, c.region.deleteItem)
	case "Query":
		return handle(c, c.region.query)
	case "Scan":
		return handle(c, c.region.scan)
	case "BatchGetItem":
		return handle(c, c.batchGetItem)
	case "BatchWriteItem":
		return handle(c, c.batchWriteItem)
	case "TransactGetItems":
		return handle(c, c.region.transactGetItems)
	case "TransactWriteItems":
		return handle(c, c.transactWriteItems)
	}
	return nil, wire.Bad(ofCoral+"UnknownOperationException", "the embedded AWS does not offer the DynamoDB operation "+strconv.Quote(c.Operation))
}

// handle decodes the body for one operation and hands it over.
func handle[In any](c *call, operation func(*In) (any, *wire.Error)) (any, *wire.Error) {
	in := new(In)
	if err := decode(c.Operation, c.Body, in); err != nil {
		return nil, err
	}
	return operation(in)
}

// decode reads a body strictly. A parameter that this package does not know might
// change the result on AWS, so it is refused rather than ignored.
func decode(operation string, body []byte, in any) *wire.Error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		if _, trailing := d.Token(); trailing == io.EOF {
			return nil
		}
		err = errors.New("there is more than one document in the body")
	}
	var own *wire.Error
	if errors.As(err, &own) {
		return own
	}
	if parameter, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return wire.Unsupported("the parameter " + parameter + " of " + operation)
	}
	return wire.Bad(ofCoral+"SerializationException", err.Error())
}
