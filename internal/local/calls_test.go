package local

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/policy"
)

// callsGolden lists every right that a function's code needs. What the stack grants is
// held against it by the tests of infra/region, in both directions.
const callsGolden = "../../infra/region/testdata/calls.golden"

const callsHead = `# What each function asks of AWS: the function, the IAM action that its call needs, and on what.
# An artifact is of a policy by its mode and versions: objects are keys under the policy's prefix,
# list is a listing of the bucket by such a prefix, bucket is the bucket itself.
# Written by TestCallsOfTheFunctions; review a change as one of what the functions may do.
`

// right is one line of the golden file.
type right struct{ function, action, resource string }

func (r right) String() string {
	return fmt.Sprintf("%-13s %-28s %s", r.function, r.action, r.resource)
}

// functionNames are the functions, whose access keys are their names.
var functionNames = []string{"enqueue", "worker", "report-worker", "reconcile", "redrive", "hold"}

// callBook notes which rights the functions' calls needed.
type callBook struct {
	mu    sync.Mutex
	noted map[right]bool
}

// note enters the rights that a call needs. Only functions are noted: the tests and the
// embedded AWS's own pollers ask with other keys, or not at all.
func (b *callBook) note(c wire.Call, policies []policy.Policy) {
	if !slices.Contains(functionNames, c.Caller) {
		return
	}
	needed := neededBy(c, policies)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noted == nil {
		b.noted = map[right]bool{}
	}
	for _, r := range needed {
		b.noted[r] = true
	}
}

func (b *callBook) sorted() []right {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []right
	for r := range b.noted {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// neededBy returns the rights that AWS asks of the caller of an API operation. One that
// is not known here is named as it is, and so stands in no golden file.
func neededBy(c wire.Call, policies []policy.Policy) (all []right) {
	need := func(resource string, actions ...string) {
		for _, a := range actions {
			all = append(all, right{c.Caller, c.Service + ":" + a, resource})
		}
	}
	switch c.Service {
	case "dynamodb":
		needLedger(c, need)
	case "sqs":
		needQueue(c, need)
	case "s3":
		needBucket(c, policies, need)
	case "lambda":
		if c.Operation == "Invoke" {
			need("function:"+path.Base(path.Dir(c.Resource)), "InvokeFunction")
			break
		}
		need(c.Resource, c.Operation)
	default:
		need(c.Resource, c.Operation)
	}
	return all
}

// needLedger: a transaction needs the rights of its parts, and a query of an index one
// on the index alone:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
func needLedger(c wire.Call, need func(string, ...string)) {
	var in struct {
		TableName, IndexName string
		RequestItems         map[string]any
		TransactItems        []map[string]any
	}
	if json.Unmarshal(c.Body, &in) != nil {
		need("unread", c.Operation)
		return
	}
	parts := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
	switch {
	case c.Operation == "TransactWriteItems":
		for _, item := range in.TransactItems {
			for part := range item {
				need("ledger", parts[part])
			}
		}
	case in.IndexName == contract.LedgerIndex:
		need("ledger/index", c.Operation)
	case in.IndexName == "" && (in.TableName != "" || len(in.RequestItems) == 1):
		need("ledger", c.Operation)
	default:
		need("unknown table", c.Operation)
	}
}

// needQueue: the batch of an operation needs the same right as one.
func needQueue(c wire.Call, need func(string, ...string)) {
	var in struct {
		Queue string `json:"QueueUrl"`
	}
	_ = json.Unmarshal(c.Body, &in) // a call without a queue stands in no golden file
	name := path.Base(in.Queue)
	if name == "report" {
		name = "report-pages" // as the stack calls it
	}
	need("queue:"+name, strings.TrimSuffix(c.Operation, "Batch"))
}

// needBucket: see S3's table of the rights of its operations,
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
func needBucket(c wire.Call, policies []policy.Policy, need func(string, ...string)) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(c.Resource, "/"), "/")
	if bucket == evidenceName {
		needEvidence(c, key, need)
		return
	}
	objects := func(key string) string { return artifactOf(policies, bucket, key, "objects") }
	switch c.Operation {
	case "ListObjectsV2":
		need(artifactOf(policies, bucket, c.Query.Get("prefix"), "list"), "ListBucket")
	case "ListObjectVersions":
		need(artifactOf(policies, bucket, c.Query.Get("prefix"), "list"), "ListBucketVersions")
	case "GetBucketVersioning", "GetBucketRequestPayment":
		need(artifactOf(policies, bucket, "", "bucket"), c.Operation)
	case "DeleteObject":
		needDelete(objects(key), c.Query.Get("versionId"), c.Header.Get("If-Match"), need)
	case "DeleteObjects":
		var in struct {
			Object []struct {
				Key, ETag string
				Version   string `xml:"VersionId"`
			}
		}
		if xml.Unmarshal(c.Body, &in) != nil || len(in.Object) == 0 {
			need("unread", c.Operation)
		}
		for _, o := range in.Object {
			needDelete(objects(o.Key), o.Version, o.ETag, need)
		}
	default:
		need(objects(key), c.Operation)
	}
}

