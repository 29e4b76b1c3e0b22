package sim

// scriptable are the kinds that a script places. Those that differ from one of them only
// in a word, or take more than a call, are left to chance.
var scriptable = [faults]bool{
	CrashBefore: true, CrashAfter: true, Stall: true, Thawed: true, LedgerLost: true, LedgerUnsure: true, LedgerLate: true,
	LedgerRetried: true, HoldsCutShort: true, SentTwice: true, SendLost: true, SendUnsure: true, AckLost: true, LetterLost: true, StoreLost: true,
	DeleteUnsure: true, DeleteLate: true, DeleteOrphaned: true, KeySlow: true, KeyDenied: true, KeyUnsure: true, AnswersCut: true,
	EvidenceLost: true, EvidenceUnsure: true, HoldPlaced: true, Replaced: true, Twin: true, TickTwice: true, TickNever: true, TickLate: true,
}

// Search says which combinations of faults are played: of at most Depth faults, placed
// among the first Calls calls of enqueue and the worker, 0 for all. Of Parts players, each
// plays its Part, counted from 0.
type Search struct{ Depth, Calls, Part, Parts int }

// Exhaust plays every combination of the search on one small scenario, for each kind of
// bucket: a tick of one page of two objects, with everything else going right. A fault is
// placed only at a call at which it could happen. It stops where each says so.
//
// Chance finds what nobody thought of; this finds what needs no luck. The scenario has
// few inputs, so neither replaces the other.
func (p *Player) Exhaust(s Search, o Options, each func(script []Strike, r Result) (goOn bool)) {
	for store := range uint64(stores) {
		if !p.extend(store, []Strike{}, s, o, each) {
			return
		}
	}
}

// extend plays a script, and then every script that has one fault more at its end.
func (p *Player) extend(store uint64, script []Strike, s Search, o Options, each func([]Strike, Result) bool) bool {
	o.Script = script
	r := p.Play(store, o)
	mine := len(script) > 0 || s.Part == 0 // the one without a fault is the first player's
	if mine && !each(script, r) {
		return false
	}
	if len(script) == s.Depth || r.Violation != nil {
		return true
	}
	for n, next := range r.Could {
		if s.Calls > 0 && next.Call > s.Calls || len(script) == 0 && s.Parts > 1 && n%s.Parts != s.Part {
			continue
		}
		if !p.extend(store, append(script[:len(script):len(script)], next), s, o, each) {
			return false
		}
	}
	return true
}
