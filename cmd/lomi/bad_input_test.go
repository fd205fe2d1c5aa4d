package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestUnpaired: before a person approved, two tools answer and nothing runs.
func TestUnpaired(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	h := d.goHost("Early")
	var status struct{ Connection, PairingRequestID string }
	h.ok("lomi_status", args{}, &status)
	if status.Connection != "pairing_required" || status.PairingRequestID == "" {
		t.Errorf("lomi_status says %+v", status)
	}
	var next struct{ NextStep string }
	h.ok("lomi_diagnostics", args{}, &next)
	if !strings.Contains(next.NextStep, status.PairingRequestID) {
		t.Errorf("the next step does not name the request: %s", next.NextStep)
	}
	tools, err := h.via.(goCaller).session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 74 {
		t.Fatalf("got %d tools (%v), want 74", len(tools.Tools), err)
	}
	for _, tool := range tools.Tools {
		if tool.Name == "lomi_status" || tool.Name == "lomi_diagnostics" {
			continue
		}
		if text := h.refused("PAIRING_REQUIRED", tool.Name, args{}); !strings.Contains(text, status.PairingRequestID) {
			t.Errorf("%s does not name the request: %s", tool.Name, text)
		}
	}
	var answer struct{ Receipts []json.RawMessage }
	d.lomiJSON(&answer, "receipt", "list")
	if len(answer.Receipts) != 0 {
		t.Errorf("something ran: %s", answer.Receipts)
	}
}

// TestBadArguments: each fault is told by the name of its field, never by its
// value; the connection and the daemon live on.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	h := d.goHost("Clumsy")
	h.pair(p, w, grant{Domains: []string{"terminal"}, Policy: "grant"})
	s := h.shell()
	run := `"workspaceId":"` + w.ID + `","retryEpoch":"` + h.epoch + `","requestKey":"k","panelId":"` + s.PanelID + `","terminalSessionId":"` + s.TerminalSessionID + `","leaseId":"` + s.LeaseID + `"`
	typed := strings.Replace(run, `"retryEpoch":"`+h.epoch+`","requestKey":"k",`, "", 1) + `,"inputSequence":"1"`
	for _, row := range []struct{ name, tool, args, field string }{
		{"missing", "lomi_connect", `{}`, "workspaceId"},
		{"unknown", "lomi_connect", `{"workspaceId":"` + w.ID + `","hunter2":1}`, "hunter2"},
		{"case-folded", "lomi_connect", `{"WorkspaceID":"` + w.ID + `"}`, "WorkspaceID"},
		{"case-folded beside the right one", "lomi_connect", `{"workspaceId":"` + w.ID + `","workspaceID":"x"}`, "workspaceID"},
		{"duplicate", "lomi_connect", `{"workspaceId":"` + w.ID + `","workspaceId":"` + w.ID + `"}`, "workspaceId"},
		{"escaped duplicate", "lomi_connect", `{"workspaceId":"` + w.ID + `","workspac\u0065Id":"` + w.ID + `"}`, "workspaceId"},
		{"number", "lomi_connect", `{"workspaceId":12345678}`, "workspaceId"},
		{"null", "lomi_connect", `{"workspaceId":null}`, "workspaceId"},
		{"strange id", "lomi_connect", `{"workspaceId":"../hunter2"}`, "workspaceId"},
		{"no object", "lomi_connect", `["hunter2"]`, "arguments"},
		{"oversized", "lomi_connect", `{"workspaceId":"` + strings.Repeat("hunter2 ", 9000) + `"}`, "arguments"},
		{"deep", "lomi_connect", `{"workspaceId":` + strings.Repeat("[", 66) + strings.Repeat("]", 66) + `}`, ""},
		{"long command", "lomi_terminal_run", `{` + run + `,"command":"` + strings.Repeat("hunter2;", 2049) + `"}`, "command"},
		{"two lines", "lomi_terminal_run", `{` + run + `,"command":"hunter2\ntouch made"}`, "command"},
		{"control character", "lomi_terminal_run", `{` + run + `,"command":"hunter2\u0003"}`, "command"},
		{"other variant", "lomi_terminal_input", `{` + typed + `,"input":{"type":"text","text":"hunter2","key":"enter"}}`, "input.key"},
		{"unknown key", "lomi_terminal_input", `{` + typed + `,"input":{"type":"key","key":"hunter2"}}`, "input.key"},
		{"nested unknown", "lomi_terminal_input", `{` + typed + `,"input":{"type":"text","text":"x","Text":"hunter2"}}`, "input.Text"},
		{"out of range", "lomi_operation_get", `{"operationId":"x","waitMs":15001}`, "waitMs"},
		{"fraction", "lomi_operation_get", `{"operationId":"x","waitMs":1.5}`, "waitMs"},
	} {
		text := h.refused("RESOURCE_EXHAUSTED", row.tool, json.RawMessage(row.args))
		if row.field != "" && !strings.HasPrefix(text, row.field+":") {
			t.Errorf("%s: %q does not name %s", row.name, text, row.field)
		}
		if row.field != "hunter2" && strings.Contains(text, "hunter2") {
			t.Errorf("%s: the message shows the value: %s", row.name, text)
		}
		h.ok("lomi_connect", args{"workspaceId": w.ID}, nil)
	}
	if _, text := h.run(s, "ls"); text != "" {
		t.Errorf("something ran: %s", text)
	}
	if _, err := h.via.(goCaller).session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lomi_reboot"}); err == nil {
		t.Error("an unknown tool got a result")
	}
	h.ok("lomi_connect", args{"workspaceId": w.ID}, nil)
}

