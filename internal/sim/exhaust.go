package sim

// scriptable are the kinds that a script places. Those that differ from one of them only
// in a word, or take more than a call, are left to chance.
var scriptable = [faults]bool{
	CrashBefore: true, CrashAfter: true, Stall: true, Thawed: true, LedgerLost: true, LedgerUnsure: true, LedgerLate: true,
	LedgerRetried: true, HoldsCutShort: true, SentTwice: true, SendLost: true, SendUnsure: true, AckLost: true, LetterLost: true, StoreLost: true,
	DeleteUnsure: true, DeleteLate: true, DeleteOrphaned: true, KeySlow: true, KeyDenied: true, KeyUnsure: true, AnswersCut: true,
	EvidenceLost: true, EvidenceUnsure: true, HoldPlaced: true, Replaced: true, Twin: true, TickTwice: true, TickNever: true, TickLate: true,
}

// Exhaust plays every combination of at most depth faults on one small scenario, for
// each kind of bucket: a tick of two pages, with everything else going right. A fault is
// placed only at a call at which it could happen, among the first calls.
//
// Chance finds what nobody thought of; this finds what needs no luck. The scenario has
// few inputs, so neither replaces the other.
func (p *Player) Exhaust(depth, calls int, o Options, each func(script []Strike, r Result) (goOn bool)) {
	for store := range uint64(stores) {
		if !p.extend(store, []Strike{}, depth, calls, o, each) {
			return
		}
	}
}

// extend plays a script, and then every script that has one fault more at its end.
func (p *Player) extend(store uint64, script []Strike, depth, calls int, o Options, each func([]Strike, Result) bool) bool {
	o.Script = script
	r := p.Play(store, o)
	if !each(script, r) {
		return false
	}
	if len(script) == depth || r.Violation != nil {
		return true
	}
	for _, next := range r.Could {
		if next.Call <= calls && !p.extend(store, append(script[:len(script):len(script)], next), depth, calls, o, each) {
			return false
		}
	}
	return true
}
