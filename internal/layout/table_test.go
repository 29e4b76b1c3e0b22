package layout

import (
	"slices"
	"strings"
)

// all is every package of ours that a function or the operator's tool may
// link. What is missing here is meant to be missing: the emulator, the
// simulation and the local environment carry fault hooks and clocks that can
// be moved, and must never be part of something that touches production.
const all = "contract failure job hold policy receipt audit invariant" +
	" ledger evidence queue artifact" +
	" enqueue worker redrive reconcile" +
	" meter report rehearse sdk wiring"

// suite is what the conformance suite of a client package may import, besides
// that package. Only tests import a suite.
const suite = "job hold policy receipt audit failure "

// table says what each package may import from this module. A row covers one
// package below internal, or a whole tree where one name stands for several:
// see owner. Test files are free in what they import of ours, since a test of
// a step drives the memory fakes; what stands in a binary is not.
//
// A package has to be entered here before its first line is written.
var table = map[string]string{
	// Pure: from contract and failure upwards, no AWS, no clock, no environment.
	"contract":  "",
	"failure":   "",
	"job":       "failure",
	"hold":      "contract job receipt audit failure", // its step lives beside its rule
	"policy":    "job hold failure",
	"receipt":   "job failure",
	"audit":     "job failure contract",
	"invariant": "job hold policy receipt audit",

	// The AWS clients, each with its memory fake and its suite.
	"sdk":          "failure", // how all of them talk to AWS
	"ledger":       "contract job hold policy audit failure sdk",
	"evidence":     "receipt job failure sdk",
	"queue":        "job failure sdk",
	"artifact":     "job failure sdk",
	"ledgertest":   suite + "ledger",
	"evidencetest": suite + "evidence",
	"queuetest":    suite + "queue",
	"artifacttest": suite + "artifact",

	// The steps. They see the clients through interfaces of their own, and get
	// contract's numbers as a value.
	"enqueue":   "contract job policy audit failure",
	"worker":    "contract job hold policy receipt audit failure",
	"redrive":   "contract job hold policy receipt audit failure",
	"reconcile": "contract job policy receipt audit failure report",

	// What every main is wired from.
	"wiring": "contract failure job audit sdk ledger queue artifact evidence enqueue redrive",

	// What a step would do, found out by doing it on copies.
	"rehearse": "contract job hold policy receipt audit failure worker",

	"meter":    "",
	"report":   "job policy receipt invariant",
	"emulator": "",
	"sim":      all,
	"local":    all + " emulator sim functions",

	"cmd/expunge":  all,
	"cmd/local":    "local",
	"cmd/emulator": "emulator",
	"functions":    all,
	"infra":        "contract policy",
	"layout":       "",
}

// pure packages can be replayed: the same values in, the same values out. The
// steps are held to the same rules, or the simulation could not run them.
var pure = strings.Fields("contract failure job hold policy receipt audit invariant" +
	" enqueue worker redrive reconcile rehearse")

// clients may import a client of an AWS service.
var clients = strings.Fields("wiring ledger evidence queue artifact local emulator cmd/expunge cmd/local functions")

// topLevel is the closed list of what may stand beside go.mod. Dot files may
// too, and by-products that .gitignore names.
var topLevel = strings.Fields("functions infra internal events go.mod go.sum cdk.json Makefile README.md LICENSE")

const (
	maxFile      = 600 // lines of a file; past it, the file holds two subjects
	maxFunction  = 80  // lines of a function; about what a screen shows
	maxInterface = 4   // methods; past it, the consumer asks for more than it uses
)

// owner gives the row of the table that covers a folder: the tree for
// functions, infra and internal/emulator, the suite's own name for
// internal/x/xtest, and else the path below internal.
func owner(dir string) string {
	parts := strings.Split(dir, "/")
	switch {
	case parts[0] != "internal":
		return parts[0]
	case len(parts) > 1 && parts[1] == "emulator":
		return "emulator"
	case len(parts) == 3 && parts[2] == parts[1]+"test":
		return parts[2]
	default:
		return strings.TrimPrefix(dir, "internal/")
	}
}

// isSuite answers whether a package is test code although its files do not end
// in _test.go: the suites. Size rules do not hold for it.
func isSuite(owner string) bool {
	_, known := table[owner]
	return known && strings.HasSuffix(owner, "test")
}

// may answers whether the package of one row may import that of another.
func may(from, to string) bool {
	return from == to || slices.Contains(strings.Fields(table[from]), to)
}
