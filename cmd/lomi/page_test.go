package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// page is a person's open page: it logged in with a link and speaks to the
// daemon as the real page does.
type page struct {
	t      testing.TB
	url    string // without a slash at the end
	key    string
	cookie *http.Cookie
}

// openPage logs in with a link of the daemon.
func openPage(t testing.TB, link string) *page {
	t.Helper()
	url, code, ok := strings.Cut(link, "/#login=")
	if !ok {
		t.Fatalf("no login link: %s", link)
	}
	p := &page{t: t, url: url}
	var answer struct{ Key string }
	resp := p.do("POST", "/api/login", map[string]string{"code": code}, &answer)
	for _, c := range resp.Cookies() {
		p.cookie = c
	}
	if p.key = answer.Key; p.key == "" || p.cookie == nil {
		t.Fatalf("the login gave key %q and cookie %v", p.key, p.cookie)
	}
	return p
}

// page logs in with the link of the ready file, which works once.
func (d *daemon) page() *page {
	d.t.Helper()
	return openPage(d.t, d.ready.LoginURL)
}

// request asks the daemon; the answer's body is read whole.
func (p *page) request(method, path string, body any) (*http.Response, []byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", p.url)
	if p.cookie != nil {
		req.AddCookie(p.cookie)
		req.Header.Set("X-Lomi-Key", p.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, err
}

// do asks for what must succeed. A nil into takes any answer.
func (p *page) do(method, path string, body, into any) *http.Response {
	p.t.Helper()
	resp, raw, err := p.request(method, path, body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: status %d: %s", method, path, resp.StatusCode, raw)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			p.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return resp
}

// workspace is what the page needs of one.
type workspace struct {
	ID        string `json:"id"`
	ProjectID string `json:"projectId"`
}

// project opens a folder.
func (p *page) project(path string) workspace {
	p.t.Helper()
	var w workspace
	p.do("POST", "/api/projects", map[string]string{"path": path}, &w)
	return w
}

// pairing is one that waits for the person.
type pairing struct{ ID, Label string }

// pairing waits for a request to connect under a label.
func (p *page) pairing(label string) pairing {
	p.t.Helper()
	var found pairing
	until(p.t, "a pairing of "+label, func() bool {
		var answer struct{ Pairings []pairing }
		p.do("GET", "/api/pairings", nil, &answer)
		for _, one := range answer.Pairings {
			if one.Label == label {
				found = one
				return true
			}
		}
		return false
	})
	return found
}

// grant is what the person allows.
type grant struct {
	Domains    []string `json:"domains,omitempty"`
	Scopes     []string `json:"scopes,omitempty"`
	Workspaces []string `json:"workspaces,omitempty"`
	Origins    []string `json:"origins,omitempty"`
	Policy     string   `json:"policy,omitempty"`
}

func (p *page) approve(pairing string, g grant) {
	p.t.Helper()
	p.do("POST", "/api/pairings/"+pairing+"/approve", g, nil)
}

// logEvent is one line of a log.
type logEvent struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// field reads one text of an event.
func (e logEvent) field(name string) string {
	var all map[string]any
	if json.Unmarshal(e.Data, &all) != nil || all[name] == nil {
		return ""
	}
	return fmt.Sprint(all[name])
}

// tab follows one log on a socket of its own, as one tab of the page.
type tab struct {
	t      testing.TB
	mu     sync.Mutex
	events []logEvent
	err    error
	// answer is called with each event, by the reader; nil for none.
	answer func(logEvent)
}

// follow opens a tab on a log: on all of a conversation's, on the desk's from
// where its state stands. It closes with the test.
func (p *page) follow(log string, answer func(logEvent)) *tab {
	p.t.Helper()
	var state struct{ DeskSeq int64 }
	if log == "desk" {
		p.do("GET", "/api/state", nil, &state)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ws := p.socket(ctx, "/ws/events", map[string]any{"key": p.key, "subscribe": []any{map[string]any{"log": log, "after": state.DeskSeq}}})
	f := &tab{t: p.t, answer: answer}
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			_, raw, err := ws.Read(ctx)
			if err != nil {
				f.mu.Lock()
				f.err = err
				f.mu.Unlock()
				return
			}
			var frame struct {
				Event  *logEvent
				Behind bool
			}
			if json.Unmarshal(raw, &frame) != nil || frame.Behind {
				f.mu.Lock()
				f.err = fmt.Errorf("cut off: %s", raw) // these tests are too short to fall behind
				f.mu.Unlock()
				return
			}
			if frame.Event == nil {
				continue
			}
			f.mu.Lock()
			f.events = append(f.events, *frame.Event)
			f.mu.Unlock()
			if f.answer != nil {
				f.answer(*frame.Event)
			}
		}
	})
	p.t.Cleanup(func() {
		cancel()
		ws.CloseNow()
		reading.Wait()
	})
	return f
}

// socket opens a socket as the page does: with its cookie, its Origin, and the
// key in the first message.
func (p *page) socket(ctx context.Context, path string, first any) *websocket.Conn {
	p.t.Helper()
	header := http.Header{"Origin": {p.url}, "Cookie": {p.cookie.Name + "=" + p.cookie.Value}}
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http")+path, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		p.t.Fatalf("opening %s: %v", path, err)
	}
	ws.SetReadLimit(64 << 20)
	raw, err := json.Marshal(first)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := ws.Write(ctx, websocket.MessageText, raw); err != nil {
		p.t.Fatalf("greeting %s: %v", path, err)
	}
	return ws
}

