package dynamodb

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// row is a stored item with the size it is billed by.
type row struct {
	item item
	size int
}

// table is a table and its indexes.
type table struct {
	definition createTableInput
	created    time.Time
	keys       schema
	types      map[string]kind // of the key attributes of the table and its indexes
	indexes    []*index        // by name
	rows       btree.Map[string, row]
	bytes      int
	expiry     string // the attribute of the time to live, "" while that is off
}

// index returns the table's index of that name.
func (t *table) index(name string) (*index, *wire.Error) {
	for _, x := range t.indexes {
		if x.definition.IndexName == name {
			return x, nil
		}
	}
	return nil, invalid("The table does not have the specified index: %s", name)
}

// The members of a CreateTable request.
type (
	keyElement struct{ AttributeName, KeyType string }

	attributeDefinition struct {
		AttributeName string
		AttributeType kind
	}

	projectionInput struct {
		ProjectionType   string   `json:",omitempty"`
		NonKeyAttributes []string `json:",omitempty"`
	}

	throughput struct{ ReadCapacityUnits, WriteCapacityUnits int64 }

	indexInput struct {
		IndexName             string
		KeySchema             []keyElement
		Projection            projectionInput
		ProvisionedThroughput *throughput `json:",omitempty"`
	}

	createTableInput struct {
		TableName                 string
		AttributeDefinitions      []attributeDefinition
		KeySchema                 []keyElement
		GlobalSecondaryIndexes    []indexInput
		BillingMode               string
		ProvisionedThroughput     *throughput
		DeletionProtectionEnabled bool
	}

	tableInput struct{ TableName string }
)

const (
	payPerRequest = "PAY_PER_REQUEST"
	provisioned   = "PROVISIONED"
)

func (g *region) createTable(in *createTableInput) (any, *wire.Error) {
	if in.BillingMode == "" {
		in.BillingMode = provisioned
	}
	t, problem := newTable(*in)
	if problem != nil {
		return nil, problem
	}
	t.created = g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, taken := g.tables[in.TableName]; taken {
		return nil, refused("ResourceInUseException", "Table already exists: "+in.TableName)
	}
	g.tables[in.TableName] = t
	return map[string]any{"TableDescription": g.description(t, "CREATING")}, nil
}

