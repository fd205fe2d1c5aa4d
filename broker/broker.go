package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/catalog/link"
	"lomi/broker/control"
	"lomi/broker/ledger"
	"lomi/broker/wire"
)

const (
	// storeTimeout bounds how long a person's decision waits for the ledger.
	storeTimeout = 10 * time.Second
	// closeGrace is how long Close waits for effects to end in order. What has
	// not by then is recorded as unknown at the next start.
	closeGrace = 3 * time.Second
)

// Desk is what the broker reads of the workbench. Its methods answer from
// memory at once.
type Desk interface {
	Workspaces() []control.Workspace
	Workspace(id string) (control.Workspace, bool)
	Panels(workspaceID string) []control.Panel
}

// Offerer is implemented by an adapter that carries out only some tools of its
// domain, or needs something that may be missing on this machine. Limitation
// says in one sentence why not, "" if there is nothing to say.
type Offerer interface {
	Offers(tool string) (ok bool, limitation string)
}

// Config is what a Broker is made of.
type Config struct {
	// Ledger keeps receipts, retry epochs and the audit. Required; the caller
	// closes it after the broker.
	Ledger *ledger.Ledger
	// Desk knows the workspaces. Required.
	Desk Desk
	// Tools is the catalog. Required.
	Tools []control.Tool
	// Adapters carry out the tools of each domain. The domain "link" is the
	// broker's own. A tool without adapter answers UNSUPPORTED_CAPABILITY.
	Adapters map[string]Adapter
	// Artifacts is told when a session ends, so that its pictures make room
	// first. Nil if there are none.
	Artifacts *Artifacts
	// Instance names this run of the daemon.
	Instance string
	// Internal reports addresses on which the daemon itself listens; no page
	// of them is ever opened for a session. Nil means none.
	Internal func(host, port string) bool
	// YOLO approves every pairing and question. It is for throw-away machines.
	YOLO bool
	// Logger gets what people debug with. Nil discards it.
	Logger *slog.Logger
}

// Broker is the engine. It is safe for concurrent use. It holds its mutex only
// for reads and writes of its own memory, never while the ledger, an adapter
// or a person is waited for: revocation must work while they hang.
type Broker struct {
	cfg   Config
	log   *slog.Logger
	tools map[string]control.Tool

	// policyEpoch is raised before any lock is taken; what was captured under
	// another value has no effect any more.
	policyEpoch atomic.Uint64
	yolo        atomic.Bool
	stopped     atomic.Bool

	// life ends with Close and governs sessions; store outlives it by the
	// grace in which effects are settled.
	life     context.Context
	end      context.CancelCauseFunc
	store    context.Context
	endStore context.CancelFunc
	owned    group
	feed     feed

	mu           sync.Mutex
	pairings     map[string]*pairing
	sessions     map[string]*session
	certificates map[string]string // of each session
	leases       map[string]*lease // by resource
	taken        map[string]bool   // resources that a person took over
	approvals    map[string]*approval
	operations   map[string]*operation     // under way, by receipt id
	inFlight     map[ledger.Key]*operation // the same, by key
}

var _ wire.Handler = (*Broker)(nil)

