package sim

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// adapters are the product's own clients and the services behind them. A world that has
// them sends every call of a step that way, and what goes wrong goes wrong on the way.
// Its ledger and its evidence in memory are kept beside the services: they take each
// write in the instant in which the service does, so that kernel and oracles can look
// without a call, and they say what the client should have answered.
type adapters struct {
	ledger    *ledgers
	evidence  documents
	mail      func(*instance) mail
	artifacts func(*instance) artifacts
	// What is there, past clients and faults.
	queue queues
	store buckets
	// differ says how the answer of a client differs from that of a fake, "" for not at all.
	differ func(client, fake any) string
}

// fate is what becomes of the requests of a call on their way.
type fate uint8

const (
	answered   fate = iota
	forbidden       // refused: the role may not
	throttled       // refused for rate
	contended       // refused: another transaction is under way
	expired         // refused: the listing can not be continued
	dropped         // none arrives
	unanswered      // one takes effect, and the client hears of none
	resent          // one takes effect, and the client hears of the next one only
	delayed         // one takes effect later, and the client has given up
	orphaned        // the same, and the sender dies meanwhile
	deadly          // the sender dies between the effect and the answer
	between         // others act between two entries of the request
	cut             // the answer lacks something
)

var fateNames = [...]string{
	"", "forbidden: ", "throttled: ", "contended: ", "token expired: ", "lost: ", "answer lost: ", "sent twice: ", "lands later: ",
	"lands later: ", "", "between others: ", "cut: ",
}

func (f fate) String() string { return fateNames[f] }

// exchange is one call of a client, which may be several requests.
type exchange struct {
	by    *instance
	op    string
	fate  fate
	whole bool          // every request meets it, and not only the first that can
	after time.Duration // how much later a request lands
	// changes: only a request that changes something meets the fate.
	changes bool
	// effect is told each change that the service takes, in its instant.
	effect func() error
	// flight is the delete behind the requests.
	flight *flight

	requests, met, commits int
	turnedAway             int   // entries that the service did not take
	yielded                bool  // others ran meanwhile
	refused                error // the fake's, of what the service took
}

type exchangeKey struct{}

// in returns a context that the exchange travels in, down to the request.
func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange that a request belongs to, nil for none.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// silent reports whether the client has waited for an answer.
func (x *exchange) silent() bool {
	switch x.fate {
	case dropped, unanswered, delayed:
		return x.met > 0
	default:
		return false
	}
}

// commit is told that the service has taken a change.
func (x *exchange) commit() {
	x.commits++
	if x.effect == nil {
		return
	}
	if err := x.effect(); err != nil && x.refused == nil {
		x.refused = err
	}
}

// mirrored reports whether a fake is kept beside the service.
func (s *service) mirrored() bool { return s == &ledgerCalls || s == &proofCalls }

// dispatch is a write on its way. effect is what a change means in the world.
func (i *instance) dispatch(ctx context.Context, s *service, op string, send func(context.Context) error, effect func() error) error {
	x := &exchange{by: i, op: op, changes: true, effect: effect}
	switch {
	case i.barredFrom(s):
		x.fate, x.whole = forbidden, true
	case i.strikes(s.throttled):
		x.fate, x.whole = throttled, i.chance.one(2)
	case i.strikes(s.busy):
		x.fate, x.whole = contended, i.chance.one(2)
	case i.strikes(s.lost):
		x.fate, x.whole = dropped, !i.chance.one(4)
	case i.strikes(s.late):
		x.fate, x.whole, x.after = delayed, !i.chance.one(4), i.chance.within(0, 30*time.Second)
	case i.strikes(CrashAfter):
		x.fate = deadly
	case i.strikes(s.unsure):
		x.fate, x.whole = unanswered, true
	case i.strikes(s.retried):
		x.fate = resent
	}
	err := send(x.in(ctx))
	i.log(i.p, op, x.fate.String()+outcome(err))
	if x.silent() {
		i.p.wait(clientTimeout)
	}
	if i.classed(s, op, x, err); s.mirrored() {
		i.compare(op, x, err)
	}
	return err
}

// classed holds the class of an error against what every answer has said. Without a fake
// an empty answer may be a good one: nothing was received, or accepted.
func (i *instance) classed(s *service, op string, x *exchange, err error) {
	want := map[fate]failure.Class{
		forbidden: failure.Forbidden, throttled: failure.Throttled, contended: failure.Conflict, dropped: failure.Network, unanswered: failure.Network,
		delayed: failure.Network,
	}[x.fate]
	if x.whole && x.met > 0 && want != "" && failure.Of(err) != want && (err != nil || s.mirrored() && x.fate != contended) {
		i.violate("A1", op+": each answer was "+x.fate.String()+"and the client says "+outcome(err))
	}
}

