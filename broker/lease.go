package broker

import (
	"sync/atomic"

	"lomi/broker/control"
)

// maxTaken is how many of people's takeovers are remembered before those of
// panels that are gone are forgotten. Those of live panels always stay: they
// are what keeps a session from typing where a person does. The desk bounds
// them.
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
// called before the person's bytes are written, waits for nothing but short
// locks on memory, and reports whether a session lost something.
func (b *Broker) TakeOver(resource string) bool {
	b.forgetGone(resource)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[resource]
	known := b.taken[resource]
	if l != nil {
		l.gone.Store(true)
		delete(b.leases, resource)
	}
	// Remembered also without a lease to end: a shell is on the desk before its
	// lomi_terminal_create has returned, and must not be leased after this.
	b.taken[resource] = true
	if l != nil || !known {
		b.publishLease(LeaseInfo{Resource: resource, Person: true})
	}
	return l != nil
}

// forgetGone makes room for one more takeover by forgetting those of panels that
// left the desk without Release. What is remembered is read before the desk:
// a panel touched in between is on the desk and stays.
func (b *Broker) forgetGone(next string) {
	b.mu.Lock()
	var remembered []string
	if len(b.taken) >= maxTaken && !b.taken[next] {
		remembered = sorted(b.taken)
	}
	b.mu.Unlock()
	if len(remembered) == 0 {
		return
	}
	live := map[string]bool{}
	for _, w := range b.cfg.Desk.Workspaces() {
		for _, p := range b.cfg.Desk.Panels(w.ID) {
			live[p.Resource()] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, resource := range remembered {
		if !live[resource] {
			delete(b.taken, resource)
		}
	}
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
