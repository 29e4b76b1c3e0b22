package sqs

import "container/heap"

// pile is a heap of messages that knows where each of them lies, so that any of
// them can be taken out.
type pile struct {
	messages []*message
	before   func(a, b *message) bool
	place    func(m *message) *int
}

var _ heap.Interface = (*pile)(nil)

// byVisibility piles messages by when they are or become visible, then by arrival.
func byVisibility() *pile {
	return &pile{
		before: func(a, b *message) bool {
			if c := a.visibleAt.Compare(b.visibleAt); c != 0 {
				return c < 0
			}
			return a.arrival < b.arrival
		},
		place: func(m *message) *int { return &m.place },
	}
}

// bySending piles messages by when they were first sent, which is what retention
// counts from.
func bySending() *pile {
	return &pile{
		before: func(a, b *message) bool { return a.sent.Before(b.sent) },
		place:  func(m *message) *int { return &m.agePlace },
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (p *pile) Len() int { return len(p.messages) }

// Less reports which of two messages comes first.
func (p *pile) Less(i, j int) bool { return p.before(p.messages[i], p.messages[j]) }

// Swap exchanges two messages.
func (p *pile) Swap(i, j int) {
	p.messages[i], p.messages[j] = p.messages[j], p.messages[i]
	*p.place(p.messages[i]), *p.place(p.messages[j]) = i, j
}

// Push appends a message.
func (p *pile) Push(x any) {
	m, _ := x.(*message) // add pushes nothing else
	*p.place(m) = len(p.messages)
	p.messages = append(p.messages, m)
}

// Pop takes the last message.
func (p *pile) Pop() any {
	last := len(p.messages) - 1
	m := p.messages[last]
	p.messages[last] = nil
	p.messages = p.messages[:last]
	return m
}

func (p *pile) add(m *message)    { heap.Push(p, m) }
func (p *pile) remove(m *message) { heap.Remove(p, *p.place(m)) }

// first returns the message on top, nil for none.
func (p *pile) first() *message {
	if len(p.messages) == 0 {
		return nil
	}
	return p.messages[0]
}
