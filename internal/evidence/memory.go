package evidence

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Memory keeps evidence in this process. The zero value is empty and ready; it
// is safe for concurrent use and must not be copied.
type Memory struct {
	// Hook decides the fate of every write, which it knows as "put". It is set
	// before the first use and may be called concurrently.
	Hook failure.Hook

	mu      sync.Mutex
	objects map[string][]byte
}

// Put keeps data under name. A name is written once: equal bytes again are nil,
// other bytes are failure.Invalid and change nothing.
func (m *Memory) Put(ctx context.Context, name string, data []byte) error {
	if err := checkCall(ctx, opPut, name); err != nil {
		return err
	}
	return m.Hook.Do("put", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if stored, ok := m.objects[name]; ok {
			return settle(stored, data)
		}
		if m.objects == nil {
			m.objects = make(map[string][]byte)
		}
		m.objects[name] = bytes.Clone(data)
		return nil
	})
}

// Get returns the bytes kept under name, or failure.Absent.
func (m *Memory) Get(ctx context.Context, name string) ([]byte, error) {
	if err := checkCall(ctx, opGet, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.objects[name]
	if !ok {
		return nil, absent()
	}
	return bytes.Clone(data), nil
}

// List returns, in ascending order of their bytes, at most limit names that
// begin with prefix and come after after; fewer only when there are no more.
func (m *Memory) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	if err := checkList(ctx, limit); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.objects {
		if strings.HasPrefix(name, prefix) && name > after {
			names = append(names, name)
		}
	}
	return page(names, limit), nil
}
