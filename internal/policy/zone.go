package policy

import (
	"archive/zip"
	_ "embed"
	"io"
	"strings"
	"sync"
	"time"
)

// zones is the zone database that Go ships as lib/time/zoneinfo.zip. Importing
// time/tzdata would not do: Go falls back to it only where ZONEINFO and the host
// offer nothing, so that one file could be valid here and refused there, and two
// functions could differ about one run.
//
//go:embed zoneinfo.zip
var zones string

// read are the zones that were read before, by name. The database is part of the
// binary, so a zone never changes, and reading one costs more than all else of a date.
var read = sync.Map{}

// loadZone returns the zone of an IANA name, in its exact spelling. "" and "Local"
// are none.
func loadZone(name string) (*time.Location, bool) {
	if loc, ok := read.Load(name); ok {
		loc, ok := loc.(*time.Location)
		return loc, ok
	}
	loc, ok := readZone(name)
	if ok {
		read.Store(name, loc)
	}
	return loc, ok
}

func readZone(name string) (*time.Location, bool) {
	archive, err := zip.NewReader(strings.NewReader(zones), int64(len(zones)))
	if err != nil {
		return nil, false
	}
	for _, f := range archive.File {
		if f.Name != name || strings.HasSuffix(name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, false
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, false
		}
		loc, err := time.LoadLocationFromTZData(name, data)
		return loc, err == nil
	}
	return nil, false
}
