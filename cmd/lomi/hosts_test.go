package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestInspector drives lomi mcp with the command line of the MCP inspector.
func TestInspector(t *testing.T) {
	t.Parallel()
	dir := npm(t, "hosts")
	d := startDaemon(t)
	inspect := func(into any, args ...string) {
		t.Helper()
		all := append([]string{filepath.Join("node_modules", ".bin", "mcp-inspector"), "--cli", d.binary, "mcp", "--data", d.data}, args...)
		r := runIn(t, dir, nil, nil, "node", all...)
		if r.code != 0 {
			t.Fatalf("the inspector ended with %d: %s%s", r.code, r.stdout, r.stderr)
		}
		if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
			t.Fatalf("%v in %s", err, r.stdout)
		}
	}
	var list struct {
		Tools []struct {
			Name         string
			InputSchema  struct{ Type string }
			OutputSchema struct{ Type string }
		}
	}
	inspect(&list, "--method", "tools/list")
	if len(list.Tools) != 74 {
		t.Errorf("the inspector lists %d tools, want 74", len(list.Tools))
	}
	for _, tool := range list.Tools {
		if !strings.HasPrefix(tool.Name, "lomi_") || tool.InputSchema.Type != "object" || tool.OutputSchema.Type != "object" {
			t.Errorf("a tool without a schema: %+v", tool)
		}
	}
	var called struct {
		StructuredContent struct {
			Status string
			Data   struct{ Kind, Connection string }
		}
		Content []struct{ Type, Text string }
		IsError bool
	}
	inspect(&called, "--method", "tools/call", "--tool-name", "lomi_status")
	if got := called.StructuredContent; got.Status != "ok" || got.Data.Kind != "status" || got.Data.Connection != "pairing_required" || called.IsError {
		t.Errorf("lomi_status answers %+v", called)
	}
	if len(called.Content) != 1 || !strings.Contains(called.Content[0].Text, `"kind":"status"`) {
		t.Errorf("hosts that read only text get %+v", called.Content)
	}
}

// TestCodex lists the tools through Codex's app-server.
func TestCodex(t *testing.T) {
	t.Parallel()
	dir := npm(t, "codex")
	d := startDaemon(t)
	home := t.TempDir()
	settings := fmt.Sprintf("[mcp_servers.lomi]\ncommand = %s\nargs = [\"mcp\", \"--data\", %s]\nstartup_timeout_sec = %d\n",
		strconv.Quote(d.binary), strconv.Quote(d.data), int(patience/time.Second))
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "node_modules", ".bin", "codex"), "app-server")
	cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "CODEX_HOME="+home)
	said := &output{}
	cmd.Stderr = said
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
	defer func() {
		in.Close()
		cmd.Wait() // how it ends is Codex's business
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 32<<20)
	ask := func(id int, method string, params any) json.RawMessage {
		t.Helper()
		raw, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(in, "%s\n", raw); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			var answer struct {
				ID     *int
				Result json.RawMessage
				Error  json.RawMessage
			}
			if json.Unmarshal(lines.Bytes(), &answer) != nil || answer.ID == nil || *answer.ID != id {
				continue
			}
			if len(answer.Error) > 0 {
				t.Fatalf("%s: %s\n%s", method, answer.Error, said)
			}
			return answer.Result
		}
		t.Fatalf("%s: the app-server ended: %v\n%s", method, lines.Err(), said)
		return nil
	}
	ask(1, "initialize", map[string]any{"clientInfo": map[string]string{"name": "lomi-test", "title": "Lomi test", "version": "1"}})
	if _, err := fmt.Fprintln(in, `{"method":"initialized"}`); err != nil {
		t.Fatal(err)
	}
	var status struct {
		Data []struct {
			Name  string
			Tools map[string]struct{ InputSchema struct{ Type string } }
		}
	}
	raw := ask(2, "mcpServerStatus/list", map[string]any{})
	if err := json.Unmarshal(raw, &status); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, server := range status.Data {
		if server.Name != "lomi" {
			continue
		}
		if len(server.Tools) != 74 || server.Tools["lomi_terminal_run"].InputSchema.Type != "object" {
			t.Errorf("Codex sees %d tools, want 74: %.2000s", len(server.Tools), raw)
		}
		return
	}
	t.Errorf("Codex does not see the server: %.2000s\n%s", raw, said)
}
