package browser

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// S-100, S-102: what an address may be.
func TestAddresses(t *testing.T) {
	r := common(t)
	r.grant("http://allowed.test/")
	open := func(url string) error {
		_, err := r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: url})
		return err
	}
	for _, url := range []string{
		"file:///etc/passwd", "chrome://settings", "devtools://devtools/x", "view-source:http://allowed.test/", "data:text/html,hi",
		"javascript:alert(1)", "blob:http://allowed.test/1", "about:blank", "ftp://allowed.test/", "http:allowed.test", "//allowed.test/",
		"http://allowed.test@127.0.0.1/", "http://allowed.test:x@evil.test/", "http://u:p@allowed.test/",
		`http://allowed.test\@evil.test/`, `http:\\allowed.test/`, "http://allowed.test\t/", "http:///x", "http://allowed.test:99999/", "http://allowed.test:/",
		"http://0x7f.1/", "http://2130706433/", "http://127.1/",
	} {
		if err := open(url); err == nil {
			t.Errorf("%q was opened", url)
		} else if e, ok := control.AsError(err); !ok || e.Code != control.ResourceExhausted || strings.Contains(e.Message, url) {
			t.Errorf("%q: got %v, want RESOURCE_EXHAUSTED without the address", url, err)
		}
	}
	wantCode(t, open("http://127.0.0.1:80#@allowed.test"), control.ScopeDenied, "127.0.0.1:80")
	wantCode(t, open("http://evil.test/"), control.ScopeDenied, "not among the allowed origins")
}

// S-102, F-74: redirects, links, windows and frames to where no page may go.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	r := common(t)
	var outside atomic.Int32
	out := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		outside.Add(1)
		html("<title>outside</title>")(w, q)
	}))
	defer out.Close()
	srv := r.site(t, map[string]http.HandlerFunc{
		"/redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, out.URL+"/?secret=1", http.StatusFound)
		},
		"/": html(`<title>inside</title><a href="` + out.URL + `">outside</a><a href="/redirect">redirect</a>
			<a href="` + out.URL + `" target=_blank>window</a><a href="file:///etc/passwd">file</a><a href="chrome://version">chrome</a>
			<a href="data:text/html,<title>data</title>">data</a><a href="view-source:` + out.URL + `">source</a>
			<button onclick="location=URL.createObjectURL(new Blob(['<title>blob</title>'],{type:'text/html'}))">blob</button>
			<form action="` + out.URL + `" method=post><button>post</button></form>`),
	})
	v := r.visit(t, srv.URL)
	for _, name := range []string{"outside", "redirect", "window", "file", "chrome", "data", "source"} {
		v.look()
		did, err := v.click("link", name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := v.look()
		if s.Title != "inside" || !strings.HasPrefix(s.URL, srv.URL) {
			t.Errorf("%s led to %q %q", name, s.Title, s.URL)
		}
		switch name {
		case "outside", "redirect":
			wantNote(t, did.Notes, "SCOPE_DENIED")
		case "window":
			wantNote(t, append(did.Notes, s.Notes...), "in a new window, which was closed")
		}
		if strings.Contains(strings.Join(did.Notes, ""), "secret") {
			t.Errorf("notes show a query: %q", did.Notes)
		}
	}
	for _, name := range []string{"blob", "post"} {
		v.look()
		if _, err := v.click("button", name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s := v.look(); s.Title != "inside" {
			t.Errorf("%s led to %q %q", name, s.Title, s.URL)
		}
	}
	_, err := v.navigate(srv.URL+"/redirect", "")
	wantCode(t, err, control.ScopeDenied, "was refused")
	if s := v.look(); s.Title != "inside" {
		t.Errorf("a refused redirect left %q", s.Title)
	}
	if n := outside.Load(); n != 0 {
		t.Errorf("the outside was asked %d times", n)
	}
}

// S-101: no port; S-103: no way to the daemon for anything in a page.
func TestDaemonIsOutOfReach(t *testing.T) {
	t.Parallel()
	r := common(t)
	daemon, port := shared.daemon, portOfURL(t, shared.daemon.URL)
	done := make(chan string, 1)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/done": func(_ http.ResponseWriter, q *http.Request) { done <- q.URL.RawQuery },
		"/": html(fmt.Sprintf(`<iframe src="http://127.0.0.1:%[1]d/"></iframe><img src="http://127.0.0.1:%[1]d/x.png"><script>
			const w = new Worker(URL.createObjectURL(new Blob(["fetch('http://127.0.0.1:%[1]d/worker').finally(()=>postMessage(1))"])));
			const ended = p => p.then(() => 'open', () => 'closed');
			Promise.all([
				ended(fetch('http://127.0.0.1:%[1]d/a')), ended(fetch('http://localhost:%[1]d/b', {mode: 'no-cors'})),
				ended(new Promise((ok, no) => { const s = new WebSocket('ws://127.0.0.1:%[1]d/c'); s.onopen = ok; s.onerror = no; })),
				new Promise(ok => w.onmessage = () => ok('closed')),
			]).then(all => fetch('/done?' + all.join()));
		</script>`, port)),
	})
	v := r.visit(t, srv.URL)
	if got := receive(t, done); got != "closed,closed,closed,closed" {
		t.Errorf("got %q, want all closed", got)
	}
	_, err := v.navigate(daemon.URL, "")
	wantCode(t, err, control.ScopeDenied, "Lomi itself")
	if n := shared.reached.Load(); n != 0 {
		t.Errorf("the daemon was reached %d times", n)
	}
	if open := listening(t, r.page(v.panel.PanelID).chromium().dir); len(open) > 0 {
		t.Errorf("Chromium listens: %q", open)
	}
}

