package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lomi/broker/catalog"
	"lomi/broker/client"
	"lomi/broker/control"
)

var eras = []string{"2025-11-25", "2026-07-28"}

// eachEra runs a test with the SDK's client in both eras of the protocol.
func eachEra(t *testing.T, d func() *daemon, test func(t *testing.T, d *daemon, s *mcp.ClientSession)) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			daemon := d()
			s := session(t, daemon, era)
			if got := s.InitializeResult().ProtocolVersion; got != era {
				t.Fatalf("protocol %s, want %s", got, era)
			}
			test(t, daemon, s)
		})
	}
}

func call(t *testing.T, s *mcp.ClientSession, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

func TestListWithoutDaemon(t *testing.T) {
	unreachable := func() *daemon { return &daemon{err: client.ErrUnavailable} }
	eachEra(t, unreachable, func(t *testing.T, d *daemon, s *mcp.ClientSession) {
		r, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Tools) != 74 || r.NextCursor != "" {
			t.Errorf("%d tools, cursor %q, want 74 on one page", len(r.Tools), r.NextCursor)
		}
		if r.TTLMs != 0 || r.CacheScope != "private" && s.InitializeResult().ProtocolVersion == eras[1] {
			t.Errorf("ttl %v, scope %q", r.TTLMs, r.CacheScope)
		}
		names := make([]string, 0, len(r.Tools))
		for i, tool := range r.Tools {
			names = append(names, tool.Name)
			want := catalog.All()[i]
			a := tool.Annotations
			if tool.Title != want.Title || a.ReadOnlyHint != want.ReadOnly || !a.IdempotentHint || *a.DestructiveHint != want.Destructive ||
				*a.OpenWorldHint != want.OpenWorld || tool.InputSchema == nil || tool.OutputSchema == nil {
				t.Errorf("%s: got %+v, %+v", want.Name, tool, a)
			}
		}
		if !slices.IsSorted(names) {
			t.Error("the tools are not sorted")
		}
		if _, err := s.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "x"}); rpcCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("with a cursor: %v, want -32602", err)
		}
		capabilities := s.InitializeResult().Capabilities
		if capabilities.Tools == nil || capabilities.Tools.ListChanged || capabilities.Prompts != nil {
			t.Errorf("capabilities %+v", capabilities)
		}
		if raw, err := json.Marshal(capabilities); err != nil || strings.Contains(string(raw), "logging") {
			t.Errorf("capabilities %s, %v: the default of the SDK leaks", raw, err)
		}
		if got := s.InitializeResult().ServerInfo; got.Name != "lomi-mcp" || got.Version != "test" {
			t.Errorf("server %+v", got)
		}
		if d.attempts() != 0 {
			t.Error("the daemon was asked for the list")
		}
	})
}

func rpcCode(err error) int64 {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return 0
}

// From the first call to a forwarded one.
func TestPairThenCall(t *testing.T) {
	eachEra(t, func() *daemon { return &daemon{} }, func(t *testing.T, d *daemon, s *mcp.ClientSession) {
		status := statusOf(t, call(t, s, "lomi_status", nil))
		if status.Connection != "pairing_required" || status.PairingRequestID != "pairing-1" || status.UIReady || len(status.Capabilities) != 0 {
			t.Errorf("status %+v", status)
		}
		if got := d.conn(0).label; got != "Cursor" {
			t.Errorf("label %q, want what the host calls itself", got)
		}
		for _, tool := range catalog.All() {
			if tool.Unpaired {
				continue
			}
			reply := envelopeOf(t, call(t, s, tool.Name, nil))
			if reply.Code != control.PairingRequired || !strings.Contains(reply.Message, "pairing-1") {
				t.Errorf("%s: got %+v", tool.Name, reply)
			}
		}
		if d.attempts() != 1 {
			t.Errorf("%d pairings were asked for, want 1", d.attempts())
		}
		d.conn(0).settled <- nil
		reply := untilPaired(t, s, "lomi_panel_list", map[string]any{"workspaceId": "w"})
		if reply.Status != "ok" || !strings.Contains(string(reply.Data), `"workspaceId":"w"`) {
			t.Errorf("paired: got %+v", reply)
		}
		if reply := envelopeOf(t, call(t, s, "lomi_status", nil)); !strings.Contains(string(reply.Data), `"echo"`) {
			t.Errorf("status of a session must come from the broker, got %s", reply.Data)
		}
	})
}

