package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/control"
	"lomi/broker/wire"
)

const (
	// maxOperations is how many mutations of one session may be under way,
	// those that wait for a person included (broker spec 4.1).
	maxOperations = 32
	// maxRules bounds what "do not ask again" and answers for runs leave behind.
	maxRules = 256
	// maxEpochs bounds the retry epochs of one long session.
	maxEpochs = 8
)

// SessionInfo is what people may know of a session.
type SessionInfo struct {
	ID         string          `json:"id"`
	Label      string          `json:"label"`
	PID        int             `json:"pid,omitempty"`
	Opened     time.Time       `json:"opened"`
	Scopes     []control.Scope `json:"scopes"`
	Workspaces []string        `json:"workspaces"` // all of them under YOLO, listed when asked
	Origins    []string        `json:"origins"`
	Rules      []string        `json:"rules"` // commands that no longer ask
	Policy     Policy          `json:"policy"`
	YOLO       bool            `json:"yolo,omitempty"`
	Leases     []string        `json:"leases"`           // resources that it may type or click on
	Running    int             `json:"running"`          // mutations under way
	Reason     string          `json:"reason,omitempty"` // in session.closed: why
}

// session is an approved connection. What can revoke it is atomic, so that no
// lock stands between a revocation and the next permit check.
type session struct {
	id, label   string
	pid         int
	opened      time.Time
	policyEpoch uint64
	revoked     atomic.Bool

	// life governs everything done for the session; it ends with a cause when
	// the session is revoked, disconnected, or the broker closes.
	life context.Context
	end  context.CancelCauseFunc

	slots  chan struct{}              // one taken by each mutation under way
	status atomic.Pointer[statusBody] // the last answer of lomi_status

	mu     sync.Mutex // guards what follows; nothing is waited for under it
	grant  *grant
	epoch  string               // the retry epoch that lomi_connect gives
	epochs map[string]time.Time // every retry epoch of this session, and its end
}

// live reports whether the session may still have effects. It takes no lock.
func (b *Broker) live(s *session) error {
	if s.revoked.Load() || s.policyEpoch != b.policyEpoch.Load() || s.life.Err() != nil {
		return errRevoked()
	}
	return nil
}

func errRevoked() *control.Error {
	return control.Errorf(control.ControlRevoked, "the approval of this connection has ended; connect again and ask for a new one")
}

// Open implements wire.Handler: the approved helper has proved its certificate.
func (b *Broker) Open(_ context.Context, pairing string) (wire.Session, error) {
	b.mu.Lock()
	p, ok := b.pairings[pairing]
	if !ok || p.phase != phaseApproved || p.policyEpoch != b.policyEpoch.Load() {
		b.mu.Unlock()
		return wire.Session{}, control.Errorf(control.PairingRequired, "no approval stands for this connection")
	}
	delete(b.pairings, pairing)
	p.expiry.Stop()
	s := &session{
		id: p.id, label: p.peer.Label, pid: p.peer.PID, opened: time.Now(), policyEpoch: p.policyEpoch,
		slots: make(chan struct{}, maxOperations), grant: p.grant,
		epoch: p.retryEpoch, epochs: map[string]time.Time{p.retryEpoch: p.retryEnd},
	}
	s.life, s.end = context.WithCancelCause(b.life)
	b.sessions[s.id] = s
	b.certificates[s.id] = p.peer.CertificateSHA256
	b.mu.Unlock()
	b.publish("session.opened", b.sessionInfo(s))
	if s.revoked.Load() { // its end may have been told before its beginning
		b.publish("session.closed", b.sessionInfo(s))
	}
	return wire.Session{ID: s.id, Ended: s.life.Done()}, nil
}

// Closed implements wire.Handler: the connection is gone, and the grant with it.
func (b *Broker) Closed(id string) {
	if s := b.session(id); s != nil {
		b.endSession(s, "disconnected")
	}
}

// Revoke ends one session at once. Effects that have started are cut off at
// their next permit check; nothing new starts after Revoke has returned.
func (b *Broker) Revoke(id string) error {
	s := b.session(id)
	if s == nil {
		return errNotFound()
	}
	b.endSession(s, "revoked")
	return nil
}

