package layout

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// module makes a module in memory from pairs of path and content.
func module(files map[string]string) fs.FS {
	m := fstest.MapFS{"go.mod": {Data: []byte("module example.org/x\n\ngo 1.26\n")}}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// in makes a file of a package below internal, with its package comment.
func in(pkg, body string) string {
	return "// Package " + pkg + " is a sample.\npackage " + pkg + "\n" + body
}

// lines is a text of n lines.
func lines(n int) string { return strings.Repeat("\n", n) }

// A fault is a file that breaks one rule and no other.
type fault struct {
	name string
	rule rule
	path string
	text string
}

// faults holds some for each rule.
var faults = []fault{
	{"unreadable source", parses, "internal/job/a.go", "package job\nfunc {"},

	{"folder at the top", top, "pkg/README", ""},
	{"file at the top", top, "CHANGELOG.md", ""},
	{"package at the top", top, "a.go", "package x"},

	{"package below internal", listed, "internal/util/a.go", in("util", "")},
	{"package below a package", listed, "internal/worker/util/a.go", in("util", "")},
	{"command", listed, "internal/cmd/tool/a.go", "// Command tool is a sample.\npackage main"},
	{"folder without a package's name", listed, "internal/a.go", in("internal", "")},
	{"samples with code", listed, "events/a.go", in("events", "")},
	{"suite of no client", listed, "internal/job/jobtest/a.go", in("jobtest", "")},
	{"folder of tests only", listed, "internal/util/a_test.go", "package util"},

	{"noun imports a step", imports, "internal/job/a.go", in("job", `import _ "example.org/x/internal/worker"`)},
	{"step imports a client", imports, "internal/worker/a.go", in("worker", `import _ "example.org/x/internal/ledger"`)},
	{"step imports a step", imports, "internal/redrive/a.go", in("redrive", `import _ "example.org/x/internal/enqueue"`)},
	{"client imports a suite", imports, "internal/ledger/a.go", in("ledger", `import _ "example.org/x/internal/ledger/ledgertest"`)},
	{"suite imports another client", imports, "internal/queue/queuetest/a.go", in("queuetest", `import _ "example.org/x/internal/ledger"`)},
	{"function links the emulator", imports, "functions/worker/main.go",
		"// Command worker is a sample.\npackage main\nimport _ \"example.org/x/internal/emulator/s3\""},
	{"tool links the simulation", imports, "internal/cmd/expunge/main.go",
		"// Command expunge is a sample.\npackage main\nimport _ \"example.org/x/internal/sim\""},
	{"infra imports a step", imports, "infra/region/a.go", in("region", `import _ "example.org/x/internal/worker"`)},
	{"import of what has no row", imports, "internal/local/a.go", in("local", `import _ "example.org/x/internal/util"`)},
	{"dot import", imports, "internal/report/a.go", in("report", `import . "time"`)},

	{"CDK in a function", cdk, "functions/worker/main.go",
		"// Command worker is a sample.\npackage main\nimport _ \"github.com/aws/aws-cdk-go/awscdk/v2\""},
	{"constructs in a noun", cdk, "internal/contract/a.go", in("contract", `import _ "github.com/aws/constructs-go/constructs/v10"`)},
	{"jsii in a test", cdk, "internal/contract/a_test.go", "package contract\nimport _ \"github.com/aws/jsii-runtime-go\""},
	{"rules for stacks in local", cdk, "internal/local/a.go", in("local", `import _ "github.com/cdklabs/cdk-nag-go/cdknag/v2"`)},

	{"client in a step", aws, "internal/worker/a.go", in("worker", `import _ "github.com/aws/aws-sdk-go-v2/service/s3"`)},
	{"client in the report", aws, "internal/report/a.go", in("report", `import _ "github.com/aws/aws-sdk-go-v2/service/s3/types"`)},
	{"client in the meter", aws, "internal/meter/a.go", in("meter", `import _ "github.com/aws/aws-sdk-go-v2/feature/s3/manager"`)},
	{"SDK in a noun", aws, "internal/job/a.go", in("job", `import _ "github.com/aws/aws-sdk-go-v2/aws"`)},
	{"SDK's runtime in a step", aws, "internal/enqueue/a.go", in("enqueue", `import _ "github.com/aws/smithy-go"`)},

	{"clock", clock, "internal/policy/a.go", in("policy", "import \"time\"\nfunc f() { _ = time.Now() }")},
	{"clock under another name", clock, "internal/policy/a.go", in("policy", "import t \"time\"\nfunc f(a t.Time) { _ = t.Since(a) }")},
	{"clock as a value", clock, "internal/worker/a.go", in("worker", "import \"time\"\ntype w struct{ now func() time.Time }\nfunc f() w { return w{now: time.Now} }")},
	{"sleep", clock, "internal/worker/a.go", in("worker", "import \"time\"\nfunc f() { time.Sleep(1) }")},
	{"waiting", clock, "internal/reconcile/a.go", in("reconcile", "import \"time\"\nfunc f() { <-time.After(1) }")},
	{"timer", clock, "internal/invariant/a.go", in("invariant", "import \"time\"\nfunc f() { time.NewTimer(1) }")},

	{"environment", env, "internal/contract/a.go", in("contract", "import \"os\"\nfunc f() { _ = os.Getenv(\"A\") }")},

	{"go statement", goroutine, "internal/worker/a.go", in("worker", "func f() { go f() }")},
	{"group", goroutine, "internal/worker/a.go", in("worker", "import \"sync\"\nfunc f() { var g sync.WaitGroup; g.Go(f) }")},

	{"random source of the process", random, "internal/worker/a.go", in("worker", "import \"math/rand/v2\"\nfunc f() { _ = rand.IntN(3) }")},
	{"older random source", random, "internal/worker/a.go", in("worker", "import \"math/rand\"\nfunc f() { rand.Shuffle(0, nil) }")},

	{"variable without a value", variable, "internal/job/a.go", in("job", "var seen map[string]bool")},
	{"counter", variable, "internal/job/a.go", in("job", "var n = 0")},
	{"hook", variable, "internal/job/a.go", in("job", "var now = func() int { return 0 }")},
	{"pointer", variable, "internal/job/a.go", in("job", "type T struct{}\nvar def = &T{}")},
	{"constructor of another package", variable, "internal/job/a.go", in("job", "import errors \"example.com/errors\"\nvar e = errors.New(1)")},
	{"two variables of one call", variable, "internal/job/a.go", in("job", "func f() (int, int) { return 0, 0 }\nvar a, b = f()")},
	{"table that is replaced", variable, "internal/job/a.go", in("job", "var t = []int{1}\nfunc f() { t = nil }")},
	{"table that grows", variable, "internal/job/a.go", in("job", "var t = map[int]int{}\nfunc f() { t[1] = 2 }")},
	{"table that shrinks", variable, "internal/job/a.go", in("job", "var t = map[int]int{}\nfunc f() { delete(t, 1) }")},
	{"element that is counted", variable, "internal/job/a.go", in("job", "var t = []struct{ n int }{{}}\nfunc f() { (t[0]).n++ }")},
	{"element under a pointer", variable, "internal/job/a.go", in("job", "var t = [...]*int{nil}\nfunc f() { *t[0] = 1 }")},
	{"part of a table", variable, "internal/job/a.go", in("job", "var t = []int{1}\nfunc f() { copy(t[1:], nil) }")},
	{"address of a table", variable, "internal/job/a.go", in("job", "var t = []int{1}\nfunc f() *int { return &t[0] }")},
	{"range into a variable", variable, "internal/job/a.go", in("job", "import \"errors\"\nvar e = errors.New(\"\")\nfunc f(all []error) { for _, e = range all {} }")},
	{"table changed in another file", variable, "internal/job/a.go", in("job", "func f() { t[0] = 2 }")},
	{"variable of another package", variable, "internal/job/a.go", in("job", "import \"example.org/x/internal/failure\"\nfunc f() { failure.Table[1] = 2 }")},

	{"long function", function, "internal/meter/a.go", in("meter", "func f() {"+lines(80)+"}")},
	{"long method", function, "infra/region/a.go", in("region", "type T int\nfunc (T) f() {"+lines(80)+"}")},
	{"long literal", function, "internal/meter/a.go", in("meter", "var f = func() {"+lines(80)+"}")},

	{"long file", file, "internal/meter/a.go", in("meter", lines(599))},
	{"long test file", file, "internal/meter/a_test.go", "package meter" + lines(601)},

	{"five methods", interfaces, "internal/worker/a.go", in("worker", "type i interface { A(); B(); C(); D(); E() }")},
	{"five methods by embedding", interfaces, "internal/worker/a.go",
		in("worker", "type h interface { A(); B(); C() }\ntype i interface { h; D(); E() }")},
	{"five methods over two files", interfaces, "internal/worker/a.go", in("worker", "type i interface { h; D(); E() }")},
	{"five methods with other packages", interfaces, "internal/worker/a.go",
		in("worker", "import \"io\"\ntype i interface { io.Reader; io.Closer; A(); B(); C() }")},
	{"five methods without a name", interfaces, "internal/worker/a.go",
		in("worker", "func f(interface { A(); B(); C(); D(); E() }) {}")},

	{"no comment", comment, "internal/job/a.go", "package job"},
	{"comment about something else", comment, "internal/job/a.go", "// This package is a sample.\npackage job"},
	{"comment apart from the clause", comment, "internal/job/a.go", "// Package job is a sample.\n\npackage job"},
	{"comment without a sentence", comment, "internal/job/a.go", "// Package job is a\npackage job"},
	{"comment on the test", comment, "internal/job/a.go", "package job"},
	{"command under another name", comment, "functions/worker/main.go", "// Command main is a sample.\npackage main"},
}

// beside holds what stands next to a fault when it takes two files to break a
// rule.
var beside = map[string]map[string]string{
	"comment on the test": {"internal/job/a_test.go": in("job", "")},
	"table changed in another file": {
		"internal/job/b.go": "package job\nvar t = []int{1}",
	},
	"five methods over two files": {
		"internal/worker/b.go": "package worker\ntype h interface { A(); B(); C() }",
	},
}

// TestRulesFire shows that each rule can fail: it reports its planted fault,
// and no other rule objects to it.
func TestRulesFire(t *testing.T) {
	for _, f := range faults {
		t.Run(string(f.rule)+"/"+f.name, func(t *testing.T) {
			files := map[string]string{f.path: f.text}
			maps.Copy(files, beside[f.name])
			findings, err := check(module(files))
			if err != nil {
				t.Fatal(err)
			}
			if len(findings) == 0 {
				t.Fatalf("nothing was reported, want the rule %s", f.rule)
			}
			for _, got := range findings {
				if got.rule != f.rule {
					t.Errorf("reported %v, want only the rule %s", got, f.rule)
				}
			}
		})
	}
}

// TestEveryRuleHasAFault keeps a new rule from entering untried.
func TestEveryRuleHasAFault(t *testing.T) {
	for _, r := range every {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.rule == r }) {
			t.Errorf("no fault is planted for the rule %s", r)
		}
	}
}

