package wiring

import (
	"bytes"
	"encoding/json"
)

// Answer writes what a step has answered as Lambda's library would. A handler that
// calls it is handed its payload as bytes: the library's own decoder takes the first
// value and drops what stands behind it.
func Answer[A any](answer A, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
