package broker

import (
	"sync/atomic"

	"lomi/broker/control"
)

// maxTaken bounds what is remembered of people's takeovers. Past it those of
// panels that are gone are forgotten.
const maxTaken = 1024

// lease is the right of one session to type or click on one resource. It is
// never renewed and never given on: what ends it sets gone, which every permit
// made under it reads at the moment of the effect (F-30).
type lease struct {
	id       string
	resource string
	session  *session
	gone     atomic.Bool
}

// LeaseInfo says who may type or click on a resource. An empty Session means
// nobody but a person.
type LeaseInfo struct {
	Resource string `json:"resource"`
	Session  string `json:"session,omitempty"`
	Label    string `json:"label,omitempty"`
	Person   bool   `json:"person,omitempty"` // a person took over
}

// Leases lists the leases and the takeovers that stand.
func (b *Broker) Leases() []LeaseInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []LeaseInfo{}
	for _, resource := range sorted(b.leases) {
		l := b.leases[resource]
		out = append(out, LeaseInfo{Resource: resource, Session: l.session.id, Label: l.session.label})
	}
	for _, resource := range sorted(b.taken) {
		out = append(out, LeaseInfo{Resource: resource, Person: true})
	}
	return out
}

// TakeOver ends the lease on a resource because a person touched it. It is
// called before the person's bytes are written, takes only the broker's own
// short lock, and reports whether a session lost something.
func (b *Broker) TakeOver(resource string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[resource]
	known := b.taken[resource]
	if l != nil {
		l.gone.Store(true)
		delete(b.leases, resource)
	}
	if !known {
		b.rememberTaken(resource)
	}
	if l != nil || !known {
		b.publishLease(LeaseInfo{Resource: resource, Person: true})
	}
	return l != nil
}

// rememberTaken keeps a lease from being given on what a person has already
// touched: a shell is on the desk before its lomi_terminal_create has returned.
// The mutex is held.
func (b *Broker) rememberTaken(resource string) {
	if len(b.taken) >= maxTaken {
		clear(b.taken)
	}
	b.taken[resource] = true
}

// Release ends what the broker knows of a resource that is gone.
func (b *Broker) Release(resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[resource]
	if l != nil {
		l.gone.Store(true)
		delete(b.leases, resource)
	}
	delete(b.taken, resource)
	if l != nil {
		b.publishLease(LeaseInfo{Resource: resource})
	}
}

// publishLease is called under the broker's mutex, so that the last event of a
// resource names its holder; the feed never waits.
func (b *Broker) publishLease(info LeaseInfo) { b.publish("lease.changed", info) }

// giveLease makes the first lease on a resource. A resource that a person or
// another session holds keeps its holder. The session's end is checked under
// the mutex that endSession takes to collect leases, so none is left behind.
func (b *Broker) giveLease(s *session, resource string) *lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live(s) != nil || b.taken[resource] {
		return nil
	}
	if l := b.leases[resource]; l != nil {
		if l.session == s {
			return l
		}
		return nil
	}
	l := &lease{id: control.NewID(), resource: resource, session: s}
	b.leases[resource] = l
	b.publishLease(LeaseInfo{Resource: resource, Session: s.id, Label: s.label})
	return l
}

// heldLease gives the lease that a session holds on a resource, or nil.
func (b *Broker) heldLease(s *session, resource string) *lease {
	if resource == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.leases[resource]; l != nil && l.session == s {
		return l
	}
	return nil
}
