package dynamodb_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// benchRows is how many rows the table of a benchmark has.
const benchRows = 10_000

// answer is a response writer that keeps the status and the number of bytes.
type answer struct {
	header http.Header
	status int
	bytes  int
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(b []byte) (int, error) {
	a.bytes += len(b)
	return len(b), nil
}

// ask sends a request to the service itself, past HTTP.
func ask(b *testing.B, s *dynamodb.Service, operation, body string) *answer {
	r := &http.Request{Method: http.MethodPost}
	a := &answer{header: http.Header{}}
	s.Serve(a, &wire.Request{Request: r, Region: home, Operation: operation, Body: []byte(body)})
	if a.status >= 400 {
		b.Fatalf("%s: status %d", body, a.status)
	}
	return a
}

func benchTable(b *testing.B) *dynamodb.Service {
	s := dynamodb.New(wire.Wall{})
	ask(b, s, "CreateTable", `{"TableName":"rows","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},{"AttributeName":"due","AttributeType":"N"}],
		"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"due","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"due","KeyType":"RANGE"}],
			"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`)
	payload := strings.Repeat("x", 300)
	for i := range benchRows {
		ask(b, s, "PutItem", fmt.Sprintf(`{"TableName":"rows","Item":{"pk":{"S":"run#tenant"},"sk":{"S":"%06d"},"due":{"N":"%d"},
			"state":{"S":"sent"},"rev":{"N":"1"},"payload":{"S":%q}}}`, i, i, payload))
	}
	return s
}

func BenchmarkConditionalUpdate(b *testing.B) {
	s := benchTable(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		ask(b, s, "UpdateItem", fmt.Sprintf(`{"TableName":"rows","Key":{"pk":{"S":"run#tenant"},"sk":{"S":"%06d"}},
			"UpdateExpression":"SET rev = rev + :one, #s = :s","ConditionExpression":"rev >= :one AND #s <> :never",
			"ExpressionAttributeNames":{"#s":"state"},"ExpressionAttributeValues":{":one":{"N":"1"},":s":{"S":"claimed"},":never":{"S":"dead"}}}`, i%benchRows))
		i++
	}
}

func BenchmarkQuery(b *testing.B) {
	s := benchTable(b)
	for _, k := range []struct{ name, index, condition, value string }{
		{"table", "", "pk = :p AND sk > :v", `{"S":"%06d"}`},
		{"index", `"IndexName":"due",`, "pk = :p AND due > :v", `{"N":"%d"}`},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				a := ask(b, s, "Query", fmt.Sprintf(`{"TableName":"rows",%s"KeyConditionExpression":%q,"Limit":100,
					"ExpressionAttributeValues":{":p":{"S":"run#tenant"},":v":%s}}`, k.index, k.condition, fmt.Sprintf(k.value, i%(benchRows-200))))
				if a.bytes < 1000 {
					b.Fatalf("%d bytes", a.bytes)
				}
				i++
			}
		})
	}
}
