package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// sealed is a region with one run that is closed: two tenants, and a hold.
func sealed(t *testing.T) *region {
	t.Helper()
	r := newRegion(t, time.Now().UTC())
	must(t, r.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		for _, key := range []string{acme + "1.csv", acme + "2.csv", acme + "case/3.csv", school + "1.csv", school + "2.csv"} {
			if !yield(s3.Object{Key: key, Body: []byte(key), Modified: old}) {
				return
			}
		}
	}))
	_, err := r.ledger.PlaceHold(t.Context(), hold.Hold{
		ID: "case-1", Tenant: "acme-eu", Scope: hold.Prefix, Value: acme + "case/", Reason: "litigation", By: "counsel", PlacedAt: old,
	})
	must(t, err)
	r.tick()
	r.deliver()
	r.reconcile()
	return r
}

// sealedRun returns the run of a sealed region.
func (r *region) sealedRun() job.Run {
	r.t.Helper()
	run, err := r.ledger.Run(r.t.Context(), tickRun())
	must(r.t, err)
	if run.State != job.Closed || run.Seal == (job.Seal{}) {
		r.t.Fatalf("the run is %s, sealed %v", run.State, run.Seal)
	}
	return run
}

// saved verifies a sealed region's run into a folder, and returns both.
func saved(t *testing.T) (r *region, run job.Run, dir string) {
	t.Helper()
	r = sealed(t)
	run, dir = r.sealedRun(), filepath.Join(t.TempDir(), "evidence")
	r.ok("verify", string(run.ID), "--save="+dir)
	return r, run, dir
}

// verdictOf is what a machine reads of a verification.
type verdictOf struct {
	Objects  int    `json:"objects"`
	Root     string `json:"root"`
	RootFrom string `json:"root_from"`
	Sealed   bool   `json:"sealed"`
	Faults   int    `json:"faults"`
	Next     []string
	Findings []verifyFinding `json:"findings"`
}

// A whole run is verified in the deployment, and again from what was saved, with no
// deployment in reach.
func TestE6VerifyWhole(t *testing.T) {
	r, run, dir := saved(t)
	var v verdictOf
	r.json(&v, "verify", string(run.ID))
	if v.Objects != 5 || !v.Sealed || v.Faults != 0 || len(v.Findings) != 0 || v.Root != run.Seal.Root || v.RootFrom != "ledger" {
		t.Errorf("%+v", v)
	}
	alone := func(args ...string) said {
		return offline(t, append([]string{"verify", string(run.ID), "--from=" + dir}, args...)...)
	}
	if s := alone("--root=" + run.Seal.Root); s.status != exitDone || !strings.Contains(s.out, "The evidence is whole.") {
		t.Errorf("%+v", s)
	}
	if s := alone(); s.status != exitDone || !strings.Contains(s.out, "root  unknown") {
		t.Errorf("%+v", s)
	}
	again := r.ok("verify", string(run.ID), "--save="+dir) // the same bytes again
	if want := "next: expunge verify " + string(run.ID) + " --from=" + dir + " --root=" + run.Seal.Root; !strings.Contains(again.out, want) {
		t.Errorf("%s lacks %s", again.out, want)
	}
	// Nothing of the deployment is asked: it refuses everything.
	r.meet(refusing("", "", http.StatusForbidden, "AccessDenied"))
	if s := r.expunge("verify", string(run.ID), "--from="+dir); s.status != exitDone {
		t.Errorf("%+v", s)
	}
}

// offline runs a command where there is no deployment and no credentials.
func offline(t *testing.T, args ...string) said {
	t.Helper()
	return run(t, Process{Args: args, Dir: t.TempDir(), Clock: &hands{at: at}})
}

func TestVerifyText(t *testing.T) {
	_, run, dir := saved(t)
	inText("receipt/", 2, func(l [][]byte) [][]byte { return slices.Delete(l, 1, 2) })(t, dir, run)
	drop("plan/")(t, dir, run)
	s := offline(t, "verify", string(run.ID), "--from="+dir, "--root="+run.Seal.Root)
	golden(t, "verify", masked(s.out+s.err, dir))
	golden(t, "verify-json", masked(offline(t, "verify", string(run.ID), "--from="+dir, "--json").out, dir))
}

// masked puts words in the place of the hashes, the ids and a path in a text.
func masked(text, dir string) string {
	text = strings.ReplaceAll(text, dir, "DIR")
	text = regexp.MustCompile(`\b[0-9a-f]{64}\b`).ReplaceAllString(text, "HASH")
	return regexp.MustCompile(`\b[0-9a-f]{32}\b`).ReplaceAllString(text, "ID")
}

