package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lomi/broker/control"
	"lomi/broker/identity"
	"lomi/broker/wire"
)

// realBroker serves the real protocol on a real socket; its engine approves on
// demand and answers with who asked.
type realBroker struct {
	mu      sync.Mutex
	pending map[string]chan wire.Decision // by pairing id
	labels  map[string]string
	ended   map[string]chan struct{} // by session id, which is the pairing's here
}

func (b *realBroker) Enroll(_ context.Context, peer wire.Peer) (wire.Pairing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, decision := control.NewID(), make(chan wire.Decision, 1)
	b.pending[id], b.labels[id], b.ended[id] = decision, peer.Label, make(chan struct{})
	return wire.Pairing{ID: id, Decision: decision}, nil
}

func (b *realBroker) Open(_ context.Context, pairing string) (wire.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return wire.Session{ID: pairing, Ended: b.ended[pairing]}, nil
}

func (b *realBroker) Handle(_ context.Context, session, tool string, args json.RawMessage) control.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	reply, err := control.OK(map[string]any{"kind": "echo", "session": session, "tool": tool, "args": args}, nil)
	if err != nil {
		return control.Failure(err)
	}
	return reply
}

func (b *realBroker) Closed(string) {}

func (b *realBroker) settle(id string, d wire.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[id] <- d
}

func (b *realBroker) revoke(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ended[id])
}

// boot starts a daemon's side in dir, as often as a test wants.
func (b *realBroker) boot(t *testing.T, dir string) (stop func()) {
	t.Helper()
	instance := control.NewID()
	key, err := identity.LoadKey(dir)
	must(t, err)
	certificate, err := identity.NewCertificate(identity.BrokerName(instance))
	must(t, err)
	l, err := wire.ListenFresh(dir)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := wire.Serve(ctx, l, wire.Config{InstanceID: instance, Certificate: certificate, UID: os.Getuid(),
			Identify: identity.Identify, Handler: b}); err != nil {
			t.Error(err)
		}
	})
	must(t, identity.Publish(dir, key, identity.Descriptor{InstanceID: instance, Endpoint: l.Addr().String(),
		BrokerSHA256: identity.Pin(certificate.Certificate[0])}))
	return func() {
		must(t, identity.Withdraw(dir, instance))
		cancel()
		serving.Wait()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attach runs a helper for one MCP host and connects the SDK's client to it.
func attach(t *testing.T, dir, name, era string) *mcp.ClientSession {
	t.Helper()
	key, err := identity.LoadKey(dir)
	must(t, err)
	h := serve(t, nil, func(c *Config) {
		c.Connect = Discover(identity.DiscoveryPath(dir), identity.PublicHex(key), nil)
	})
	client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil)
	s, err := client.Connect(t.Context(), h.transport(), &mcp.ClientSessionOptions{ProtocolVersion: era})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func privateTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lomi-mcpserver-*")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// pair asks, approves and waits for the session.
func (b *realBroker) pair(t *testing.T, s *mcp.ClientSession) (id string) {
	t.Helper()
	id = statusOf(t, call(t, s, "lomi_status", nil)).PairingRequestID
	b.settle(id, wire.Approved)
	untilPaired(t, s, "lomi_workspace_list", nil)
	return id
}

func newRealBroker() *realBroker {
	return &realBroker{pending: make(map[string]chan wire.Decision), labels: make(map[string]string), ended: make(map[string]chan struct{})}
}

// Hosts of both eras side by side, each with a session of its own.
func TestHostsSideBySide(t *testing.T) {
	dir, b := privateTemp(t), newRealBroker()
	defer b.boot(t, dir)()
	var hosts sync.WaitGroup
	for i := range 4 {
		s := attach(t, dir, fmt.Sprintf("host %d", i), eras[i%2])
		id := b.pair(t, s)
		if got := b.labels[id]; got != fmt.Sprintf("host %d", i) {
			t.Errorf("label %q", got)
		}
		for c := range 20 {
			hosts.Go(func() {
				reply := envelopeOf(t, call(t, s, "lomi_panel_list", map[string]int{"n": c}))
				var got struct {
					Session string
					Args    map[string]int
				}
				if err := json.Unmarshal(reply.Data, &got); err != nil || got.Session != id || got.Args["n"] != c {
					t.Errorf("host %d call %d: got %s, %v", i, c, reply.Data, err)
				}
			})
		}
	}
	hosts.Wait()
}

// The daemon is started after the host, restarted under it, and revokes it;
// the host pairs anew each time and nothing is replayed.
func TestDaemonComesAndGoes(t *testing.T) {
	dir, b := privateTemp(t), newRealBroker()
	s := attach(t, dir, "host", eras[0])
	if got := statusOf(t, call(t, s, "lomi_status", nil)).Connection; got != "app_unavailable" {
		t.Errorf("without a daemon: %q", got)
	}
	stop := b.boot(t, dir)
	first := b.pair(t, s)
	stop()
	untilState(t, s, "app_unavailable")
	defer b.boot(t, dir)()
	second := b.pair(t, s)
	b.revoke(second)
	third := untilState(t, s, "pairing_required").PairingRequestID
	b.settle(third, wire.Rejected)
	fourth := ""
	for fourth == "" || fourth == third {
		fourth = statusOf(t, call(t, s, "lomi_status", nil)).PairingRequestID
	}
	b.settle(fourth, wire.Expired)
	fifth := fourth
	for fifth == fourth {
		fifth = statusOf(t, call(t, s, "lomi_status", nil)).PairingRequestID
	}
	b.settle(fifth, wire.Approved)
	if reply := untilPaired(t, s, "lomi_panel_list", nil); !strings.Contains(string(reply.Data), fifth) {
		t.Errorf("got %s, want the session of %s", reply.Data, fifth)
	}
	if seen := map[string]bool{first: true, second: true, third: true, fourth: true, fifth: true}; len(seen) != 5 || seen[""] {
		t.Errorf("pairings %v", seen)
	}
}

// untilState calls until an end has been noticed; each call is answered.
func untilState(t *testing.T, s *mcp.ClientSession, state string) statusData {
	t.Helper()
	for {
		if status := statusOf(t, call(t, s, "lomi_status", nil)); status.Connection == state {
			return status
		}
	}
}

// A descriptor that is not signed by the key in the host's configuration leads
// nowhere.
func TestForeignDescriptor(t *testing.T) {
	dir, b := privateTemp(t), newRealBroker()
	defer b.boot(t, dir)()
	h := serve(t, nil, func(c *Config) {
		c.Connect = Discover(identity.DiscoveryPath(dir), strings.Repeat("ab", 32), nil)
	})
	h.initialize()
	r := h.call("lomi_panel_list", "{}")
	if r.StructuredContent.Code != control.AppUnavailable || !strings.Contains(r.StructuredContent.Message, "safely") {
		t.Errorf("got %+v", r.StructuredContent)
	}
	if len(b.pending) != 0 {
		t.Error("a pairing was asked for")
	}
}
