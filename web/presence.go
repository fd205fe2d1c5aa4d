package web

import "sync/atomic"

// Presence counts the open pages and terminals, so that a question is not asked
// where nobody is.
type Presence struct{ open atomic.Int64 }

// Present reports whether somebody could answer.
func (p *Presence) Present() bool { return p != nil && p.open.Load() > 0 }

func (p *Presence) enter() {
	if p != nil {
		p.open.Add(1)
	}
}

func (p *Presence) leave() {
	if p != nil {
		p.open.Add(-1)
	}
}
