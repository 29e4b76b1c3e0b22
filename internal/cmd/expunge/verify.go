package main

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/report"
)

// verifyCommand checks a run's evidence (E6). The deployment is asked for the
// documents and for the root that its ledger keeps; nothing else is taken from it,
// and with --from it is not asked at all.
type verifyCommand struct {
	Run  string `arg:"" help:"The run."`
	From string `placeholder:"DIR" help:"Read the evidence from this folder, as --save or a copy of the bucket has it. No network and no credentials are used."`
	Save string `placeholder:"DIR" help:"Also keep what is downloaded in this folder."`
	Root string `placeholder:"HEX" help:"The root that was noted when the run was closed, 64 hex digits. Without it that in the run's row counts; with --from it is unknown."`
}

func (c *verifyCommand) exits() exits {
	return exits{Done: "the evidence is whole", Wrong: "it is not, or could not be read: stdout names each object and line"}
}

// verified is the answer.
type verified struct {
	Head
	RunID  job.RunID `json:"run_id"`
	Policy string    `json:"policy,omitzero"` // and the rest of the row: not with --from
	State  string    `json:"state,omitzero"`
	// Source is the bucket or the folder, Objects how many of the run lay there.
	Source  string `json:"source"`
	Objects int    `json:"objects"`
	// Root is the root of the hash tree that the manifest was held to, RootFrom who
	// gave it: ledger or operator; both are empty when nobody did.
	Root     string `json:"root"`
	RootFrom string `json:"root_from"`
	// Sealed: there is a manifest. Without one only each document by itself is verified.
	Sealed   bool            `json:"sealed"`
	Faults   int             `json:"faults"`
	Findings []verifyFinding `json:"findings"`
}

// verifyFinding is one thing that is wrong, or worth knowing.
type verifyFinding struct {
	Object string `json:"object"` // its name, or what the name begins with
	Line   int    `json:"line"`   // from 1, the header; 0 is the whole object
	Text   string `json:"text"`
	Fault  bool   `json:"fault"`
}

// The givers of a root.
const (
	rootOfLedger   = "ledger"
	rootOfOperator = "operator"
)

// rootForm is the form of a root, and of every hash in the evidence.
var rootForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *verifyCommand) run(ctx context.Context, d *desk) error {
	switch {
	case !hexID.MatchString(c.Run):
		return usage("a run's id has 32 hex digits, in lower case", d.command("runs"))
	case c.Root != "" && !rootForm.MatchString(c.Root):
		return usage("--root has 64 hex digits, in lower case")
	case c.From != "" && c.Save != "":
		return usage("--from reads a folder and --save fills one: give the one or the other")
	}
	v := &verification{answer: &verified{RunID: job.RunID(c.Run)}, seal: job.Seal{Root: c.Root}}
	if c.Root != "" {
		v.answer.RootFrom = rootOfOperator
	}
	var err error
	if c.From != "" {
		err = v.fromFolder(c.From)
	} else {
		err = v.fromDeployment(ctx, d, c.Save)
	}
	if err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return err
	}
	if c.Save != "" {
		v.answer.Next = []string{v.offline(c.Save)}
	}
	if err := d.show(v.answer); err != nil {
		return err
	}
	if n := v.answer.Faults; n > 0 {
		return wrong("the evidence is not whole: " + report.Count(n, "fault"))
	}
	return nil
}

// verification is one verification: what is known of the run beforehand, and what
// lies there.
type verification struct {
	answer *verified
	seal   job.Seal
	names  []string
	read   func(name string) ([]byte, error)
	// findings are faults that were seen before the documents were looked at.
	findings []verifyFinding
}

// offline is the command that verifies a saved folder again, held to the same root.
func (v *verification) offline(dir string) string {
	words := []string{"verify", string(v.answer.RunID), "--from=" + dir}
	if v.seal.Root != "" {
		words = append(words, "--root="+v.seal.Root)
	}
	return (&desk{}).command(words...)
}

func (v *verification) fault(object, text string) {
	v.findings = append(v.findings, verifyFinding{Object: object, Text: text, Fault: true})
}

// fromFolder takes the evidence from a folder.
func (v *verification) fromFolder(dir string) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	v.answer.Source, v.read = dir, f.read
	names, strange, err := f.names(receipt.Prefixes(v.answer.RunID))
	if err != nil {
		return err
	}
	for _, name := range strange {
		v.fault(name, "is no regular file")
	}
	if v.names = names; len(names)+len(strange) == 0 {
		return wrong("there is nothing of run "+string(v.answer.RunID)+" in "+dir+": it must hold the bucket's folders "+strings.Join(receipt.Prefixes(v.answer.RunID), ", "),
			"aws s3 sync s3://"+blank+" "+quote(dir))
	}
	return nil
}

