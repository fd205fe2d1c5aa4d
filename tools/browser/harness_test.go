package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"lomi/broker"
	"lomi/broker/catalog/artifact"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
	"lomi/internal/keeper"
)

const testWorkspace = "workspace"

func TestMain(m *testing.M) {
	keeper.Hook()
	code := m.Run()
	if r := shared.rig; r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := r.Close(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "closing the shared browser:", err)
			code = 1
		}
		cancel()
		shared.daemon.Close()
		if left, _ := os.ReadDir(r.cfg.Dir); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left in the browser folder:", left)
			code = 1
		}
		os.RemoveAll(r.cfg.Dir)
	}
	os.Exit(code)
}

// common is the rig of all tests that do not end their Chromium.
func common(t testing.TB) *rig {
	t.Helper()
	shared.once.Do(func() {
		shared.daemon = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			shared.reached.Add(1)
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}))
		port := portOfURL(t, shared.daemon.URL)
		shared.rig = newRig(t, port)
		shared.rig.forbidden[port] = true
		shared.rig.grant(shared.daemon.URL)
	})
	return shared.rig
}

// desk is a workbench in memory.
type desk struct {
	mu       sync.Mutex
	panels   map[string]control.Panel
	revision int
}

func (d *desk) AddPanel(_ context.Context, p control.Panel, expected string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if expected != "" && expected != strconv.Itoa(d.revision) {
		return "", control.Errorf(control.RevisionConflict, "the workspace has changed")
	}
	d.panels[p.ID] = p
	d.revision++
	return strconv.Itoa(d.revision), nil
}

func (d *desk) UpdatePanel(_ context.Context, p control.Panel) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.panels[p.ID] = p
	return nil
}

func (d *desk) Panel(id string) (control.Panel, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.panels[id]
	return p, ok
}

// shelf keeps pictures in memory.
type shelf struct{ last []byte }

func (s *shelf) Put(_ context.Context, _, _ string, source artifact.Source, image artifact.Image, png []byte) (artifact.Artifact, error) {
	s.last = png
	return artifact.Artifact{Kind: "artifact", ID: control.NewID(), MediaType: "image/png", ByteLength: int64(len(png)), Source: source, Image: &image}, nil
}

// rig is a browser with what it needs, and the origins that a test grants.
type rig struct {
	*Browser
	desk *desk

	mu        sync.Mutex
	granted   map[string]bool
	forbidden map[int]bool
	taken     []string
}

// shared is the one Chromium of the tests that do not end theirs.
var shared struct {
	once    sync.Once
	rig     *rig
	daemon  *httptest.Server // stands for Lomi's own port, which no page reaches
	reached atomic.Int32
}

func newRig(t testing.TB, ownPorts ...int) *rig {
	t.Helper()
	r := &rig{desk: &desk{panels: map[string]control.Panel{}}, granted: map[string]bool{}, forbidden: map[int]bool{}}
	dir, err := os.MkdirTemp("", "lb")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{
		Dir: dir, Desk: r.desk, Artifacts: &shelf{}, IdleExit: time.Hour,
		Allow: func(_, origin string) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.granted[origin]
		},
		Forbidden: func(_ string, port int) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.forbidden[port]
		},
		OwnPorts: func() []int { return ownPorts },
		TakeOver: func(resource string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.taken = append(r.taken, resource)
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Browser = b
	return r
}

