package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lomi/broker/client"
	"lomi/broker/control"
)

const none = 0

// Lines at which the SDK alone ends the session without a word, or answers
// what was not asked. Each gets its error, or is passed over, and the session
// serves on.
func TestHostileLines(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)
	for _, row := range []struct {
		name, line string
		code       int
		id         string // of the error
	}{
		{"bug 85: garbage", `hello`, jsonrpc.CodeParseError, "null"},
		{"bug 85: half a message", `{`, jsonrpc.CodeParseError, "null"},
		{"bug 85: 0xFF", "\xff\xfe", jsonrpc.CodeParseError, "null"},
		{"bug 85: an empty line", "", none, ""},
		{"blank", " \t\r", none, ""},
		{"two messages on a line", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, jsonrpc.CodeParseError, "null"},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 an empty batch", `[]`, jsonrpc.CodeInvalidRequest, "null"},
		{"a text", `"x"`, jsonrpc.CodeInvalidRequest, "null"},
		{"null", `null`, jsonrpc.CodeInvalidRequest, "null"},
		{"no version", `{"id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "1"},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "1"},
		{"version is a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "1"},
		{"over 16 MiB", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 17<<20) + `"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"just over 8 MiB", strings.Repeat("x", maxLine), jsonrpc.CodeInvalidRequest, "null"},
		{"F-26 deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + deep + `}`, jsonrpc.CodeInvalidRequest, "null"},
		{"F-26 100,001 levels", strings.Repeat("[", 100001), jsonrpc.CodeInvalidRequest, "null"},
		{"F-27 not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", jsonrpc.CodeParseError, "null"},
		{"bug 75: empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.CodeInvalidRequest, "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, jsonrpc.CodeInvalidRequest, "1"},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":5}`, jsonrpc.CodeInvalidRequest, "1"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, jsonrpc.CodeInvalidRequest, "1"},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"nothing"}`, jsonrpc.CodeMethodNotFound, "1"},
		{"S-75 unknown method with escapes", `{"jsonrpc":"2.0","id":1,"method":"a\n\u001b[31m"}`, jsonrpc.CodeMethodNotFound, "1"},
		{"S-73 id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 id 1.5", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 id 1e400", `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 id an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-73 id of 1 MB", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"id that a float cannot hold", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-70 METHOD", `{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-70 two spellings", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-70 Kelvin sign", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lomi_status","to\u212aen":1,"argumentſ":{}}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-70 a field twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-70 Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lomi_status","Name":"lomi_panel_list"}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-70 arguments twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lomi_status","arguments":{},"arguments":{}}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-71 NUL in a key", `{"jsonrpc":"2.0","id":1,"method\u0000":"ping"}`, jsonrpc.CodeInvalidRequest, "null"},
		{"S-72 params an array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 params a number", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":7}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 call without params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, jsonrpc.CodeInvalidRequest, "1"},
		{"S-72 call with null params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`, jsonrpc.CodeInvalidRequest, "1"},
		{"S-72 call without name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 name null", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":null}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 name a number", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 name with NUL", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lomi_status\u0000"}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-72 _meta null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":null}}`, none, "1"},
		{"bug 77: initialize again", strings.Replace(initialize, `"init"`, "1", 1), jsonrpc.CodeInvalidRequest, "1"},
		{"another protocol version", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2999-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`, -32022, "1"},
		{"the new protocol without capabilities", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, jsonrpc.CodeInvalidParams, "1"},
		{"S-73 an answer to nothing", `{"jsonrpc":"2.0","id":7,"result":{}}`, none, ""},
		{"S-73 an error to nothing", `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}`, none, ""},
		{"unknown notification", `{"jsonrpc":"2.0","method":"notifications/nothing"}`, none, ""},
		{"cancel of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, none, ""},
		{"cancel without id", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, none, ""},
		{"cancel without params", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, none, ""},
		{"cancel with an object", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, none, ""},
		{"progress of nothing", `{"jsonrpc":"2.0","method":"notifications/progress","params":null}`, none, ""},
		{"unknown fields of the envelope", `{"jsonrpc":"2.0","id":1,"method":"ping","extra":[1]}`, none, "1"},
		{"CRLF", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r", none, "1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := serve(t, &daemon{})
			h.initialize()
			h.send(row.line)
			if row.id != "" {
				a := h.read()
				got := none
				if a.Error != nil {
					got = a.Error.Code
				}
				if got != row.code || string(a.ID) != row.id {
					t.Errorf("got code %d for id %s (%+v), want %d for %s", got, a.ID, a.Error, row.code, row.id)
				}
				if a.Error != nil && strings.ContainsAny(a.Error.Message, "\n\x1b") {
					t.Logf("message %q", a.Error.Message)
				}
			}
			h.alive(row.line)
		})
	}
}

// A pretty-printed message is many lines, and none of them is a message; the
// session survives them all.
func TestMessageOverManyLines(t *testing.T) {
	h := serve(t, &daemon{})
	h.initialize()
	for _, line := range []string{"{", `"jsonrpc":"2.0",`, `"id":1,`, `"method":"ping"`, "}"} {
		h.send(line)
		if a := h.read(); a.Error == nil || a.Error.Code != jsonrpc.CodeParseError {
			t.Errorf("%s: got %+v", line, a.Error)
		}
	}
	h.alive("a message over many lines")
}

func TestByteOrderMarkBeforeFirstLine(t *testing.T) {
	h := serve(t, &daemon{})
	h.send("\xef\xbb\xbf" + initialize)
	if a := h.read(); a.Error != nil {
		t.Errorf("got %+v", a.Error)
	}
}

func TestBeforeInitialize(t *testing.T) {
	h := serve(t, &daemon{})
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if a := h.read(); a.Error == nil || a.Error.Code != jsonrpc.CodeInvalidRequest {
		t.Errorf("got %+v, want -32600", a.Error)
	}
	h.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if a := h.read(); a.Error == nil || a.Error.Code == 0 {
		t.Errorf("initialize without params: got %+v", a.Error)
	}
	h.initialize()
	h.alive("initialize")
}

// Bug 77: who spoke first keeps the name.
func TestSecondInitializeKeepsTheName(t *testing.T) {
	d := &daemon{}
	h := serve(t, d)
	h.initialize()
	h.send(strings.Replace(initialize, "test host", "somebody else", 1))
	if a := h.read(); a.Error == nil {
		t.Error("a second initialize was taken")
	}
	h.call("lomi_status", "{}")
	if got := d.conn(0).label; got != "test host" {
		t.Errorf("label %q", got)
	}
}

// The wire of both eras, with what 2026-07-28 adds to each result.
func TestNewProtocolOnTheWire(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"new host","version":"1"}}`
	d := &daemon{}
	h := serve(t, d)
	h.send(`{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{` + meta + `}}`)
	a := h.read()
	if a.Error != nil || !strings.Contains(string(a.Result), `"2026-07-28"`) || !strings.Contains(string(a.Result), `"resultType":"complete"`) {
		t.Errorf("discover: %+v %s", a.Error, a.Result)
	}
	h.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"lomi_status",` + meta + `}}`)
	r := h.result("call")
	if r.ResultType != "complete" || r.StructuredContent.Status != "ok" || !strings.Contains(string(r.Meta), "lomi-mcp") {
		t.Errorf("got %+v", r)
	}
	if got := d.conn(0).label; got != "new host" {
		t.Errorf("label %q", got)
	}
	h.send(`{"jsonrpc":"2.0","id":"ping","method":"ping","params":{` + meta + `}}`)
	if a := h.read(); a.Error == nil || a.Error.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("ping of the new protocol: %+v", a.Error)
	}
}

// blocking is a daemon whose calls run until their context ends.
func blocking() (*daemon, chan string) {
	started := make(chan string, 256)
	return &daemon{auto: true, call: func(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error) {
		if tool == "lomi_status" {
			return control.OK(map[string]any{"kind": "status"}, nil)
		}
		started <- tool
		<-ctx.Done()
		return control.Reply{}, context.Cause(ctx)
	}}, started
}

func callLine(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// After a cancel nothing more is said about the request.
func TestCancelled(t *testing.T) {
	d, started := blocking()
	h := serve(t, d)
	h.initialize()
	for _, id := range []string{"1", `"one"`} {
		h.send(callLine(id, "lomi_panel_list"))
		<-started
		h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		h.alive("the cancel")
	}
	// The id is free again once the SDK has let go of it.
	h.send(callLine("2", "lomi_status"))
	if a := h.read(); string(a.ID) != "2" {
		t.Errorf("got an answer for %s", a.ID)
	}
}

// F-28, S-73: the second use of an id that runs is refused under no id.
func TestDuplicateID(t *testing.T) {
	d, started := blocking()
	h := serve(t, d)
	h.initialize()
	h.send(callLine("1", "lomi_panel_list"))
	<-started
	h.send(callLine("1", "lomi_terminal_run"))
	a := h.read()
	if a.Error == nil || a.Error.Code != jsonrpc.CodeInvalidRequest || string(a.ID) != "null" {
		t.Errorf("got %+v for %s", a.Error, a.ID)
	}
	select {
	case tool := <-started:
		t.Errorf("%s ran", tool)
	default:
	}
}

// Bug 83, F-24: what one host can have running is bounded.
func TestRequestsAreBounded(t *testing.T) {
	d, started := blocking()
	h := serve(t, d)
	h.initialize()
	for i := range maxCalls {
		h.send(callLine(fmt.Sprint(i), "lomi_panel_list"))
	}
	for range maxCalls {
		<-started
	}
	h.send(callLine(`"call"`, "lomi_panel_list"))
	if r := h.result("call"); r.StructuredContent.Code != control.ResourceExhausted || !r.IsError {
		t.Errorf("one more: %+v", r.StructuredContent)
	}
	h.alive("the calls")
}

// Every call is answered within 20 seconds: a read has done nothing, the
// outcome of anything else is unknown.
func TestCallDeadline(t *testing.T) {
	for tool, want := range map[string]control.Code{"lomi_panel_list": control.DeadlineExceeded, "lomi_terminal_run": control.OutcomeUnknown} {
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := blocking()
				h := serve(t, d)
				h.initialize()
				start := time.Now()
				r := h.call(tool, "{}")
				if got := time.Since(start); got > 20*time.Second {
					t.Errorf("answered after %v", got)
				}
				if r.StructuredContent.Code != want {
					t.Errorf("got %+v, want %v", r.StructuredContent, want)
				}
			})
		})
	}
	t.Run("a daemon that does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{}, func(c *Config) {
				c.Connect = func(ctx context.Context, _ string) (Connection, error) {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
			})
			h.initialize()
			start := time.Now()
			r := h.call("lomi_panel_list", "{}")
			if got := time.Since(start); got > 20*time.Second || r.StructuredContent.Code != control.AppUnavailable {
				t.Errorf("after %v: %+v", got, r.StructuredContent)
			}
		})
	})
	t.Run("nobody approves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{})
			h.initialize()
			start := time.Now()
			if r := h.call("lomi_panel_list", "{}"); r.StructuredContent.Code != control.PairingRequired {
				t.Errorf("got %+v", r.StructuredContent)
			}
			if got := time.Since(start); got > time.Second {
				t.Errorf("the call waited %v for a person", got)
			}
		})
	})
}

// F-62: the daemon goes in mid-call.
func TestLostInMidCall(t *testing.T) {
	d := &daemon{auto: true, call: func(context.Context, string, json.RawMessage) (control.Reply, error) {
		return control.Reply{}, client.ErrLost
	}}
	h := serve(t, d)
	h.initialize()
	if r := h.call("lomi_terminal_run", "{}"); r.StructuredContent.Code != control.OutcomeUnknown {
		t.Errorf("got %+v", r.StructuredContent)
	}
	if r := h.call("lomi_panel_list", "{}"); r.StructuredContent.Code != control.AppUnavailable {
		t.Errorf("got %+v", r.StructuredContent)
	}
	if r := h.call("lomi_status", "{}"); r.StructuredContent.Status != "ok" {
		t.Errorf("got %+v", r.StructuredContent)
	}
}

// F-60: the end of the input cancels what runs and ends Run, even when a call
// does not listen or the host does not read.
func TestEndOfInput(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{})
			h.initialize()
			if got := h.end(); got != 0 {
				t.Errorf("ended after %v, want at once", got)
			}
		})
	})
	t.Run("a call runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d, started := blocking()
			h := serve(t, d)
			h.initialize()
			h.send(callLine("1", "lomi_terminal_run"))
			<-started
			if got := h.end(); got > 2*time.Second {
				t.Errorf("ended after %v", got)
			}
			<-d.conn(0).Done() // the session with the broker ended too
		})
	})
	t.Run("a call that does not listen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release, running := make(chan struct{}), make(chan struct{})
			h := serve(t, &daemon{auto: true, call: func(context.Context, string, json.RawMessage) (control.Reply, error) {
				close(running)
				<-release
				return control.Reply{}, client.ErrLost
			}})
			h.initialize()
			h.send(callLine("1", "lomi_terminal_run"))
			<-running
			if got := h.end(); got > 2*time.Second {
				t.Errorf("ended after %v", got)
			}
			close(release)
			synctest.Wait()
		})
	})
	t.Run("bug 83: a host that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{})
			h.initialize()
			h.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if got := h.end(); got > 2*time.Second {
				t.Errorf("ended after %v", got)
			}
		})
	})
	t.Run("bug 73: a listen runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{})
			h.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`)
			go io.Copy(io.Discard, h.out)
			synctest.Wait()
			if got := h.end(); got > 2*time.Second {
				t.Errorf("ended after %v", got)
			}
		})
	})
	t.Run("a script pipes a request in", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, &daemon{})
			go func() {
				io.WriteString(h.in, initialize) // without an end of line
				h.in.Close()
			}()
			if a := h.read(); a.Error != nil || len(a.Result) == 0 {
				t.Errorf("got %+v", a)
			}
		})
	})
}