// TestBadLines: a line that is no message is answered with an error of the
// protocol, and the next line with its own answer.
func TestBadLines(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	cmd := exec.Command(d.binary, "mcp", "--data", d.data)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 1<<20)
	ask := func(line string) string {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("after %.80q the server ended: %v", line, answers.Err())
		}
		return answers.Text()
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lomi_connect","arguments":`
	for name, line := range map[string]string{
		"cut off": `{"jsonrpc":"2.0","id":2,`, "no JSON": "Segmentation fault", "no UTF-8": call + "{\"workspaceId\":\"\xff\"}}}",
		"deep": call + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}}", "two values": call + "{}}} {}", "no version": `{"id":2,"method":"ping"}`,
	} {
		if answer := ask(line); !strings.Contains(answer, `"error":{"code":-32`) {
			t.Errorf("%s is answered with %.300s", name, answer)
		}
		if answer := ask(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`); !strings.Contains(answer, `"id":"alive"`) || !strings.Contains(answer, `"result"`) {
			t.Errorf("after %s a ping is answered with %.300s", name, answer)
		}
	}
	in.Close()
	if answers.Scan() {
		t.Errorf("one answer too many: %.300s", answers.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("lomi mcp ended with %v", err)
	}
}

// TestBadFrames: what is no frame of the protocol ends its own connection, and
// nothing else.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	h := d.goHost("Steady")
	h.pair(p, w, grant{Domains: []string{"terminal"}, Policy: "grant"})
	for _, bytes := range []string{
		"", "\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x7f\xff\xff\xffx", "\x00\x00\x00\x02{]", "\x00\x00\x00\x02{}", "\x00\x00\x00\xff{", "GET / HTTP/1.1\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		conn, err := net.Dial("unix", d.ready.Socket)
		if err != nil {
			t.Fatalf("after other garbage: %v", err)
		}
		if _, err := io.WriteString(conn, bytes); err != nil {
			t.Errorf("writing %q: %v", bytes, err)
		}
		conn.(*net.UnixConn).CloseWrite()
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %q: %v", bytes, err)
		}
		conn.Close()
		h.ok("lomi_connect", args{"workspaceId": w.ID}, nil)
	}
}

// TestShells: what a shell does, whatever it prints, hides or leaves behind.
func TestShells(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	h := d.goHost("Shells")
	h.pair(p, w, grant{Domains: []string{"terminal"}, Policy: "grant"})

	t.Run("a printed mark forges no exit code", func(t *testing.T) {
		s := h.shell()
		for _, command := range []string{`printf '\033]133;D;0\007'; false`, `printf '\033]133;D;0\033\\'; false`, `printf '\033]133;A\007\033]133;D;0;x\007\033]633;D;0\007'; false`} {
			if seen, _ := h.run(s, command); seen.exit() != 1 {
				t.Errorf("%s ended with %d, want 1", command, seen.exit())
			}
		}
	})
	t.Run("bug 33: a child in the background holds nothing up", func(t *testing.T) {
		s := h.shell()
		if seen, text := h.run(s, "sleep 7811 & echo ok"); seen.exit() != 0 || !strings.Contains(text, "ok\n") {
			t.Errorf("exit code %d, output %q", seen.exit(), text)
		}
		if _, text := h.run(s, "jobs"); !strings.Contains(text, "sleep 7811") {
			t.Errorf("the child does not run: %q", text)
		}
	})
	t.Run("a flood is bounded and can be stopped", func(t *testing.T) {
		floods(t, d, h)
	})
}

// flooded is how much must come through before a flood counts as one.
const flooded = 64 << 20

func floods(t *testing.T, d *daemon, h *host) {
	s := h.shell()
	h.run(s, "yes | head -c 1000000") // what a terminal needs once
	before := resident(t, d.ready.PID)
	o := h.start(s, "yes")
	passed := func() int64 {
		var out struct{ StreamSequence string }
		h.ok("lomi_terminal_read", args{"workspaceId": h.workspace, "panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "maxBytes": 1}, &out)
		n, err := strconv.ParseInt(out.StreamSequence, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	start, most := passed(), before
	until(t, "64 MiB of yes came through", func() bool {
		most = max(most, resident(t, d.ready.PID))
		return passed()-start > flooded
	})
	h.settle(h.begin("lomi_terminal_interrupt", args{"panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "leaseId": s.LeaseID, "operationId": o.OperationID}))
	o = h.settle(o)
	if _, seen := h.read(s, o); seen.exit() != 130 {
		t.Errorf("after Ctrl+C the flood is %s with exit code %d, want 130", o.State, seen.exit())
	}
	// A tenth of what came through: scrollback and rings are bounded, Go's heap
	// may double them.
	if grown := most - before; grown > flooded {
		t.Errorf("the daemon grew by %d MiB while %d MiB came through", grown>>20, flooded>>20)
	}
	if seen, text := h.run(s, "echo still here"); seen.exit() != 0 || text != "still here\n" {
		t.Errorf("after the flood: exit code %d, output %q", seen.exit(), text)
	}
	if seen, _ := h.run(s, "yes | head -c 30000000"); seen.exit() != 0 {
		t.Errorf("a long output ends with %d", seen.exit())
	}
}

// TestSlowPage: a page that never loads gives an answer at the deadline that
// says how far it came.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	release, cancel := context.WithCancel(context.Background())
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/never" {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<!doctype html><title>Half a page</title><h1>The first half</h1><img src=/never>")
			w.(http.Flusher).Flush()
		}
		select {
		case <-release.Done():
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(site.Close)
	t.Cleanup(cancel)
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	half, never := p.converse(w, "demo/guide", "browser"), p.converse(w, "demo/guide", "browser")
	half.say("open " + site.URL + "/half")
	never.say("open " + site.URL + "/never")
	for _, row := range []struct {
		c     *talk
		wants []string
	}{
		{half, []string{"The first half", "not finished loading"}},
		{never, []string{"did not answer in time"}},
	} {
		row.c.ended()
		for _, want := range row.wants {
			if text := row.c.results()[0].field("text"); !strings.Contains(text, want) {
				t.Errorf("the answer does not say %q: %s", want, text)
			}
		}
	}
	// The browser still works.
	half.say("open " + p.url)
	half.ended()
}

// TestRestart: nothing of a session outlives its daemon but the receipts.
func TestRestart(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	h := d.goHost("Patient")
	g := grant{Domains: []string{"terminal"}, Policy: "grant"}
	h.pair(p, w, g)
	s := h.shell()
	old := h.settle(h.start(s, "echo once >> made"))
	epoch := h.epoch
	d.stop()
	h.refused("APP_UNAVAILABLE", "lomi_workspace_list", args{})
	d.start()

	// The page's login holds; the host asks anew.
	p.url = strings.TrimSuffix(d.ready.URL, "/")
	h.pair(p, w, g)
	if h.epoch == epoch {
		t.Errorf("the retry epoch outlived the restart")
	}
	h.refused("TARGET_NOT_FOUND", "lomi_operation_get", args{"operationId": old.OperationID})
	again := args{"workspaceId": w.ID, "retryEpoch": epoch, "requestKey": "key-2", "panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "leaseId": s.LeaseID, "command": "echo once >> made"}
	h.refused("RETRY_WINDOW_EXPIRED", "lomi_terminal_run", again)
	again["retryEpoch"] = h.epoch
	if r := h.call("lomi_terminal_run", again); r.Status == "ok" {
		t.Errorf("the old lease still runs commands: %s", r.Data)
	}
	if _, text := h.run(h.shell(), "cat made"); text != "once\n" {
		t.Errorf("made holds %q", text)
	}
	if shown := d.lomi("receipt", "show", old.OperationID); shown.code != 0 || !strings.Contains(shown.stdout, "succeeded") {
		t.Errorf("the receipt is gone for the person: %d %s%s", shown.code, shown.stdout, shown.stderr)
	}
}
