package policy

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxFileBytes is the most a policy file may hold. A well-commented one is
	// under 3,000 bytes, and the YAML parser's time grows with the square.
	MaxFileBytes = 16 << 10
	// maxNesting bounds [ and {, on which that parser is slowest. A policy needs one.
	maxNesting = 8
)

// Parse reads a policy file: one YAML document that holds one table, in UTF-8, of
// at most MaxFileBytes. It is strict: unknown and repeated keys, values of
// another type or without a value, anchors, aliases, merge keys and tags are
// refused, and nothing is converted. file is the name that messages begin with.
//
// The error is an Error with every problem that could be found at once.
func Parse(file string, data []byte) (Policy, error) {
	root, problem := document(data)
	if problem != nil {
		return Policy{}, refused(file, *problem)
	}
	p := defaults()
	r := reader{places: map[string]place{}, faulty: map[string]bool{}}
	r.table("", place{1, 1}, root, p.fields())
	p.validate(func(field, text string) {
		if !r.unread(field) {
			r.report(r.placeOf(field), field, text)
		}
	})
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return Policy{}, refused(file, r.problems...)
	}
	return p.prepared(), nil
}

// place is where something stands in the file, both from 1.
type place struct{ line, column int }

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

// startOf returns where a value begins; the token of a block table is its first
// colon.
func startOf(n ast.Node) place {
	if table, ok := n.(*ast.MappingNode); ok && len(table.Values) > 0 && !table.IsFlowStyle {
		return placeOf(table.Values[0].Key.GetToken())
	}
	return placeOf(n.GetToken())
}

func problemAt(at place, text string) *Problem {
	return &Problem{Line: at.line, Column: at.column, Text: text}
}

// document returns the one value of the file, or what keeps it from being read.
func document(data []byte) (ast.Node, *Problem) {
	if len(data) > MaxFileBytes {
		return nil, problemAt(place{1, 1}, "the file has "+group(len(data))+" bytes: allowed are at most "+group(MaxFileBytes))
	}
	// Editors on Windows write a mark at the start and CRLF at the ends of lines.
	text := strings.ReplaceAll(string(bytes.TrimPrefix(data, []byte("\ufeff"))), "\r\n", "\n")
	if problem := unreadable(text); problem != nil {
		return nil, problem
	}
	tokens := lexer.Tokenize(text)
	if problem := nested(tokens); problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err)
	}
	for i, doc := range file.Docs {
		if directive, ok := doc.Body.(*ast.DirectiveNode); ok {
			return nil, problemAt(placeOf(directive.GetToken()), "a YAML directive: allowed is one plain document")
		}
		if i > 0 {
			at := placeOf(doc.Start)
			if doc.Start == nil && doc.Body != nil {
				at = startOf(doc.Body)
			}
			return nil, problemAt(at, "a second document: allowed is one policy per file")
		}
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, problemAt(place{1, 1}, "the file is empty: allowed is one policy")
	}
	return file.Docs[0].Body, nil
}

// unreadable refuses what a reviewer would not see as it is: bytes that are no
// UTF-8, control characters other than tab and line feed, and the marks that
// make an editor show text in another order.
func unreadable(text string) *Problem {
	at := place{1, 1}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return problemAt(at, "a byte that is no UTF-8: allowed is UTF-8 text")
			}
		}
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r == '\ufeff' {
			return problemAt(at, "the invisible character "+strconv.QuoteRuneToASCII(r)+": allowed are printed characters, tabs and line ends")
		}
		at.column++
		if r == '\n' {
			at = place{at.line + 1, 1}
		}
	}
	return nil
}

// nested refuses deep nesting before the parser sees it.
func nested(tokens token.Tokens) *Problem {
	depth := 0
	for _, t := range tokens {
		if t.Type == token.SequenceEndType || t.Type == token.MappingEndType {
			depth = max(0, depth-1)
		}
		if t.Type == token.SequenceStartType || t.Type == token.MappingStartType {
			depth++
		}
		if depth > maxNesting {
			return problemAt(placeOf(t), "nested more than "+strconv.Itoa(maxNesting)+" deep: allowed is one table of plain values")
		}
	}
	return nil
}

func syntaxProblem(err error) *Problem {
	var syntax interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &syntax) {
		return problemAt(placeOf(syntax.GetToken()), "not YAML: "+syntax.GetMessage())
	}
	return problemAt(place{1, 1}, "not YAML: "+err.Error())
}

// field is one key of a table. set stores the value, and says what is wrong when
// it is not of the field's type.
type field struct {
	name     string
	required bool
	allowed  string
	set      func(ast.Node) (wrong string)
	// table holds the keys of a field that is a table itself.
	table []field
}

