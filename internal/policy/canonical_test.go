package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
)

// The forms and hashes below are on record in ledgers: a change that moves one of
// them would make every published version look edited (HP-08).
func TestHP08CanonicalFormIsFixedForever(t *testing.T) {
	full := valid(t, base)
	const fullForm = `{"bucket":"acme-exports","keys":"exports/{tenant}/csv/","limits":{"max_growth":2.5,"max_objects":18240,` +
		`"max_rate":1000,"max_share":0.25},"mode":"enforce","name":"exports","objective":"1h30m0s","region":"eu-central-1",` +
		`"retention_days":30,"schedule":{"at":"04:15","every":"daily","zone":"Europe/Berlin"},"tenant_pattern":"school-[0-9]+",` +
		`"urgent":true,"version":3,"versions":"current"}`
	if got := string(full.Canonical()); got != fullForm {
		t.Errorf("got  %s\nwant %s", got, fullForm)
	}
	short := valid(t, "name: a\nversion: 1\nregion: us-east-1\nbucket: abc\nkeys: a/\ntenant: t\nretention_days: 7\nmode: report-only\n"+
		"schedule: {every: weekly, weekday: monday, at: 00:00, zone: UTC}\n")
	const shortForm = `{"bucket":"abc","keys":"a/","limits":{"max_growth":3,"max_objects":100000,"max_rate":3000,"max_share":0.5},` +
		`"mode":"report-only","name":"a","objective":"15m0s","region":"us-east-1","retention_days":7,` +
		`"schedule":{"at":"00:00","every":"weekly","weekday":"monday","zone":"UTC"},"tenant":"t","urgent":false,"version":1,"versions":"current"}`
	if got := string(short.Canonical()); got != shortForm {
		t.Errorf("got  %s\nwant %s", got, shortForm)
	}
	const fullHash = "313dd4bd211529bd8ddc4850a307268d89ff96e749141e764b80f142a08789a4"
	if got := full.SHA256(); got != fullHash {
		t.Errorf("hash %s", got)
	}
	if full.SHA256() == short.SHA256() || len(short.SHA256()) != 64 {
		t.Error("hashes do not tell policies apart")
	}
}

func TestCanonicalDependsOnTheContentAlone(t *testing.T) {
	reordered := "versions: current\n" + with(t, "versions: current\n", "") + "# a comment\n"
	a, b := valid(t, base), valid(t, reordered)
	if a.SHA256() != b.SHA256() || !a.Equal(b) {
		t.Error("the order of keys or a comment changed the hash")
	}
	for _, change := range [][2]string{
		{"version: 3", "version: 4"}, {"retention_days: 30", "retention_days: 29"}, {"mode: enforce", "mode: report-only"},
		{"exports/{tenant}/csv/", "exports/{tenant}/"}, {"school-[0-9]+", "school-[0-9]*"}, {"18240", "18241"},
		{"0.25", "0.2501"}, {"urgent: true", "urgent: false"}, {`"04:15"`, `"04:16"`}, {"1h30m", "1h31m"},
		{"versions: current", "versions: all"}, {"acme-exports", "acme-export"}, {"max_rate: 1000", "max_rate: 1001"},
		{"mode: enforce", "mode: enforce\nreport_only_dates: 3"}, {"every: daily", "every: daily\n  catch_up: true"},
	} {
		c := valid(t, with(t, change[0], change[1]))
		if c.SHA256() == a.SHA256() || c.Equal(a) {
			t.Errorf("%v changed nothing", change)
		}
	}
}

// The keys that came later are in the form only where a file says something with
// them. A file that says the default is another text than one that is silent, and
// keeps its meaning whatever the default.
func TestHP08LaterKeysAreLeftOutOfTheFormOfASilentFile(t *testing.T) {
	const saysBoth = `{"bucket":"acme-exports","keys":"exports/{tenant}/csv/","limits":{"max_growth":2.5,"max_objects":18240,` +
		`"max_rate":1000,"max_share":0.25},"mode":"enforce","name":"exports","objective":"1h30m0s","region":"eu-central-1","report_only_dates":3,` +
		`"retention_days":30,"schedule":{"at":"04:15","catch_up":true,"every":"daily","zone":"Europe/Berlin"},"tenant_pattern":"school-[0-9]+",` +
		`"urgent":true,"version":3,"versions":"current"}`
	both := valid(t, with(t, "mode: enforce\nschedule:", "mode: enforce\nreport_only_dates: 3\nschedule:\n  catch_up: true"))
	if got := string(both.Canonical()); got != saysBoth {
		t.Errorf("got  %s\nwant %s", got, saysBoth)
	}
	const hash = "d5172cfcc5597e03dd03d995afc8dda3bc6ff8ba3ede85cb427764bb0f73f93e"
	if got := both.SHA256(); got != hash {
		t.Errorf("hash %s", got)
	}
	// Versions that were published before the keys came rely on it.
	if DefaultReportOnlyDates != 3 {
		t.Error("the default that stands in no form was changed")
	}
	if silent := valid(t, with(t, "every: daily", "every: daily\n  catch_up: false")); silent.SHA256() != valid(t, base).SHA256() {
		t.Error("catch_up: false is what a silent file says, and hashes to something else")
	}
}

