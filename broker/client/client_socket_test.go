package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lomi/broker/control"
	"lomi/broker/identity"
	"lomi/broker/wire"
)

// broker is a real server with an engine that the test drives.
type broker struct {
	cfg       Config
	dir       string // private; holds the registration key and the descriptor
	keyHex    string
	decisions chan chan<- wire.Decision
	handle    func(ctx context.Context, tool string, args json.RawMessage) control.Reply
	stop      func()
}

func (b *broker) Enroll(context.Context, wire.Peer) (wire.Pairing, error) {
	decision := make(chan wire.Decision, 1)
	b.decisions <- decision
	return wire.Pairing{ID: control.NewID(), Decision: decision}, nil
}

func (b *broker) Open(context.Context, string) (wire.Session, error) {
	return wire.Session{ID: control.NewID()}, nil
}

func (b *broker) Handle(ctx context.Context, _, tool string, args json.RawMessage) control.Reply {
	return b.handle(ctx, tool, args)
}

func (b *broker) Closed(string) {}

func start(t *testing.T) *broker {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lomi-client-*")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	key, err := identity.LoadKey(dir)
	must(t, err)
	instance := control.NewID()
	certificate, err := identity.NewCertificate(identity.BrokerName(instance))
	must(t, err)
	l, err := wire.ListenFresh(dir)
	must(t, err)
	b := &broker{dir: dir, keyHex: identity.PublicHex(key), decisions: make(chan chan<- wire.Decision, 64),
		cfg: Config{Endpoint: l.Addr().String(), InstanceID: instance, Label: "test",
			BrokerSHA256: identity.Pin(certificate.Certificate[0])},
		handle: func(_ context.Context, tool string, _ json.RawMessage) control.Reply {
			reply, err := control.OK(map[string]string{"kind": "echo", "tool": tool}, nil)
			if err != nil {
				return control.Failure(err)
			}
			return reply
		}}
	must(t, identity.Publish(dir, key, identity.Descriptor{InstanceID: instance, Endpoint: b.cfg.Endpoint, BrokerSHA256: b.cfg.BrokerSHA256}))
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := wire.Serve(ctx, l, wire.Config{InstanceID: instance, Certificate: certificate, UID: os.Getuid(),
			Identify: identity.Identify, Handler: b}); err != nil {
			t.Error(err)
		}
	})
	b.stop = func() { cancel(); serving.Wait() }
	t.Cleanup(b.stop)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) dial(t *testing.T) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), b.cfg)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func (b *broker) settle(d wire.Decision) { (<-b.decisions) <- d }

func (b *broker) open(t *testing.T) *Conn {
	t.Helper()
	c := b.dial(t)
	b.settle(wire.Approved)
	must(t, c.Await(t.Context()))
	return c
}

func TestConn(t *testing.T) {
	b := start(t)
	cfg, err := FromDiscovery(identity.DiscoveryPath(b.dir), b.keyHex)
	must(t, err)
	cfg.Label = "test"
	if cfg.Endpoint != b.cfg.Endpoint || cfg.InstanceID != b.cfg.InstanceID || cfg.BrokerSHA256 != b.cfg.BrokerSHA256 {
		t.Fatalf("from discovery: %+v", cfg)
	}
	c, err := Dial(t.Context(), cfg)
	must(t, err)
	defer c.Close()
	reply, err := c.Call(t.Context(), "lomi_panel_list", nil)
	if err != nil || reply.Code != control.PairingRequired || !strings.Contains(reply.Message, c.PairingID()) {
		t.Errorf("before the approval: got %+v, %v", reply, err)
	}
	b.settle(wire.Approved)
	must(t, c.Await(t.Context()))
	must(t, c.Await(t.Context())) // the same answer again
	if reply, err := c.Call(t.Context(), "lomi_status", nil); err != nil || reply.Status != "ok" {
		t.Errorf("got %+v, %v", reply, err)
	}
	select {
	case <-c.Done():
		t.Error("it ended by itself")
	default:
	}
	must(t, c.Close())
	<-c.Done()
	if _, err := c.Call(t.Context(), "lomi_status", nil); !errors.Is(err, ErrLost) || !errors.Is(err, ErrNotSent) {
		t.Errorf("after closing: got %v, want ErrLost, ErrNotSent", err)
	}
}