// documentsIn returns the names in a folder that begin with the prefix, ascending.
func documentsIn(t *testing.T, dir, prefix string) (names []string) {
	t.Helper()
	f, err := openFolder(dir)
	must(t, err)
	names, _, err = f.names([]string{"manifest", "plan", "receipt"})
	must(t, err)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
}

// tampering is what somebody does to the evidence in a folder. It returns the object,
// and the line, that the verification has to name.
type tampering func(t *testing.T, dir string, run job.Run) (object string, line int)

// flip flips one bit of a document.
func flip(prefix string) tampering {
	return func(t *testing.T, dir string, _ job.Run) (string, int) {
		name := documentsIn(t, dir, prefix)[0]
		alter(t, dir, name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		return name, -1 // a flipped bit of compressed bytes has no line
	}
}

// inText alters the lines of a document and compresses them again.
func inText(prefix string, line int, change func(lines [][]byte) [][]byte) tampering {
	return func(t *testing.T, dir string, _ job.Run) (string, int) {
		name := documentsIn(t, dir, prefix)[0]
		alter(t, dir, name, func(b []byte) []byte {
			z, err := gzip.NewReader(bytes.NewReader(b))
			must(t, err)
			text, err := io.ReadAll(z)
			must(t, err)
			lines := change(bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")))
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, err = w.Write(append(bytes.Join(lines, nil), '\n'))
			must(t, err)
			must(t, w.Close())
			return out.Bytes()
		})
		return name, line
	}
}

func alter(t *testing.T, dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, change(b), 0o644))
}

func drop(prefix string) tampering {
	return func(t *testing.T, dir string, _ job.Run) (string, int) {
		name := documentsIn(t, dir, prefix)[0]
		must(t, os.Remove(filepath.Join(dir, name)))
		return name, 0
	}
}

// E6: whoever alters, drops or reorders anything is found out, by object and line.
func TestE6VerifyTampered(t *testing.T) {
	_, run, whole := saved(t)
	cases := map[string]tampering{}
	for _, kind := range []string{"plan/", "receipt/", "manifest/"} {
		cases["flip a bit of a "+kind] = flip(kind)
		cases["flip a letter of a "+kind] = inText(kind, 2, func(l [][]byte) [][]byte { l[1][10] ^= 1; return l })
		cases["drop a line of a "+kind] = inText(kind, 2, func(l [][]byte) [][]byte { return slices.Delete(l, 1, 2) })
		cases["swap lines of a "+kind] = inText(kind, 2, func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l })
		cases["cut a "+kind] = func(t *testing.T, dir string, _ job.Run) (string, int) {
			name := documentsIn(t, dir, kind)[0]
			alter(t, dir, name, func(b []byte) []byte { return b[:len(b)-9] })
			return name, -1
		}
	}
	cases["drop a plan"], cases["drop a receipt"] = drop("plan/"), drop("receipt/")
	cases["drop the manifest"] = func(t *testing.T, dir string, run job.Run) (string, int) {
		drop("manifest/")(t, dir, run)
		return "manifest/" + string(run.ID) + "/", 0
	}
	cases["swap two receipts"] = func(t *testing.T, dir string, _ job.Run) (string, int) {
		names := documentsIn(t, dir, "receipt/")
		a, b := filepath.Join(dir, names[0]), filepath.Join(dir, names[1])
		must(t, os.Rename(a, a+"~"))
		must(t, os.Rename(b, a))
		must(t, os.Rename(a+"~", b))
		return names[0], 0
	}
	cases["a link in place of a receipt"] = func(t *testing.T, dir string, _ job.Run) (string, int) {
		name := documentsIn(t, dir, "receipt/")[0]
		path := filepath.Join(dir, name)
		must(t, os.Rename(path, path+"~"))
		must(t, os.Symlink(filepath.Base(path)+"~", path))
		return name, 0
	}
	cases["something else"] = func(t *testing.T, dir string, run job.Run) (string, int) {
		name := "receipt/" + string(run.ID) + "/note.txt"
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("all is well"), 0o644))
		return name, 0
	}
	cases["a whole other manifest"] = otherManifest
	for name, tamper := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(whole)))
			object, line := tamper(t, dir, run)
			s := offline(t, "verify", string(run.ID), "--from="+dir, "--root="+run.Seal.Root, "--json")
			wantFault(t, s, object, line)
		})
	}
}

