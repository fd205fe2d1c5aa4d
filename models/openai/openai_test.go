package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
	"lomi/models/modelstest"
)

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func TestChatCompletions(t *testing.T) {
	modelstest.Run(t, "testdata/stream", func(t *testing.T, answer http.Handler) models.Model {
		return newClient(t, Config{BaseURL: serve(t, answer)})
	})
}

func TestResponses(t *testing.T) {
	modelstest.Run(t, "testdata/responses", func(t *testing.T, answer http.Handler) models.Model {
		return newClient(t, Config{BaseURL: serve(t, answer), Responses: true})
	})
}

func TestUsage(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
	}))
	got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url}), modelstest.Request("Hi"))
	if want := (models.Usage{InputTokens: 7, OutputTokens: 2}); got.Usage != want || got.Err != nil {
		t.Errorf("got %+v, %v; want %+v", got.Usage, got.Err, want)
	}
}

// conversation has every kind of part.
func conversation() models.Request {
	req := modelstest.Request("")
	req.Tools = req.Tools[1:]
	req.MaxOutputTokens = 99
	text := func(s string) models.Part { return models.Part{Kind: models.PartText, Text: s} }
	png := models.Image{MediaType: "image/png", Data: []byte("p")}
	req.Messages = []models.Message{
		{Role: models.RoleSystem, Parts: []models.Part{text("Be brief.")}},
		{Role: models.RoleUser, Parts: []models.Part{text("Look."), {Kind: models.PartImage, Image: &png}}},
		{Role: models.RoleAssistant, Parts: []models.Part{
			{Kind: models.PartThinking, Text: "hm", Opaque: json.RawMessage(`{"type":"reasoning","id":"r","encrypted_content":"x"}`)},
			text("I read."),
			{Kind: models.PartCall, Call: &models.ToolCall{ID: "a", Name: "files_read", Arguments: json.RawMessage(`{"path":"x"}`)}},
			{Kind: models.PartCall, Call: &models.ToolCall{ID: "b", Name: "files_read", Arguments: json.RawMessage(`"{bad"`), Malformed: "cut"}},
		}},
		{Role: models.RoleTool, Parts: []models.Part{
			{Kind: models.PartResult, Result: &models.ToolResult{CallID: "a", Name: "files_read", Text: "one"}},
			{Kind: models.PartResult, Result: &models.ToolResult{CallID: "b", Name: "files_read", Text: "cut", IsError: true}},
		}},
	}
	return req
}

