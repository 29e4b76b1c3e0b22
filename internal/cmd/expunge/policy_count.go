package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// lister lists, and can do nothing else.
type lister interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
}

// countObjects lists what lies under either policy once, with the operator's own
// credentials, and counts where they part.
func (d *desk) countObjects(ctx context.Context, old, next policy.Policy, asOf time.Time) (*diffObjects, error) {
	c := newCounting(old, next, asOf)
	for _, place := range places(old, next) {
		base, err := d.credentials(ctx, place.region)
		if err != nil {
			return nil, err
		}
		client := awss3.NewFromConfig(base.Config, func(o *awss3.Options) { o.UsePathStyle = base.BaseEndpoint != nil })
		if err := c.list(ctx, artifact.NewS3Lister(client, base.Settings), place); err != nil {
			return nil, err
		}
	}
	return c.result(), nil
}

// credentials are the operator's own in a region: of the local deployment, or of his
// AWS configuration. No stack has to be there.
func (d *desk) credentials(ctx context.Context, region string) (sdk.Config, error) {
	if !d.where.elsewhere() {
		path := upFile
		if d.where.Local.on {
			path = d.where.Local.path
		}
		f, err := readUp(d.path(path))
		if err == nil {
			f.base.Region = region
			return sdk.Defaults().Configure(f.base), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || d.where.Local.on {
			return sdk.Config{}, wrong("there is no local deployment by " + filepath.Base(path))
		}
	}
	base, err := d.configuration(ctx, region)
	if err != nil {
		return sdk.Config{}, err
	}
	if err := identified(ctx, base); err != nil {
		return sdk.Config{}, err
	}
	return sdk.Defaults().Configure(base), nil
}

// place is a part of a bucket.
type place struct{ region, bucket, prefix string }

// places returns where the keys of both policies lie, nothing twice.
func places(old, next policy.Policy) []place {
	a, b := place{old.Region, old.Bucket, old.Prefix()}, place{next.Region, next.Bucket, next.Prefix()}
	switch {
	case a.region != b.region || a.bucket != b.bucket:
		return []place{a, b}
	case strings.HasPrefix(a.prefix, b.prefix):
		return []place{b}
	case strings.HasPrefix(b.prefix, a.prefix):
		return []place{a}
	default:
		return []place{a, b}
	}
}

// effect is what a run would do to an item. The greater it is, the less remains.
type effect int

const (
	keeps    effect = iota
	hides           // lays a marker over it
	destroys        // nothing of it remains
)

// side is a policy with its cutoff at the instant that is asked about.
type side struct {
	policy.Policy
	cutoff time.Time
}

// effect judges an item; current says that no newer version of its key is listed.
func (p side) effect(at place, item job.Item, current bool) (effect, string) {
	if p.Bucket != at.bucket || p.Region != at.region {
		return keeps, ""
	}
	tenant, ok := p.TenantOf(item.Key)
	if !ok || p.Versions != policy.AllVersions && !current {
		return keeps, tenant
	}
	if !policy.Decide(policy.Facts{Policy: &p.Policy, Tenant: tenant, Cutoff: p.cutoff, Item: item}).Delete {
		return keeps, tenant
	}
	if p.Versions != policy.AllVersions && item.Version != "" && item.Version != "null" {
		return hides, tenant // only a bucket that keeps versions gives out such ids
	}
	return destroys, tenant
}

// counting compares two policies item by item.
type counting struct {
	old, next side
	versions  bool // every version is listed
	answer    diffObjects
	adds      map[string]*diffTenant
	spares    map[string]*diffTenant
}

func newCounting(old, next policy.Policy, asOf time.Time) *counting {
	c := &counting{
		old: side{old, old.Cutoff(asOf)}, next: side{next, next.Cutoff(asOf)},
		versions: old.Versions == policy.AllVersions || next.Versions == policy.AllVersions,
		adds:     map[string]*diffTenant{}, spares: map[string]*diffTenant{},
	}
	c.answer = diffObjects{AsOf: asOf, Reports: old.Mode != job.Enforce && next.Mode != job.Enforce}
	return c
}

// list counts all that lies in a place.
func (c *counting) list(ctx context.Context, store lister, at place) error {
	q := job.Query{Bucket: at.bucket, Prefix: at.prefix, Versions: c.versions}
	last := ""
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			c.item(at, item, item.Key != last) // the newest version of a key comes first
			last = item.Key
		}
		if q.Token = page.Token; q.Token == "" {
			return nil
		}
	}
}

func (c *counting) item(at place, item job.Item, current bool) {
	c.answer.Examined++
	was, of := c.old.effect(at, item, current)
	is, whose := c.next.effect(at, item, current)
	if !c.answer.Reports { // what only reports deletes nothing
		if c.old.Mode != job.Enforce {
			was = keeps
		}
		if c.next.Mode != job.Enforce {
			is = keeps
		}
	}
	switch {
	case is > was:
		count(c.adds, whose, item)
	case was > is:
		count(c.spares, of, item)
	}
}

func count(by map[string]*diffTenant, tenant string, item job.Item) {
	t := by[tenant]
	if t == nil {
		t = &diffTenant{Tenant: tenant}
		by[tenant] = t
	}
	t.Objects++
	t.Bytes += item.Size
}

// topTenants is how many tenants are named.
const topTenants = 10

func (c *counting) result() *diffObjects {
	c.answer.Adds, c.answer.Spares = summed(c.adds), summed(c.spares)
	return &c.answer
}

func summed(by map[string]*diffTenant) diffCount {
	all := diffCount{Tenants: len(by), Top: []diffTenant{}}
	for _, t := range by {
		all.Objects += t.Objects
		all.Bytes += t.Bytes
		all.Top = append(all.Top, *t)
	}
	slices.SortFunc(all.Top, func(a, b diffTenant) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Tenant, b.Tenant))
	})
	all.Top = all.Top[:min(topTenants, len(all.Top))]
	return all
}
