package layout

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule names one promise. Every finding carries the rule it breaks.
type rule string

const (
	parses     rule = "parses"     // a Go file is readable Go
	top        rule = "top"        // the top level is a closed list
	listed     rule = "listed"     // a package has its row in the table
	imports    rule = "imports"    // a package imports of ours only what its row allows
	cdk        rule = "cdk"        // only infra imports the CDK, tests included
	aws        rule = "aws"        // AWS clients stand only where the table says, the SDK in nothing pure
	clock      rule = "clock"      // nothing pure reads the clock or waits
	env        rule = "env"        // nothing pure reads the environment
	goroutine  rule = "goroutine"  // nothing pure starts a goroutine
	random     rule = "random"     // nothing pure draws from the process's random source
	variable   rule = "variable"   // a package variable of something pure never changes
	function   rule = "function"   // a function fits on a screen
	file       rule = "file"       // a file has one subject
	interfaces rule = "interfaces" // an interface is what one consumer uses
	comment    rule = "comment"    // a package says in a sentence what it is
)

var every = []rule{
	parses, top, listed, imports, cdk, aws, clock, env, goroutine, random, variable, function, file, interfaces, comment,
}

// A finding is one place that breaks a rule, and what to do instead.
type finding struct {
	rule  rule
	where string
	text  string
}

func (f finding) String() string { return fmt.Sprintf("%s: %s: %s", f.where, f.rule, f.text) }

// A source is one parsed file.
type source struct {
	test   bool
	syntax *ast.File
}

// A checker collects findings about one module.
type checker struct {
	fset     *token.FileSet
	module   string // from go.mod, with a slash: renaming the module needs no change here
	folders  map[string][]source
	findings []finding
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// check reads the module at the root of fsys and returns what breaks a rule,
// in the order of the folders.
func check(fsys fs.FS) ([]finding, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	name := moduleLine.FindSubmatch(mod)
	if name == nil {
		return nil, fmt.Errorf("go.mod names no module")
	}
	c := &checker{fset: token.NewFileSet(), module: string(name[1]) + "/", folders: map[string][]source{}}
	if err := c.topLevel(fsys); err != nil {
		return nil, err
	}
	if err := c.read(fsys); err != nil {
		return nil, err
	}
	dirs := make([]string, 0, len(c.folders))
	for dir := range c.folders {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		c.folder(dir, c.folders[dir])
	}
	return c.findings, nil
}

func (c *checker) report(r rule, where, format string, args ...any) {
	c.findings = append(c.findings, finding{r, where, fmt.Sprintf(format, args...)})
}

// at gives the place of a node as file:line.
func (c *checker) at(n ast.Node) string {
	p := c.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

func (c *checker) topLevel(fsys fs.FS) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return err
	}
	// Without a .gitignore there are no by-products.
	ignored, _ := fs.ReadFile(fsys, ".gitignore")
	var byProducts []string
	for line := range strings.Lines(string(ignored)) {
		byProducts = append(byProducts, strings.Trim(strings.TrimSpace(line), "/"))
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) && !slices.Contains(byProducts, name) {
			c.report(top, name, "the top level holds only %s and dot files", strings.Join(topLevel, ", "))
		}
	}
	return nil
}