// listening gives the TCP sockets in which processes of a Chromium wait for
// connections.
func listening(t *testing.T, dir string) []string {
	t.Helper()
	waiting := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(string(raw), "\n") {
			if f := strings.Fields(l); len(f) > 9 && f[3] == "0A" {
				waiting["socket:["+f[9]+"]"] = true
			}
		}
	}
	pids := treeOf(t, dir)
	if len(pids) == 0 || len(waiting) == 0 {
		t.Fatalf("nothing to look at: %d processes, %d sockets", len(pids), len(waiting))
	}
	var open []string
	for _, pid := range pids {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && waiting[to] {
				open = append(open, to)
			}
		}
	}
	return open
}

// F-71: dialogs do not stop a page, and are told.
func TestDialogs(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/auth": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"/next": html("<title>next</title>"),
		"/": html(`<title>dialogs</title><button onclick="alert('Saved \u202e it')">alert</button>
			<button onclick="document.title=confirm('Delete all?')">confirm</button><button onclick="document.title=prompt('Name?')">prompt</button>
			<button onclick="window.print();document.title='printed'">print</button><input type=file id=f style="position:fixed;left:-999px"><button onclick="f.click()">chooser</button>
			<button onclick="navigator.geolocation.getCurrentPosition(()=>0,e=>document.title='geo '+e.code)">geo</button>
			<button onclick="onbeforeunload=e=>{e.preventDefault();return 'x'}">guard</button>`),
	})
	v := r.visit(t, srv.URL)
	for _, c := range []struct{ button, note, title string }{
		{"alert", `said "Saved`, "dialogs"}, {"confirm", `asked "Delete all?"; it was answered with cancel`, "false"},
		{"prompt", `asked for text: "Name?"`, "null"}, {"print", "", "printed"}, {"chooser", "asked for a file", "printed"}, {"geo", "", "geo 1"},
	} {
		v.look()
		did, err := v.click("button", c.button)
		if err != nil {
			t.Fatalf("%s: %v", c.button, err)
		}
		notes := did.Notes
		await(t, c.button+" gives "+c.title, func() bool { s := v.look(); notes = append(notes, s.Notes...); return s.Title == c.title })
		if c.note != "" {
			wantNote(t, notes, c.note)
		}
	}
	v.look()
	if _, err := v.click("button", "guard"); err != nil {
		t.Fatal(err)
	}
	_, err := v.navigate(srv.URL+"/next", "")
	wantCode(t, err, control.TargetBusy, "unsaved changes")
	n, err := v.navigate(srv.URL+"/next", "")
	if err != nil || n.Title != "next" {
		t.Fatalf("leaving for the second time: %+v %v", n, err)
	}
	wantNote(t, n.Notes, "it was left")
	n, err = v.navigate(srv.URL+"/auth", "")
	if err == nil {
		wantNote(t, n.Notes, "login of its own")
	}
}

