package artifact

import (
	"context"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Standing implements Store.
func (m *Memory) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings, wrong, err := m.look(ctx, bucket, items)
	if err != nil {
		return nil, err
	}
	for _, p := range wrong {
		if err := m.Hook.Do("unmark", func() error { return m.unmark(bucket, p) }); err != nil {
			return nil, err
		}
	}
	return standings, nil
}

// Look implements Store.
func (m *Memory) Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings, _, err := m.look(ctx, bucket, items)
	return standings, err
}

// look judges the items and names the markers that are wrong.
func (m *Memory) look(ctx context.Context, bucket string, items []job.Item) (standings []job.Standing, wrong []position, err error) {
	const op = "look at versions"
	if err := over(ctx, op); err != nil {
		return nil, nil, err
	}
	err = m.Hook.Do("standing", func() error {
		return m.with(op, bucket, func(b *bucketState) error {
			standings, wrong = make([]job.Standing, len(items)), nil
			for i, item := range items {
				var marker uint64
				standings[i], marker = b.standing(item)
				if standings[i] == job.Restored {
					wrong = append(wrong, position{item.Key, marker})
				}
			}
			return nil
		})
	})
	if err == nil && standings == nil {
		err = failure.New(failure.Bug, op, "the hook reported success without a look")
	}
	if err != nil {
		return nil, nil, err
	}
	return standings, wrong, nil
}

func (b *bucketState) standing(item job.Item) (s job.Standing, marker uint64) {
	e := b.index.get(item.Key)
	if !b.versioned || e == nil {
		return job.Erased, 0
	}
	return standing(e.versions, item)
}

// standing judges the versions of one key, the oldest first. With job.Restored it
// names the marker to remove.
//
// Ours, laid under a condition, always lies on a version with the planned ETag. A
// marker over other bytes, and one that lies on a marker, is somebody else's act.
// The latest upload is judged before the planned one, because hiding what nobody
// decided about is the worse mistake.
func standing(versions []version, item job.Item) (s job.Standing, marker uint64) {
	planned := len(versions) - 1
	for planned >= 0 && !versions[planned].planned(item) {
		planned--
	}
	latest := len(versions) - 1
	for latest >= 0 && versions[latest].marker {
		latest--
	}
	visible := latest == len(versions)-1
	switch {
	case item.Version == "" && latest >= 0 && !visible && latest != planned && versions[latest].twin(item):
		return job.Restored, versions[latest+1].seq
	case planned >= 0 && planned+1 < len(versions) && versions[planned+1].marker:
		return job.UnderMarker, 0
	case planned >= 0 || item.Version == "" && visible:
		return job.Replaced, 0
	default:
		return job.Erased, 0
	}
}

// unmark removes one marker, if it is still there.
func (m *Memory) unmark(bucket string, p position) error {
	var restored Effect
	err := m.with("remove marker", bucket, func(b *bucketState) error {
		e, at := b.locate(job.Ref{Key: p.key, Version: version{seq: p.seq}.id()})
		if at < 1 {
			return nil
		}
		restored = Effect{Bucket: bucket, Item: e.versions[at-1].named(p.key), At: m.now(), Restored: true}
		m.effects = append(m.effects, restored)
		b.cut(e, at)
		return nil
	})
	if restored.Restored {
		m.tell(restored)
	}
	return err
}