func TestLoadIsTheInverseOfCanonical(t *testing.T) {
	for _, c := range accepted {
		p := valid(t, with(t, c.old, c.replacement))
		q, err := Load(p.Canonical())
		if err != nil || !q.Equal(p) || !reflect.DeepEqual(p.compiled, q.compiled) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A row that does not validate is refused, however it came about.
func TestLoadRefusesRows(t *testing.T) {
	form := string(valid(t, base).Canonical())
	var b strings.Builder
	for _, c := range []refusal{
		{"S10 empty", "", ""},
		{"S10 null", "", "null"},
		{"S10 zero value", "", string(Policy{}.Canonical())},
		{"not an object", "", "[]"},
		{"truncated", "", form[:len(form)-1]},
		{"too large", "", form + strings.Repeat(" ", MaxFileBytes)},
		{"trailing data", "", form + "{}"},
		{"not UTF-8", "acme-exports", "acme-\xff"},
		{"unknown name", `{"bucket"`, `{"bucked":1,"bucket"`},
		{"name in another case", `"mode"`, `"Mode"`},
		{"repeated name", `"mode":"enforce"`, `"mode":"enforce","mode":"enforce"`},
		{"spaces", `{"bucket"`, `{ "bucket"`},
		{"other order", `"max_growth":2.5,"max_objects":18240`, `"max_objects":18240,"max_growth":2.5`},
		{"number as written by hand", "2.5", "2.50"},
		{"duration as written by hand", "1h30m0s", "90m"},
		{"duration as a number", `"1h30m0s"`, "5400000000000"},
		{"duration malformed", "1h30m0s", "soon"},
		{"HP-04 zero", `"retention_days":30`, `"retention_days":0`},
		{"HP-04 negative", `"retention_days":30`, `"retention_days":-1`},
		{"HP-04 null", `"retention_days":30`, `"retention_days":null`},
		{"HP-04 missing", `"retention_days":30,`, ``},
		{"HP-04 text", `"retention_days":30`, `"retention_days":"30"`},
		{"HP-04 fraction", `"retention_days":30`, `"retention_days":1.5`},
		{"HP-04 exponent", `"retention_days":30`, `"retention_days":1e12`},
		{"HP-08 no limits", `"limits":{"max_growth":2.5,"max_objects":18240,"max_rate":1000,"max_share":0.25},`, ""},
		{"S10 empty keys", "exports/{tenant}/csv/", ""},
		{"S3-10 no slash", "exports/{tenant}/csv/", "exports/{tenant}"},
		{"mode missing", `"mode":"enforce",`, ""},
		{"an empty optional value", `"tenant_pattern":"school-[0-9]+"`, `"tenant_pattern":""`},
		{"zone of the host", "Europe/Berlin", "Local"},
		{"R137 no dates written down", `"retention_days"`, `"report_only_dates":0,"retention_days"`},
		{"R137 dates below zero", `"retention_days"`, `"report_only_dates":-1,"retention_days"`},
		{"R137 dates over the ceiling", `"retention_days"`, `"report_only_dates":31,"retention_days"`},
		{"HP-10 no catch-up written down", `"every"`, `"catch_up":false,"every"`},
		{"two problems", `"mode":"enforce","name":"exports"`, `"mode":"x","name":"X"`},
	} {
		text := c.replacement
		if c.old != "" {
			if text = strings.Replace(form, c.old, c.replacement, 1); text == form {
				t.Fatalf("%s: nothing to replace", c.name)
			}
		}
		p, err := Load([]byte(text))
		if err == nil || !failure.Is(err, failure.Invalid) || !p.Equal(Policy{}) {
			t.Errorf("%s: %v %v", c.name, p, err)
			continue
		}
		b.WriteString("## " + c.name + "\n" + err.Error() + "\n")
	}
	golden(t, "rows.golden", b.String())
}

func TestEqualIgnoresTheCompiledPattern(t *testing.T) {
	read := valid(t, base)
	built := read
	built.compiled = nil
	if !read.Equal(built) || !built.Equal(read) {
		t.Error("a policy differs from itself")
	}
}

// The hash that a policy was read with is not that of a policy which was changed since.
func TestSHA256IsOfWhatThePolicySaysNow(t *testing.T) {
	read := valid(t, base)
	changed := read
	changed.RetentionDays--
	built := changed
	built.hashed = nil
	if changed.SHA256() == read.SHA256() || changed.SHA256() != built.SHA256() {
		t.Error("a changed policy has the hash of what was read")
	}
}
