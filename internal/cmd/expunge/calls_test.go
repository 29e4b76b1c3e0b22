package main

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// TestMain compares what all tests together made the tool ask AWS with
// testdata/calls.golden. infra/region holds the policies of the people who run it to
// that list: a call that is new here is one that somebody has to be allowed there.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && everyTestRan() {
		code = asked.compare("testdata/calls.golden")
	}
	os.Exit(code)
}

// everyTestRan reports whether no test was left out: a part of them makes a part of
// the calls.
func everyTestRan() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.bench"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// asked is what the tool asked in all tests of this package.
var asked = questions{by: map[string]map[string]bool{}}

// questions are calls by what they are and what they are about, such as
// "s3 GetObject evidence", each with the commands that make them.
type questions struct {
	mu sync.Mutex
	by map[string]map[string]bool
}

func (q *questions) note(command, call string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[call] == nil {
		q.by[call] = map[string]bool{}
	}
	q.by[call][command] = true
}

// compare says on stderr how the calls differ from the file, and returns the exit
// status of the tests.
func (q *questions) compare(file string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var b strings.Builder
	for _, call := range slices.Sorted(maps.Keys(q.by)) {
		fmt.Fprintf(&b, "%s: %s\n", call, strings.Join(slices.Sorted(maps.Keys(q.by[call])), ", "))
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	want, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if string(want) != b.String() {
		fmt.Fprintf(os.Stderr, "%s is not what the tool asked AWS. It asked:\n%s", file, b.String())
		return 1
	}
	return 0
}

// A bucket that keeps versions is asked for them: by an explanation that judges what
// stands, and by a count for a policy on all versions.
func TestVersionsAreAskedFor(t *testing.T) {
	r := worked(t)
	_, err := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true }).PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: aws.String(bucketName), VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
	})
	must(t, err)
	listed := false
	r.meet(func(c wire.Call) wire.Fate {
		listed = listed || c.Operation == "ListObjectVersions"
		return wire.Fate{}
	})
	wantText(t, r.explain(school+"locked.csv", "--repaired").Again, "The object would be: deleted marker only.")
	if !listed {
		t.Error("the explanation did not look at the versions")
	}
	r.write("v1.yaml", exportsPolicy)
	r.write("v2.yaml", changed(t, exportsPolicy, "version: 1", "version: 2\nversions: all"))
	listed = false
	r.ok("policy", "diff", "v1.yaml", "v2.yaml")
	if !listed {
		t.Error("the count did not look at the versions")
	}
}

// note records a call of the tool. What the functions of a test's region and the test
// itself ask is not the tool's.
func (r *region) note(c wire.Call) {
	if r.command != "" && (c.Caller == "operator" || c.Caller == "ana") {
		asked.note(r.command, c.Service+" "+c.Operation+" "+subject(c, r.outputs))
	}
}

// subject says what of the deployment a call is about.
func subject(c wire.Call, o contract.Outputs) string {
	in := func(resource string) bool { return strings.Contains(string(c.Body), `"`+resource+`"`) }
	switch c.Service {
	case "dynamodb":
		if in(contract.LedgerIndex) {
			return "index"
		}
		return "ledger"
	case "s3":
		bucket, _, _ := strings.Cut(strings.TrimPrefix(c.Resource, "/"), "/")
		if bucket == o.Evidence && bucket != bucketName { // one test mistakes the one for the other
			return "evidence"
		}
		return "artifacts"
	case "sqs":
		for url, name := range map[string]string{o.PagesQueue: "pages", o.ReportQueue: "report-pages", o.LettersQueue: "dead-letters"} {
			if in(url) {
				return name
			}
		}
	case "lambda":
		for name, function := range map[string]string{
			o.Enqueue: "enqueue", o.Worker: "worker", o.ReportWorker: "report-worker", o.Reconcile: "reconcile", o.Redrive: "redrive", o.Hold: "hold",
		} {
			if strings.Contains(c.Resource+"/", "/"+url.PathEscape(name)+"/") {
				return function
			}
		}
		return path.Base(c.Resource)
	}
	return map[string]string{"cloudformation": "stack", "sns": "topics", "scheduler": "schedules", "sts": "caller"}[c.Service]
}

// commandOf returns the words of the command in a command line, "" when there is none.
func commandOf(args []string) string {
	for n := min(len(args), 3); n > 0; n-- {
		if words := strings.Join(args[:n], " "); slices.Contains(everyCommand(), words) {
			return words
		}
	}
	return ""
}

var everyCommand = sync.OnceValue(func() []string {
	parser := kong.Must(&commands{}, kong.Name("expunge"))
	var all []string
	for _, n := range parser.Model.Leaves(false) {
		all = append(all, strings.TrimPrefix(n.FullPath(), "expunge "))
	}
	return all
})
