package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/control"
)

// Ceilings of one server.
const (
	maxConnections = 64
	maxPending     = 8
	maxHandshakes  = 4 // that compute at the same time; others wait their turn
)

// Deadlines of the steps before a session stands.
const (
	enrollTime    = 10 * time.Second
	welcomeTime   = 5 * time.Second
	pairingTime   = 120 * time.Second
	handshakeTime = 10 * time.Second
)

// Pauses after a failed accept: out of file descriptors, mostly.
const (
	acceptPause    = 50 * time.Millisecond
	maxAcceptPause = time.Second
)

// maxUnsentAll bounds the answers of all connections that wait to be written.
const maxUnsentAll = 256 << 20

// Config is what a server needs; every field but Logger is required.
type Config struct {
	// InstanceID names this run of the daemon. A client that means another
	// one is refused.
	InstanceID string
	// Certificate is the broker's, self-signed, for InstanceID+".lomi.invalid".
	Certificate tls.Certificate
	// UID is the only user who is served.
	UID int
	// Identify asks the kernel who is at the other end.
	Identify func(net.Conn) (uid, pid int, err error)
	// Handler is the engine.
	Handler Handler
	// Logger gets what happens to connections; nil discards it.
	Logger *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.InstanceID == "" || len(c.InstanceID) > maxInstance:
		return errors.New("an instance id of 1 to 128 bytes is needed")
	case len(c.Certificate.Certificate) != 1:
		return errors.New("exactly one certificate is needed")
	case c.Identify == nil:
		return errors.New("a way to identify peers is needed")
	case c.Handler == nil:
		return errors.New("a handler is needed")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// server is one run of Serve.
type server struct {
	Config
	slots      chan struct{} // one for each connection
	pending    chan struct{} // one for each pairing that waits
	handshakes chan struct{}
	unsent     atomic.Int64
}

// Serve answers connections until ctx ends, then ends them all, waits for them
// and returns nil. It closes the listener. It returns early only when the
// listener is broken.
func Serve(ctx context.Context, listener net.Listener, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	s := &server{
		Config:     cfg,
		slots:      make(chan struct{}, maxConnections),
		pending:    make(chan struct{}, maxPending),
		handshakes: make(chan struct{}, maxHandshakes),
	}
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel() // before the wait: connections end with ctx
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close()

	pause := acceptPause
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting a control connection: %w", err)
		}
		if err != nil {
			s.Logger.WarnContext(ctx, "cannot accept a control connection", "err", err)
			wait(ctx, pause)
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = acceptPause
		if !take(s.slots) {
			s.Logger.WarnContext(ctx, "control connection refused, too many are open")
			conn.Close()
			continue
		}
		connections.Go(func() {
			defer release(s.slots)
			s.connection(ctx, conn)
		})
	}
}

// wait pauses, or not, if ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// take takes one of a bounded number of places, if one is free.
func take(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// await takes a place as soon as one is free.
func await(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func release(places chan struct{}) { <-places }

// connection carries one connection from its first byte to its last.
func (s *server) connection(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	// The end of ctx must also wake a read or write that waits for the peer.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	peer, err := s.greet(conn)
	if err != nil {
		s.Logger.DebugContext(ctx, "control connection ended before enrolment", "err", err)
		return
	}
	secured, pairing, err := s.pair(ctx, conn, peer)
	if err != nil {
		s.Logger.InfoContext(ctx, "control connection not opened", "label", peer.Label, "err", err)
		return
	}
	session, err := s.Handler.Open(ctx, pairing)
	if err != nil {
		s.Logger.WarnContext(ctx, "cannot open a session", "err", err)
		return
	}
	err = s.serve(ctx, secured, session)
	s.Logger.InfoContext(ctx, "control session ended", "session", session.ID, "err", err)
}

// greet learns who the peer is: first from the kernel, then from itself.
func (s *server) greet(conn net.Conn) (Peer, error) {
	uid, pid, err := s.Identify(conn)
	if err != nil {
		return Peer{}, fmt.Errorf("identifying the peer: %w", err)
	}
	if uid != s.UID {
		return Peer{}, errors.New("the peer is another user")
	}
	conn.SetDeadline(time.Now().Add(enrollTime))
	body, err := readFrame(conn, maxEnrollment, nil)
	if err != nil {
		return Peer{}, fmt.Errorf("reading an enrolment: %w", err)
	}
	var e enrollment
	if err := control.DecodeWithin(body, maxEnrollment, &e); err != nil {
		return Peer{}, fmt.Errorf("reading an enrolment: %w", err)
	}
	if err := e.check(s.InstanceID); err != nil {
		return Peer{}, err
	}
	return Peer{UID: uid, PID: pid, Label: e.ClientLabel, CertificateSHA256: pin(e.Certificate)}, nil
}
