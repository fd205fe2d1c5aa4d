package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	chromepage "github.com/chromedp/cdproto/page"

	"lomi/broker"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// treeOf lists the processes whose command line names a profile folder.
func treeOf(t testing.TB, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(raw), dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// F-70, bugs 53: a browser that is killed.
func TestBrowserIsKilled(t *testing.T) {
	t.Parallel()
	r := own(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html("<title>here</title><button>b</button>")})
	v := r.visit(t, srv.URL)
	v.look()
	before := v.panel.BrowserGeneration
	p := r.page(v.panel.PanelID)
	c := p.chromium()
	if err := syscall.Kill(c.process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	snapshot := &browser.SnapshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, MaxNodes: 10, MaxBytes: 4096}
	_, err := r.do(t, snapshot)
	wantCode(t, err, control.PanelNotRenderable, "has ended")
	receive(t, c.gone)
	if left := treeOf(t, c.dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("profile left: %v", err)
	}
	await(t, "the panel shows the end", func() bool { panel, _ := r.desk.Panel(v.panel.PanelID); return panel.Runtime == "exited" })
	if _, err := v.navigate("", "reload"); err == nil {
		t.Error("a dead page was reloaded")
	}
	n, err := v.navigate(srv.URL, "")
	if err != nil || n.Title != "here" || n.BrowserGeneration == before {
		t.Fatalf("starting anew: %+v %v, was generation %s", n, err, before)
	}
	if panel, _ := r.desk.Panel(v.panel.PanelID); panel.BrowserGeneration != n.BrowserGeneration || panel.Runtime != "running" {
		t.Errorf("panel %+v", panel)
	}
	_, err = r.do(t, snapshot)
	wantCode(t, err, control.StaleGeneration, "")

	// A renderer alone: only that page ends.
	other := r.visit(t, srv.URL)
	post(r.page(v.panel.PanelID).main, chromepage.Crash, cdp.Empty{})
	await(t, "the crash is seen", func() bool { return r.page(v.panel.PanelID).where().dead })
	other.look()
	snapshot.Panel = v.panel
	_, err = r.do(t, snapshot)
	wantCode(t, err, control.PanelNotRenderable, "crashed; navigate")
	if _, err := v.navigate(srv.URL, ""); err != nil {
		t.Fatal(err)
	}
	v.look()
	stoppedAndClosed(t, r, v, srv.URL)
}

// bugs 59: a browser that is stopped, closed twice.
func stoppedAndClosed(t *testing.T, r *rig, v *view, url string) {
	t.Helper()
	c := r.page(v.panel.PanelID).chromium()
	for _, pid := range treeOf(t, c.dir) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	_, err := v.part(10, 4096, "")
	wantCode(t, err, control.PanelNotRenderable, "has ended")
	r.end(t)
	r.end(t)
	if left := treeOf(t, c.dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	_, err = r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: url})
	wantCode(t, err, control.AppClosing, "closing")
}

// bugs 55: opening and closing leaves nothing; F-78: old profiles go.
func TestOpenAndCloseLeaveNothing(t *testing.T) {
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html("<title>x</title>")})
	r.visit(t, srv.URL)
	dir := r.current.dir
	await(t, "a steady number", func() bool { return len(treeOf(t, dir)) > 0 })
	before := len(treeOf(t, dir))
	for range 8 {
		res, err := r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: srv.URL})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.ClosePanel(context.Background(), res.Data.(*browser.Opened).PanelID); err != nil {
			t.Fatal(err)
		}
	}
	// Chromium keeps a spare renderer, so one more is no leak.
	await(t, "the number comes back", func() bool { return len(treeOf(t, dir)) <= before+1 })

	old := t.TempDir()
	if err := os.MkdirAll(filepath.Join(old, "run-dead", "Default"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Dir: old, Desk: r.desk, Artifacts: &shelf{}}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(old); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestPagesAreCounted(t *testing.T) {
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html("x")})
	r.mu.Lock()
	r.Browser.mu.Lock()
	free := maxPages - len(r.pages)
	r.reserved += free
	r.Browser.mu.Unlock()
	r.mu.Unlock()
	defer func() {
		r.Browser.mu.Lock()
		r.reserved -= free
		r.Browser.mu.Unlock()
	}()
	_, err := r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: srv.URL})
	wantCode(t, err, control.ResourceExhausted, "pages are open")
}

func TestSessionsAreApart(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, q *http.Request) {
		_, err := q.Cookie("who")
		http.SetCookie(w, &http.Cookie{Name: "who", Value: "alice"})
		html(fmt.Sprintf("<title>known %v</title>", err == nil))(w, q)
	}})
	r.visit(t, srv.URL)
	if s := r.visit(t, srv.URL).look(); s.Title != "known true" {
		t.Errorf("the same session: %q", s.Title)
	}
	call := broker.Call{Session: "bob", Request: &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: srv.URL}}
	target, err := r.Resolve(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Do(context.Background(), broker.NewPermit(func() error { return nil }, nil), call, target)
	if err != nil {
		t.Fatal(err)
	}
	bob := res.Data.(*browser.Opened)
	if bob.Title != "known false" {
		t.Errorf("another session: %q", bob.Title)
	}
	if err := r.ClosePanel(context.Background(), bob.PanelID); err != nil {
		t.Error(err)
	}
}