// TestFindingsNameTheLine shows one finding in full: place, rule and what to
// do instead.
func TestFindingsNameTheLine(t *testing.T) {
	findings, err := check(module(map[string]string{
		"internal/policy/policy.go": in("policy", "\nimport \"time\"\n\nvar epoch = time.Now()\n"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, f.String())
	}
	want := []string{
		"internal/policy/policy.go:6: clock: take the instant as a value, do not use time.Now",
		"internal/policy/policy.go:6: variable: epoch is no sentinel error, compiled expression or lookup table: " +
			"make it a constant, a function or an argument",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// allowed is a module that uses what the rules leave free.
var allowed = map[string]string{
	".github/x":            "",
	".gitignore":           "# by-products\n/cdk.out/\ncoverage.out\n",
	"cdk.out/asset.1/a.go": "not even Go",
	"coverage.out":         "",
	"README.md":            "",

	"internal/job/doc.go": in("job", `
import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"

	"example.org/x/internal/failure"
)

var _ fmt.Stringer = State(0)

var (
	ErrOld  = errors.New("old")
	errBoth = fmt.Errorf("both: %w", ErrOld)
	shape   = regexp.MustCompile("^a")
	magic   = []byte("magic")
	words   = map[State]string{1: "one"}
)

//go:embed schema.json
var schema string

type (
	State int
	page  struct{ n int }
	four  interface{ A(); B(); C(); D() }
	union interface{ ~int | ~string }
	both  interface{ comparable; union; A(); B(); C(); D() }
)

func (s State) String() string { return words[s] }

// A local variable may bear the name of a table or of a package.
func shadows(words []string, t time.Time, r *rand.Rand) (*page, time.Duration, int) {
	words[0] = "two"
	time := struct{ Now func() int }{func() int { return 1 }}
	failure := &page{}
	failure.n = time.Now()
	magic, n := []byte{}, 0
	for n = range magic {
		magic[n]++
	}
	p := &page{n: n}
	p.n++
	delete(map[string]int{}, "")
	return p, t.Sub(t), rand.New(rand.NewPCG(1, 2)).IntN(3) + r.IntN(4)
}

func uses() (error, error, any, any, any, four, both) {
	return failure.Of(errBoth), ErrOld, shape, schema, magic, nil, nil
}
`),
	// A test may use the clock, goroutines, clients and any package of ours, and be long.
	"internal/job/job_test.go": `package job
import (
	"time"
	_ "github.com/aws/aws-sdk-go-v2/service/s3"
	_ "example.org/x/internal/ledger"
	_ "example.org/x/internal/ledger/ledgertest"
)
var start = time.Now()
func f() { go f()` + lines(100) + `}`,

	"internal/ledger/ledger.go": in("ledger", `
import (
	"sync"
	"time"
	_ "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	_ "example.org/x/internal/hold"
)
var mu sync.Mutex
func now() time.Time { go now(); mu.Lock(); return time.Now() }
`),
	// A suite is test code, though not by its name.
	"internal/ledger/ledgertest/suite.go": in("ledgertest", `
import _ "example.org/x/internal/ledger"
type all interface { A(); B(); C(); D(); E() }
func Exercise() {`+lines(100)+`}`),

	// As long as may be.
	"internal/meter/screen.go": "package meter\nfunc f() {" + lines(maxFunction-1) + "}\n",
	"internal/meter/page.go":   "package meter" + lines(maxFile),

	"internal/meter/meter.go":         in("meter", `import _ "github.com/aws/smithy-go/middleware"`),
	"internal/hold/hold.go":           in("hold", `import _ "example.org/x/internal/audit"`),
	"internal/report/report.go":       in("report", `import _ "example.org/x/internal/invariant"`),
	"internal/sim/sim.go":             in("sim", `import _ "example.org/x/internal/worker"`),
	"internal/local/local.go":         in("local", `import _ "example.org/x/internal/emulator/s3"`),
	"internal/emulator/lambda/a.go":   in("lambda", `import _ "example.org/x/internal/emulator/sqs"`),
	"internal/emulator/testdata/a.go": "package util",
	"internal/emulator/_old/a.go":     "package util",

	"internal/cmd/expunge/main.go": "// Command expunge is a sample.\npackage main\nimport _ \"example.org/x/internal/evidence\"",
	"functions/worker/main.go":     "// Command worker is a sample.\npackage main\nimport _ \"example.org/x/internal/worker\"",
	"infra/main.go": "// Command infra is a sample.\npackage main\n" +
		"import (\n_ \"github.com/aws/aws-cdk-go/awscdk/v2\"\n_ \"example.org/x/infra/region\"\n_ \"example.org/x/internal/contract\"\n)",
}

// TestRulesStaySilent shows that the rules allow what they say they allow.
func TestRulesStaySilent(t *testing.T) {
	findings, err := check(module(allowed))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}