func (b *Broker) session(id string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

// endSession takes every right of a session away. The atomic comes first, so
// that no waiting lock delays it.
func (b *Broker) endSession(s *session, reason string) {
	if s.revoked.Swap(true) {
		return
	}
	s.end(errRevoked())
	b.mu.Lock()
	delete(b.sessions, s.id)
	delete(b.certificates, s.id)
	for resource, l := range b.leases {
		if l.session == s {
			l.gone.Store(true)
			delete(b.leases, resource)
			b.publishLease(LeaseInfo{Resource: resource})
		}
	}
	b.mu.Unlock()
	info := b.sessionInfo(s)
	info.Reason = reason
	b.publish("session.closed", info)
	s.mu.Lock()
	epochs := sorted(s.epochs)
	s.mu.Unlock()
	// The atomic above has ended everything for every call. What follows may
	// wait for the disk, and a revocation does not wait for that.
	b.owned.Go(func() {
		if b.cfg.Artifacts != nil {
			b.cfg.Artifacts.disown(s.id)
		}
		for _, epoch := range epochs {
			if err := b.cfg.Ledger.EndEpoch(b.store, epoch); err != nil {
				b.log.Warn("ending a retry epoch", "err", err)
			}
		}
	})
}

// Sessions lists the approved connections, the oldest first.
func (b *Broker) Sessions() []SessionInfo {
	b.mu.Lock()
	all := slices.SortedFunc(maps.Values(b.sessions), func(x, y *session) int { return x.opened.Compare(y.opened) })
	b.mu.Unlock()
	out := make([]SessionInfo, 0, len(all))
	for _, s := range all {
		out = append(out, b.sessionInfo(s))
	}
	return out
}

func (b *Broker) sessionInfo(s *session) SessionInfo {
	info := SessionInfo{ID: s.id, Label: s.label, PID: s.pid, Opened: s.opened, Running: len(s.slots), Leases: []string{}}
	b.mu.Lock()
	for resource, l := range b.leases {
		if l.session == s {
			info.Leases = append(info.Leases, resource)
		}
	}
	b.mu.Unlock()
	slices.Sort(info.Leases)
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grant
	info.Policy, info.YOLO = g.policy, g.everything
	info.Scopes = sorted(g.scopes)
	info.Workspaces = sorted(g.workspaces)
	info.Origins = sorted(g.origins)
	info.Rules = append([]string{}, g.rules...)
	return info
}

// sorted lists the keys of a map, never as null in JSON.
func sorted[K ~string, V any](m map[K]V) []K {
	return slices.AppendSeq(make([]K, 0, len(m)), slices.Values(slices.Sorted(maps.Keys(m))))
}

// SetPolicy changes when a session's calls ask a person. It holds from the
// next call on; questions that already wait stay.
func (b *Broker) SetPolicy(id string, p Policy) error {
	if !p.valid() {
		return control.Errorf(control.ResourceExhausted, "policy: one of grant, ask_for_risk, ask_always")
	}
	s := b.session(id)
	if s == nil {
		return errNotFound()
	}
	s.mu.Lock()
	s.grant.policy = p
	s.mu.Unlock()
	b.publish("session.changed", b.sessionInfo(s))
	return nil
}

// grantedWorkspace gives the workspace of a request if it is open, granted,
// and still in the project where the person saw it. Unknown and foreign ones
// look the same.
func (b *Broker) grantedWorkspace(s *session, id string) (control.Workspace, error) {
	w, ok := b.cfg.Desk.Workspace(id)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.grant.workspace(w) {
			if s.grant.everything { // remembered for replays after it is closed
				s.grant.workspaces[id] = place{projectID: w.ProjectID, projectPath: w.ProjectPath}
			}
			return w, nil
		}
	}
	return control.Workspace{}, control.Errorf(control.TargetNotFound, "workspaceId: is not open to this connection")
}

// projectOf gives the project under which receipts of a workspace are kept,
// also after the workspace is gone.
func (s *session) projectOf(workspaceID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant.workspaces[workspaceID].projectID
}

// extend adds workspaces that the session made itself to its own grant.
func (b *Broker) extend(s *session, ids []string) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	for _, id := range ids {
		if w, ok := b.cfg.Desk.Workspace(id); ok && len(s.grant.workspaces) < maxWorkspaces {
			s.grant.workspaces[id] = place{projectID: w.ProjectID, projectPath: w.ProjectPath}
		}
	}
	s.mu.Unlock()
	b.publish("session.changed", b.sessionInfo(s))
}

// authority answers what a session may do now.
type authority struct {
	b *Broker
	s *session
}

// Scope implements Authority.
func (a authority) Scope(scope control.Scope) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.b.live(a.s) == nil && a.s.grant.scopes[scope]
}

// Workspace implements Authority.
func (a authority) Workspace(id string) bool {
	_, err := a.b.grantedWorkspace(a.s, id)
	return err == nil && a.b.live(a.s) == nil
}

// Origin implements Authority.
func (a authority) Origin(origin string) bool {
	return a.b.live(a.s) == nil && !internalOrigin(origin, a.b.cfg.Internal) && a.s.allowsOrigin(origin)
}

func (s *session) allowsOrigin(origin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant.anyOrigin || s.grant.origins[origin]
}

// Holder implements Authority.
func (a authority) Holder(resource string) string {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	l := a.b.leases[resource]
	switch {
	case l == nil:
		return ""
	case l.session == a.s:
		return "this_session"
	}
	return "another_session"
}
