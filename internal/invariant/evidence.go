package invariant

import (
	"slices"

	"github.com/expunge-aws/expunge/internal/receipt"
)

// cached is one verified document.
type cached struct {
	name string
	doc  *receipt.Document
}

// load verifies a document. It is nil when there is none, or a damaged one, which
// is E4's to say.
func (j *judge) load(name string) (doc *receipt.Document, there bool) {
	data, there := j.Evidence[name]
	if !there {
		return nil, false
	}
	return j.verify(name, data), true
}

// loadParent is load for a document that several pages in a row ask for.
func (j *judge) loadParent(name string) (doc *receipt.Document, there bool) {
	if j.parent.name == name {
		return j.parent.doc, true
	}
	if doc, there = j.load(name); there {
		j.parent = cached{name, doc}
	}
	return doc, there
}

// verify reads a document and judges it at the first time (E4). Its keys are
// looked for where none may stand (S17).
func (j *judge) verify(name string, data []byte) *receipt.Document {
	doc, err := receipt.Verify(name, data)
	if _, again := j.read[name]; !again {
		v := j.on("E4")
		v.look(1)
		if err != nil {
			v.fail("%s: %v", label(name), err)
		} else {
			where := "run " + string(doc.Header.RunID) + " page " + string(doc.Header.PageID)
			for i := range doc.Lines {
				j.words.lookFor(doc.Lines[i].Key, where)
			}
		}
		j.read[name] = err == nil
	}
	if err != nil {
		return nil
	}
	return &doc
}

// label names a document. A name that is not of its form may be anything.
func label(name string) string {
	parts, err := receipt.ParseName(name)
	if err != nil {
		return "an object with a foreign name, " + masked(name)
	}
	return string(parts.Kind) + " " + parts.Hash + " of run " + string(parts.RunID) + " page " + string(parts.PageID)
}

// strays verifies what no row names: plans of decisions that were given up.
func (j *judge) strays() {
	var names []string
	for name := range j.Evidence {
		if _, done := j.read[name]; !done {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		j.verify(name, j.Evidence[name])
	}
	for i := range j.Effects {
		j.words.lookFor(j.Effects[i].Item.Key, "a delete")
	}
	v, w := j.on("S17"), &j.words
	v.look(w.count)
	v.bad += w.hits
	v.examples = append(v.examples, w.found...)
	v.note("%d keys of more than %d bytes looked for, every one", w.looked, window)
}