// end closes the input and says after how long Run returned.
func (h *host) end() time.Duration {
	h.t.Helper()
	start := time.Now()
	h.in.Close()
	if err := <-h.ran; err != nil {
		h.t.Errorf("Run: %v", err)
	}
	h.ran <- nil
	return time.Since(start)
}

func TestContextEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		ran := make(chan error)
		go func() {
			ran <- Run(ctx, Config{Stdin: in, Stdout: io.Discard, Connect: (&daemon{}).connect})
		}()
		synctest.Wait()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		out.Close()
	})
}

// What vet lets through the SDK decodes, to the same id and method.
func FuzzVet(f *testing.F) {
	for _, seed := range []string{
		initialize, callLine("1", "lomi_status"), `{"jsonrpc":"2.0","id":-0,"method":"x"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","\u006dethod":"ping","id":"\u0041"}`, `[1]`, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":[{"b":"]}"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 || nesting(line) < 0 {
			return // next gives no such line
		}
		e, bad := vet(line)
		if bad != nil || e.response {
			return
		}
		m, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return // take answers it
		}
		request, ok := m.(*jsonrpc.Request)
		if !ok || request.Method != e.method || request.IsCall() != (e.id != nil) {
			t.Fatalf("%s: vetted as %+v, decoded as %+v", line, e, m)
		}
		if e.id == nil {
			return
		}
		var ours, theirs any
		raw, err := json.Marshal(request.ID.Raw())
		if err != nil || json.Unmarshal(raw, &theirs) != nil || json.Unmarshal(e.id, &ours) != nil || ours != theirs {
			t.Fatalf("id %s became %s", e.id, raw)
		}
	})
}