func (p *Policy) fields() []field {
	return []field{
		{name: "name", required: true, allowed: allowName, set: text(&p.Name)},
		{name: "version", required: true, allowed: allowVersion, set: whole(&p.Version)},
		{name: "region", required: true, allowed: allowRegion, set: text(&p.Region)},
		{name: "bucket", required: true, allowed: allowBucket, set: text(&p.Bucket)},
		{name: "keys", required: true, allowed: allowKeys, set: text(&p.Keys)},
		{name: "tenant", allowed: allowTenant, set: filled(&p.Tenant)},
		{name: "tenant_pattern", allowed: allowPattern, set: filled(&p.TenantPattern)},
		{name: "retention_days", required: true, allowed: allowRetention, set: whole(&p.RetentionDays)},
		{name: "mode", required: true, allowed: allowMode, set: text(&p.Mode)},
		{name: "report_only_dates", allowed: allowDates, set: some(&p.ReportOnlyDates)},
		{name: "schedule", required: true, allowed: allowSchedule, table: []field{
			{name: "every", required: true, allowed: allowEvery, set: text(&p.Schedule.Every)},
			{name: "weekday", allowed: allowWeekday, set: filled(&p.Schedule.Weekday)},
			{name: "at", required: true, allowed: allowAt, set: text(&p.Schedule.At)},
			{name: "zone", required: true, allowed: allowZone, set: text(&p.Schedule.Zone)},
			{name: "catch_up", allowed: allowCatchUp, set: truth(&p.Schedule.CatchUp)},
		}},
		{name: "limits", allowed: allowLimits, table: []field{
			{name: "max_objects", allowed: allowObjects, set: whole(&p.Limits.MaxObjects)},
			{name: "max_share", allowed: allowShare, set: decimal(&p.Limits.MaxShare)},
			{name: "max_growth", allowed: allowGrowth, set: decimal(&p.Limits.MaxGrowth)},
			{name: "max_rate", allowed: allowRate, set: whole(&p.Limits.MaxRate)},
		}},
		{name: "objective", allowed: allowObjective, set: duration(&p.Objective)},
		{name: "urgent", allowed: allowUrgent, set: truth(&p.Urgent)},
		{name: "versions", allowed: allowVersions, set: text(&p.Versions)},
	}
}

// reader walks the tables of a file and collects what is wrong.
type reader struct {
	problems []Problem
	places   map[string]place // of each value that was read
	faulty   map[string]bool  // fields whose value could not be read
}

func (r *reader) report(at place, path, text string) {
	r.problems = append(r.problems, Problem{Line: at.line, Column: at.column, Field: path, Text: text})
}

// fault reports a field that has no value worth judging any further.
func (r *reader) fault(at place, path, text string) {
	r.report(at, path, text)
	r.faulty[path] = true
}

// unread reports whether the field or a table around it could not be read.
func (r *reader) unread(path string) bool {
	for ; path != ""; path = parent(path) {
		if r.faulty[path] {
			return true
		}
	}
	return r.faulty[""]
}

// placeOf returns where a field's value stands, or that of the table it is missing in.
func (r *reader) placeOf(path string) place {
	for ; path != ""; path = parent(path) {
		if at, ok := r.places[path]; ok {
			return at
		}
	}
	return place{1, 1}
}

// parent returns the path of the table a field is in, "" for the file's own.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// table reads one table; at is where problems with the whole of it are shown.
func (r *reader) table(path string, at place, node ast.Node, fields []field) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		r.fault(startOf(node), path, "is "+kind(node)+": allowed is a table, one key to a line")
		return
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	seen := map[string]place{}
	for _, entry := range mapping.Values {
		key, ok := entry.Key.(*ast.StringNode)
		if !ok {
			r.report(placeOf(entry.Key.GetToken()), path, "a key that is "+kind(entry.Key)+": allowed are "+strings.Join(known, ", "))
			continue
		}
		name, here := key.Value, placeOf(key.GetToken())
		i := slices.Index(known, name)
		if i < 0 {
			r.report(here, join(path, quoteKey(name)), "is no key of a policy: allowed here are "+strings.Join(known, ", "))
			continue
		}
		if first, twice := seen[name]; twice {
			r.fault(here, join(path, name), "is there twice, first in line "+strconv.Itoa(first.line)+": allowed is one")
			continue
		}
		seen[name] = here
		r.entry(join(path, name), here, entry.Value, fields[i])
	}
	for _, f := range fields {
		if _, there := seen[f.name]; f.required && !there {
			r.fault(at, join(path, f.name), "is missing: "+f.allowed)
		}
	}
}

// entry reads the value of one key, which stands at the given place.
func (r *reader) entry(path string, key place, value ast.Node, f field) {
	at := startOf(value)
	if n, ok := value.(*ast.NullNode); ok {
		if n.GetToken().Type == token.ImplicitNullType {
			at = key
		}
		r.fault(at, path, "has no value: "+f.allowed)
		return
	}
	if f.table != nil {
		r.places[path] = key
		r.table(path, key, value, f.table)
		return
	}
	r.places[path] = at
	if wrong := f.set(value); wrong != "" {
		r.fault(at, path, "is "+wrong+": "+f.allowed)
	}
}

// quoteKey shows an unknown key as it is when it is a plain word.
func quoteKey(name string) string {
	if quoted := quote(name); quoted != `"`+name+`"` || strings.ContainsAny(name, " .:") || name == "" {
		return quoted
	}
	return name
}