func wantFault(t *testing.T, s said, object string, line int) {
	t.Helper()
	named := fmt.Sprintf("\"object\": %q,\n      \"line\": ", object)
	if line >= 0 {
		named += fmt.Sprint(line) + ","
	}
	if s.status != exitWrong || !strings.Contains(s.out, named) || !strings.Contains(s.err, "is not whole") {
		t.Errorf("want status 1 and %s:\n%+v", named, s)
	}
}

// otherManifest puts a manifest in the place of the true one that is whole in itself:
// only the root tells.
func otherManifest(t *testing.T, dir string, _ job.Run) (string, int) {
	name := documentsIn(t, dir, "manifest/")[0]
	data, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	m, _, err := receipt.VerifyManifest(name, data)
	must(t, err)
	m.Pages[0].Totals.Bytes++
	m.Header.Totals.Bytes++
	seal, forged, err := m.Encode()
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, name)))
	name = receipt.ManifestName(m.Header.RunID, seal.Manifest)
	must(t, os.WriteFile(filepath.Join(dir, name), forged, 0o644))
	return name, 0
}

// In the deployment the root comes from the ledger, and a root that the operator
// kept is held against it.
func TestE6VerifyDeployment(t *testing.T) {
	r := sealed(t)
	run := r.sealedRun()
	names, err := listEvidence(t.Context(), r.evidence, run.ID)
	must(t, err)
	other := strings.Repeat("0", 64)
	s := r.ends(exitWrong, "not whole", "verify", string(run.ID), "--root="+other, "--json")
	if !strings.Contains(s.out, "has another root than the one given: "+run.Seal.Root) || !strings.Contains(s.out, "its root is not the one") {
		t.Error(s.out)
	}
	for _, name := range names {
		t.Run(strings.Split(name, "/")[0], func(t *testing.T) {
			data, err := r.evidence.Get(t.Context(), name)
			must(t, err)
			flipped := bytes.Clone(data)
			flipped[len(flipped)/2] ^= 1
			r.overwrite(name, flipped)
			wantFault(t, r.expunge("verify", string(run.ID), "--json"), name, -1)
			r.overwrite(name, data)
			r.ok("verify", string(run.ID))
		})
	}
	r.meet(refusing("s3", "receipt/", http.StatusForbidden, "AccessDenied"))
	r.ends(exitWrong, "get evidence", "verify", string(run.ID))
	r.meet(nil)
	r.ends(exitWrong, "no run", "verify", strings.Repeat("a", 32))
	r.ends(exitUsage, "32 hex digits", "verify", "exports")
	r.ends(exitUsage, "64 hex digits", "verify", string(run.ID), "--root=abc")
	r.ends(exitUsage, "the one or the other", "verify", string(run.ID), "--from=a", "--save=b")
	r.ends(exitWrong, "there is nothing of run", "verify", string(run.ID), "--from="+t.TempDir())
	r.ends(exitWrong, "can not be opened", "verify", string(run.ID), "--from="+filepath.Join(t.TempDir(), "none"))
}

// overwrite replaces an object of the evidence, which nobody may in a deployment.
func (r *region) overwrite(name string, data []byte) {
	r.t.Helper()
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := s3c.PutObject(r.t.Context(), &awss3.PutObjectInput{Bucket: &r.outputs.Evidence, Key: aws.String(name), Body: bytes.NewReader(data)})
	must(r.t, err)
}

// A folder that holds other bytes of the same name is not written over.
func TestVerifySaveKeeps(t *testing.T) {
	r, run, dir := saved(t)
	name := documentsIn(t, dir, "plan/")[0]
	alter(t, dir, name, func([]byte) []byte { return []byte("mine") })
	r.ends(exitWrong, "holds other bytes under "+name, "verify", string(run.ID), "--save="+dir)
	got, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	if string(got) != "mine" {
		t.Error("it was written over")
	}
}

// An open run has no manifest, but its rows name what must be there.
func TestE6VerifyOpenRun(t *testing.T) {
	r := worked(t)
	s := r.ok("verify", string(tickRun()))
	if !strings.Contains(s.out, "The run is not sealed") {
		t.Error(s.out)
	}
	names, err := listEvidence(t.Context(), r.evidence, tickRun())
	must(t, err)
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "receipt/") })
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err = s3c.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &r.outputs.Evidence, Key: &names[i]})
	must(t, err)
	s = r.ends(exitWrong, "not whole", "verify", string(tickRun()))
	if !strings.Contains(s.out, names[i]) || !strings.Contains(s.out, "its page's row names it") {
		t.Error(s.out)
	}
}
