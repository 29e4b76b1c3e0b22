package main

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	mask := func(text string) string {
		text = strings.NewReplacer(runtime.Version(), "GO", runtime.GOOS+"/"+runtime.GOARCH, "PLATFORM").Replace(text)
		return regexp.MustCompile(`(expunge {3}|"version": ")[^"\n]+`).ReplaceAllString(text, "${1}VERSION")
	}
	s := run(t, Process{Args: []string{"version"}, Dir: t.TempDir(), Clock: &hands{at: at}})
	if s.status != exitDone || s.err != "" {
		t.Errorf("%+v", s)
	}
	golden(t, "version", mask(s.out))
	r := newRegion(t, at)
	golden(t, "version-json", mask(r.ok("version", "--local", "--json").out))
	s = run(t, Process{Args: []string{"version", "--local"}, Dir: t.TempDir(), Clock: &hands{at: at}})
	if s.status != exitWrong || !strings.Contains(s.err, "no local deployment is up") {
		t.Errorf("%+v", s)
	}
}