// New makes a broker. ctx governs its life beside Close.
func New(ctx context.Context, cfg Config) (*Broker, error) {
	switch {
	case cfg.Ledger == nil:
		return nil, errors.New("a broker needs a ledger")
	case cfg.Desk == nil:
		return nil, errors.New("a broker needs a desk")
	case len(cfg.Tools) == 0:
		return nil, errors.New("a broker needs a catalog")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{
		cfg: cfg, log: cfg.Logger, tools: make(map[string]control.Tool, len(cfg.Tools)),
		pairings: make(map[string]*pairing), sessions: make(map[string]*session),
		certificates: make(map[string]string), leases: make(map[string]*lease), taken: make(map[string]bool),
		approvals: make(map[string]*approval), operations: make(map[string]*operation),
		inFlight: make(map[ledger.Key]*operation),
	}
	for _, t := range cfg.Tools {
		if err := checkTool(t, cfg.Adapters[t.Domain] != nil); err != nil {
			return nil, err
		}
		b.tools[t.Name] = t
	}
	b.yolo.Store(cfg.YOLO)
	b.life, b.end = context.WithCancelCause(ctx)
	b.store, b.endStore = context.WithCancel(context.WithoutCancel(ctx))
	return b, nil
}

// checkTool refuses a catalog in which a tool that can run has no key for its
// receipt: its effect could happen twice.
func checkTool(t control.Tool, runs bool) error {
	if t.NewRequest == nil {
		if runs || t.Domain == linkDomain {
			return fmt.Errorf("tool %s has no request type", t.Name)
		}
		return nil
	}
	if _, keyed := t.NewRequest().(control.Retryable); runs && !t.ReadOnly && !keyed && t.Domain != linkDomain {
		return fmt.Errorf("tool %s changes something and has no request key", t.Name)
	}
	return nil
}

// Close ends every session, waits for effects to settle, and returns. The
// error says that some did not.
func (b *Broker) Close() error {
	b.policyEpoch.Add(1)
	b.end(control.Errorf(control.AppClosing, "Lomi is shutting down"))
	b.endAll("closing")
	err := b.owned.close(closeGrace)
	b.endStore()
	if err != nil {
		// The ledger's waits have just ended too; a hanging adapter has not.
		b.log.Warn("closing the broker", "err", err)
	}
	b.feed.close()
	return err
}

// Stop ends every session and every waiting pairing at once, and lets nobody
// in until Resume. It raises the policy epoch before it takes any lock.
func (b *Broker) Stop() {
	b.policyEpoch.Add(1)
	b.stopped.Store(true)
	b.endAll("stopped")
	b.publishControl()
}

// Resume lets helpers ask for approval again. It gives nothing back.
func (b *Broker) Resume() {
	b.stopped.Store(false)
	b.publishControl()
}

// SetYOLO switches the automatic approval of everything. Either way it ends
// every session; pairings that wait are let in when it goes on.
func (b *Broker) SetYOLO(on bool) {
	if b.yolo.Swap(on) == on {
		return
	}
	b.policyEpoch.Add(1)
	b.endSessions("yolo switched")
	b.mu.Lock()
	for _, p := range b.pairings {
		if p.phase != phaseWaiting {
			continue // decided under the other policy: good for nothing now
		}
		p.policyEpoch = b.policyEpoch.Load()
		if on {
			b.owned.Go(func() { b.approveByYOLO(p.id) })
		}
	}
	b.mu.Unlock()
	b.publishControl()
}

// ControlInfo says how agent control stands.
type ControlInfo struct {
	Instance string `json:"instance"`
	Stopped  bool   `json:"stopped"`
	YOLO     bool   `json:"yolo"`
	Platform string `json:"platform"`
	Storage  string `json:"storage,omitempty"` // why the ledger takes nothing, "" if it does
}

// Control tells how agent control stands.
func (b *Broker) Control() ControlInfo {
	info := ControlInfo{Instance: b.cfg.Instance, Stopped: b.stopped.Load(), YOLO: b.yolo.Load(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if err := b.cfg.Ledger.Health(); err != nil {
		info.Storage = "the record of effects cannot be written"
	}
	return info
}

func (b *Broker) endAll(reason string) {
	b.endSessions(reason)
	b.mu.Lock()
	waiting := make([]*pairing, 0, len(b.pairings))
	for _, p := range b.pairings {
		waiting = append(waiting, p)
	}
	b.mu.Unlock()
	for _, p := range waiting {
		b.settlePairing(p, wire.Rejected)
	}
}

func (b *Broker) endSessions(reason string) {
	b.mu.Lock()
	all := make([]*session, 0, len(b.sessions))
	for _, s := range b.sessions {
		all = append(all, s)
	}
	b.mu.Unlock()
	for _, s := range all {
		b.endSession(s, reason)
	}
}

// Subscribe gives every event from now on, until ctx ends, the reader falls
// behind, or the broker closes. Subscribe first, then read the state.
func (b *Broker) Subscribe(ctx context.Context) *Subscription { return b.feed.subscribe(ctx) }

func (b *Broker) publish(kind string, data any) {
	b.feed.publish(Event{Kind: kind, Time: time.Now(), Data: data})
}

func (b *Broker) publishControl() { b.publish("control.changed", b.Control()) }

// offers reports whether a tool can run in this build, on this machine.
func (b *Broker) offers(t control.Tool) (ok bool, limitation string) {
	if t.Domain == linkDomain {
		return true, ""
	}
	adapter := b.cfg.Adapters[t.Domain]
	if adapter == nil {
		return false, ""
	}
	if o, chooses := adapter.(Offerer); chooses {
		return o.Offers(t.Name)
	}
	return true, ""
}

// capabilities lists every tool of the catalog as it is here for a session.
func (b *Broker) capabilities(s *session) (all []link.Capability, limitations []string) {
	all = make([]link.Capability, 0, len(b.cfg.Tools))
	for _, t := range b.cfg.Tools {
		ok, why := b.offers(t)
		all = append(all, link.Capability{Name: t.Name, Available: ok, Qualified: ok})
		if why != "" && !slices.Contains(limitations, why) {
			limitations = append(limitations, why)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range b.cfg.Tools {
		_, missing := s.grant.missing(t.Scopes)
		all[i].Authorized = !missing
	}
	return all, limitations
}

// group owns the broker's goroutines.
type group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// Go runs f, unless the group is closed already.
func (g *group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f)
	return true
}

// close waits for all of them, for at most grace.
func (g *group) close(grace time.Duration) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the last goroutine of the group
		g.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errors.New("some effects did not end; they will count as unknown")
	}
}

func errNotFound() error {
	return control.Errorf(control.TargetNotFound, "there is no such thing, or it has just ended")
}

func errSettled() error {
	return control.Errorf(control.RevisionConflict, "it has already been answered, or has expired")
}
