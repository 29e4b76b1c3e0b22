package sim

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
)

// What others do to the bucket and the queues while a run is under way.

// act lets one thing happen. What would change nothing does not count.
func (w *world) act() {
	switch f := pick(&w.chance, []Fault{Replaced, Twin, Twin, Removed, Uploaded, Locked, Malformed, Forged, Misrouted, StrayLetter, MovedByHand, MessageGone, Barred}); f {
	case Barred:
		w.hit(f)
		w.barred, w.barredUntil = pick(&w.chance, []*service{&storeCalls, &storeCalls, &proofCalls, &ledgerCalls}), w.now+w.chance.within(time.Minute, 30*time.Minute)
	case MovedByHand:
		if w.queue.NativeRedrive(job.Enforce) > 0 {
			w.hit(f)
			w.wake(job.Enforce)
		}
	case StrayLetter:
		w.hit(f)
		w.queue.Stray([]byte("~"))
	case MessageGone:
		w.lose()
	case Malformed, Forged, Misrouted:
		w.poison(f)
	default:
		w.change(f)
	}
}

// change lets somebody change an object.
func (w *world) change(f Fault) {
	key := w.someKey()
	now, there := w.store.Get(bucketName, job.Ref{Key: key})
	switch f {
	case Replaced:
		w.upload(f, job.Item{Key: key, ETag: "other" + key[len(rootIn(key)):], Size: 3})
	case Twin:
		if was, known := w.planned(key); known && !there {
			w.upload(f, job.Item{Key: key, ETag: was.ETag, Size: was.Size})
		} else if there {
			w.upload(f, job.Item{Key: key, ETag: now.ETag, Size: now.Size})
		}
	case Removed:
		if w.store.Remove(bucketName, job.Ref{Key: key}) {
			w.touch(f, key)
		}
	case Uploaded:
		w.keys = append(w.keys, key+"~new")
		w.upload(f, job.Item{Key: key + "~new", ETag: "new", Size: 1})
	default:
		if w.versioned && there && w.store.SetLock(bucketName, job.Ref{Key: key}, artifact.Lock{LegalHold: true}) == nil {
			w.touch(f, key)
		}
	}
}

// someKey returns a key of a tenant, and often one that somebody has just listed: what
// happens to it then hurts most.
func (w *world) someKey() string {
	if w.listedKey != "" && w.chance.one(2) {
		return w.listedKey
	}
	return pick(&w.chance, w.keys)
}

// planned returns the object that a key began with.
func (w *world) planned(key string) (job.Item, bool) {
	for i := len(w.objects) - 1; i >= 0; i-- {
		if w.objects[i].Key == key {
			return w.objects[i], true
		}
	}
	return job.Item{}, false
}

func (w *world) upload(f Fault, item job.Item) {
	item.Modified = w.clock().Truncate(time.Second) // as S3 tells it
	_, err := w.store.Put(bucketName, item)
	sure(err)
	w.touch(f, item.Key)
}

func (w *world) touch(f Fault, key string) {
	w.hit(f)
	w.truth.touched[key] = true
	w.log(nil, f.String(), key)
}

// lose takes a message out of its queue that no worker has seen.
func (w *world) lose() {
	got, err := w.queue.Receive(context.Background(), job.Enforce, 1)
	sure(err)
	for _, d := range got {
		w.hit(MessageGone)
		sure(w.queue.Ack(context.Background(), job.Enforce, d))
	}
}

// poison sends what is no command of ours.
func (w *world) poison(f Fault) {
	bodies := [][]byte{[]byte("no json"), []byte(`{"schema":1}`), []byte(`{"schema":0}`)}
	var body []byte
	mode := job.Enforce
	if f == Malformed {
		body = pick(&w.chance, bodies)
	} else if len(w.truth.order) == 0 {
		return
	} else {
		p := pick(&w.chance, w.truth.order).row
		c := job.NewCommand(w.truth.runs[p.Run], p)
		switch kind := w.chance.n(4); {
		case f == Misrouted && kind < 2:
			c.Region = "us-east-1"
		case f == Misrouted:
			mode = job.ReportOnly
		case kind == 0:
			c.TenantID = tenants[1]
		case kind == 1:
			c.Hash = "00000000000000000000000000000000"
		default: // the very bytes, early or for a page that has ended
		}
		body = c.Encode()
	}
	w.hit(f)
	_, err := w.queue.Send(context.Background(), mode, []job.Message{{ID: "poison", Body: body}})
	sure(err)
	w.wake(mode)
}
