package broker

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lomi/broker/control"
	"lomi/broker/wire"
)

const (
	maxPairings    = 8
	pairingTimeout = 120 * time.Second
	// openTimeout is how long an approval waits for the helper's TLS
	// handshake, whose own limit is 10 s.
	openTimeout = 30 * time.Second
	maxLabel    = 80
	// chatLabel begins the labels of the built-in chat, in lower case.
	chatLabel = "lomi chat"
)

// Pairing is a helper that waits for a person. The label is what it calls
// itself and proves nothing; the id is what both sides show.
type Pairing struct {
	ID                string    `json:"id"`
	Label             string    `json:"label"`
	PID               int       `json:"pid,omitempty"`
	CertificateSHA256 string    `json:"certificateSha256"`
	Requested         time.Time `json:"requested"`
	Expires           time.Time `json:"expires"`
	Outcome           string    `json:"outcome,omitempty"` // in pairing.settled: approved, rejected, expired
}

type pairingPhase int

const (
	phaseWaiting   pairingPhase = iota
	phaseApproving              // the epoch is being made durable
	phaseApproved               // waits for the helper's handshake
)

// pairing is one request. The broker's mutex guards it.
type pairing struct {
	id          string
	peer        wire.Peer
	requested   time.Time
	expires     time.Time
	decision    chan wire.Decision
	phase       pairingPhase
	policyEpoch uint64
	expiry      *time.Timer

	grant      *grant
	retryEpoch string
	retryEnd   time.Time
}

func (p *pairing) info(outcome string) Pairing {
	return Pairing{ID: p.id, Label: p.peer.Label, PID: p.peer.PID, CertificateSHA256: p.peer.CertificateSHA256,
		Requested: p.requested, Expires: p.expires, Outcome: outcome}
}

// Enroll implements wire.Handler.
func (b *Broker) Enroll(ctx context.Context, peer wire.Peer) (wire.Pairing, error) {
	if err := checkLabel(peer.Label); err != nil {
		return wire.Pairing{}, err
	}
	// A person reads the label: no other process may call itself the chat.
	if strings.HasPrefix(strings.ToLower(peer.Label), chatLabel) && peer.PID != os.Getpid() {
		return wire.Pairing{}, control.Errorf(control.ResourceExhausted, "clientLabel: names that begin with Lomi Chat are the built-in chat's own")
	}
	p := &pairing{
		id: control.NewID(), peer: peer, requested: time.Now(), expires: time.Now().Add(pairingTimeout),
		decision: make(chan wire.Decision, 1), policyEpoch: b.policyEpoch.Load(),
	}
	b.mu.Lock()
	if err := b.admitPairing(p); err != nil {
		b.mu.Unlock()
		return wire.Pairing{}, err
	}
	b.pairings[p.id] = p
	p.expiry = time.AfterFunc(pairingTimeout, func() { b.settlePairing(p, wire.Expired) })
	b.mu.Unlock()
	context.AfterFunc(ctx, func() { b.settlePairing(p, wire.Expired) })
	b.publish("pairing.requested", p.info(""))
	if b.yolo.Load() {
		b.owned.Go(func() { b.approveByYOLO(p.id) })
	}
	return wire.Pairing{ID: p.id, Decision: p.decision}, nil
}

// admitPairing refuses a pairing that must not wait. The mutex is held.
func (b *Broker) admitPairing(p *pairing) error {
	switch {
	case b.life.Err() != nil:
		return control.Errorf(control.AppUnavailable, "Lomi is shutting down")
	case b.stopped.Load():
		return control.Errorf(control.AppUnavailable, "agent control is stopped; a person can resume it in Lomi")
	case len(b.pairings) >= maxPairings:
		return control.Errorf(control.ResourceExhausted, "%d connections already wait for approval", maxPairings)
	}
	for _, other := range b.pairings {
		if other.peer.CertificateSHA256 == p.peer.CertificateSHA256 {
			return control.Errorf(control.ResourceExhausted, "a connection with this certificate already waits for approval")
		}
	}
	for _, certificate := range b.certificates {
		if certificate == p.peer.CertificateSHA256 {
			return control.Errorf(control.ResourceExhausted, "a connection with this certificate is already open")
		}
	}
	return nil
}

