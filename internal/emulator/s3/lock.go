package s3

import (
	"net/http"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The retention modes. No bypass gets past compliance.
const (
	governance = "GOVERNANCE"
	compliance = "COMPLIANCE"
)

func (l lock) retained(now time.Time) bool { return l.mode != "" && now.Before(l.until) }

func noLocking() *wire.Error {
	return wire.Bad("InvalidRequest", "Bucket is missing Object Lock Configuration")
}

func noLock() *wire.Error {
	return failed(http.StatusNotFound, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
}

func getLockConfiguration(c *call) *wire.Error {
	c.bucket.mu.RLock()
	defer c.bucket.mu.RUnlock()
	if !c.bucket.locking {
		return failed(http.StatusNotFound, "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")
	}
	d := &document{}
	d.element("ObjectLockEnabled", enabled)
	if r := c.bucket.standard; r.mode != "" {
		d.WriteString("<Rule><DefaultRetention>")
		d.element("Mode", r.mode)
		if r.years > 0 {
			d.element("Years", number(r.years))
		} else {
			d.element("Days", number(r.days))
		}
		d.WriteString("</DefaultRetention></Rule>")
	}
	return c.reply("ObjectLockConfiguration", d)
}

func putLockConfiguration(c *call) *wire.Error {
	var configuration struct {
		ObjectLockEnabled string
		Rule              *struct {
			DefaultRetention struct {
				Mode        string
				Days, Years int
			}
		}
	}
	if err := c.decode(&configuration); err != nil {
		return err
	}
	if configuration.ObjectLockEnabled != enabled {
		return malformedXML()
	}
	var standard rule
	if configuration.Rule != nil {
		r := configuration.Rule.DefaultRetention
		standard = rule{r.Mode, r.Days, r.Years}
		if !validMode(r.Mode) || r.Days < 0 || r.Years < 0 || (r.Days > 0) == (r.Years > 0) {
			return malformedXML()
		}
	}
	c.bucket.mu.Lock()
	defer c.bucket.mu.Unlock()
	if c.bucket.versioning != enabled {
		return failed(http.StatusConflict, "InvalidBucketState", "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration")
	}
	c.bucket.locking, c.bucket.standard = true, standard
	return nil
}

func validMode(mode string) bool { return mode == governance || mode == compliance }

// askedLock reads the lock that an upload asks for.
func (c *call) askedLock() (l lock, err *wire.Error) {
	l.hold, l.mode = c.Header.Get("X-Amz-Object-Lock-Legal-Hold"), c.Header.Get("X-Amz-Object-Lock-Mode")
	until := c.Header.Get("X-Amz-Object-Lock-Retain-Until-Date")
	switch {
	case l.hold != "" && l.hold != "ON" && l.hold != "OFF":
		return l, wire.Bad("InvalidArgument", "Legal Hold must be either of 'ON' or 'OFF'")
	case (l.mode == "") != (until == ""):
		return l, wire.Bad("InvalidArgument", "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied")
	case l.mode != "" && !validMode(l.mode):
		return l, wire.Bad("InvalidArgument", "Unknown wormMode directive.")
	}
	if until != "" {
		t, failed := time.Parse(time.RFC3339Nano, until)
		if failed != nil || !t.After(c.now) {
			return l, wire.Bad("InvalidArgument", "The retain until date must be in the future!")
		}
		l.until = t
	}
	return l, nil
}

// protect checks that the bucket can keep the lock that an upload asks for, and
// applies the bucket's default retention to one that asks for none.
func (b *bucket) protect(l *lock, c *call) *wire.Error {
	asked := l.hold != "" || l.mode != ""
	switch {
	case asked && !b.locking:
		return noLocking()
	case !b.locking:
		return nil
	case l.mode == "" && b.standard.mode != "":
		l.mode, l.until = b.standard.mode, c.now.AddDate(b.standard.years, 0, b.standard.days)
		asked = true
	}
	if asked && !c.sums.given {
		return wire.Bad("InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
	}
	return nil
}

// mayLock refuses requests about locks in a bucket that has none.
func (c *call) mayLock() *wire.Error {
	c.bucket.mu.RLock()
	defer c.bucket.mu.RUnlock()
	if !c.bucket.locking {
		return noLocking()
	}
	return nil
}

// lockOf returns the lock of the version that the call names.
func (c *call) lockOf() (lock, *wire.Error) {
	if err := c.mayLock(); err != nil {
		return lock{}, err
	}
	v, _, err := c.bucket.read(c.key, c.query.Get("versionId"))
	if err != nil {
		return lock{}, err
	}
	return v.attributes().lock, nil
}

func getLegalHold(c *call) *wire.Error {
	l, err := c.lockOf()
	switch {
	case err != nil:
		return err
	case l.hold == "":
		return noLock()
	}
	d := &document{}
	d.element("Status", l.hold)
	return c.reply("LegalHold", d)
}

func putLegalHold(c *call) *wire.Error {
	if err := c.mayLock(); err != nil {
		return err
	}
	var asked struct{ Status string }
	if err := c.decode(&asked); err != nil {
		return err
	}
	if asked.Status != "ON" && asked.Status != "OFF" {
		return malformedXML()
	}
	return c.change(func(a *attributes) *wire.Error {
		a.lock.hold = asked.Status
		return nil
	})
}

func getRetention(c *call) *wire.Error {
	l, err := c.lockOf()
	switch {
	case err != nil:
		return err
	case l.mode == "":
		return noLock()
	}
	d := &document{}
	d.element("Mode", l.mode)
	d.element("RetainUntilDate", instant(l.until))
	return c.reply("Retention", d)
}

// putRetention sets or extends a retention. Weakening one that runs needs the
// bypass in governance mode, and can not be had in compliance mode. Without mode
// and date it takes the retention away.
func putRetention(c *call) *wire.Error {
	if err := c.mayLock(); err != nil {
		return err
	}
	var asked struct {
		Mode            string
		RetainUntilDate *time.Time
	}
	if err := c.decode(&asked); err != nil {
		return err
	}
	l := lock{mode: asked.Mode}
	if asked.RetainUntilDate != nil {
		l.until = *asked.RetainUntilDate
	}
	switch {
	case (asked.Mode == "") != (asked.RetainUntilDate == nil), asked.Mode != "" && !validMode(asked.Mode):
		return malformedXML()
	case asked.Mode != "" && !l.until.After(c.now):
		return wire.Bad("InvalidArgument", "The retain until date must be in the future!")
	}
	return c.change(func(a *attributes) *wire.Error {
		old := a.lock
		weaker := l.until.Before(old.until) || old.mode == compliance && l.mode != compliance
		if old.retained(c.now) && weaker && (old.mode == compliance || !c.bypasses()) {
			return accessDenied("Access Denied because object protected by object lock.")
		}
		l.hold = old.hold
		a.lock = l
		return nil
	})
}
