package local

import (
	"reflect"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Every kind of fate that a hook decides reaches the call: a fault that is dropped on
// its way makes a drill that rehearses nothing.
func TestEveryFateReachesTheCall(t *testing.T) {
	refuse := func(string) *wire.Error { return &wire.Error{Code: "entry"} }
	whole := wire.Fate{
		Error: &wire.Error{Code: "call"}, Delay: time.Second, Repeat: true, Lost: true, Then: func() {}, Truncate: 7, Entries: refuse, EntriesAfter: refuse,
	}
	fields := reflect.ValueOf(whole)
	for i := range fields.NumField() {
		var one wire.Fate
		reflect.ValueOf(&one).Elem().Field(i).Set(fields.Field(i))
		f := &faults{}
		f.add(func(wire.Call) (wire.Fate, bool) { return one, true })
		f.add(func(wire.Call) (wire.Fate, bool) { return wire.Fate{}, true })
		f.add(func(wire.Call) (wire.Fate, bool) { return whole, false })
		got := reflect.ValueOf(f.of(wire.Call{}))
		if got.Field(i).IsZero() {
			t.Errorf("%s is lost", fields.Type().Field(i).Name)
		}
	}
}
