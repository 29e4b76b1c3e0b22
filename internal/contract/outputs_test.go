package contract

import (
	"reflect"
	"testing"
)

func TestOutputsComeBack(t *testing.T) {
	var o Outputs
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(v.Type().Field(i).Name)
	}
	got, missing := ParseOutputs(o.Render())
	if got != o || len(missing) > 0 {
		t.Errorf("%+v, missing %v", got, missing)
	}
	if len(o.Render()) != v.NumField() {
		t.Errorf("%d names for %d fields", len(o.Render()), v.NumField())
	}
}

func TestOutputsOfSomethingElse(t *testing.T) {
	_, missing := ParseOutputs(map[string]string{"Region": "eu-west-1"})
	if len(missing) == 0 {
		t.Error("a stack that is none of ours was taken for one")
	}
	for _, name := range missing {
		if name == "PageTopic" || name == "Region" {
			t.Errorf("%s is called missing", name)
		}
	}
}
