package wire

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lomi/broker/control"
	"lomi/broker/identity"
)

const instance = "0123456789abcdef0123456789abcdef"

// engine is a Handler that a test drives.
type engine struct {
	auto   Decision // how pairings are settled at once, "" for not
	handle func(ctx context.Context, tool string, args json.RawMessage) control.Reply
	ended  chan struct{} // Session.Ended of every session

	enrolled, opened, handled, closed atomic.Int32

	mu        sync.Mutex
	peers     []Peer
	decisions []chan Decision
	contexts  []context.Context
}

func (e *engine) Enroll(ctx context.Context, peer Peer) (Pairing, error) {
	e.enrolled.Add(1)
	decision := make(chan Decision, 1)
	if e.auto != "" {
		decision <- e.auto
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peers = append(e.peers, peer)
	e.decisions = append(e.decisions, decision)
	e.contexts = append(e.contexts, ctx)
	return Pairing{ID: control.NewID(), Decision: decision}, nil
}

func (e *engine) Open(context.Context, string) (Session, error) {
	e.opened.Add(1)
	return Session{ID: "session", Ended: e.ended}, nil
}

func (e *engine) Handle(ctx context.Context, _, tool string, args json.RawMessage) control.Reply {
	e.handled.Add(1)
	if e.handle != nil {
		return e.handle(ctx, tool, args)
	}
	return echo(tool, args)
}

func (e *engine) Closed(string) { e.closed.Add(1) }

func (e *engine) decide(i int, d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decisions[i] <- d
}

func (e *engine) context(i int) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.contexts[i]
}

func echo(tool string, args json.RawMessage) control.Reply {
	reply, err := control.OK(map[string]any{"kind": "echo", "tool": tool, "args": args}, nil)
	if err != nil {
		return control.Failure(err)
	}
	return reply
}

// pipeListener hands out the server's ends of pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// rig is a server in memory, inside a bubble of fake time.
type rig struct {
	t        *testing.T
	engine   *engine
	listener *pipeListener
	broker   tls.Certificate
	stop     func()
	uid      int
}

// bubble runs a test with a server, and expects the server to have let go of
// everything when it has stopped.
func bubble(t *testing.T, e *engine, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, engine: e, uid: 1000, broker: certificate(t, instance+".lomi.invalid"),
			listener: &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, r.listener, Config{InstanceID: instance, Certificate: r.broker, UID: 1000,
				Identify: func(net.Conn) (int, int, error) { return r.uid, 4242, nil }, Handler: e})
		}()
		var once sync.Once
		r.stop = func() {
			once.Do(func() {
				cancel()
				if err := <-served; err != nil {
					t.Errorf("Serve: %v", err)
				}
				if opened, closed := e.opened.Load(), e.closed.Load(); opened != closed {
					t.Errorf("%d sessions opened, %d closed", opened, closed)
				}
			})
		}
		defer r.stop()
		test(r)
	})
}

func certificate(t testing.TB, name string) tls.Certificate {
	t.Helper()
	c, err := identity.NewCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dial makes a connection of which nothing has been said yet.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	client, server := net.Pipe()
	r.t.Cleanup(func() { client.Close() })
	r.listener.conns <- server
	return client
}

func (r *rig) enrollment() Enrollment {
	r.t.Helper()
	return Enrollment{InstanceID: instance, Label: "test", Certificate: certificate(r.t, helperName),
		BrokerSHA256: pin(r.broker.Certificate[0])}
}

func (r *rig) enroll() *Enrolled {
	r.t.Helper()
	w, err := Enroll(r.t.Context(), r.dial(), r.enrollment())
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// open makes an approved connection; the engine must approve by itself.
func (r *rig) open() *Link {
	r.t.Helper()
	l, err := r.enroll().Open(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	return l
}

// raw is an approved connection without the client's half of the protocol.
func (r *rig) raw() *tls.Conn {
	r.t.Helper()
	w := r.enroll()
	secured := tls.Client(w.conn, clientTLS(w.e.Certificate, w.e.BrokerSHA256, instance+brokerSuffix))
	if err := secured.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	return secured
}

func (r *rig) send(conn net.Conn, body string) {
	r.t.Helper()
	if _, err := conn.Write(appendFrame([]byte(body))); err != nil {
		r.t.Fatal(err)
	}
}

// receive returns the next answer, and passes over signals.
func (r *rig) receive(conn net.Conn) message {
	r.t.Helper()
	for {
		body, err := readFrame(conn, control.MaxFrame, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		var m message
		if err := decode(body, &m); err != nil {
			r.t.Fatalf("%v in %s", err, body)
		}
		if m.Signal == "" {
			return m
		}
	}
}

// ends reads until the server ends the connection, and returns after how long.
func ends(conn net.Conn) time.Duration {
	start := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(start)
}

func code(t *testing.T, reply control.Reply) control.Code {
	t.Helper()
	if reply.Status == "ok" {
		t.Fatalf("got an ok answer: %s", reply.Data)
	}
	return reply.Code
}

func failed(err error, want control.Code) bool {
	e, ok := errors.AsType[*control.Error](err)
	return ok && e.Code == want
}