// needDelete: the condition on an ETag needs the right to read.
func needDelete(resource, version, etag string, need func(string, ...string)) {
	switch {
	case version != "":
		need(resource, "DeleteObjectVersion")
	case etag != "":
		need(resource, "DeleteObject", "GetObject")
	default:
		need(resource, "DeleteObject")
	}
}

// needEvidence: a write on condition that the name is free needs no right to read.
func needEvidence(c wire.Call, name string, need func(string, ...string)) {
	folder, _, _ := strings.Cut(name, "/")
	switch c.Operation {
	case "ListObjectsV2":
		need("evidence", "ListBucket")
	default:
		need("evidence:"+folder+"/*", c.Operation)
	}
}

// artifactOf names what of a policy's artifacts is asked for. What lies under no
// policy's prefix has a name that stands in no golden file.
func artifactOf(policies []policy.Policy, bucket, key, what string) string {
	for _, p := range policies {
		if p.Bucket == bucket && (what == "bucket" || strings.HasPrefix(key, p.Prefix())) {
			return "artifact:" + string(p.Mode) + "/" + string(p.Versions) + "/" + what
		}
	}
	return "artifact outside of every policy, " + what
}

// readCalls reads the golden file.
func readCalls(t *testing.T) map[right]bool {
	t.Helper()
	data, err := os.ReadFile(callsGolden)
	if err != nil {
		t.Fatal(err)
	}
	all := map[right]bool{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all[right{f[0], f[1], f[2]}] = true
		}
	}
	return all
}

// watchCalls fails the test for every call of a function that the golden file does not
// have: nothing that a function does in any story here is missing there.
func watchCalls(t *testing.T, c *Cloud) {
	t.Helper()
	known, book := readCalls(t), &callBook{}
	c.faults.add(func(call wire.Call) (wire.Fate, bool) {
		book.note(call, c.Policies)
		return wire.Fate{}, false
	})
	t.Cleanup(func() {
		for _, r := range book.sorted() {
			if !known[r] {
				t.Errorf("a call that %s does not have: %s", callsGolden, r)
			}
		}
	})
}

// TestCallsOfTheFunctions plays all that the functions can be asked and all that can
// befall them, and holds the rights that they needed against the golden file, in both
// directions: it has no line that no code needs.
func TestCallsOfTheFunctions(t *testing.T) {
	t.Parallel()
	r := newRoles(t)
	r.report()
	r.enforce()
	r.die()
	r.lose()
	r.switchOff()
	got := r.book.sorted()
	if *update {
		var text strings.Builder
		text.WriteString(callsHead)
		for _, line := range got {
			text.WriteString(line.String() + "\n")
		}
		if err := os.WriteFile(callsGolden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	known := readCalls(t)
	for _, line := range got {
		if !known[line] {
			t.Errorf("needed, and not in the golden file: %s", line)
		}
		delete(known, line)
	}
	for line := range known {
		t.Errorf("in the golden file, and nothing here needed it: %s", line)
	}
}
