package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// versionCommand says what this program is. It asks no deployment unless one is named.
type versionCommand struct{}

func (c *versionCommand) exits() exits {
	return exits{Done: "shown", Wrong: "the deployment that was named could not be found"}
}

// versions is the answer.
type versions struct {
	Head
	Version  string `json:"version"`  // of the module
	Revision string `json:"revision"` // of the source; "" where the build does not know it
	Modified bool   `json:"modified"` // the source differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// CommandSchema and EvidenceSchema are the newest wire forms that it reads.
	CommandSchema  int `json:"command_schema"`
	EvidenceSchema int `json:"evidence_schema"`
	// Deployed is the code version of the named deployment.
	Deployed string `json:"deployed,omitzero"`
}

func (c *versionCommand) run(ctx context.Context, d *desk) error {
	a := newVersions()
	if d.where.Local.on || d.where.elsewhere() {
		r, err := d.connect(ctx)
		if err != nil {
			return err
		}
		a.Deployed = r.outputs.CodeVersion
	}
	return d.show(a)
}

func newVersions() *versions {
	a := &versions{
		Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CommandSchema: job.Schema, EvidenceSchema: receipt.Schema,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	if info.Main.Version != "" {
		a.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			a.Revision = s.Value
		case "vcs.modified":
			a.Modified = s.Value == "true"
		}
	}
	return a
}

func (a *versions) write(s *sheet) {
	revision := a.Revision
	if a.Modified {
		revision += ", modified"
	}
	s.facts(
		[2]string{"expunge", a.Version}, [2]string{"revision", revision}, [2]string{"go", a.Go + " " + a.Platform},
		[2]string{"commands", "schema " + number(a.CommandSchema)}, [2]string{"evidence", "schema " + number(a.EvidenceSchema)},
		[2]string{"deployed", a.Deployed},
	)
}