// compare holds what a client made of a write against what its fake makes of it.
func (i *instance) compare(op string, x *exchange, err error) {
	switch {
	case x.refused != nil:
		i.violate("A1", op+": the service took what the fake refuses: "+string(failure.Of(x.refused)))
	case x.commits > 0 && x.met == 0 && err != nil:
		i.violate("A1", op+": it happened, and the client says "+outcome(err))
	case x.commits == 0 && (err == nil || x.met == 0 && !x.yielded):
		// Nothing happened, and the fake must see it so too.
		rewrites := i.rewrites
		if want := x.effect(); outcome(want) != outcome(err) {
			i.violate("A1", op+": the client says "+outcome(err)+" and the fake "+outcome(want))
		} else if i.rewrites > rewrites {
			i.violate("A1", op+": the client says that it is done, and it is not")
		}
	}
}

// inquire is a read on its way. get asks the fake, nil where there is none.
func inquire[T any](ctx context.Context, i *instance, s *service, op string, x *exchange, get func() (T, error), ask func(context.Context) (T, error)) (answer T, err error) {
	x.by = i
	switch {
	case i.barredFrom(s):
		x.fate, x.whole = forbidden, true
	case x.fate != answered:
	case i.strikes(s.unread):
		x.fate, x.whole = pick(&i.chance, []fate{dropped, unanswered}), true
	}
	answer, err = ask(x.in(ctx))
	i.log(i.p, op, x.fate.String()+outcome(err))
	if x.silent() {
		i.p.wait(clientTimeout)
	}
	if i.classed(s, op, x, err); get == nil || x.met > 0 && err != nil || x.yielded {
		return answer, err
	}
	want, werr := get()
	if outcome(werr) != outcome(err) {
		i.violate("A1", op+": the client says "+outcome(err)+" and the fake "+outcome(werr))
	} else if text := i.far.differ(answer, want); err == nil && text != "" {
		i.violate("A1", op+": the client and the fake differ: "+text)
	}
	return answer, err
}

// deliver is a delete on its way.
func (v storeView) deliver(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	const op = "delete"
	f := &flight{d: d, page: v.truth.claims[v.owner], until: v.clock().Add(signatureLife)}
	x := &exchange{by: v.instance, changes: true, flight: f}
	switch {
	case v.barredFrom(&storeCalls):
		x.fate, x.whole = forbidden, true
	case v.strikes(StoreThrottled):
		x.fate = throttled
	case v.strikes(StoreLost):
		x.fate = dropped
	case v.strikes(DeleteOrphaned):
		x.fate, x.after, f.alone = orphaned, v.chance.within(0, signatureLife), true
	case v.strikes(DeleteLate):
		x.fate, x.after, f.alone = delayed, v.chance.within(clientTimeout, signatureLife), true
	case v.strikes(Interleaved):
		x.fate = between
	case v.strikes(CrashAfter):
		x.fate = deadly
	case v.strikes(DeleteUnsure):
		x.fate = unanswered
	case v.strikes(AnswersCut):
		x.fate = cut
	}
	if v.mutant != nil && v.mutant.Land != nil {
		f.d.Items = append([]job.Item(nil), d.Items...)
		v.mutant.Land(v.world, &f.d)
	}
	answers, err := v.far.artifacts(v.instance).Delete(x.in(ctx), f.d)
	v.log(v.p, op, x.fate.String()+outcome(err))
	if x.silent() {
		v.p.wait(clientTimeout)
	}
	return answers, err
}

// tally holds what a client says was accepted against what the service has taken.
func (v queueView) tally(x *exchange, sent, accepted int) {
	if x.met == 0 && accepted != sent-x.turnedAway {
		v.violate("A1", "send: "+strconv.Itoa(accepted)+" of "+strconv.Itoa(sent)+" are called accepted, and "+strconv.Itoa(x.turnedAway)+" were refused")
	}
}

// audit holds the last answer of a listing against what is there after its first item.
func (v storeView) audit(x *exchange, q job.Query, l job.Listing) {
	if x.met > 0 || x.yielded || l.Token != "" || len(l.Items) == 0 && q.Token != "" {
		return
	}
	first := q.After
	if len(l.Items) > 0 {
		first = l.Items[0].Key
	}
	all := v.store.Objects(q.Bucket)
	if q.Versions {
		all = v.store.Versions(q.Bucket)
	}
	there, listed := 0, 0
	for item := range all {
		if item.Key > first && strings.HasPrefix(item.Key, q.Prefix) && (q.Through == "" || item.Key <= q.Through) {
			there++
		}
	}
	for _, item := range l.Items {
		if item.Key > first {
			listed++
		}
	}
	if there != listed {
		v.violate("A1", "list: "+strconv.Itoa(listed)+" are listed to the end, and "+strconv.Itoa(there)+" are there")
	}
}