// String lists what came, for people.
func (f *tab) String() string {
	var b strings.Builder
	for _, e := range f.all() {
		fmt.Fprintf(&b, "%d %s %.300s\n", e.Seq, e.Kind, e.Data)
	}
	return b.String()
}

// all is what came so far.
func (f *tab) all() []logEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]logEvent(nil), f.events...)
}

// wait returns the first event that is like that.
func (f *tab) wait(what string, like func(logEvent) bool) logEvent {
	f.t.Helper()
	var found logEvent
	came := within(3*patience, func() bool {
		for _, e := range f.all() {
			if like(e) {
				found = e
				return true
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err != nil {
			f.t.Fatalf("waiting for %s: the socket ended: %v", what, f.err)
		}
		return false
	})
	if !came {
		f.t.Fatalf("after %v still not: %s; events:\n%s", 3*patience, what, f)
	}
	return found
}

// talk is one conversation, from the page.
type talk struct {
	*page
	id string
	*tab
	turns int
}

// converse begins a conversation whose pairing and questions the person
// answers with yes.
func (p *page) converse(w workspace, model string, domains ...string) *talk {
	p.t.Helper()
	var made struct{ ID string }
	p.do("POST", "/api/conversations", map[string]any{"workspaceId": w.ID, "model": model, "domains": domains}, &made)
	c := &talk{page: p, id: made.ID}
	c.tab = p.follow("conversation:"+made.ID, func(e logEvent) {
		if e.Kind == "approval.requested" {
			p.yes(e, grant{Domains: domains, Workspaces: []string{w.ID}})
		}
	})
	return c
}

// yes answers a question of a conversation. A question that has ended is none.
func (p *page) yes(e logEvent, g grant) {
	id := e.field("id")
	path, body := "/api/approvals/"+id, any(map[string]string{"answer": "yes"})
	if e.field("kind") == "pairing" {
		path, body = "/api/pairings/"+id+"/approve", g
	}
	resp, raw, err := p.request("POST", path, body)
	if err != nil {
		p.t.Errorf("answering %s: %v", e.Data, err)
	} else if resp.StatusCode >= 500 || resp.StatusCode == http.StatusForbidden {
		p.t.Errorf("answering %s: status %d: %s", e.Data, resp.StatusCode, raw)
	}
}

// say sends a message and returns at once.
func (c *talk) say(text string) {
	c.page.t.Helper()
	resp, raw, err := c.request("POST", "/api/conversations/"+c.id+"/messages", map[string]string{"text": text})
	if err != nil || resp.StatusCode >= 300 {
		c.page.t.Fatalf("sending a message: %v, %s", err, raw)
	}
	c.turns++
}

// ended waits for the end of the last turn.
func (c *talk) ended() logEvent {
	c.page.t.Helper()
	return c.wait("the end of the turn", func(e logEvent) bool {
		if e.Kind != "turn.ended" {
			return false
		}
		n := 0
		for _, one := range c.all() {
			if one.Kind == "turn.ended" {
				n++
			}
		}
		return n >= c.turns && e.Seq == c.lastOf("turn.ended").Seq
	})
}

func (c *talk) lastOf(kind string) logEvent {
	var last logEvent
	for _, e := range c.all() {
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

// results are the ends of calls, in order.
func (c *talk) results() []logEvent {
	var ends []logEvent
	for _, e := range c.all() {
		if e.Kind == "call.ended" {
			ends = append(ends, e)
		}
	}
	return ends
}
