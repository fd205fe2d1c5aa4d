package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lomi/broker/client"
	"lomi/broker/control"
)

// connectTime bounds the way to the broker's welcome, within a call.
const connectTime = 8 * time.Second

// approvalGrace is how long the first call watches whether its pairing is
// approved at once, as it is while nobody is asked (YOLO).
const approvalGrace = 250 * time.Millisecond

// Connection is one pairing with the broker and the session that it becomes;
// *client.Conn is one.
type Connection interface {
	PairingID() string
	Await(ctx context.Context) error
	Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error)
	Done() <-chan struct{}
	Close() error
}

// Discover connects by the signed descriptor at path, which it reads anew each
// time: a daemon that was restarted is found again.
func Discover(path, keyHex string, logger *slog.Logger) func(ctx context.Context, label string) (Connection, error) {
	return func(ctx context.Context, label string) (Connection, error) {
		cfg, err := client.FromDiscovery(path, keyHex)
		if err != nil {
			return nil, err
		}
		cfg.Label, cfg.Logger = label, logger
		conn, err := client.Dial(ctx, cfg)
		if err != nil {
			return nil, err // not conn: a nil *Conn is no nil Connection
		}
		return conn, nil
	}
}

// attempt is one pairing from the first look for the daemon to its end.
type attempt struct {
	welcomed chan struct{} // closed when conn or err is set
	conn     Connection
	err      error
	welcome  time.Time

	settled  chan struct{} // closed when approval or its failure is known
	awaitErr error
}

// over reports whether nothing can come of the attempt any more.
func (a *attempt) over() bool {
	select {
	case <-a.welcomed:
	default:
		return false
	}
	if a.err != nil {
		return true
	}
	select {
	case <-a.settled:
	default:
		return false
	}
	if a.awaitErr != nil {
		return true
	}
	select {
	case <-a.conn.Done():
		return true
	default:
		return false
	}
}

func (a *attempt) run(ctx context.Context, connect func(context.Context, string) (Connection, error), label string) {
	dialling, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	a.conn, a.err = connect(dialling, label)
	a.welcome = time.Now()
	close(a.welcomed)
	if a.err != nil {
		return
	}
	a.awaitErr = a.conn.Await(ctx)
	close(a.settled)
	if a.awaitErr == nil {
		select {
		case <-ctx.Done():
		case <-a.conn.Done():
		}
	}
	a.conn.Close()
}

// pairing keeps at most one attempt at a time. Nothing is ever replayed: a
// call that finds no session makes a new pairing and is then refused.
type pairing struct {
	life    context.Context // of the MCP session; ends attempts
	connect func(context.Context, string) (Connection, error)
	running sync.WaitGroup

	mu      sync.Mutex
	current *attempt // nil before the first call
}

// standing is what a call finds.
type standing struct {
	state   string     // a value of "connection" in lomi_status
	pairing string     // id, while a person is waited for
	conn    Connection // when connected
	why     *control.Error
}

// find returns the session, or why there is none; if there was none, it asks
// for one. ctx is that of the call.
func (p *pairing) find(ctx context.Context, label string) standing {
	a, rejected := p.attempt(label)
	if rejected != nil {
		return standing{state: "disconnected", why: control.Errorf(control.PairingRequired,
			"a person rejected pairing request %s; ask them before you call again, which asks anew", rejected.conn.PairingID())}
	}
	select {
	case <-a.welcomed:
	case <-ctx.Done():
		return standing{state: "connecting", why: control.Errorf(control.AppUnavailable, "Lomi has not answered yet; call again")}
	}
	if a.err != nil {
		return unreachable(a.err)
	}
	grace := time.NewTimer(approvalGrace - time.Since(a.welcome))
	defer grace.Stop()
	select {
	case <-a.settled:
	case <-grace.C:
	case <-ctx.Done():
	}
	return p.look(a)
}

// look says where an attempt that was welcomed stands.
func (p *pairing) look(a *attempt) standing {
	id := a.conn.PairingID()
	select {
	case <-a.settled:
	default:
		return standing{state: "pairing_required", pairing: id, why: control.Errorf(control.PairingRequired,
			"a person must approve pairing request %s in Lomi (Agent control, or `lomi pair approve %s`); then call again", id, id)}
	}
	if a.awaitErr == nil {
		return standing{state: "connected", conn: a.conn}
	}
	return standing{state: "disconnected", why: control.Errorf(control.PairingRequired, "%s; call again to ask anew", settledText(id, a.awaitErr))}
}

func settledText(id string, err error) string {
	switch {
	case errors.Is(err, client.ErrRejected):
		return fmt.Sprintf("a person rejected pairing request %s", id)
	case errors.Is(err, client.ErrExpired):
		return fmt.Sprintf("nobody answered pairing request %s", id)
	}
	return fmt.Sprintf("pairing request %s ended", id)
}

// attempt returns the attempt that stands, or a new one. A rejection that no
// call has been told of yet is returned once instead, so that a host does not
// ask a person again without its user knowing.
func (p *pairing) attempt(label string) (a, rejected *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !p.current.over() {
		return p.current, nil
	}
	if last := p.current; last != nil && last.err == nil && errors.Is(last.awaitErr, client.ErrRejected) {
		p.current = nil
		return nil, last
	}
	a = &attempt{welcomed: make(chan struct{}), settled: make(chan struct{})}
	p.current = a
	p.running.Go(func() { a.run(p.life, p.connect, label) })
	return a, nil
}

// unreachable says why there is no pairing to approve.
func unreachable(err error) standing {
	if e, ok := control.AsError(err); ok { // the broker's own refusal
		return standing{state: "disconnected", why: e}
	}
	text := "Lomi is not running, or agent control is off; start it and call again"
	if errors.Is(err, client.ErrImpostor) || !errors.Is(err, client.ErrUnavailable) {
		text = "Lomi cannot be reached safely; `lomi doctor` says why"
	}
	return standing{state: "app_unavailable", why: control.Errorf(control.AppUnavailable, "%s", text)}
}
