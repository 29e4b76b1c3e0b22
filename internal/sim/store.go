package sim

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// storeView is the artifacts as an invocation sees them.
type storeView struct{ *instance }

// Ready looks whether the bucket can be listed.
func (v storeView) Ready(ctx context.Context, q job.Query, region string) error {
	_, err := read(ctx, v.instance, &storeCalls, "ready", func() (struct{}, error) { return struct{}{}, v.wares.Ready(ctx, q, region) },
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, v.far.artifacts(v.instance).Ready(ctx, q, region)
		})
	return err
}

// List lists items.
func (v storeView) List(ctx context.Context, q job.Query) (job.Listing, error) {
	return read(ctx, v.instance, &storeCalls, "list", func() (job.Listing, error) {
		if q.Token != "" && v.strikes(TokenExpired) {
			v.wares.ExpireTokens()
		}
		if v.strikes(StoreThrottled) {
			return job.Listing{}, failure.New(failure.Throttled, "list", "slow down")
		}
		l, err := v.wares.List(ctx, q)
		v.noteListed(l)
		return l, err
	}, func(ctx context.Context) (job.Listing, error) {
		x := exchangeOf(ctx)
		switch {
		case x.fate != answered:
		case q.Token != "" && v.strikes(TokenExpired):
			x.fate, x.whole = expired, true
		case v.strikes(StoreThrottled):
			x.fate, x.whole = throttled, v.chance.one(2)
		}
		l, err := v.far.artifacts(v.instance).List(ctx, q)
		if v.noteListed(l); err == nil {
			v.audit(x, q, l)
		}
		return l, err
	})
}

// noteListed remembers one of the keys that were listed, and lets what is on its way to
// them arrive.
func (v storeView) noteListed(l job.Listing) {
	if v.script == nil && v.function == string(job.Enforce) {
		v.hasten()
	}
	if n := len(l.Items); n > 0 {
		if key := l.Items[v.chance.n(n)].Key; slices.Contains(v.keys, key) {
			v.listedKey = key
		}
	}
}

// Standing looks at what remains of items.
func (v storeView) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	return read(ctx, v.instance, &storeCalls, "standing", func() ([]job.Standing, error) {
		if v.script == nil && v.faulty && v.truth.buries() && v.chance.one(3) { // when it matters most
			v.hit(StoreLost)
			v.log(v.p, "standing", "unread")
			return nil, network("standing")
		}
		said, err := v.wares.Standing(ctx, bucket, items)
		if len(said) > 0 && v.strikes(AnswersCut) {
			said = said[:v.chance.n(len(said))]
		}
		return said, err
	}, func(ctx context.Context) ([]job.Standing, error) {
		if x := exchangeOf(ctx); x.fate == answered && v.strikes(AnswersCut) {
			x.fate = cut
		}
		return v.far.artifacts(v.instance).Standing(ctx, bucket, items)
	})
}

// flight is a delete request on its way.
type flight struct {
	d     job.Deletion
	page  job.Page  // its sender's claim: the row as the sender last wrote it
	until time.Time // when its signature is over: nothing of it lands later
	alone bool      // nobody waits for its answer any more
}

// signatureLife is how long S3 takes a signed request.
const signatureLife = 15 * time.Minute

// Delete sends a delete. Whether it may still be sent is the sender's own clock to
// say, as in the real client; from then on the request flies by itself.
func (v storeView) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	const op = "delete"
	v.begin(op, true)
	if v.strikes(CrashBefore) {
		v.log(v.p, op, "dies before")
		v.p.crash()
	}
	if v.far != nil {
		return v.deliver(ctx, d)
	}
	if now := v.Now(); !now.Before(d.NotAfter) {
		v.log(v.p, op, "refused before signing")
		return nil, failure.New(failure.Conflict, op, "the claim's right to delete is over")
	}
	if v.barredFrom(&storeCalls) {
		v.log(v.p, op, "forbidden")
		return nil, failure.New(failure.Forbidden, op, "not allowed")
	}
	f := &flight{d: d, page: v.truth.claims[v.owner], until: v.clock().Add(signatureLife)}
	v.tell(moment{kind: deleteSent, flight: f, by: v.instance})
	switch {
	case v.strikes(StoreThrottled):
		v.log(v.p, op, "throttled")
		return nil, failure.New(failure.Throttled, op, "slow down")
	case v.strikes(StoreLost):
		v.log(v.p, op, "lost")
		v.p.wait(clientTimeout)
		return nil, network(op)
	case v.strikes(DeleteOrphaned):
		v.log(v.p, op, "dies while it is on its way")
		v.fly(f, v.chance.within(0, signatureLife))
		v.p.crash()
	case v.strikes(DeleteLate):
		v.log(v.p, op, "given up while it is on its way")
		v.fly(f, v.chance.within(clientTimeout, signatureLife))
		v.p.wait(clientTimeout)
		return nil, network(op)
	case v.strikes(Interleaved):
		return v.between(f)
	}
	answers, err := v.land(ctx, f)
	switch {
	case v.strikes(CrashAfter):
		v.log(v.p, op, "dies after")
		v.p.crash()
	case v.strikes(DeleteUnsure):
		v.log(v.p, op, "answer lost")
		v.p.wait(clientTimeout)
		return nil, network(op)
	case len(answers) > 0 && v.strikes(AnswersCut):
		answers = answers[:v.chance.n(len(answers))]
	}
	v.log(v.p, op, outcome(err))
	return answers, err
}

