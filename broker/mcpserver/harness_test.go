package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lomi/broker/control"
)

// fake is a Connection that a test drives.
type fake struct {
	id      string
	label   string
	settled chan error    // what Await returns
	done    chan struct{} // closed when the connection ends
	once    sync.Once
	call    func(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error)
}

func (c *fake) PairingID() string { return c.id }

func (c *fake) Await(ctx context.Context) error {
	select {
	case err := <-c.settled:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *fake) Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error) {
	return c.call(ctx, tool, args)
}

func (c *fake) Done() <-chan struct{} { return c.done }
func (c *fake) Close() error          { c.lose(); return nil }
func (c *fake) lose()                 { c.once.Do(func() { close(c.done) }) }

// daemon makes fakes, and remembers them.
type daemon struct {
	err  error // of Connect
	auto bool  // approves at once
	call func(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error)

	mu    sync.Mutex
	conns []*fake
}

func (d *daemon) connect(_ context.Context, label string) (Connection, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	c := &fake{id: fmt.Sprintf("pairing-%d", len(d.conns)+1), label: label, settled: make(chan error, 1),
		done: make(chan struct{}), call: d.call}
	if c.call == nil {
		c.call = func(_ context.Context, tool string, args json.RawMessage) (control.Reply, error) {
			return control.OK(map[string]any{"kind": "echo", "tool": tool, "args": args}, nil)
		}
	}
	if d.auto {
		c.settled <- nil
	}
	d.conns = append(d.conns, c)
	return c, nil
}

func (d *daemon) conn(i int) *fake {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[i]
}

func (d *daemon) attempts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// host is the other side of the pipes, raw.
type host struct {
	t   testing.TB
	in  *io.PipeWriter
	out *bufio.Reader
	ran chan error // what Run returned
}

func serve(t testing.TB, d *daemon, change ...func(*Config)) *host {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	h := &host{t: t, in: inW, out: bufio.NewReader(outR), ran: make(chan error, 1)}
	cfg := Config{Stdin: inR, Stdout: outW, Version: "test"}
	if d != nil {
		cfg.Connect = d.connect
	}
	for _, c := range change {
		c(&cfg)
	}
	go func() {
		err := Run(context.Background(), cfg)
		outW.Close()
		h.ran <- err
	}()
	t.Cleanup(func() {
		h.in.Close()
		if h.out != nil {
			go io.Copy(io.Discard, h.out) // whatever still wants to be written
		}
		if err := <-h.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		h.ran <- nil
	})
	return h
}

func (h *host) send(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatalf("writing %.80s: %v", line, err)
	}
}

// answer is one line of the server, which must be a JSON-RPC message.
type answer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (h *host) read() answer {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatalf("reading: %v (%.80q)", err, line)
	}
	var a answer
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.JSONRPC != "2.0" {
		h.t.Fatalf("F-61: not a message on standard output: %.200q", line)
	}
	return a
}

const initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test host","version":"1"}}}`

func (h *host) initialize() {
	h.t.Helper()
	h.send(initialize)
	if a := h.read(); a.Error != nil {
		h.t.Fatalf("initialize: %+v", a.Error)
	}
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// alive proves that the session still serves.
func (h *host) alive(after string) {
	h.t.Helper()
	h.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
	a := h.read()
	if string(a.ID) != `"alive"` || a.Error != nil {
		h.t.Fatalf("after %.80s: the next answer is for %s, error %+v", after, a.ID, a.Error)
	}
}

// toolResult is the result of tools/call.
type toolResult struct {
	IsError           bool            `json:"isError"`
	StructuredContent control.Reply   `json:"structuredContent"`
	Content           []mcpContent    `json:"content"`
	ResultType        string          `json:"resultType"`
	Meta              json.RawMessage `json:"_meta"`
}

type mcpContent struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
}

func (h *host) call(tool, args string) toolResult {
	h.t.Helper()
	h.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`)
	return h.result("call")
}

func (h *host) result(id string) toolResult {
	h.t.Helper()
	a := h.read()
	if string(a.ID) != `"`+id+`"` || a.Error != nil {
		h.t.Fatalf("answer for %s, error %+v, want a result for %s", a.ID, a.Error, id)
	}
	var r toolResult
	if err := json.Unmarshal(a.Result, &r); err != nil {
		h.t.Fatalf("%v in %s", err, a.Result)
	}
	return r
}

// transport gives the host's side to the SDK, which then is its only reader.
func (h *host) transport() mcp.Transport {
	out := h.out
	h.out = nil
	return &mcp.IOTransport{Reader: io.NopCloser(out), Writer: h.in}
}

// session connects the SDK's own client with a protocol version.
func session(t *testing.T, d *daemon, version string) *mcp.ClientSession {
	t.Helper()
	h := serve(t, d)
	client := mcp.NewClient(&mcp.Implementation{Name: "Cursor", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := client.Connect(t.Context(), h.transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func envelopeOf(t *testing.T, r *mcp.CallToolResult) control.Reply {
	t.Helper()
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var reply control.Reply
	if err := json.Unmarshal(raw, &reply); err != nil {
		t.Fatal(err)
	}
	if text, ok := r.Content[0].(*mcp.TextContent); !ok || !strings.Contains(text.Text, reply.Status) {
		t.Errorf("the text block is %+v", r.Content[0])
	}
	if r.IsError != (reply.Status == "error") {
		t.Errorf("isError is %v for status %q", r.IsError, reply.Status)
	}
	return reply
}