// A permit that is gone before the click leaves the page alone; a person who
// has taken over is not read where the grant does not reach.
func TestRevokedAndTakenOver(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/":      html(`<title>mine</title><button onclick="document.title='clicked'">Go</button><input aria-label=Field>`),
		"/other": html("<title>private</title>"),
	})
	elsewhere := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1) + "/other"
	v := r.visit(t, srv.URL)
	v.look()
	call := broker.Call{Session: "alice", Request: &browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref("button", "Go"))}}
	target, err := r.Resolve(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(target.Summary, `Click button "Go" on 127.0.0.1`) || target.Risk != "" || target.Resource != "browser:"+v.panel.PanelID {
		t.Errorf("target %+v", target)
	}
	gone := control.Errorf(control.ControlRevoked, "revoked")
	permit := broker.NewPermit(func() error { return gone }, nil)
	_, err = r.Do(context.Background(), permit, call, target)
	wantCode(t, err, control.ControlRevoked, "revoked")
	if s := v.look(); s.Title != "mine" || permit.Started() {
		t.Errorf("title %q, started %v", s.Title, permit.Started())
	}

	ctx, cancel := context.WithCancel(context.Background())
	frames, err := r.Screencast(ctx, v.panel.PanelID, 640, 480)
	if err != nil {
		t.Fatal(err)
	}
	pic := receive(t, frames)
	if len(pic.JPEG) < 100 || pic.JPEG[0] != 0xff || pic.Width != viewWidth || pic.Height != viewHeight {
		t.Errorf("picture of %d bytes, of a page %d wide and %d high", len(pic.JPEG), pic.Width, pic.Height)
	}
	if size, err := jpeg.DecodeConfig(bytes.NewReader(pic.JPEG)); err != nil || size.Width > 640 || size.Height > 480 {
		t.Errorf("picture %+v %v, want one that fits 640x480", size, err)
	}
	if view := v.look().Viewport; view.Width != viewWidth || view.Height != viewHeight {
		t.Errorf("watched, the page is %+v", view)
	}
	for _, in := range []Input{
		{Type: "mouse", Action: "move", X: 20, Y: 20}, {Type: "mouse", Action: "down", Button: "left", X: 20, Y: 20, Clicks: 1, Buttons: 1},
		{Type: "mouse", Action: "up", Button: "left", X: 20, Y: 20, Clicks: 1}, {Type: "key", Action: "down", Key: "Tab", Code: "Tab", KeyCode: 9},
		{Type: "key", Action: "up", Key: "Tab", Code: "Tab", KeyCode: 9}, {Type: "text", Text: "täxt"}, {Type: "wheel", X: 5, Y: 5, DeltaY: 10},
	} {
		if err := r.Act(ctx, v.panel.PanelID, in); err != nil {
			t.Fatalf("%+v: %v", in, err)
		}
	}
	s := v.look()
	if s.Title != "clicked" || !strings.Contains(list(s), `"Field" = "täxt"`) {
		t.Errorf("after a person: %q\n%s", s.Title, list(s))
	}
	if len(r.taken) == 0 || r.taken[0] != "browser:"+v.panel.PanelID {
		t.Errorf("taken over: %q", r.taken)
	}
	wantCode(t, r.Act(ctx, v.panel.PanelID, Input{Type: "navigate", URL: "file:///etc/passwd"}), control.ResourceExhausted, "")
	wantCode(t, r.Act(ctx, v.panel.PanelID, Input{Type: "mouse", Action: "lick"}), control.ResourceExhausted, "")
	if err := r.Act(ctx, v.panel.PanelID, Input{Type: "navigate", URL: elsewhere}); err != nil {
		t.Fatal(err)
	}
	_, err = r.do(t, &browser.SnapshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, MaxNodes: 10, MaxBytes: 4096})
	wantCode(t, err, control.ScopeDenied, "localhost")
	cancel()
	await(t, "the view ends", func() bool { p := r.page(v.panel.PanelID); p.mu.Lock(); defer p.mu.Unlock(); return p.cast == nil })
}

// A slow reader of pictures gets the last one.
func TestSlowViewer(t *testing.T) {
	c := &cast{viewers: map[chan View]struct{}{}}
	ch := c.join()
	for i := range 100 {
		c.send(View{JPEG: []byte{byte(i)}})
	}
	c.send(View{Title: "only words"})
	if v := receive(t, ch); v.JPEG[0] != 99 {
		t.Errorf("got picture %d, want 99", v.JPEG[0])
	}
	if late := receive(t, c.join()); late.JPEG[0] != 99 || late.Title != "only words" {
		t.Errorf("a late viewer got %+v", late)
	}
	c.end()
	if _, open := <-ch; open {
		t.Error("the view did not end")
	}
}