func TestAwaitOutcomes(t *testing.T) {
	for decision, want := range map[wire.Decision]error{wire.Rejected: ErrRejected, wire.Expired: ErrExpired} {
		b := start(t)
		c := b.dial(t)
		b.settle(decision)
		for range 2 {
			if err := c.Await(t.Context()); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		<-c.Done()
	}
	t.Run("the daemon stops", func(t *testing.T) {
		b := start(t)
		c := b.dial(t)
		go b.stop()
		if err := c.Await(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		<-c.Done()
	})
	t.Run("closed while it waits", func(t *testing.T) {
		c := start(t).dial(t)
		go c.Close()
		if err := c.Await(t.Context()); err == nil {
			t.Error("it opened")
		}
		<-c.Done()
	})
}

func TestRestartEndsSession(t *testing.T) {
	b := start(t)
	c := b.open(t)
	b.stop()
	<-c.Done()
	if _, err := c.Call(t.Context(), "lomi_status", nil); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if _, err := Dial(t.Context(), b.cfg); !errors.Is(err, ErrUnavailable) {
		t.Errorf("dialling again: got %v, want ErrUnavailable", err)
	}
}

// F-62: a call that was sent when the connection ended has an unknown outcome,
// once, unless it only reads.
func TestLostInMidCall(t *testing.T) {
	b := start(t)
	running := make(chan struct{})
	b.handle = func(ctx context.Context, _ string, _ json.RawMessage) control.Reply {
		close(running)
		<-ctx.Done()
		return control.Failure(context.Cause(ctx))
	}
	c := b.open(t)
	go func() {
		<-running
		b.stop()
	}()
	_, err := c.Call(t.Context(), "lomi_terminal_run", nil)
	if !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if got := Failure(err, false); got.Code != control.OutcomeUnknown || got.Effect != control.EffectUnknown {
		t.Errorf("a mutation: got %+v", got)
	}
	if got := Failure(err, true); got.Code != control.AppUnavailable || got.Effect != control.EffectNone {
		t.Errorf("a read: got %+v", got)
	}
}

func TestFailure(t *testing.T) {
	for _, row := range []struct {
		err      error
		readOnly bool
		want     control.Code
	}{
		{context.DeadlineExceeded, true, control.DeadlineExceeded},
		{context.DeadlineExceeded, false, control.OutcomeUnknown},
		{errors.Join(ErrNotSent, context.DeadlineExceeded), false, control.DeadlineExceeded},
		{context.Canceled, true, control.AppUnavailable},
		{errors.Join(ErrNotSent, ErrLost), false, control.AppUnavailable},
		{errors.Join(ErrNotSent, control.Errorf(control.ResourceExhausted, "x")), false, control.ResourceExhausted},
	} {
		if got := Failure(row.err, row.readOnly); got.Code != row.want {
			t.Errorf("%v, read only %v: got %v, want %v", row.err, row.readOnly, got.Code, row.want)
		}
	}
}

// The helper's checks of the socket, and of what is behind it.
func TestDialRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(t *testing.T, b *broker, cfg *Config)
		want  error // nil: any
	}{
		"relative path":  {func(_ *testing.T, _ *broker, cfg *Config) { cfg.Endpoint = "control.sock" }, nil},
		"short pin":      {func(_ *testing.T, _ *broker, cfg *Config) { cfg.BrokerSHA256 = "ab" }, nil},
		"label":          {func(_ *testing.T, _ *broker, cfg *Config) { cfg.Label = "a\nb" }, nil},
		"nothing there":  {func(_ *testing.T, _ *broker, cfg *Config) { cfg.Endpoint += "2" }, ErrUnavailable},
		"no folder":      {func(_ *testing.T, _ *broker, cfg *Config) { cfg.Endpoint = "/nowhere/control.sock" }, ErrUnavailable},
		"socket mode":    {func(t *testing.T, _ *broker, cfg *Config) { must(t, os.Chmod(cfg.Endpoint, 0o666)) }, nil},
		"folder mode":    {func(t *testing.T, _ *broker, cfg *Config) { must(t, os.Chmod(filepath.Dir(cfg.Endpoint), 0o755)) }, nil},
		"another pin":    {func(_ *testing.T, _ *broker, cfg *Config) { cfg.BrokerSHA256 = strings.Repeat("ab", 32) }, ErrImpostor},
		"dead socket":    {func(_ *testing.T, b *broker, _ *Config) { b.stop() }, ErrUnavailable},
		"other instance": {func(_ *testing.T, _ *broker, cfg *Config) { cfg.InstanceID = "another" }, ErrUnavailable},
		"symbolic link": {func(t *testing.T, b *broker, cfg *Config) {
			link := filepath.Join(b.dir, "linked.sock")
			must(t, os.Symlink(cfg.Endpoint, link))
			cfg.Endpoint = link
		}, nil},
		"hangs up at once": {func(t *testing.T, b *broker, cfg *Config) {
			cfg.Endpoint = filepath.Join(b.dir, "rude.sock")
			l, err := wire.Listen(cfg.Endpoint)
			must(t, err)
			t.Cleanup(func() { l.Close() })
			go func() {
				if conn, err := l.Accept(); err == nil {
					conn.Close()
				}
			}()
		}, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			cfg := b.cfg
			row.spoil(t, b, &cfg)
			c, err := Dial(t.Context(), cfg)
			if err == nil {
				c.Close()
				t.Fatal("it connected")
			}
			if row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}

// F-20: a broker that accepts and says nothing holds Dial no longer than its
// caller allows.
func TestDialEndsWithContext(t *testing.T) {
	b := start(t)
	cfg := b.cfg
	cfg.Endpoint = filepath.Join(b.dir, "mute.sock")
	l, err := wire.Listen(cfg.Endpoint)
	must(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, cfg); err == nil {
		t.Error("it connected")
	}
	(<-accepted).Close()
}

func TestFromDiscoveryWithoutDaemon(t *testing.T) {
	b := start(t)
	must(t, identity.Withdraw(b.dir, b.cfg.InstanceID))
	if _, err := FromDiscovery(identity.DiscoveryPath(b.dir), b.keyHex); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestCleanLabel(t *testing.T) {
	for name, want := range map[string]string{
		"Codex": "Codex", "": "a host", " \n\t ": "a host", "a\n\nb": "a b", "a\u202eb\x1b[31m": "ab[31m", "\xff": "a host",
		strings.Repeat("ä", 100): strings.Repeat("ä", 80), "\x00": "a host",
	} {
		if got := CleanLabel(name, "a host"); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
