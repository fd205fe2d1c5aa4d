package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ollama/ollama/envconfig"

	"lomi/models"
	"lomi/models/modelstest"
)

// fake answers like an Ollama that has the model "m" loaded with 4,096 tokens.
// Chat answers requests that have messages.
func fake(t testing.TB, chat http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"capabilities":["completion","tools","thinking"],"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960}}`)
	})
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"models":[{"name":"m:latest","model":"m:latest","context_length":4096}]}`)
	})
	mux.Handle("POST /api/chat", chat)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func newClient(t testing.TB, address string, limits Limits) *Client {
	t.Helper()
	c, err := New(Config{Address: address, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRegressionSet(t *testing.T) {
	modelstest.Run(t, "testdata/stream", func(t *testing.T, answer http.Handler) models.Model {
		return newClient(t, fake(t, answer).URL, Limits{})
	})
}

func TestUsageAndWindow(t *testing.T) {
	server := fake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"message":{"content":"Hi"},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":2}`)
	}))
	got := modelstest.Collect(t.Context(), t, newClient(t, server.URL, Limits{}), modelstest.Request("Hi"))
	if want := (models.Usage{InputTokens: 7, OutputTokens: 2, ContextWindow: 4096}); got.Usage != want {
		t.Errorf("got %+v, want %+v", got.Usage, want)
	}
	if diff := cmp.Diff([]string{"reading the prompt"}, got.Progress); diff != "" {
		t.Errorf("progress of a loaded model (-want +got):\n%s", diff)
	}
}

// silent answers with some lines and then nothing until the client has gone.
func silent(gone chan<- struct{}, lines ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		if len(lines) > 0 {
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		close(gone)
	})
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		limit Limits
		text  string
	}{
		{"first token", nil, Limits{FirstToken: 50 * time.Millisecond, PerToken: time.Nanosecond}, ""},
		{"between tokens", []string{`{"message":{"content":"Hi"}}`}, Limits{BetweenTokens: 50 * time.Millisecond}, "Hi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{})
			got := modelstest.Collect(t.Context(), t, newClient(t, fake(t, silent(gone, tt.lines...)).URL, tt.limit), modelstest.Request("Hi"))
			if !errors.Is(got.Err, models.ErrTimeout) || got.Text != tt.text {
				t.Errorf("got %v and text %q, want %v and %q", got.Err, got.Text, models.ErrTimeout, tt.text)
			}
			<-gone // the request has ended, so the generation has
		})
	}
}

func TestLoadHasALimitOfItsOwn(t *testing.T) {
	gone := make(chan struct{})
	server := fake(t, silent(gone))
	req := modelstest.Request("Hi")
	req.Window = 8192 // another window than the loaded one: the model is loaded anew
	got := modelstest.Collect(t.Context(), t, newClient(t, server.URL, Limits{Load: 50 * time.Millisecond}), req)
	<-gone
	if !errors.Is(got.Err, models.ErrTimeout) || !cmp.Equal(got.Progress, []string{"loading the model"}) {
		t.Errorf("got %v after %q, want a passed limit after loading the model", got.Err, got.Progress)
	}
}

func TestCallerDeadlineInMidStream(t *testing.T) {
	gone := make(chan struct{})
	client := newClient(t, fake(t, silent(gone, `{"message":{"content":"Hi"}}`)).URL, Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	got := modelstest.Collect(ctx, t, client, modelstest.Request("Hi"))
	<-gone
	if !errors.Is(got.Err, models.ErrTimeout) || !errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v and the context's own error", got.Err, models.ErrTimeout)
	}
}

func TestCancellationKeepsItsCause(t *testing.T) {
	gone := make(chan struct{})
	client := newClient(t, fake(t, silent(gone, `{"message":{"content":"Hi"}}`)).URL, Limits{})
	cause := errors.New("the user pressed stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for d, err := range client.Stream(ctx, modelstest.Request("Hi")) {
		if d.Kind == models.DeltaText {
			cancel(cause)
		}
		last = err
	}
	<-gone
	if !errors.Is(last, cause) || errors.Is(last, models.ErrTimeout) {
		t.Errorf("got %v, want the cause %q", last, cause)
	}
}