// fly lets a request land whose sender does not wait for it any more.
func (w *world) fly(f *flight, d time.Duration) {
	f.alone = true
	w.ghosts = append(w.ghosts, f)
	w.at(min(d, signatureLife), func() { w.arrive(f) })
	if before := d - time.Minute; before > w.settings.Visibility() && w.script == nil && w.faulty && w.chance.one(2) {
		w.at(before, func() { w.haunt(f) })
	}
}

// haunt lets somebody upload again what a request on its way names, and hold it: the page
// may have ended by then, and its run, but nothing may be called held that the request
// still takes (S4).
func (w *world) haunt(f *flight) {
	item := pick(&w.chance, f.d.Items)
	if _, there := w.store.Get(bucketName, job.Ref{Key: item.Key}); there || !w.faulty || item.Version != "" {
		return
	}
	w.upload(Twin, job.Item{Key: item.Key, ETag: item.ETag, Size: item.Size})
	w.at(w.chance.within(0, 10*time.Second), func() { w.placeHoldOn(item.Key) })
}

// arrive lets a request land that is still on its way.
func (w *world) arrive(f *flight) {
	at := slices.Index(w.ghosts, f)
	if at < 0 {
		return
	}
	w.ghosts = slices.Delete(w.ghosts, at, at+1)
	_, err := w.land(context.Background(), f)
	w.log(nil, "delete", "lands late: "+outcome(err))
}

// hasten lets what is on its way land in the milliseconds after a look: then the looker
// acts on what is not there any more.
func (w *world) hasten() {
	for _, f := range w.ghosts {
		if w.chance.one(3) {
			w.at(w.chance.within(0, 60*time.Millisecond), func() { w.arrive(f) })
		}
	}
}

// between sends a request whose keys are taken one by one while others act. It goes on
// when its sender dies.
func (v storeView) between(f *flight) (answers []job.Answer, err error) {
	done := false
	v.spawn("request", 0, func(p *process) {
		for n := range f.d.Items {
			p.wait(v.chance.within(time.Millisecond, 50*time.Millisecond))
			one := *f
			one.d.Items = f.d.Items[n : n+1]
			said, serr := v.land(context.Background(), &one)
			answers, err = append(answers, said...), serr
		}
		done = true
	}, func() {})
	for waited := time.Duration(0); !done; waited += 20 * time.Millisecond {
		v.p.wait(20 * time.Millisecond)
	}
	v.log(v.p, "delete", "between others: "+outcome(err))
	if v.strikes(DeleteUnsure) {
		return nil, network("delete")
	}
	return answers, err
}

// land is the instant at which a request takes effect.
func (w *world) land(ctx context.Context, f *flight) ([]job.Answer, error) {
	w.landing = f
	defer func() { w.landing = nil }()
	d := f.d
	d.NotAfter = f.until.Add(time.Second) // its right to be sent was checked where it was signed
	if w.mutant != nil && w.mutant.Land != nil {
		d.Items = slices.Clone(d.Items)
		w.mutant.Land(w, &d)
	}
	return w.wares.Delete(ctx, d)
}

// keyFault is asked by the store about every key of a delete.
func (w *world) keyFault(item job.Item) (answer job.Answer, applied bool) {
	switch {
	case w.strikes(KeySlow):
		return job.Slow, false
	case w.denied[item.Key] > 0 && w.faulty:
		w.denied[item.Key]--
		return job.Denied, false
	case w.strikes(KeyDenied):
		w.denied[item.Key] = w.chance.n(6)
		return job.Denied, false
	case w.strikes(KeyUnsure):
		return job.Unsure, w.script != nil || w.chance.one(2)
	default:
		return job.NoAnswer, false
	}
}

// effect is told by the store what a delete call changed, at its instant.
func (w *world) effect(e artifact.Effect) {
	w.tell(moment{kind: effectHappened, effect: e, flight: w.landing})
}
