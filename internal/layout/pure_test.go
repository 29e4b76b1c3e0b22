package layout

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
)

// clockCalls are the parts of package time that read the clock or wait for it.
// Values and arithmetic are free.
var clockCalls = strings.Fields("Now Since Until Sleep After AfterFunc Tick NewTicker NewTimer")

// envCalls are the parts of package os that read the environment.
var envCalls = strings.Fields("Getenv LookupEnv Environ ExpandEnv")

// seeded are the parts of math/rand that take their randomness from a value.
// Everything else there draws from the process.
var seeded = strings.Fields("New NewSource NewPCG NewChaCha8 NewZipf Rand Source Source64 PCG ChaCha8 Zipf")

// constructors are the calls that may fill a package variable of a pure
// package: what they return cannot be changed.
var constructors = []string{"errors.New", "fmt.Errorf", "regexp.MustCompile"}

// builtinWrites are the built-in functions that change their first argument.
var builtinWrites = []string{"delete", "clear", "copy"}

// A purePackage is the code of one pure package, its names resolved.
type purePackage struct {
	*checker
	code []source
	pkg  *types.Package
	uses map[*ast.Ident]types.Object
}

// stubs stands in for every imported package: enough to tell which name is
// which, without a build.
type stubs struct{}

// majorVersion ends the path, and not the name, of a package such as math/rand/v2.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

func (stubs) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(majorVersion.ReplaceAllString(p, "")))
	pkg.MarkComplete()
	return pkg, nil
}

// resolve finds out what each name in a package stands for, so that a local
// variable called time or one that shadows a table is not mistaken.
func (c *checker) resolve(dir string, code []source) purePackage {
	files := make([]*ast.File, len(code))
	for i, f := range code {
		files[i] = f.syntax
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Importer: stubs{},
		// The stubs are empty, so nearly every file has type errors. Names are resolved all the same.
		Error: func(error) {},
	}
	pkg, _ := config.Check(dir, c.fset, files, &info)
	return purePackage{checker: c, code: code, pkg: pkg, uses: info.Uses}
}

// imported gives path and name when a selector names something of an imported
// package, such as "time" and "Now".
func (p purePackage) imported(s *ast.SelectorExpr) (from, name string) {
	if id, ok := s.X.(*ast.Ident); ok {
		if pkg, ok := p.uses[id].(*types.PkgName); ok {
			return pkg.Imported().Path(), s.Sel.Name
		}
	}
	return "", ""
}

// replayable finds what would make two runs on the same values differ. A use
// counts, called or not: a function kept as a value is called later.
func (p purePackage) replayable() {
	for _, f := range p.code {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.GoStmt:
				p.report(goroutine, p.at(x), "start goroutines outside, in whoever calls this")
			case *ast.CallExpr:
				// The Go method of a WaitGroup or an errgroup is a go statement in other words.
				if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
					p.report(goroutine, p.at(x), "start goroutines outside, in whoever calls this")
				}
			case *ast.SelectorExpr:
				p.selector(x)
			}
			return true
		})
	}
}

func (p purePackage) selector(s *ast.SelectorExpr) {
	switch from, name := p.imported(s); {
	case from == "time" && slices.Contains(clockCalls, name):
		p.report(clock, p.at(s), "take the instant as a value, do not use time.%s", name)
	case from == "os" && slices.Contains(envCalls, name):
		p.report(env, p.at(s), "take the setting as a value, do not use os.%s", name)
	case (from == "math/rand" || from == "math/rand/v2") && !slices.Contains(seeded, name):
		p.report(random, p.at(s), "take a *rand.Rand, do not use rand.%s", name)
	}
}

// variables lets a package variable of a pure package stand only if it does
// not change. It may stand when
//
//   - its name is _ (an assertion about types), or
//   - it is embedded (//go:embed), or
//   - it has an initial value, which is a composite literal, a conversion to a
//     slice or a call of one of the constructors,
//
// and when nothing in the package's code assigns to it or to a part of it,
// counts it up or down, ranges into it, takes its address, or gives it to
// delete, clear or copy as the target. A variable of another of our packages
// must not be written to in these ways either.
func (p purePackage) variables() {
	written := map[types.Object]string{}
	for _, f := range p.code {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			for _, target := range targets(n) {
				p.write(target, written)
			}
			return true
		})
	}
	for _, f := range p.code {
		for _, decl := range f.syntax.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || embedded(g.Doc) {
				continue
			}
			for _, spec := range g.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && !embedded(v.Doc) {
					p.variable(v, written)
				}
			}
		}
	}
}

// write notes that a target is written to, if it is a package variable.
func (p purePackage) write(target ast.Expr, written map[types.Object]string) {
	for {
		switch x := target.(type) {
		case *ast.Ident:
			if v := p.uses[x]; v != nil && v.Parent() == p.pkg.Scope() {
				written[v] = p.at(x)
			}
			return
		case *ast.SelectorExpr:
			if from, name := p.imported(x); from != "" {
				if strings.HasPrefix(from, p.module) {
					p.report(variable, p.at(x), "changes %s of %s: only that package may", name, from)
				}
				return
			}
			target = x.X
		case *ast.IndexExpr:
			target = x.X
		case *ast.SliceExpr:
			target = x.X
		case *ast.StarExpr:
			target = x.X
		case *ast.ParenExpr:
			target = x.X
		default:
			return
		}
	}
}

func (p purePackage) variable(v *ast.ValueSpec, written map[types.Object]string) {
	for i, id := range v.Names {
		if id.Name == "_" {
			continue
		}
		where := written[p.pkg.Scope().Lookup(id.Name)]
		switch {
		case len(v.Values) != len(v.Names):
			p.report(variable, p.at(id), "%s has no value of its own: pass it as a value instead", id.Name)
		case !p.fixed(v.Values[i]):
			p.report(variable, p.at(id), "%s is no sentinel error, compiled expression or lookup table: "+
				"make it a constant, a function or an argument", id.Name)
		case where != "":
			p.report(variable, p.at(id), "%s is changed at %s: a lookup table never changes", id.Name, where)
		}
	}
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(l *ast.Comment) bool {
		return strings.HasPrefix(l.Text, "//go:embed ")
	})
}

// fixed answers whether a value has one of the forms that a variable may start
// from.
func (p purePackage) fixed(value ast.Expr) bool {
	switch x := value.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		switch fun := x.Fun.(type) {
		case *ast.ArrayType:
			return true
		case *ast.SelectorExpr:
			from, name := p.imported(fun)
			return slices.Contains(constructors, from+"."+name)
		}
	}
	return false
}

// targets gives what a node writes to.
func targets(n ast.Node) []ast.Expr {
	switch x := n.(type) {
	case *ast.AssignStmt:
		if x.Tok != token.DEFINE {
			return x.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{x.X}
	case *ast.RangeStmt:
		if x.Tok == token.ASSIGN {
			return []ast.Expr{x.Key, x.Value}
		}
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return []ast.Expr{x.X}
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && len(x.Args) > 0 && slices.Contains(builtinWrites, id.Name) {
			return x.Args[:1]
		}
	}
	return nil
}