func TestBreakEndsTheRequest(t *testing.T) {
	gone := make(chan struct{})
	client := newClient(t, fake(t, silent(gone, `{"message":{"content":"Hi"}}`)).URL, Limits{})
	for d, err := range client.Stream(t.Context(), modelstest.Request("Hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Kind == models.DeltaText {
			break
		}
	}
	<-gone
}

func TestNothingHappensBeforeTheFirstPull(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	newClient(t, server.URL, Limits{}).Stream(t.Context(), modelstest.Request("Hi"))
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests before the first pull", n)
	}
}

// S-07: an endpoint that streams for ever.
func TestEndlessStreams(t *testing.T) {
	endless := func(chunk string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for sent := 0; sent < 1<<30; sent += len(chunk) {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		})
	}
	for name, chunk := range map[string]string{
		"lines":    strings.Repeat(`{"message":{"content":"`+strings.Repeat("x", 1000)+`"}}`+"\n", 64),
		"one line": strings.Repeat("x", 64<<10),
		"blanks":   strings.Repeat("\n", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, fake(t, endless(chunk)).URL, Limits{Line: 1 << 20, Stream: 4 << 20})
			got := modelstest.Collect(t.Context(), t, client, modelstest.Request("Hi"))
			if !errors.Is(got.Err, models.ErrProtocol) || len(got.Text) > 4<<20 {
				t.Errorf("got %v and %d bytes of text, want %v and at most 4 MiB", got.Err, len(got.Text), models.ErrProtocol)
			}
		})
	}
	t.Run("short call", func(t *testing.T) {
		server := httptest.NewServer(endless(strings.Repeat(" ", 64<<10)))
		defer server.Close()
		if _, err := newClient(t, server.URL, Limits{}).Version(t.Context()); !errors.Is(err, models.ErrProtocol) {
			t.Errorf("got %v, want %v", err, models.ErrProtocol)
		}
	})
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	got := modelstest.Collect(t.Context(), t, newClient(t, server.URL, Limits{}), modelstest.Request("Hi"))
	if !errors.Is(got.Err, models.ErrUnreachable) || !strings.Contains(got.Err.Error(), server.URL) {
		t.Errorf("got %v, want %v with the address", got.Err, models.ErrUnreachable)
	}
}

// S-82: no credential of the person's leaves because a variable is set.
func TestEnvironmentIsNotInherited(t *testing.T) {
	var auth atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.Store(r.Header.Get("Authorization"))
		io.WriteString(w, `{"version":"1"}`)
	}))
	defer server.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	version, err := newClient(t, server.URL, Limits{}).Version(t.Context())
	if err != nil || version != "1" || auth.Load() != "" {
		t.Errorf("got %q, %v, authorization %q; want version 1 and no key", version, err, auth.Load())
	}
}