// untilPaired calls until the approval has arrived; each call is answered.
func untilPaired(t *testing.T, s *mcp.ClientSession, tool string, args any) control.Reply {
	t.Helper()
	for {
		if reply := envelopeOf(t, call(t, s, tool, args)); reply.Code != control.PairingRequired {
			return reply
		}
	}
}

type statusData struct {
	Kind, Connection, PairingRequestID, Platform, NextStep string
	UIReady                                                bool
	Capabilities, Limitations                              []any
}

func statusOf(t *testing.T, r *mcp.CallToolResult) statusData {
	t.Helper()
	reply := envelopeOf(t, r)
	if reply.Status != "ok" {
		t.Fatalf("got %+v", reply)
	}
	var s statusData
	if err := json.Unmarshal(reply.Data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Bug 65: what the server itself answers fits the schemas that it lists.
func TestLocalAnswersFitSchemas(t *testing.T) {
	for name, d := range map[string]*daemon{"no daemon": {err: client.ErrUnavailable}, "pairing": {}, "paired, then failing": {auto: true,
		call: func(context.Context, string, json.RawMessage) (control.Reply, error) {
			return control.Reply{}, client.ErrLost
		}}} {
		s := session(t, d, eras[0])
		for _, tool := range catalog.All() {
			r := call(t, s, tool.Name, nil)
			var schema jsonschema.Schema
			if err := json.Unmarshal(tool.Output(), &schema); err != nil {
				t.Fatal(err)
			}
			resolved, err := schema.Resolve(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(r.StructuredContent); err != nil {
				t.Errorf("%s: %s: %v", name, tool.Name, err)
			}
		}
	}
}

func TestImageIsABlock(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n...")
	d := func() *daemon {
		return &daemon{auto: true, call: func(context.Context, string, json.RawMessage) (control.Reply, error) {
			return control.OK(map[string]string{"kind": "browser_screenshot"}, &control.Image{MediaType: "image/png", Data: png})
		}}
	}
	eachEra(t, d, func(t *testing.T, _ *daemon, s *mcp.ClientSession) {
		r := call(t, s, "lomi_browser_screenshot", nil)
		image, ok := r.Content[len(r.Content)-1].(*mcp.ImageContent)
		if !ok || image.MIMEType != "image/png" || string(image.Data) != string(png) {
			t.Fatalf("last block %+v", r.Content[len(r.Content)-1])
		}
		if reply := envelopeOf(t, r); reply.Image != nil || reply.Status != "ok" {
			t.Errorf("structured content %+v", reply)
		}
	})
}

func TestFailures(t *testing.T) {
	eachEra(t, func() *daemon {
		return &daemon{auto: true, call: func(_ context.Context, tool string, _ json.RawMessage) (control.Reply, error) {
			switch tool {
			case "lomi_panel_list":
				return control.Failure(&control.Error{Code: control.RevisionConflict, Message: "it moved", Current: "7", MovedBy: "person"}), nil
			case "lomi_terminal_create":
				return control.Reply{Status: "ok", Data: json.RawMessage("{bad")}, nil
			}
			panic("in a call")
		}}
	}, func(t *testing.T, _ *daemon, s *mcp.ClientSession) {
		reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil))
		if reply.Code != control.RevisionConflict || reply.Current != "7" || reply.MovedBy != "person" || reply.ControlAPIVersion != "1.0" {
			t.Errorf("got %+v", reply)
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "lomi_nothing"}); rpcCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("an unknown tool: %v, want -32602", err)
		}
		for name, args := range map[string]any{"array": []int{1}, "number": 1, "text": "x", "too long": map[string]string{"a": strings.Repeat("x", control.MaxArguments)}} {
			if reply := envelopeOf(t, call(t, s, "lomi_workspace_list", args)); reply.Code != control.ResourceExhausted {
				t.Errorf("%s as arguments: got %+v", name, reply)
			}
		}
		if reply := envelopeOf(t, call(t, s, "lomi_status", map[string]int{"x": 1})); reply.Code != control.ResourceExhausted || !strings.Contains(reply.Message, "x:") {
			t.Errorf("unknown argument of lomi_status: got %+v", reply)
		}
		if reply := envelopeOf(t, call(t, s, "lomi_terminal_create", nil)); reply.Status != "error" {
			t.Errorf("a result that is not JSON: got %+v", reply)
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "lomi_terminal_run", Arguments: map[string]any{}}); rpcCode(err) != jsonrpc.CodeInternalError {
			t.Errorf("a panic: %v, want -32603", err)
		}
		if reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil)); reply.Code != control.RevisionConflict {
			t.Errorf("after the panic: got %+v", reply)
		}
	})
}