func TestRequestOnTheWire(t *testing.T) {
	const schema = `"parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}`
	for _, tt := range []struct {
		name      string
		responses bool
		path      string
		want      string
	}{
		{"chat", false, "/v1/chat/completions", `{"max_tokens":99,"messages":[{"content":"Be brief.","role":"system"},` +
			`{"content":[{"text":"Look.","type":"text"},{"image_url":{"url":"data:image/png;base64,cA=="},"type":"image_url"}],"role":"user"},` +
			`{"content":"I read.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"x\"}","name":"files_read"},"id":"a","type":"function"},{"function":{"arguments":"{\"unreadable\":\"{bad\"}","name":"files_read"},"id":"b","type":"function"}]},` +
			`{"content":"one","role":"tool","tool_call_id":"a"},{"content":"Error: cut","role":"tool","tool_call_id":"b"}],` +
			`"model":"m","stream":true,"stream_options":{"include_usage":true},"tools":[{"function":{"description":"Read a file.","name":"files_read",` + schema + `},"type":"function"}]}`},
		{"responses", true, "/v1/responses", `{"include":["reasoning.encrypted_content"],"input":[{"content":"Look.","role":"user"},` +
			`{"content":[{"detail":"auto","image_url":"data:image/png;base64,cA==","type":"input_image"}],"role":"user"},` +
			`{"encrypted_content":"x","id":"r","type":"reasoning"},{"content":"I read.","role":"assistant"},` +
			`{"arguments":"{\"path\":\"x\"}","call_id":"a","name":"files_read","type":"function_call"},{"arguments":"{\"unreadable\":\"{bad\"}","call_id":"b","name":"files_read","type":"function_call"},` +
			`{"call_id":"a","output":"one","type":"function_call_output"},{"call_id":"b","output":"Error: cut","type":"function_call_output"}],` +
			`"instructions":"Be brief.","max_output_tokens":99,"model":"m","store":false,"stream":true,"tools":[{"description":"Read a file.","name":"files_read",` + schema + `,"strict":false,"type":"function"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// None of the library's variables may reach the request.
			for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET"} {
				t.Setenv(name, "stray")
			}
			t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
			t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Stray: stray")
			var body, path string
			var header http.Header
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				var v any
				if json.Unmarshal(data, &v) == nil {
					sorted, _ := json.Marshal(v)
					body = string(sorted)
				}
				path, header = r.URL.Path, r.Header
			}))
			modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url, Key: "own", Responses: tt.responses}), conversation())
			if diff := cmp.Diff(tt.want, body); diff != "" || path != tt.path {
				t.Errorf("request to %s (-want +got):\n%s", path, diff)
			}
			if got := header.Get("Authorization"); got != "Bearer own" {
				t.Errorf("authorization %q, want the key of the connection", got)
			}
			for name, values := range header {
				if strings.HasPrefix(name, "X-Stainless") || strings.Contains(fmt.Sprint(values), "stray") {
					t.Errorf("header %s: %v left", name, values)
				}
			}
		})
	}
}

func TestNoKeyNoHeader(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "stray")
	asked := 0
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "" {
			t.Error("a key was sent")
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url}), modelstest.Request("Hi"))
	if !errors.Is(got.Err, models.ErrProtocol) || asked != 1 {
		t.Errorf("got %v after %d requests, want %v after one: nothing is sent twice", got.Err, asked, models.ErrProtocol)
	}
}

// S-07, S-82: a redirect takes no credentials anywhere.
func TestRedirectIsNotFollowed(t *testing.T) {
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	url := serve(t, http.RedirectHandler(other, http.StatusTemporaryRedirect))
	got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url, Key: "k"}), modelstest.Request("Hi"))
	if !errors.Is(got.Err, models.ErrProtocol) || !strings.Contains(got.Err.Error(), "redirect") {
		t.Errorf("got %v, want %v that names the redirect", got.Err, models.ErrProtocol)
	}
}

func TestLimits(t *testing.T) {
	for name, first := range map[string]string{"first token": "", "between tokens": "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n", "comments only": ": wait\n\n"} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, first)
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(gone)
			}))
			limits := Limits{FirstToken: 50 * time.Millisecond, PerToken: time.Nanosecond, BetweenTokens: 50 * time.Millisecond}
			got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url, Limits: limits}), modelstest.Request("Hi"))
			<-gone
			if !errors.Is(got.Err, models.ErrTimeout) {
				t.Errorf("got %v, want %v", got.Err, models.ErrTimeout)
			}
		})
	}
}

func TestCancellationKeepsItsCause(t *testing.T) {
	gone := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	cause := errors.New("the user pressed stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for d, err := range newClient(t, Config{BaseURL: url}).Stream(ctx, modelstest.Request("Hi")) {
		if d.Kind == models.DeltaText {
			cancel(cause)
		}
		last = err
	}
	<-gone
	if !errors.Is(last, cause) {
		t.Errorf("got %v, want the cause", last)
	}
}

func TestEndlessStream(t *testing.T) {
	for name, chunk := range map[string]string{
		"events":   "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 1000) + "\"}}]}\n\n",
		"one line": strings.Repeat("x", 64<<10), "comments": strings.Repeat(": x\n\n", 1000),
		"one event": "data: " + strings.Repeat("x", 1000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for sent := 0; sent < 1<<30; sent += len(chunk) {
					if _, err := io.WriteString(w, chunk); err != nil {
						return
					}
				}
			}))
			got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url, Limits: Limits{Line: 1 << 20, Stream: 4 << 20}}), modelstest.Request("Hi"))
			if !errors.Is(got.Err, models.ErrProtocol) || len(got.Text) > 4<<20 {
				t.Errorf("got %v and %d bytes, want %v", got.Err, len(got.Text), models.ErrProtocol)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: server.URL}), modelstest.Request("Hi"))
	if !errors.Is(got.Err, models.ErrUnreachable) {
		t.Errorf("got %v, want %v", got.Err, models.ErrUnreachable)
	}
}

func TestOpaqueReasoningComesOut(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"id\":\"r\",\"encrypted_content\":\"xyz\"}}\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n")
	}))
	opaque := ""
	for d, err := range newClient(t, Config{BaseURL: url, Responses: true}).Stream(t.Context(), modelstest.Request("Hi")) {
		if err != nil {
			t.Fatal(err)
		}
		opaque += string(d.Opaque)
	}
	if want := `{"type":"reasoning","id":"r","encrypted_content":"xyz"}`; opaque != want {
		t.Errorf("got %s, want %s", opaque, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{BaseURL: "http://example.org/v1"}, {BaseURL: "http://127.0.0.1.example.org/v1"}, {BaseURL: "ftp://127.0.0.1"}, {BaseURL: "https://"},
		{BaseURL: "https://u:p@h"}, {BaseURL: "https://h?x"}, {BaseURL: "https://h/?"}, {BaseURL: "https://h#f"}, {Key: "a\nb"},
		{BaseURL: "https://h/" + strings.Repeat("x", 2048)},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%.60v was accepted", cfg)
		}
	}
	for _, ok := range []string{"", "https://example.org/v1", "http://127.0.0.1:1/v1/", "http://[::1]:1", "http://localhost:1/v1"} {
		if _, err := New(Config{BaseURL: ok}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

func TestOpenAIItselfGetsResponses(t *testing.T) {
	if c := newClient(t, Config{}); !c.responses || c.Address() != hosted {
		t.Errorf("got %s with responses %v, want %s with them", c.Address(), c.responses, hosted)
	}
}

func TestList(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []models.Info
		err        error
	}{
		{"vLLM and llama.cpp", `{"data":[{"id":"a/b","max_model_len":32768},{"id":"c","meta":{"n_ctx_train":4096}},{"id":""}]}`,
			[]models.Info{{Name: "a/b", Window: 32768, Tools: true}, {Name: "c", Window: 4096, Tools: true}}, nil},
		{"no list", `{"models":[]}`, nil, models.ErrProtocol},
		{"too large", `{"data":[` + strings.Repeat(" ", 3<<20) + `]}`, nil, models.ErrProtocol},
		{"html", `<html>`, nil, models.ErrProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, tt.body) }))
			got, err := newClient(t, Config{BaseURL: url}).List(t.Context())
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v; models (-want +got):\n%s", err, tt.err, diff)
			}
		})
	}
	many := `{"data":[{"id":"x"}` + strings.Repeat(`,{"id":"x"}`, 5000) + `]}`
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, many) }))
	if got, err := newClient(t, Config{BaseURL: url}).List(t.Context()); err != nil || len(got) != maxModels {
		t.Errorf("got %d models, %v; want %d", len(got), err, maxModels)
	}
}

func TestBusyServerSaysWhen(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	got := modelstest.Collect(t.Context(), t, newClient(t, Config{BaseURL: url}), modelstest.Request("Hi"))
	if busy, ok := errors.AsType[*models.BusyError](got.Err); !ok || busy.After != time.Hour {
		t.Errorf("got %v, want a busy server for an hour", got.Err)
	}
}
