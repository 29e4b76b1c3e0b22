package wiring_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// units adds up the capacity that DynamoDB says its answers took. The ledger does
// not ask for it, so the question is put in at the wire.
type units struct {
	mu          sync.Mutex
	read, write float64
}

// take returns the units since they were last taken.
func (u *units) take() (read, write float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	read, write = u.read, u.write
	u.read, u.write = 0, 0
	return read, write
}

// around returns the handler with the question in every request that can bear it.
func (u *units) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
		if !ok || strings.HasSuffix(operation, "Table") {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = slices.Concat([]byte(`{"ReturnConsumedCapacity":"TOTAL",`), bytes.TrimPrefix(body, []byte("{")))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		u.add(operation, answer.Body.Bytes())
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

func (u *units) add(operation string, answer []byte) {
	type consumed struct{ CapacityUnits float64 }
	var said struct{ ConsumedCapacity json.RawMessage }
	if json.Unmarshal(answer, &said) != nil {
		return
	}
	var all []consumed // of a batch or a transaction, by table
	if json.Unmarshal(said.ConsumedCapacity, &all) != nil {
		all = make([]consumed, 1)
		if json.Unmarshal(said.ConsumedCapacity, &all[0]) != nil {
			return
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range all {
		switch operation {
		case "GetItem", "BatchGetItem", "Query":
			u.read += c.CapacityUnits
		default:
			u.write += c.CapacityUnits
		}
	}
}
