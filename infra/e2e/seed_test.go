package e2e

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The buckets of the customers. Their objects are laid into ministack's folder before it
// starts: S3 lets nobody say how old an object is, and an artifact lives a day at least.
const (
	exportsBucket = "e2e-exports"
	uploadsBucket = "e2e-uploads" // keeps versions, and knows Object Lock
	reportsBucket = "e2e-reports"
	digestsBucket = "e2e-digests"
)

// The days that the policies keep an artifact, and the age of one that has expired and
// of one that has not.
const (
	retention = 14
	expired   = 40
	young     = 3
)

// The tenants, each with its trouble.
const (
	plain   = "acme-eu"   // none
	held    = "northwind" // a legal hold on a part
	blocked = "globex"    // the bucket's policy denies its deletes
	mired   = "hooli"     // and those of this one
	busy    = "initech"   // the store is busy for a while
	school  = "school-7"  // the store locks one object
	test    = "test"      // the drill's
)

// The artifacts that a trouble is about.
const (
	caseFolder = "exports/" + held + "/csv/case-17/"
	oneOfThem  = "exports/" + held + "/csv/export-001.csv"
	lockedKey  = "uploads/" + school + "/essay-002.pdf"
)

// batch is a number of objects of one age.
type batch struct {
	bucket, prefix, suffix string
	count, days            int
}

func batches() []batch {
	export := func(tenant, name string, count, days int) batch {
		return batch{exportsBucket, "exports/" + tenant + "/csv/" + name, ".csv", count, days}
	}
	return []batch{
		export(plain, "export-", 30, expired), export(plain, "recent-", 90, young),
		export(held, "export-", 10, expired), export(held, "case-17/export-", 10, expired),
		export(blocked, "export-", 10, expired), export(mired, "export-", 10, expired),
		export(busy, "export-", 10, expired),
		{uploadsBucket, "uploads/" + school + "/essay-", ".pdf", 10, expired},
		{uploadsBucket, "uploads/" + school + "/recent-", ".pdf", 20, young},
		{reportsBucket, "reports/" + test + "/report-", ".html", 5, expired},
		{reportsBucket, "reports/" + test + "/recent-", ".html", 10, young},
		{digestsBucket, "digests/" + plain + "/digest-", ".html", 20, expired},
		{digestsBucket, "digests/" + plain + "/recent-", ".html", 20, young},
	}
}

// seed writes the objects as ministack keeps them.
func seed(t *testing.T, dir string, now time.Time) {
	t.Helper()
	now = now.Truncate(time.Second) // as S3 tells the time
	for _, b := range batches() {
		for i := range b.count {
			key := fmt.Sprintf("%s%03d%s", b.prefix, i, b.suffix)
			meta := map[string]any{"last_modified": now.AddDate(0, 0, -b.days).UTC().Format("2006-01-02T15:04:05.000Z")}
			if b.bucket == uploadsBucket {
				sum := md5.Sum([]byte(key))
				meta["version_id"] = hex.EncodeToString(sum[:])
			}
			write(t, filepath.Join(dir, "s3", account, b.bucket, filepath.FromSlash(key)), []byte("artifact "+key+"\n"), meta)
		}
	}
}

func write(t *testing.T, name string, body []byte, meta map[string]any) {
	t.Helper()
	sum := md5.Sum(body)
	meta["size"], meta["etag"] = len(body), `"`+hex.EncodeToString(sum[:])+`"`
	side, err := json.Marshal(meta)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o750)
	}
	if err == nil {
		err = os.WriteFile(name, body, 0o600)
	}
	if err == nil {
		err = os.WriteFile(name+".meta.json", side, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The policies.
const (
	exports = "exports"
	uploads = "uploads"
	reports = "reports"
	digests = "digests"
)

// writePolicy writes a version of a policy, on a schedule of a time of the day in UTC.
func (r *region) writePolicy(t *testing.T, name string, version int, at time.Time) {
	t.Helper()
	folder := filepath.Join(r.dir, "policies")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	own := map[string]struct{ bucket, keys, more string }{
		exports: {exportsBucket, "exports/{tenant}/csv/", "mode: enforce\nreport_only_dates: 1\nurgent: true\n"},
		uploads: {uploadsBucket, "uploads/{tenant}/", "mode: enforce\nreport_only_dates: 1\nversions: all\n"},
		reports: {reportsBucket, "reports/{tenant}/", "mode: enforce\nreport_only_dates: 1\n"},
		digests: {digestsBucket, "digests/{tenant}/", "mode: report-only\n"},
	}[name]
	text := fmt.Sprintf("name: %s\nversion: %d\nregion: %s\nbucket: %s\nkeys: %s\nretention_days: %d\n%sschedule: {every: daily, at: %q, zone: UTC}\n"+
		"limits: {max_objects: 1000, max_share: 0.9, max_growth: 4}\n", name, version, home, own.bucket, own.keys, retention, own.more, at.UTC().Format("15:04"))
	if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