// fromDeployment takes the evidence from the deployment's bucket, and the seal from
// the run's row. What the rows name is read before the bucket is listed: a document
// is durable before its row names it, so what is missing then was there.
func (v *verification) fromDeployment(ctx context.Context, d *desk, save string) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	run, err := r.records.Run(ctx, v.answer.RunID)
	if failure.Is(err, failure.Absent) {
		return wrong("there is no run "+string(v.answer.RunID)+" in "+r.outputs.Region+": it may be of another region or stage", d.command("runs"))
	}
	if err != nil {
		return err
	}
	v.row(run)
	var promised []string
	if run.Seal == (job.Seal{}) {
		if promised, err = promises(ctx, r.records, run.ID); err != nil {
			return err
		}
	}
	v.answer.Source = "s3://" + r.outputs.Evidence
	if v.names, err = listEvidence(ctx, r.evidence, run.ID); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, name := range v.names {
		there[name] = true
	}
	for _, name := range promised {
		if !there[name] {
			v.fault(name, "is missing: its page's row names it")
		}
	}
	v.read = func(name string) ([]byte, error) { return r.evidence.Get(ctx, name) }
	if save == "" {
		return nil
	}
	f, err := saveEvidence(ctx, save, v.names, v.read)
	if err == nil {
		v.read = f.read
	}
	return err
}

// row takes what the run's row says.
func (v *verification) row(run job.Run) {
	v.answer.Policy, v.answer.State = run.Policy+"@"+strconv.Itoa(run.Version), string(run.State)
	switch given := v.seal.Root; {
	case given == "":
		if v.seal = run.Seal; v.seal.Root != "" {
			v.answer.RootFrom = rootOfLedger
		}
	case run.Seal.Root == given:
		v.seal = run.Seal
	case run.Seal.Root == "":
		v.fault("the run's row", "has no root, and one was given")
	default:
		v.fault("the run's row", "has another root than the one given: "+run.Seal.Root)
	}
}

// check verifies, and puts the faults first.
func (v *verification) check() error {
	found, err := receipt.VerifyRun(v.answer.RunID, v.seal, v.names, v.read)
	if err != nil {
		return err
	}
	a := v.answer
	a.Objects, a.Root = len(v.names), v.seal.Root
	manifests := receipt.Prefixes(a.RunID)[2]
	a.Sealed = slices.ContainsFunc(v.names, func(name string) bool { return strings.HasPrefix(name, manifests) })
	faults, rest := v.findings, []verifyFinding{}
	for _, f := range found {
		if f.Fault {
			faults = append(faults, verifyFinding(f))
		} else {
			rest = append(rest, verifyFinding(f))
		}
	}
	a.Faults, a.Findings = len(faults), slices.Concat(faults, rest)
	return nil
}

// write tells people.
func (v *verified) write(s *sheet) {
	of := "run " + string(v.RunID)
	if v.Policy != "" {
		of += " (" + v.Policy + ", " + words(v.State) + ")"
	}
	s.sentence("", report.Count(v.Objects, "object")+" of "+of+" in "+v.Source+".")
	root := v.Root + " (" + v.RootFrom + ")"
	switch v.RootFrom {
	case "":
		root = "unknown: a manifest replaced together with all that it names can not be told from the true one"
	case rootOfOperator:
		root = v.Root + ", as given: it stands for the one in the run's row"
	}
	s.facts([2]string{"root", root})
	switch {
	case v.Faults > 0:
		s.alert(red, "The evidence is not whole: "+report.Count(v.Faults, "fault")+".")
	case v.Sealed:
		s.line("The evidence is whole.")
	default:
		s.line("Every document is whole. The run is not sealed, so nothing says that there are no others.")
	}
	for _, f := range v.Findings {
		f.write(s)
	}
}

// write names the object on a line of its own, to be copied.
func (f verifyFinding) write(s *sheet) {
	place, color := f.Object, faint
	if f.Line > 0 {
		place += ", line " + strconv.Itoa(f.Line)
	}
	if f.Fault {
		color = red
	}
	s.line()
	s.line(s.paint(color, report.Clean(place)))
	s.sentence("  ", f.Text)
}
