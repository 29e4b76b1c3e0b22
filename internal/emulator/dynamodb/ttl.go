package dynamodb

import (
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// oldestExpiry is how far back a time to live may lie. DynamoDB takes an older one
// for a mistake, and keeps the row.
const oldestExpiry = 5 * 365 * 24 * time.Hour

type timeToLiveInput struct {
	TableName               string
	TimeToLiveSpecification timeToLive
}

type timeToLive struct {
	AttributeName string
	Enabled       bool
}

func (g *region) updateTimeToLive(in *timeToLiveInput) (any, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, problem := g.table(in.TableName)
	if problem != nil {
		return nil, problem
	}
	switch wanted := in.TimeToLiveSpecification; {
	case wanted.AttributeName == "":
		return nil, constraint("null", "timeToLiveSpecification.attributeName", "Member must not be null")
	case wanted.Enabled && t.expiry != "":
		return nil, invalid("TimeToLive is already enabled")
	case !wanted.Enabled && t.expiry == "":
		return nil, invalid("TimeToLive is already disabled")
	case !wanted.Enabled:
		t.expiry = ""
	default:
		t.expiry = wanted.AttributeName
	}
	return map[string]any{"TimeToLiveSpecification": in.TimeToLiveSpecification}, nil
}

func (g *region) describeTimeToLive(in *tableInput) (any, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, problem := g.table(in.TableName)
	if problem != nil {
		return nil, problem
	}
	description := map[string]string{"TimeToLiveStatus": "DISABLED"}
	if t.expiry != "" {
		description = map[string]string{"TimeToLiveStatus": "ENABLED", "AttributeName": t.expiry}
	}
	return map[string]any{"TimeToLiveDescription": description}, nil
}

// sweep deletes the rows that are past their time to live.
func (g *region) sweep() int {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	swept := 0
	for _, t := range g.tables {
		var expired []*write
		if t.expiry == "" {
			continue
		}
		t.rows.Scan(func(key string, r row) bool {
			if r.item[t.expiry].expired(now) {
				w := &write{table: t, key: key, old: r}
				w.finish(item(nil))
				expired = append(expired, w)
			}
			return true
		})
		for _, w := range expired {
			g.commit(w, now)
		}
		swept += len(expired)
	}
	return swept
}

// expired reports whether v is a number of seconds since 1970 that has passed, and
// not so long ago that it can not be meant.
func (v value) expired(now time.Time) bool {
	at := func(t time.Time) value { return value{kind: kindNumber, text: strconv.FormatInt(t.Unix(), 10)} }
	untilNow, ok := v.compare(at(now))
	sinceOldest, _ := v.compare(at(now.Add(-oldestExpiry)))
	return ok && untilNow < 0 && sinceOldest >= 0
}