// read parses every Go file that the go command would see below the listed
// folders. What else stands at the top is reported already, or a by-product.
func (c *checker) read(fsys fs.FS) error {
	for _, name := range topLevel {
		// Some of the names are files, and a folder may not be there yet.
		if info, err := fs.Stat(fsys, name); err != nil || !info.IsDir() {
			continue
		}
		if err := fs.WalkDir(fsys, name, c.visit(fsys)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) visit(fsys fs.FS) fs.WalkDirFunc {
	return func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		hidden := strings.ContainsAny(base[:1], "._")
		if d.IsDir() {
			if hidden || base == "testdata" || base == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if hidden || path.Ext(base) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte("\n")); n > maxFile {
			c.report(file, name, "%d lines, at most %d: split it by subject", n, maxFile)
		}
		syntax, err := parser.ParseFile(c.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			c.report(parses, name, "%v", err)
			return nil
		}
		dir := path.Dir(name)
		c.folders[dir] = append(c.folders[dir], source{test: strings.HasSuffix(name, "_test.go"), syntax: syntax})
		return nil
	}
}

func importPath(im *ast.ImportSpec) string {
	// The parser has accepted the literal.
	p, _ := strconv.Unquote(im.Path.Value)
	return p
}

// folder applies the rules to the files of one folder.
func (c *checker) folder(dir string, files []source) {
	own := owner(dir)
	if _, known := table[own]; !known {
		c.report(listed, dir, "%s has no row in the table of internal/layout: enter it with what it may import", own)
	}
	var code []source
	for _, f := range files {
		c.imports(own, f)
		if !f.test {
			code = append(code, f)
		}
	}
	if len(code) == 0 {
		return
	}
	c.comment(dir, code)
	if !isSuite(own) {
		c.sizes(code)
	}
	if slices.Contains(pure, own) {
		p := c.resolve(dir, code)
		p.replayable()
		p.variables()
	}
}

// imports applies the table, and the rules about the CDK and AWS.
func (c *checker) imports(own string, f source) {
	for _, im := range f.syntax.Imports {
		p, where := importPath(im), c.at(im)
		if cdkModule(p) && own != "infra" {
			c.report(cdk, where, "only infra may import the CDK: it would weigh on every function")
		}
		if f.test {
			continue
		}
		if im.Name != nil && im.Name.Name == "." {
			c.report(imports, where, "a dot import hides names from these rules")
		}
		if ours, ok := strings.CutPrefix(p, c.module); ok && !may(own, owner(ours)) {
			c.report(imports, where, "%s may not import %s: see the table of internal/layout", own, owner(ours))
		}
		switch sdk := strings.HasPrefix(p, "github.com/aws/aws-sdk-go-v2") || strings.HasPrefix(p, "github.com/aws/smithy-go"); {
		case serviceClient(p) && !slices.Contains(clients, own):
			c.report(aws, where, "%s may not hold an AWS client: take a small interface instead", own)
		case sdk && slices.Contains(pure, own):
			c.report(aws, where, "%s knows nothing of the AWS SDK: take a value or a small interface instead", own)
		}
	}
}

func cdkModule(p string) bool {
	for _, m := range []string{"aws-cdk-go", "constructs-go", "jsii-runtime-go"} {
		if strings.HasPrefix(p, "github.com/aws/"+m+"/") || p == "github.com/aws/"+m {
			return true
		}
	}
	return strings.HasPrefix(p, "github.com/cdklabs/")
}

func serviceClient(p string) bool {
	return strings.HasPrefix(p, "github.com/aws/aws-sdk-go-v2/service/") ||
		strings.HasPrefix(p, "github.com/aws/aws-sdk-go-v2/feature/")
}

// comment asks one file of a package for a sentence that begins as `make map`
// prints it: "Package x", or "Command x" with the folder's name for a main.
func (c *checker) comment(dir string, code []source) {
	name := code[0].syntax.Name.Name
	want := "Package " + name + " "
	if name == "main" {
		want = "Command " + path.Base(dir) + " "
	}
	for _, f := range code {
		if f.syntax.Doc == nil {
			continue
		}
		if text := f.syntax.Doc.Text(); strings.HasPrefix(text, want) && strings.Contains(text, ".") {
			return
		}
	}
	c.report(comment, dir, "no file has a package comment whose first sentence begins with %q", want)
}

// sizes bounds functions and interfaces.
func (c *checker) sizes(code []source) {
	declared := map[string]*ast.InterfaceType{}
	for _, f := range code {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if it, ok := spec.Type.(*ast.InterfaceType); ok {
					declared[spec.Name.Name] = it
				}
			}
			return true
		})
	}
	for _, f := range code {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.InterfaceType:
				if m := methods(x, declared, 0); m > maxInterface {
					c.report(interfaces, c.at(x), "%d methods, at most %d: declare what this consumer calls", m, maxInterface)
				}
			case *ast.FuncDecl, *ast.FuncLit:
				from, to := c.fset.Position(x.Pos()).Line, c.fset.Position(x.End()).Line
				if lines := to - from + 1; lines > maxFunction {
					c.report(function, c.at(x), "%d lines, at most %d: give its parts a name", lines, maxFunction)
				}
			}
			return true
		})
	}
}

// methods counts an interface's methods, those of embedded interfaces of the
// same package included, so that embedding is no way around the bound. An
// interface of another package counts as one method.
func methods(it *ast.InterfaceType, declared map[string]*ast.InterfaceType, depth int) int {
	n := 0
	for _, m := range it.Methods.List {
		if len(m.Names) > 0 {
			n += len(m.Names)
			continue
		}
		switch x := m.Type.(type) {
		case *ast.Ident:
			// An interface that embeds itself does not compile; depth ends the count all the same.
			if inner, ok := declared[x.Name]; ok && depth < maxInterface {
				n += methods(inner, declared, depth+1)
			} else if !ok && x.Name != "comparable" && x.Name != "any" {
				n++
			}
		case *ast.SelectorExpr:
			n++
		}
	}
	return n
}
