package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reply is the envelope of every answer of a tool.
type reply struct {
	Status  string          `json:"status"`
	Data    json.RawMessage `json:"data"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Current string          `json:"current"`
}

// caller is an MCP client with `lomi mcp` at its other end.
type caller interface {
	call(ctx context.Context, tool string, args any) (reply, error)
}

// host is an external MCP host: a client, and what it learned so far.
type host struct {
	t     testing.TB
	via   caller
	label string

	workspace, epoch string
	mu               sync.Mutex
	keys             int
	revision         string
	runs             int // commands that a test counts
}

// goHost starts `lomi mcp` under the Go SDK's client.
func (d *daemon) goHost(label string) *host {
	d.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	cmd := exec.Command(d.binary, "mcp", "--data", d.data, "--label", label)
	said := &output{}
	cmd.Stderr = said
	session, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		d.t.Fatalf("starting lomi mcp: %v\n%s", err, said)
	}
	d.t.Cleanup(func() {
		if err := session.Close(); err != nil {
			d.t.Errorf("closing %s: %v", label, err)
		}
		if said.String() != "" {
			d.t.Logf("%s said:\n%s", label, said)
		}
	})
	return &host{t: d.t, label: label, via: goCaller{session}}
}

type goCaller struct{ session *mcp.ClientSession }

func (g goCaller) call(ctx context.Context, tool string, args any) (reply, error) {
	result, err := g.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return reply{}, err
	}
	return envelope(result.StructuredContent, result.IsError)
}

// envelope reads the structured content of a result.
func envelope(content any, isError bool) (reply, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return reply{}, err
	}
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, err
	}
	if isError != (r.Status != "ok") {
		return r, fmt.Errorf("isError is %v for %s", isError, raw)
	}
	return r, nil
}

// nodeHost starts `lomi mcp` under the TypeScript SDK's client.
func (d *daemon) nodeHost(label string) *host {
	d.t.Helper()
	cmd := exec.Command("node", "client.mjs", d.binary, "mcp", "--data", d.data, "--label", label)
	cmd.Dir = npm(d.t, "hosts")
	n := &nodeCaller{waiting: map[int]chan nodeAnswer{}, over: make(chan struct{})}
	said := &output{}
	cmd.Stderr = said
	var err error
	if n.in, err = cmd.StdinPipe(); err != nil {
		d.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	hello := n.expect(0)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go n.read(out) // ends with the client
	d.t.Cleanup(func() {
		n.in.Close()
		<-n.over
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("closing %s: %v", label, err)
		}
		if said.String() != "" {
			d.t.Logf("%s said:\n%s", label, said)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	first, err := n.wait(ctx, hello)
	if err != nil || first.Tools != 74 {
		d.t.Fatalf("the TypeScript client sees %d tools, want 74 (%v)\n%s", first.Tools, err, said)
	}
	return &host{t: d.t, label: label, via: n}
}

type nodeAnswer struct {
	ID     int    `json:"id"`
	Tools  int    `json:"tools"`
	Error  string `json:"error"`
	Result struct {
		StructuredContent any  `json:"structuredContent"`
		IsError           bool `json:"isError"`
	} `json:"result"`
}

// nodeCaller drives client.mjs.
type nodeCaller struct {
	in   io.WriteCloser
	over chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan nodeAnswer
}

func (n *nodeCaller) expect(id int) chan nodeAnswer {
	c := make(chan nodeAnswer, 1)
	n.waiting[id] = c
	return c
}

func (n *nodeCaller) read(out io.Reader) {
	defer close(n.over)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var a nodeAnswer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		n.mu.Lock()
		if c := n.waiting[a.ID]; c != nil {
			c <- a
			delete(n.waiting, a.ID)
		}
		n.mu.Unlock()
	}
}

func (n *nodeCaller) wait(ctx context.Context, c chan nodeAnswer) (nodeAnswer, error) {
	select {
	case a := <-c:
		return a, nil
	case <-n.over:
		return nodeAnswer{}, errors.New("the client ended")
	case <-ctx.Done():
		return nodeAnswer{}, ctx.Err()
	}
}

func (n *nodeCaller) call(ctx context.Context, tool string, args any) (reply, error) {
	n.mu.Lock()
	n.last++
	c := n.expect(n.last)
	line, err := json.Marshal(map[string]any{"id": n.last, "tool": tool, "arguments": args})
	if err == nil {
		_, err = n.in.Write(append(line, '\n'))
	}
	n.mu.Unlock()
	if err != nil {
		return reply{}, err
	}
	a, err := n.wait(ctx, c)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return reply{}, err
	}
	return envelope(a.Result.StructuredContent, a.Result.IsError)
}

// call makes one call. Every call of an external host is answered in time; one
// that is not is a failure.
func (h *host) call(tool string, args any) reply {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := h.via.call(ctx, tool, args)
	if err != nil {
		h.t.Fatalf("%s calls %s: %v", h.label, tool, err)
	}
	return r
}

// ok makes a call that must succeed.
func (h *host) ok(tool string, args, into any) {
	h.t.Helper()
	r := h.call(tool, args)
	if r.Status != "ok" {
		h.t.Fatalf("%s calls %s: %s: %s", h.label, tool, r.Code, r.Message)
	}
	if into != nil {
		if err := json.Unmarshal(r.Data, into); err != nil {
			h.t.Fatalf("%s calls %s: %v in %s", h.label, tool, err, r.Data)
		}
	}
}

// refused makes a call that must fail with a code, and returns the message.
func (h *host) refused(code, tool string, args any) string {
	h.t.Helper()
	r := h.call(tool, args)
	if r.Status != "error" || r.Code != code {
		h.t.Errorf("%s calls %s: %s %s %s, want %s (%s)", h.label, tool, r.Status, r.Code, r.Message, code, r.Data)
	}
	return r.Message
}

// args are the arguments of a call.
type args = map[string]any

// pair asks for a pairing, lets the person approve it, and binds to the
// workspace.
func (h *host) pair(p *page, w workspace, g grant) {
	h.t.Helper()
	h.refused("PAIRING_REQUIRED", "lomi_workspace_list", args{})
	g.Workspaces = []string{w.ID}
	p.approve(p.pairing(h.label).ID, g)
	h.bind(w)
}

// bind learns the epoch of an approved session.
func (h *host) bind(w workspace) {
	h.t.Helper()
	var r reply
	until(h.t, h.label+" is connected", func() bool {
		r = h.call("lomi_connect", args{"workspaceId": w.ID})
		return r.Status == "ok"
	})
	var connected struct{ RetryEpoch, Revision string }
	if err := json.Unmarshal(r.Data, &connected); err != nil {
		h.t.Fatal(err)
	}
	h.workspace, h.epoch, h.revision = w.ID, connected.RetryEpoch, connected.Revision
}

// operation is a receipt as a host sees it.
type operation struct {
	OperationID string          `json:"operationId"`
	State       string          `json:"state"`
	EffectState string          `json:"effectState"`
	Code        string          `json:"code"`
	Message     string          `json:"message"`
	Result      json.RawMessage `json:"result"`
}

// keyed adds what every change of a workspace needs.
func (h *host) keyed(a args) args {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys++
	all := args{"workspaceId": h.workspace, "retryEpoch": h.epoch, "requestKey": "key-" + strconv.Itoa(h.keys)}
	for k, v := range a {
		all[k] = v
	}
	return all
}

// begin makes a change and returns its receipt as it stands. Another client
// that changed the workspace meanwhile is no failure: it names the revision.
func (h *host) begin(tool string, a args) operation {
	h.t.Helper()
	for {
		all := h.keyed(a)
		if _, ok := a["expectedRevision"]; ok {
			all["expectedRevision"] = h.revision
		}
		r := h.call(tool, all)
		if r.Code == "REVISION_CONFLICT" {
			h.revision = r.Current
			continue
		}
		if r.Status != "ok" {
			h.t.Fatalf("%s calls %s: %s: %s", h.label, tool, r.Code, r.Message)
		}
		var o operation
		if err := json.Unmarshal(r.Data, &o); err != nil {
			h.t.Fatal(err)
		}
		return o
	}
}

// settle waits for the end of an operation.
func (h *host) settle(o operation) operation {
	h.t.Helper()
	for end := time.Now().Add(3 * patience); ; {
		switch o.State {
		case "succeeded", "failed", "cancelled", "outcome_unknown":
			return o
		}
		if time.Now().After(end) {
			h.t.Fatalf("%s: operation %s is still %s", h.label, o.OperationID, o.State)
		}
		h.ok("lomi_operation_get", args{"operationId": o.OperationID, "waitMs": 15000}, &o)
	}
}

// shell is a terminal of a host.
type shell struct {
	PanelID           string `json:"panelId"`
	TerminalSessionID string `json:"terminalSessionId"`
	LeaseID           string `json:"leaseId"`
}

func (h *host) shell() shell {
	h.t.Helper()
	o := h.settle(h.begin("lomi_terminal_create", args{"title": h.label, "expectedRevision": ""}))
	var s shell
	if err := json.Unmarshal(o.Result, &s); err != nil || s.LeaseID == "" {
		h.t.Fatalf("%s has no terminal: %v in %+v", h.label, err, o)
	}
	return s
}

// start runs a command and does not wait for its end.
func (h *host) start(s shell, command string) operation {
	h.t.Helper()
	return h.begin("lomi_terminal_run", args{"panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "leaseId": s.LeaseID, "command": command})
}

// observation is what was seen of a command.
type observation struct {
	Completed bool   `json:"completed"`
	ExitCode  *int   `json:"exitCode"`
	Source    string `json:"source"`
}

// exit is the exit code, -1 for none.
func (o observation) exit() int {
	if o.ExitCode == nil {
		return -1
	}
	return *o.ExitCode
}

// run runs a command to its end and returns what was seen and its output.
func (h *host) run(s shell, command string) (observation, string) {
	h.t.Helper()
	o := h.settle(h.start(s, command))
	text, seen := h.read(s, o)
	if want := map[bool]string{true: "succeeded", false: "failed"}[seen.exit() == 0]; o.State != want || !seen.Completed {
		h.t.Fatalf("%s runs %s: %s %s %s, exit code %d", h.label, command, o.State, o.Code, o.Message, seen.exit())
	}
	return seen, text
}

// read is the output of one command.
func (h *host) read(s shell, o operation) (string, observation) {
	h.t.Helper()
	var out struct {
		Text    string
		Command observation
	}
	h.ok("lomi_terminal_read", args{"workspaceId": h.workspace, "panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID,
		"mode": "command", "operationId": o.OperationID, "maxBytes": 65536}, &out)
	return strings.ReplaceAll(out.Text, "\r\n", "\n"), out.Command
}