// newTable checks a definition and makes an empty table of it.
func newTable(in createTableInput) (*table, *wire.Error) {
	t := &table{definition: in, types: map[string]kind{}}
	if problem := checkName("tableName", in.TableName); problem != nil {
		return nil, problem
	}
	if problem := oneOf("billingMode", in.BillingMode, provisioned, payPerRequest); problem != nil {
		return nil, problem
	}
	switch {
	case in.BillingMode == payPerRequest && in.ProvisionedThroughput != nil:
		return nil, badParameter("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case in.BillingMode == provisioned && in.ProvisionedThroughput == nil:
		return nil, badParameter("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	for _, a := range in.AttributeDefinitions {
		if problem := oneOf("attributeDefinitions.member.attributeType", string(a.AttributeType), "B", "N", "S"); problem != nil {
			return nil, problem
		}
		t.types[a.AttributeName] = a.AttributeType
	}
	var problem *wire.Error
	if t.keys, problem = t.schema(in.KeySchema); problem != nil {
		return nil, problem
	}
	used := t.keys.names()
	for _, definition := range in.GlobalSecondaryIndexes {
		x, problem := t.newIndex(definition)
		if problem != nil {
			return nil, problem
		}
		t.indexes = append(t.indexes, x)
		used = append(used, x.keys.names()...)
	}
	slices.Sort(used)
	if len(slices.Compact(used)) != len(in.AttributeDefinitions) {
		return nil, badParameter("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	slices.SortFunc(t.indexes, func(a, b *index) int {
		return strings.Compare(a.definition.IndexName, b.definition.IndexName)
	})
	return t, nil
}

// newIndex checks the definition of an index and makes an empty one of it.
func (t *table) newIndex(in indexInput) (*index, *wire.Error) {
	if problem := checkName("globalSecondaryIndexes.member.indexName", in.IndexName); problem != nil {
		return nil, problem
	}
	keys, problem := t.schema(in.KeySchema)
	if problem != nil {
		return nil, problem
	}
	switch kept := in.Projection; {
	case kept.ProjectionType == "":
		return nil, badParameter("Unknown ProjectionType: null")
	case kept.ProjectionType != "INCLUDE" && kept.NonKeyAttributes != nil:
		return nil, badParameter("ProjectionType is %s, but NonKeyAttributes is specified", kept.ProjectionType)
	case kept.ProjectionType == "INCLUDE" && len(kept.NonKeyAttributes) == 0:
		return nil, badParameter("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case t.definition.BillingMode == payPerRequest && in.ProvisionedThroughput != nil:
		return nil, badParameter("ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", in.IndexName)
	}
	if problem := oneOf("globalSecondaryIndexes.member.projection.projectionType", in.Projection.ProjectionType, "ALL", "INCLUDE", "KEYS_ONLY"); problem != nil {
		return nil, problem
	}
	if _, problem := t.index(in.IndexName); problem == nil {
		return nil, badParameter("Duplicate index name: %s", in.IndexName)
	}
	x := &index{definition: in, keys: keys}
	if in.Projection.ProjectionType != "ALL" {
		x.attributes = slices.Concat(t.keys.names(), keys.names(), in.Projection.NonKeyAttributes)
	}
	return x, nil
}

// schema checks a key schema against the attribute definitions.
func (t *table) schema(elements []keyElement) (schema, *wire.Error) {
	if n := len(elements); n == 0 || n > 2 {
		return schema{}, constraint("[]", "keySchema", "Member must have length less than or equal to 2, and greater than or equal to 1")
	}
	for i, e := range elements {
		if _, defined := t.types[e.AttributeName]; !defined {
			return schema{}, badParameter("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
				e.AttributeName, strings.Join(slices.Sorted(maps.Keys(t.types)), ", "))
		}
		if e.KeyType != [...]string{"HASH", "RANGE"}[i] {
			return schema{}, invalid("Invalid KeySchema: The %s", [...]string{
				"first KeySchemaElement is not a HASH key type", "second KeySchemaElement is not a RANGE key type",
			}[i])
		}
	}
	s := schema{hash: elements[0].AttributeName}
	if len(elements) == 2 {
		s.sort = elements[1].AttributeName
	}
	if s.hash == s.sort {
		return s, invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	return s, nil
}

// checkName refuses names of tables and indexes that DynamoDB does not take.
func checkName(member, name string) *wire.Error {
	switch {
	case name == "":
		return constraint("null", member, "Member must not be null")
	case len(name) < 3:
		return constraint("'"+name+"'", member, "Member must have length greater than or equal to 3")
	case len(name) > 255:
		return constraint("'"+name+"'", member, "Member must have length less than or equal to 255")
	}
	for i := range len(name) {
		if !isWordByte(name[i]) && name[i] != '.' && name[i] != '-' {
			return constraint("'"+name+"'", member, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
		}
	}
	return nil
}

func (g *region) describeTable(in *tableInput) (any, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, problem := g.table(in.TableName)
	if problem != nil {
		return nil, problem
	}
	return map[string]any{"Table": g.description(t, "ACTIVE")}, nil
}

// description returns what an answer says about a table.
func (g *region) description(t *table, status string) map[string]any {
	arn := "arn:aws:dynamodb:" + g.name + ":" + wire.Account + ":table/" + t.definition.TableName
	rate := map[string]int64{"ReadCapacityUnits": 0, "WriteCapacityUnits": 0, "NumberOfDecreasesToday": 0}
	if p := t.definition.ProvisionedThroughput; p != nil {
		rate["ReadCapacityUnits"], rate["WriteCapacityUnits"] = p.ReadCapacityUnits, p.WriteCapacityUnits
	}
	d := map[string]any{
		"TableName":                 t.definition.TableName,
		"TableArn":                  arn,
		"TableStatus":               status,
		"CreationDateTime":          float64(t.created.UnixMilli()) / 1000,
		"AttributeDefinitions":      t.definition.AttributeDefinitions,
		"KeySchema":                 t.definition.KeySchema,
		"ItemCount":                 t.rows.Len(),
		"TableSizeBytes":            t.bytes,
		"DeletionProtectionEnabled": t.definition.DeletionProtectionEnabled,
		"ProvisionedThroughput":     rate,
	}
	if t.definition.BillingMode == payPerRequest {
		d["BillingModeSummary"] = map[string]string{"BillingMode": payPerRequest}
	}
	var indexes []any
	for _, x := range t.indexes {
		indexes = append(indexes, map[string]any{
			"IndexName": x.definition.IndexName, "IndexArn": arn + "/index/" + x.definition.IndexName,
			"IndexStatus": status, "KeySchema": x.definition.KeySchema, "Projection": x.definition.Projection,
			"ItemCount": x.rows.Len(), "IndexSizeBytes": x.bytes, "ProvisionedThroughput": rate,
		})
	}
	if indexes != nil {
		d["GlobalSecondaryIndexes"] = indexes
	}
	return d
}

func (g *region) deleteTable(in *tableInput) (any, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, problem := g.table(in.TableName)
	if problem != nil {
		return nil, problem
	}
	if t.definition.DeletionProtectionEnabled {
		return nil, invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	}
	delete(g.tables, in.TableName)
	return map[string]any{"TableDescription": g.description(t, "DELETING")}, nil
}

const maxListed = 100

func (g *region) listTables(in *struct {
	ExclusiveStartTableName string
	Limit                   *int
},
) (any, *wire.Error) {
	limit := maxListed
	if in.Limit != nil {
		if limit = *in.Limit; limit < 1 || limit > maxListed {
			return nil, invalid("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	names := slices.AppendSeq([]string{}, maps.Keys(g.tables)) // a region without tables answers an empty list, not null
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool { return name <= in.ExclusiveStartTableName })
	result := map[string]any{"TableNames": names[:min(limit, len(names))]}
	if len(names) > limit {
		result["LastEvaluatedTableName"] = names[limit-1]
	}
	return result, nil
}