// F-72, F-73: downloads and windows.
func TestDownloadsAndWindows(t *testing.T) {
	t.Parallel()
	r := common(t)
	var asked atomic.Int32
	srv := r.site(t, map[string]http.HandlerFunc{
		"/popup": func(http.ResponseWriter, *http.Request) { asked.Add(1) },
		"/file": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", `attachment; filename="../../x.desktop"`)
			io.WriteString(w, "data")
		},
		"/": html(`<title>start</title><a href=/file>file</a><button onclick="for(let i=0;i<1000;i++)window.open('/popup?'+i)">windows</button>
			<input aria-label=tried><script>document.querySelector('input').value=window.open.toString()+Object.keys(window).filter(k=>/^lomi/.test(k))</script>`),
	})
	v := r.visit(t, srv.URL)
	v.look()
	did, err := v.click("link", "file")
	if err != nil {
		t.Fatal(err)
	}
	wantNote(t, append(did.Notes, v.look().Notes...), "x.desktop")
	_, err = v.navigate(srv.URL+"/file", "")
	wantCode(t, err, control.UnsupportedCapability, "download")
	v.look()
	did, err = v.click("button", "windows")
	if err != nil {
		t.Fatal(err)
	}
	var s *browser.Snapshot
	notes := did.Notes
	await(t, "the windows are counted", func() bool {
		s = v.look()
		notes = append(notes, s.Notes...)
		return strings.Contains(strings.Join(notes, ""), "asked for 1000 windows")
	})
	wantNote(t, notes, "in a new window")
	if len(notes) > maxNotes {
		t.Errorf("%d notes", len(notes))
	}
	if opened := v.ref("textbox", "tried"); opened == "" || strings.Count(list(s), "native code") != 1 {
		t.Errorf("a page sees what was put around window.open:\n%s", list(s))
	}
	if s.Title != "start" || asked.Load() != 0 {
		t.Errorf("title %q, %d windows loaded something", s.Title, asked.Load())
	}
}

// F-75: pages that never load.
func TestNeverLoads(t *testing.T) {
	t.Parallel()
	r := common(t)
	gate := make(chan struct{})
	hold := func(q *http.Request) {
		select {
		case <-gate:
		case <-q.Context().Done():
		}
	}
	srv := r.site(t, map[string]http.HandlerFunc{
		"/silent": func(_ http.ResponseWriter, q *http.Request) { hold(q) },
		"/stream": func(w http.ResponseWriter, q *http.Request) {
			html("<title>half</title><button onclick=\"document.title='used'\">Use</button>")(w, q)
			w.(http.Flusher).Flush()
			hold(q)
		},
		"/loop": func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/loop", http.StatusFound) },
		"/busy": html(`<title>busy</title><button onclick="for(;;);">Hang</button>`),
		"/":     html("<title>fine</title>"),
	})
	defer close(gate)
	v := r.visit(t, srv.URL)
	short := func(url string) *browser.Navigated {
		t.Helper()
		p := r.page(v.panel.PanelID)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got, err := p.goTo(ctx, byPerson, url, "load")
		if err != nil {
			t.Fatal(err)
		}
		return &browser.Navigated{Committed: got.committed, Loaded: got.loaded}
	}
	if n := short(srv.URL + "/silent"); n.Committed {
		t.Errorf("silent: %+v", n)
	}
	if s := v.look(); s.Title != "fine" {
		t.Errorf("after silence: %q", s.Title)
	}
	if n := short(srv.URL + "/stream"); !n.Committed || n.Loaded {
		t.Errorf("stream: %+v, want committed only", n)
	}
	s := v.look()
	if s.Title != "half" || len(s.Limitations) == 0 {
		t.Errorf("half a page: %q %q", s.Title, s.Limitations)
	}
	if _, err := v.click("button", "Use"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "used" {
		t.Errorf("title %q, want used", s.Title)
	}
	_, err := v.navigate(srv.URL+"/loop", "")
	wantCode(t, err, control.DeadlineExceeded, "REDIRECT")
	if n, err := v.navigate(srv.URL+"/busy", ""); err != nil || n.Title != "busy" {
		t.Fatalf("after a loop: %+v %v", n, err)
	}
	v.look()
	_, err = v.click("button", "Hang")
	if err == nil {
		_, err = r.do(t, &browser.SnapshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, MaxNodes: 10, MaxBytes: 4096})
		wantCode(t, err, control.TargetBusy, "keeps it busy")
	} else {
		wantCode(t, err, control.OutcomeUnknown, "did not answer")
	}
	if n, err := v.navigate(srv.URL+"/", ""); err != nil || n.Title != "fine" {
		t.Errorf("leaving a page that hangs: %+v %v", n, err)
	}
}

// A refused connection is told in words, and the panel stays usable.
func TestNoServer(t *testing.T) {
	t.Parallel()
	r := common(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	r.grant(dead)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html("<title>alive</title>")})
	res, err := r.do(t, &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: dead})
	if err != nil {
		t.Fatal(err)
	}
	opened := res.Data.(*browser.Opened)
	if res.State != control.StateFailed || opened.Ready || !strings.Contains(res.Message, "CONNECTION_REFUSED") || res.Lease == "" {
		t.Errorf("got %+v %+v", res, opened)
	}
	v := &view{rig: r, t: t, panel: browser.Panel{PanelID: opened.PanelID, BrowserGeneration: opened.BrowserGeneration}}
	if n, err := v.navigate(srv.URL, ""); err != nil || n.Title != "alive" {
		t.Errorf("got %+v %v", n, err)
	}
	if err := r.ClosePanel(context.Background(), opened.PanelID); err != nil {
		t.Error(err)
	}
}