func checkLabel(label string) error {
	n := utf8.RuneCountInString(label)
	if n < 1 || n > maxLabel || !utf8.ValidString(label) || strings.IndexFunc(label, confusing) >= 0 ||
		strings.IndexFunc(label, unicode.IsGraphic) < 0 {
		return control.Errorf(control.ResourceExhausted, "clientLabel: 1 to %d visible characters", maxLabel)
	}
	return nil
}

// settlePairing ends a pairing that nobody approved. An approved one whose
// helper never came ends silently: its decision is already out.
func (b *Broker) settlePairing(p *pairing, d wire.Decision) bool {
	b.mu.Lock()
	if b.pairings[p.id] != p {
		b.mu.Unlock()
		return false
	}
	delete(b.pairings, p.id)
	p.expiry.Stop()
	waited := p.phase != phaseApproved
	b.mu.Unlock()
	if waited {
		p.decision <- d
		b.publish("pairing.settled", p.info(string(d)))
	}
	return true
}

// Pairings lists the helpers that wait for a person, the oldest first.
func (b *Broker) Pairings() []Pairing {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []Pairing{}
	for _, p := range slices.SortedFunc(maps.Values(b.pairings), func(x, y *pairing) int { return x.requested.Compare(y.requested) }) {
		if p.phase != phaseApproved {
			out = append(out, p.info(""))
		}
	}
	return out
}

// Approve lets a waiting helper in, with what spec allows and nothing more.
func (b *Broker) Approve(ctx context.Context, id string, spec GrantSpec) error {
	g, err := newGrant(spec, b.cfg.Desk.Workspaces(), b.cfg.Internal)
	if err != nil {
		return err
	}
	return b.approve(ctx, id, g)
}

// approve makes the retry epoch durable before the helper hears of it. No lock
// is held meanwhile: a stop or a rejection in between wins.
func (b *Broker) approve(ctx context.Context, id string, g *grant) error {
	b.mu.Lock()
	p, ok := b.pairings[id]
	if !ok {
		b.mu.Unlock()
		return errNotFound()
	}
	if p.phase != phaseWaiting {
		b.mu.Unlock()
		return errSettled()
	}
	p.phase = phaseApproving
	b.mu.Unlock()

	epoch, end, err := b.newRetryEpoch(ctx, p.id)

	b.mu.Lock()
	if err != nil {
		p.phase = phaseWaiting
		b.mu.Unlock()
		return err
	}
	if b.pairings[id] != p || p.policyEpoch != b.policyEpoch.Load() {
		// What was decided under another policy is decided anew.
		p.phase, p.policyEpoch = phaseWaiting, b.policyEpoch.Load()
		b.mu.Unlock()
		return errSettled()
	}
	p.phase, p.grant, p.retryEpoch, p.retryEnd = phaseApproved, g, epoch, end
	p.expiry.Reset(openTimeout)
	b.mu.Unlock()
	p.decision <- wire.Approved
	b.publish("pairing.settled", p.info(string(wire.Approved)))
	return nil
}

func (b *Broker) approveByYOLO(id string) {
	ctx, cancel := context.WithTimeout(b.life, storeTimeout)
	defer cancel()
	if err := b.approve(ctx, id, yoloGrant()); err != nil {
		b.log.WarnContext(ctx, "approving a pairing under yolo", "err", err)
	}
}

// Reject turns a waiting helper away.
func (b *Broker) Reject(id string) error {
	b.mu.Lock()
	p, ok := b.pairings[id]
	ok = ok && p.phase != phaseApproved
	b.mu.Unlock()
	if !ok {
		return errNotFound()
	}
	if !b.settlePairing(p, wire.Rejected) {
		return errSettled()
	}
	return nil
}
