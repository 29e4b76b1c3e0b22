package dynamodb

import (
	"maps"
	"slices"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// A write unit is a kilobyte and a read unit four, both begun.
const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10
)

// transactional is what a transaction multiplies the units of a table by. Its
// indexes cost what they always cost.
const transactional = 2

// writeUnits returns the units of writing a row of the size.
func writeUnits(size int) float64 { return float64(max(1, (size+writeUnit-1)/writeUnit)) }

// readUnits returns the units of reading that many bytes: half of it when it need
// not be consistent. A look at nothing is a unit too.
func readUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+readUnit-1)/readUnit))
	if consistent {
		return units
	}
	return units / 2
}

// consumption is what a request took of one table and its indexes.
type consumption struct {
	table   float64
	indexes map[string]float64
}

func (c *consumption) addIndex(name string, units float64) {
	if c.indexes == nil {
		c.indexes = map[string]float64{}
	}
	c.indexes[name] += units
}

// add adds another consumption, of which the table's part counts that many times.
func (c *consumption) add(more consumption, times float64) {
	c.table += more.table * times
	for name, units := range more.indexes {
		c.addIndex(name, units)
	}
}

// The members of an answer that tell what it took.
type (
	capacity struct{ CapacityUnits float64 }

	consumedCapacity struct {
		TableName              string
		CapacityUnits          float64
		ReadCapacityUnits      float64             `json:",omitempty"`
		WriteCapacityUnits     float64             `json:",omitempty"`
		Table                  *capacity           `json:",omitempty"`
		GlobalSecondaryIndexes map[string]capacity `json:",omitempty"`
	}
)

const (
	reportNone    = "NONE"
	reportTotal   = "TOTAL"
	reportIndexes = "INDEXES"
)

func checkReport(report string) *wire.Error {
	return oneOf("returnConsumedCapacity", report, reportIndexes, reportTotal, reportNone)
}

// report returns what an answer says about the consumption, nil when it was not asked.
func (c *consumption) report(table, report string) *consumedCapacity {
	if report == "" || report == reportNone {
		return nil
	}
	said := &consumedCapacity{TableName: table, CapacityUnits: c.table}
	for _, units := range c.indexes {
		said.CapacityUnits += units
	}
	if report == reportIndexes {
		said.Table = &capacity{c.table}
		for name, units := range c.indexes {
			if said.GlobalSecondaryIndexes == nil {
				said.GlobalSecondaryIndexes = map[string]capacity{}
			}
			said.GlobalSecondaryIndexes[name] = capacity{units}
		}
	}
	return said
}

// bill is the consumption of a request by table.
type bill map[string]*consumption

// of returns the consumption of a table.
func (b bill) of(table string) *consumption {
	if b[table] == nil {
		b[table] = &consumption{}
	}
	return b[table]
}

// report returns what an answer says about every table, in order.
func (b bill) report(report string) []*consumedCapacity {
	var all []*consumedCapacity
	for _, table := range slices.Sorted(maps.Keys(b)) {
		if said := b[table].report(table, report); said != nil {
			all = append(all, said)
		}
	}
	return all
}