// own is a rig that ends with its test.
func own(t testing.TB, ownPorts ...int) *rig {
	t.Helper()
	r := newRig(t, ownPorts...)
	t.Cleanup(func() {
		r.end(t)
		if err := os.RemoveAll(r.cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) end(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (r *rig) grant(rawURL string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.granted[originOf(rawURL)] = true
}

// site serves pages by path and is granted.
func (r *rig) site(t testing.TB, pages map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, h := range pages {
		mux.HandleFunc(path, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	r.grant(srv.URL)
	return srv
}

// html serves a page.
func html(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><meta charset=utf-8>"+body)
	}
}

// do resolves and carries out a call as the broker would.
func (r *rig) do(t testing.TB, request any) (broker.Result, error) {
	t.Helper()
	call := broker.Call{Request: request, Session: "alice"}
	_, call.Tool.ReadOnly = request.(*browser.SnapshotRequest)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	target, err := r.Resolve(ctx, call)
	if err != nil {
		return broker.Result{}, err
	}
	return r.Do(ctx, broker.NewPermit(func() error { return nil }, nil), call, target)
}

// view is an open page as a caller holds it.
type view struct {
	rig   *rig
	t     testing.TB
	panel browser.Panel
	nav   string
	snap  *browser.Snapshot
}

func (r *rig) visit(t testing.TB, url string) *view {
	t.Helper()
	res, err := r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: url})
	if err != nil {
		t.Fatalf("opening %s: %v", url, err)
	}
	opened := res.Data.(*browser.Opened)
	v := &view{rig: r, t: t, panel: browser.Panel{PanelID: opened.PanelID, BrowserGeneration: opened.BrowserGeneration}, nav: opened.NavigationID}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.ClosePanel(ctx, opened.PanelID); err != nil {
			t.Error(err)
		}
	})
	return v
}

func (v *view) keyed() control.Keyed { return control.Keyed{WorkspaceID: testWorkspace} }

func (v *view) look() *browser.Snapshot {
	v.t.Helper()
	res, err := v.rig.do(v.t, &browser.SnapshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, MaxNodes: 100, MaxBytes: 16384})
	if err != nil {
		v.t.Fatalf("snapshot: %v", err)
	}
	v.snap = res.Data.(*browser.Snapshot)
	v.nav = v.snap.NavigationID
	return v.snap
}

// ref finds an element of the last snapshot by role and name.
func (v *view) ref(role, name string) string {
	v.t.Helper()
	for _, n := range v.snap.Elements {
		if n.Role == role && n.Name == name && n.ElementRef != "" {
			return n.ElementRef
		}
	}
	v.t.Fatalf("no %s %q in:\n%s", role, name, list(v.snap))
	return ""
}

func (v *view) element(ref string) browser.Element {
	return browser.Element{NavigationID: v.nav, SnapshotID: v.snap.SnapshotID, ElementRef: ref}
}

func (v *view) click(role, name string) (*browser.Interaction, error) {
	v.t.Helper()
	return v.interact(&browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref(role, name))})
}

func (v *view) fill(role, name, text string) (*browser.Interaction, error) {
	v.t.Helper()
	return v.interact(&browser.FillRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref(role, name)), Text: text})
}

func (v *view) key(ref, key string) (*browser.Interaction, error) {
	v.t.Helper()
	return v.interact(&browser.KeyRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(ref), Key: key})
}

func (v *view) interact(request any) (*browser.Interaction, error) {
	v.t.Helper()
	res, err := v.rig.do(v.t, request)
	if err != nil {
		return nil, err
	}
	return res.Data.(*browser.Interaction), nil
}

func (v *view) navigate(url, history string) (*browser.Navigated, error) {
	v.t.Helper()
	res, err := v.rig.do(v.t, &browser.NavigateRequest{Keyed: v.keyed(), Panel: v.panel, URL: url, History: history, WaitUntil: "load"})
	if err != nil {
		return nil, err
	}
	n := res.Data.(*browser.Navigated)
	v.nav, v.panel.BrowserGeneration = n.NavigationID, n.BrowserGeneration
	return n, nil
}

// list draws a snapshot as the short form would.
func list(s *browser.Snapshot) string {
	var b strings.Builder
	for _, n := range s.Elements {
		fmt.Fprintf(&b, "[%s] %s %q", n.ElementRef, n.Role, n.Name)
		if n.Value != nil {
			fmt.Fprintf(&b, " = %q", *n.Value)
		}
		if n.Checked != nil {
			fmt.Fprintf(&b, " checked=%v", *n.Checked)
		}
		if !n.Enabled && n.ElementRef != "" {
			b.WriteString(" disabled")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// await polls until a condition holds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}

func wantCode(t testing.TB, err error, code control.Code, words string) {
	t.Helper()
	e, ok := control.AsError(err)
	if !ok || e.Code != code || !strings.Contains(e.Message, words) {
		t.Fatalf("got error %v, want %s with %q", err, code, words)
	}
}

func wantNote(t testing.TB, notes []string, words string) {
	t.Helper()
	if !strings.Contains(strings.Join(notes, "\n"), words) {
		t.Fatalf("got notes %q, want one with %q", notes, words)
	}
}

func size(t testing.TB, v any) int {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// evaluate runs a script in the page itself.
func evaluate(t testing.TB, p *page, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	res, err := cdp.Call(ctx, p.main, runtime.Evaluate, runtime.EvaluateParams{Expression: script})
	if err != nil || res.ExceptionDetails != nil {
		t.Fatalf("running %s: %v %+v", script, err, res.ExceptionDetails)
	}
}

func portOfURL(t testing.TB, raw string) int {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
