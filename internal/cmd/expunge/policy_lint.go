package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// policyLint checks files.
type policyLint struct {
	Paths  []string `arg:"" optional:"" name:"path" help:"Files, or folders of *.yaml files; infra/policies when none is given."`
	Strict bool     `help:"Also end with status 1 for what is allowed but probably not meant."`
	AsOf   string   `placeholder:"WHEN" help:"Look at the schedule's dates from this instant on; now when not given."`
}

func (c *policyLint) exits() exits {
	return exits{Done: "every file can be deployed", Wrong: "a file is refused, or with --strict: there is a finding"}
}

// lintReport is the answer.
type lintReport struct {
	Head
	Files    []lintFile    `json:"files"`
	Findings []lintFinding `json:"findings"`
	Refused  int           `json:"refused"` // files
}

type lintFile struct {
	File    string `json:"file"`
	Policy  string `json:"policy,omitzero"` // name@version; "" of a file that is refused
	SHA256  string `json:"sha256,omitzero"`
	Refused bool   `json:"refused"`
}

type lintFinding struct {
	File    string `json:"file"`   // "" of a finding between files
	Line    int    `json:"line"`   // 0 where a problem has no place
	Column  int    `json:"column"` // in characters
	Field   string `json:"field"`
	Code    string `json:"code"` // "refused", or the kind of what is allowed
	Text    string `json:"text"`
	Refused bool   `json:"refused"`
}

const codeRefused = "refused"

func (c *policyLint) run(_ context.Context, d *desk) error {
	asOf, err := d.asOf(c.AsOf)
	if err != nil {
		return err
	}
	files, err := d.policyFiles(c.Paths)
	if err != nil {
		return err
	}
	a := &lintReport{Findings: []lintFinding{}}
	var valid []policy.Policy
	for _, file := range files {
		p, err := d.readPolicy(file)
		if refusal, ok := errors.AsType[*policy.Error](err); ok {
			a.refuse(file, refusal.Problems)
			continue
		}
		if err != nil {
			return err
		}
		valid = append(valid, p)
		a.Files = append(a.Files, lintFile{File: file, Policy: nameOf(p), SHA256: p.SHA256()})
		a.add(file, policy.Lint(p, asOf))
	}
	a.add("", policy.LintAll(valid))
	if err := d.show(a); err != nil {
		return err
	}
	switch same := slices.ContainsFunc(a.Findings, func(f lintFinding) bool { return f.Code == string(policy.SameName) }); {
	case a.Refused > 0:
		return wrong(report.Count(a.Refused, "file") + " can not be deployed")
	case same:
		return wrong("two files have one name: none of them can be deployed")
	case c.Strict && len(a.Findings) > 0:
		return wrong(report.Count(len(a.Findings), "finding"))
	}
	return nil
}

// nameOf names a policy version.
func nameOf(p policy.Policy) string { return p.Name + "@" + strconv.Itoa(p.Version) }

// policyFiles returns the files that the paths name, each folder's in order of name.
func (d *desk) policyFiles(paths []string) (files []string, err error) {
	if len(paths) == 0 {
		paths = []string{policyFolder}
	}
	for _, path := range paths {
		info, err := os.Stat(d.path(path))
		if err != nil {
			return nil, wrong(path + " can not be opened: " + reasonOf(err))
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(d.path(path))
		if err != nil {
			return nil, wrong(path + " can not be read: " + reasonOf(err))
		}
		before := len(files)
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".yaml" {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		if len(files) == before {
			return nil, wrong("the folder " + path + " holds no *.yaml file")
		}
	}
	return files, nil
}

func (a *lintReport) refuse(file string, problems []policy.Problem) {
	a.Refused++
	a.Files = append(a.Files, lintFile{File: file, Refused: true})
	for _, p := range problems {
		a.Findings = append(a.Findings, lintFinding{
			File: file, Line: p.Line, Column: p.Column, Field: p.Field, Code: codeRefused, Text: p.Text, Refused: true,
		})
	}
}

func (a *lintReport) add(file string, found []policy.Finding) {
	for _, f := range found {
		a.Findings = append(a.Findings, lintFinding{File: file, Field: f.Field, Code: string(f.Code), Text: f.Text})
	}
}

// write tells people, in the form that editors jump by.
func (a *lintReport) write(s *sheet) {
	for _, f := range a.Files {
		state := f.Policy + ", " + f.SHA256
		if f.Refused {
			state = s.paint(red, "refused")
		}
		s.line(report.Clean(f.File), ": ", state)
	}
	for _, f := range a.Findings {
		s.line()
		f.write(s)
	}
}

func (f lintFinding) write(s *sheet) {
	color, place := amber, cmp.Or(f.File, "between files")
	if f.Refused {
		color = red
	}
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column)
	}
	if f.Field != "" {
		place += ": " + f.Field
	}
	s.line(s.paint(color, report.Clean(place+" ["+f.Code+"]")))
	s.sentence("  ", f.Text)
}
