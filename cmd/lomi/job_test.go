package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog/short"
	"lomi/models/ollama/ollamatest"
)

// form is a small site with a form, and remembers what was sent.
type form struct {
	*httptest.Server
	mu   sync.Mutex
	sent []url.Values
}

func newForm(t testing.TB) *form {
	f := &form{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method != http.MethodPost {
			io.WriteString(w, `<!doctype html><title>Guest book</title><h1>Guest book</h1>
<form method="post" action="/sign"><label>Your greeting <input name="greeting"></label><button>Sign it</button></form>`)
			return
		}
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		f.sent = append(f.sent, r.PostForm)
		f.mu.Unlock()
		io.WriteString(w, `<!doctype html><title>Signed</title><h1>Thank you</h1>`)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *form) submissions() []url.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

// recorder stands between Lomi and Ollama and keeps what the model is asked.
type recorder struct {
	*httptest.Server
	ollama string
	mu     sync.Mutex
	chats  [][]byte
}

func newRecorder(t testing.TB, ollama string) *recorder {
	target, err := url.Parse(ollama)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{ollama: ollama}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/api/chat" {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			r.mu.Lock()
			r.chats = append(r.chats, body)
			r.mu.Unlock()
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// asked are the requests with messages; one without only loads the model.
func (r *recorder) asked(t testing.TB) []map[string]any {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var asked []map[string]any
	for _, body := range r.chats {
		var one map[string]any
		if err := json.Unmarshal(body, &one); err != nil {
			t.Fatal(err)
		}
		if messages, _ := one["messages"].([]any); len(messages) > 0 {
			asked = append(asked, one)
		}
	}
	return asked
}

// prompt has Ollama render the prompt of a request.
func (r *recorder) prompt(t testing.TB, request map[string]any) string {
	t.Helper()
	request["_debug_render_only"], request["stream"] = true, false
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Debug struct {
			Rendered string `json:"rendered_template"`
		} `json:"_debug_info"`
	}
	fetchJSON(t, "POST", r.ollama+"/api/chat", body, &answer)
	if answer.Debug.Rendered == "" {
		t.Fatal("Ollama rendered no prompt")
	}
	return answer.Debug.Rendered
}

func fetchJSON(t testing.TB, method, url string, body []byte, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(raw, into) != nil {
		t.Fatalf("%s %s: %v, status %d: %s", method, url, err, resp.StatusCode, raw)
	}
}

// greeting has what breaks on the way of text to a form: combining marks, wide
// characters, characters of several code points, quotes and markup.
const greeting = "Grüße aus Köln, 漢字, 👩‍👩‍👧 & \"<b>é</b>\""

// TestMainJob is what Lomi is for: a local model holds a conversation and acts
// in a terminal and a browser, while two external hosts work in terminals of
// their own.
func TestMainJob(t *testing.T) {
	t.Parallel()
	server, book := ollamatest.Start(t), newForm(t)
	quoted, err := json.Marshal(greeting)
	if err != nil {
		t.Fatal(err)
	}
	ollamatest.Create(t, server, "qwen3-script", ollamatest.Script{
		2:  {"I look", " around first.", ollamatest.Call("terminal_run", `{"command": "echo the-model-says-$((40 + 2))"}`)},
		4:  {"Now", " the page.", ollamatest.Call("browser_open", `{"url": "`+book.URL+`/"}`)},
		6:  {ollamatest.Call("browser_fill", `{"element": 1, "text": `+string(quoted)+`}`)},
		8:  {"I sign", " it.", ollamatest.Call("browser_click", `{"element": 2}`)},
		10: {"The guest book", " is signed."},
		// Never reached: words that the tokenizer then knows, so that a prompt of
		// ten thousand bytes is not ten thousand tokens.
		500: commonWords(),
	})
	record := newRecorder(t, server.Address)
	d := startDaemon(t, func(d *daemon) { d.env = append(d.env, "OLLAMA_HOST="+record.URL) })
	p := d.page()
	w := p.project(d.project)
	hosts := []*host{d.goHost("Go host"), d.nodeHost("TypeScript host")}
	for _, h := range hosts {
		h.pair(p, w, grant{Domains: []string{"terminal"}, Policy: "grant"})
	}
	c := p.converse(w, "ollama/qwen3-script", "terminal", "browser")

	c.say("Please sign the guest book at " + book.URL)
	t.Run("beside the chat", func(t *testing.T) {
		for _, h := range hosts {
			t.Run(h.label, func(t *testing.T) {
				t.Parallel()
				h.t = t
				workInTerminal(h, func() bool { return c.lastOf("turn.ended").Seq > 0 })
			})
		}
	})
	if end := c.ended(); end.field("stopReason") != "end_turn" {
		t.Fatalf("the turn ended with %s", end.Data)
	}
	checkConversation(t, c, book)
	checkTerminalShows(t, p, w, "the-model-says-$((40 + 2))", "the-model-says-42")
	checkPrompts(t, record, server)
	checkReceipts(t, d, 1+hosts[0].runs+hosts[1].runs)
}

// commonWords are the pieces of the short forms that make up most of a prompt.
func commonWords() []string {
	count := map[string]int{}
	piece := regexp.MustCompile(` ?\p{L}+| ?[^\s\p{L}\p{N}]+`)
	for _, f := range short.All() {
		raw, err := json.Marshal(f)
		if err != nil {
			panic(err)
		}
		for _, word := range piece.FindAllString(string(raw), -1) {
			if len(word) > 1 {
				count[word] += len(word) - 1
			}
		}
	}
	words := slices.Sorted(maps.Keys(count))
	slices.SortStableFunc(words, func(a, b string) int { return count[b] - count[a] })
	return words[:min(len(words), 400)]
}

// workInTerminal runs commands whose outputs tell whose they are, at least
// five, and goes on as long as the others work.
func workInTerminal(h *host, done func() bool) {
	h.t.Helper()
	s := h.shell()
	mark := strings.ReplaceAll(h.label, " ", "-")
	for ; h.runs < 5 || !done(); h.runs++ {
		i, pause := h.runs, "0.3"
		if i >= 5 { // the model may take long on a busy machine
			pause = "1.5"
		}
		seen, text := h.run(s, fmt.Sprintf("for n in 1 2 3; do echo %s-%d-$n; done; sleep %s; (exit %d)", mark, i, pause, i%7))
		if want := fmt.Sprintf("%[1]s-%[2]d-1\n%[1]s-%[2]d-2\n%[1]s-%[2]d-3\n", mark, i); text != want {
			h.t.Fatalf("command %d of %s printed %q, want %q", i, h.label, text, want)
		}
		if seen.exit() != i%7 || seen.Source != "shell_integration" {
			h.t.Fatalf("command %d of %s: exit code %d by %s", i, h.label, seen.exit(), seen.Source)
		}
	}
	var all struct{ Text string }
	h.ok("lomi_terminal_read", args{"workspaceId": h.workspace, "panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "cursor": "0", "maxBytes": 65536}, &all)
	for _, foreign := range []string{"Go-host", "TypeScript-host", "the-model-says"} {
		if foreign != mark && strings.Contains(all.Text, foreign) {
			h.t.Errorf("the terminal of %s has output of %s:\n%s", h.label, foreign, all.Text)
		}
	}
	if !strings.Contains(all.Text, mark+"-4-3") {
		h.t.Errorf("the terminal of %s lacks a line of its own:\n%s", h.label, all.Text)
	}
}

// checkConversation looks at what the model was told and what the site got.
func checkConversation(t *testing.T, c *talk, book *form) {
	t.Helper()
	var got []string
	for _, e := range c.results() {
		got = append(got, e.field("name")+" "+e.field("outcome"))
	}
	if diff := cmp.Diff([]string{"terminal_run ok", "browser_open ok", "browser_fill ok", "browser_click ok"}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for i, want := range []string{"the-model-says-42", "Guest book", "", "Signed"} {
		if i < len(got) && !strings.Contains(c.results()[i].field("text"), want) {
			t.Errorf("the result of %s has no %q:\n%s", got[i], want, c.results()[i].field("text"))
		}
	}
	if diff := cmp.Diff([]url.Values{{"greeting": {greeting}}}, book.submissions()); diff != "" {
		t.Errorf("what the site got (-want +got):\n%s", diff)
	}
	last := c.lastOf("reply.ended")
	if !strings.Contains(string(last.Data), "The guest book is signed.") {
		t.Errorf("the answer is %s", last.Data)
	}
}

// checkTerminalShows reads the chat's terminal as the page draws it.
func checkTerminalShows(t *testing.T, p *page, w workspace, wants ...string) {
	t.Helper()
	var state struct {
		Panels []struct{ ID, Kind, Title, WorkspaceID string }
	}
	p.do("GET", "/api/state", nil, &state)
	var shown []string
	for _, panel := range state.Panels {
		if panel.Kind != "terminal" || panel.WorkspaceID != w.ID {
			continue
		}
		text := p.screen(panel.ID, wants[len(wants)-1])
		if !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(text, want) }) {
			return
		}
		shown = append(shown, panel.Title+":\n"+text)
	}
	t.Errorf("no terminal shows %q:\n%s", wants, strings.Join(shown, "\n---\n"))
}

// screen is what a terminal sends to a page that opens it: all that it shows.
// It waits until that holds a text, and gives up quietly.
func (p *page) screen(panel, until string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience/20)
	defer cancel()
	ws := p.socket(ctx, "/ws/terminal/"+panel, map[string]any{"key": p.key, "cols": 120, "rows": 40})
	defer ws.CloseNow()
	var text []byte
	for !bytes.Contains(text, []byte(until)) {
		_, data, err := ws.Read(ctx)
		if err != nil {
			break
		}
		text = append(text, data...)
	}
	return string(text)
}

// checkPrompts holds what a local model depends on: one window for the whole
// conversation, and prompts that only grow, so that what was read once is not
// read again.
func checkPrompts(t *testing.T, record *recorder, server *ollamatest.Server) {
	t.Helper()
	asked := record.asked(t)
	if len(asked) != 5 {
		t.Fatalf("the model was asked %d times, want 5", len(asked))
	}
	var running struct {
		Models []struct {
			Name   string  `json:"name"`
			Window float64 `json:"context_length"`
		} `json:"models"`
	}
	fetchJSON(t, "GET", server.Address+"/api/ps", nil, &running)
	before := ""
	for i, request := range asked {
		options, _ := request["options"].(map[string]any)
		if len(running.Models) != 1 || options["num_ctx"] != running.Models[0].Window {
			t.Errorf("request %d asks for a window of %v, Ollama runs %+v", i, options["num_ctx"], running.Models)
		}
		if request["truncate"] != false {
			t.Errorf("request %d lets Ollama drop messages: truncate is %v", i, request["truncate"])
		}
		prompt := record.prompt(t, request)
		if !strings.HasPrefix(prompt, before) || len(prompt) == len(before) {
			t.Errorf("prompt %d does not begin with the one before:\n%s\n--- then ---\n%s", i, before, prompt)
		}
		before = prompt
	}
	if !strings.Contains(before, "the-model-says-42") || !strings.Contains(before, "Signed") {
		t.Errorf("the last prompt lacks results:\n%s", before)
	}
}

// checkReceipts finds each effect of the conversation on record, once.
func checkReceipts(t *testing.T, d *daemon, runs int) {
	t.Helper()
	var answer struct {
		Receipts []struct{ Tool, Label, State string }
	}
	d.lomiJSON(&answer, "receipt", "list", "--limit", "500")
	got := map[string]int{}
	for _, r := range answer.Receipts {
		if r.State == "succeeded" || r.Tool == "lomi_terminal_run" {
			got[r.Tool]++
		}
	}
	want := map[string]int{"lomi_terminal_create": 3, "lomi_terminal_run": runs, "lomi_browser_open": 1, "lomi_browser_fill": 1, "lomi_browser_click": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
}
