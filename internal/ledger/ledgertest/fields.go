package ledgertest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var timeType = reflect.TypeFor[time.Time]()

// full returns a value whose every field is set, each to something of its own. A
// field that is added to the type later is set, and so compared, too.
func full[T any](t *testing.T) T {
	t.Helper()
	var x T
	n := int64(0)
	fill(reflect.ValueOf(&x).Elem(), &n)
	wantFull(t, x)
	return x
}

func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(instant.Add(time.Duration(*n) * (time.Hour + time.Nanosecond))))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<55 + *n) // a float would lose the last digits
	default:
		panic("ledgertest: teach fill about " + v.Type().String())
	}
}

// wantFull fails when a field of x is not set.
func wantFull(t *testing.T, x any) {
	t.Helper()
	if zero := unset(reflect.TypeOf(x).Name(), reflect.ValueOf(x)); len(zero) > 0 {
		t.Fatalf("not set: %s", strings.Join(zero, ", "))
	}
}

func unset(path string, v reflect.Value) []string {
	var zero []string
	switch {
	case v.Kind() == reflect.Struct && v.Type() != timeType:
		for i := range v.NumField() {
			zero = append(zero, unset(path+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			zero = append(zero, unset(fmt.Sprintf("%s[%d]", path, i), v.Index(i))...)
		}
	case v.IsZero():
		zero = append(zero, path)
	}
	return zero
}

// wantSame fails when two values differ in a field. Times are compared as
// instants, and an absent list equals an empty one.
func wantSame(t *testing.T, got, want any) {
	t.Helper()
	if d := differences(reflect.TypeOf(want).Name(), reflect.ValueOf(got), reflect.ValueOf(want)); len(d) > 0 {
		t.Errorf("got, want:\n%s", strings.Join(d, "\n"))
	}
}

func differences(path string, got, want reflect.Value) []string {
	var d []string
	switch {
	case want.Type() == timeType:
		g, _ := reflect.TypeAssert[time.Time](got)
		w, _ := reflect.TypeAssert[time.Time](want)
		if g.Equal(w) {
			return nil
		}
	case want.Kind() == reflect.Struct:
		for i := range want.NumField() {
			d = append(d, differences(path+"."+want.Type().Field(i).Name, got.Field(i), want.Field(i))...)
		}
		return d
	case want.Kind() == reflect.Array || want.Kind() == reflect.Slice && got.Len() == want.Len():
		for i := range want.Len() {
			d = append(d, differences(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))...)
		}
		return d
	case want.Kind() != reflect.Slice && got.Equal(want):
		return nil
	}
	return []string{fmt.Sprintf("%s: %#v, %#v", path, got, want)}
}
