package main

import (
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// A policy version is approved by name and by the report that was looked at: shown
// first, and then signed (R137).
func TestR137ApproveVersion(t *testing.T) {
	m := &morning{region: newRegion(t, at)}
	next, err := policy.Parse("exports.yaml", []byte(strings.NewReplacer("version: 1", "version: 2", "retention_days: 30", "retention_days: 14").Replace(exportsPolicy)))
	must(t, err)
	first, err := policy.Parse("exports.yaml", []byte(exportsPolicy))
	must(t, err)
	must(t, m.ledger.PublishPolicy(t.Context(), first))
	must(t, m.ledger.PublishPolicy(t.Context(), next))
	r := m.begin("exports", time.Date(2026, 3, 8, 1, 30, 0, 0, time.UTC), func(r *job.Run) { r.Version, r.Mode = 2, job.ReportOnly })
	r, _ = m.record(r, "acme-eu", "", 20)
	m.swap(r.Release(r.Scheduled, nil, "", ""))(&r)
	totals := job.Totals{Candidates: 20, Bytes: 2 << 20}
	totals.Counts[job.WouldDelete] = 20
	m.swap(r.Close(r.Scheduled.Add(time.Minute), totals, job.Seal{}))(&r)

	args := []string{"approve", "exports@2", "--run=" + string(r.ID)}
	golden(t, "approve-version", m.ends(exitWaits, "nothing is approved yet", args...).out)
	if s := m.ok(append(args, "--reason=it was looked at")...); !strings.Contains(s.out, "The next run of the policy deletes.") {
		t.Error(s.out)
	}
	m.ends(exitWrong, "there is nothing to approve", args...)
	a, err := m.ledger.Approval(t.Context(), "exports")
	must(t, err)
	if a.Version != 2 || a.By != "arn:aws:iam::000000000000:user/operator" || a.RunID != r.ID {
		t.Errorf("%+v", a)
	}
	m.ends(exitUsage, "--run is missing", "approve", "exports@2")
	m.ends(exitUsage, "a policy version is named as", "approve", "exports@two", "--run="+string(r.ID))
	m.ends(exitUsage, "go with a run", append(args, "--fingerprint=1")...)
	m.ends(exitUsage, "--run goes with a policy version", "approve", string(r.ID), "--run="+string(r.ID))
}