func TestRequestOnTheWire(t *testing.T) {
	var body []byte
	server := fake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		io.WriteString(w, `{"message":{"content":"Hi"},"done":true}`)
	}))
	text := func(role models.Role, s string) models.Message {
		return models.Message{Role: role, Parts: []models.Part{{Kind: models.PartText, Text: s}}}
	}
	req := modelstest.Request("")
	req.Tools = req.Tools[:1]
	req.MaxOutputTokens, req.Thinking = 99, models.ThinkingOff
	req.Messages = []models.Message{
		text(models.RoleSystem, "Be brief."),
		text(models.RoleUser, "List."),
		{Role: models.RoleAssistant, Parts: []models.Part{
			{Kind: models.PartThinking, Text: "hm"},
			{Kind: models.PartCall, Call: &models.ToolCall{ID: "a", Name: "terminal_run", Arguments: json.RawMessage(`{"command":"ls","wait_s":5}`)}},
			{Kind: models.PartCall, Call: &models.ToolCall{ID: "b", Name: "terminal_run", Arguments: json.RawMessage(`"{bad"`), Malformed: "cut"}},
		}},
		{Role: models.RoleTool, Parts: []models.Part{
			{Kind: models.PartResult, Result: &models.ToolResult{CallID: "a", Name: "terminal_run", Text: "x.txt", Images: []models.Image{{MediaType: "image/png", Data: []byte("p")}}}},
			{Kind: models.PartResult, Result: &models.ToolResult{CallID: "b", Name: "terminal_run", Text: "cut", IsError: true}},
		}},
	}
	if got := modelstest.Collect(t.Context(), t, newClient(t, server.URL, Limits{}), req); got.Err != nil {
		t.Fatal(got.Err)
	}
	want := `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"List."},` +
		`{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"terminal_run","arguments":{"command":"ls","wait_s":5}}},{"id":"b","function":{"index":1,"name":"terminal_run","arguments":{"unreadable":"{bad"}}}]},` +
		`{"role":"tool","content":"x.txt\n[a picture, which this model cannot see]","tool_name":"terminal_run","tool_call_id":"a"},{"role":"tool","content":"Error: cut","tool_name":"terminal_run","tool_call_id":"b"}],` +
		`"stream":true,"keep_alive":"30m0s","tools":[{"type":"function","function":{"name":"terminal_run","description":"Run a command.","parameters":{"type":"object","required":["command"],"properties":{"command":{"type":"string"},"wait_s":{"type":"integer","description":"(minimum 1)"},"all":{"type":"boolean"}}}}}],` +
		`"options":{"num_ctx":4096,"num_predict":99},"think":false,"truncate":false,"shift":false}`
	if diff := cmp.Diff(want, string(bytes.TrimSpace(body))); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestConvertToolRestatesWhatIsDropped(t *testing.T) {
	tool, err := convertTool(models.ToolSpec{Name: "t", Parameters: json.RawMessage(`{"type":"object","$defs":{"Id":{"type":"string","pattern":"^r[0-9]+$"}},
		"properties":{"id":{"$ref":"#/$defs/Id"},"n":{"type":"integer","minimum":1,"maximum":9,"default":5,"description":"How many"},"o":{"type":"object","properties":{"p":{"const":"x"}},"required":["p"]}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(tool.Function.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"id":{"type":"string","description":"(pattern ^r[0-9]+$)"},"n":{"type":"integer","description":"How many (minimum 1, maximum 9, default 5)"},"o":{"type":"object","description":"(needs p)","properties":{"p":{"enum":["x"]}}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestAddressFromEnvFollowsOllama(t *testing.T) {
	for _, value := range []string{
		"", "example.org", "example.org:1234", ":1234", "1.2.3.4", "[::1]", "[::1]:9", "::1", "http://h", "https://h/p",
		"http://h:99999", "h:-1", " 'h:5' ", `"h"`, "https://h:8443", "ollama.com", "http://h/a/b",
	} {
		t.Setenv("OLLAMA_HOST", value)
		want := envconfig.Host().String()
		if value == ":1234" {
			want = "http://127.0.0.1:1234" // a server's way of saying all interfaces
		}
		if got := AddressFromEnv(func(string) string { return value }); got != want {
			t.Errorf("OLLAMA_HOST=%q: got %s, want %s", value, got, want)
		}
	}
	for value, want := range map[string]string{"0.0.0.0": "http://127.0.0.1:11434", "[::]:80": "http://127.0.0.1:80"} {
		if got := AddressFromEnv(func(string) string { return value }); got != want {
			t.Errorf("OLLAMA_HOST=%q: got %s, want %s", value, got, want)
		}
	}
}

func TestNewRefusesAddresses(t *testing.T) {
	for _, address := range []string{"ftp://h", "http://", "http://u:p@h", "http://h?x=1", "http://h#f", "://", "http://" + strings.Repeat("h", 3000)} {
		if _, err := New(Config{Address: address}); err == nil {
			t.Errorf("address %.40q was accepted", address)
		}
	}
}

func TestChooseWindow(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		memory, perToken uint64
		want             int
	}{
		{4 * gib, 147456, 4096}, {8 * gib, 147456, 4096}, {16 * gib, 147456, 8192}, {32 * gib, 147456, 16384},
		{1024 * gib, 147456, 65536}, {16 * gib, 0, 8192}, {8 * gib, 20480, 32768},
	} {
		if got := chooseWindow(tt.memory, tt.perToken); got != tt.want {
			t.Errorf("%d GiB, %d bytes a token: got %d, want %d", tt.memory/gib, tt.perToken, got, tt.want)
		}
	}
}