func TestBrokerRefusesPairing(t *testing.T) {
	s := session(t, &daemon{err: control.Errorf(control.ResourceExhausted, "8 pairings wait")}, eras[0])
	if reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil)); reply.Code != control.ResourceExhausted {
		t.Errorf("got %+v", reply)
	}
	if status := statusOf(t, call(t, s, "lomi_status", nil)); status.Connection != "disconnected" || len(status.Limitations) != 1 {
		t.Errorf("status %+v", status)
	}
}

// A pairing that ended is made anew by a later call, and nothing is replayed.
func TestPairingAnew(t *testing.T) {
	t.Run("no daemon, then one", func(t *testing.T) {
		d := &daemon{err: client.ErrUnavailable}
		s := session(t, d, eras[0])
		if reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil)); reply.Code != control.AppUnavailable {
			t.Errorf("got %+v", reply)
		}
		if got := statusOf(t, call(t, s, "lomi_status", nil)).Connection; got != "app_unavailable" {
			t.Errorf("status %q", got)
		}
		if got := statusOf(t, call(t, s, "lomi_diagnostics", nil)); !strings.Contains(got.NextStep, "start it") {
			t.Errorf("diagnostics %+v", got)
		}
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		if got := statusOf(t, call(t, s, "lomi_status", nil)); got.PairingRequestID != "pairing-1" {
			t.Errorf("status %+v", got)
		}
	})
	t.Run("expired", func(t *testing.T) {
		d := &daemon{}
		s := session(t, d, eras[0])
		call(t, s, "lomi_status", nil)
		d.conn(0).settled <- client.ErrExpired
		<-d.conn(0).Done()
		untilID(t, s, "pairing-2")
	})
	t.Run("rejected", func(t *testing.T) {
		d := &daemon{}
		s := session(t, d, eras[0])
		call(t, s, "lomi_status", nil)
		d.conn(0).settled <- client.ErrRejected
		<-d.conn(0).Done()
		reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil))
		if reply.Code != control.PairingRequired || !strings.Contains(reply.Message, "rejected") || d.attempts() != 1 {
			t.Errorf("the host is told once: got %+v after %d pairings", reply, d.attempts())
		}
		untilID(t, s, "pairing-2")
	})
	t.Run("lost", func(t *testing.T) {
		d := &daemon{auto: true}
		s := session(t, d, eras[0])
		if reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil)); reply.Status != "ok" {
			t.Fatalf("got %+v", reply)
		}
		d.auto = false
		d.conn(0).lose()
		untilID(t, s, "pairing-2")
		if got := d.attempts(); got != 2 {
			t.Errorf("%d pairings, want 2", got)
		}
	})
}

func untilID(t *testing.T, s *mcp.ClientSession, id string) {
	t.Helper()
	for range 100 {
		reply := envelopeOf(t, call(t, s, "lomi_panel_list", nil))
		if reply.Code != control.PairingRequired {
			t.Fatalf("got %+v", reply)
		}
		if strings.Contains(reply.Message, id) {
			return
		}
	}
	t.Errorf("%s was not asked for", id)
}

func TestLabelOfConfig(t *testing.T) {
	d := &daemon{}
	h := serve(t, d, func(c *Config) { c.Label = "my\nhost" })
	h.initialize()
	h.call("lomi_status", "{}")
	if got := d.conn(0).label; got != "my host" {
		t.Errorf("label %q", got)
	}
}

func TestRunNeedsItsParts(t *testing.T) {
	if err := Run(t.Context(), Config{}); err == nil {
		t.Error("it ran with nothing")
	}
}
