package web

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lomi/broker/control"
)

// testDoor is the page's door before rooms that are not there: whatever passes
// it would crash, so a test that gets an answer knows that it was refused.
type testDoor struct {
	handler     http.Handler
	door        *door
	host        string
	cookie, key string
}

func newTestDoor(t *testing.T) *testDoor {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	logger := slog.New(slog.DiscardHandler)
	s, err := New(Config{Dir: t.TempDir(), Listener: l, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.socket.Close() })
	d := &door{hosts: s.hosts, logins: s.logins, logger: logger, headers: securityHeaders()}
	server := s.server(d)
	cookie, key := redeem(t, s.logins)
	return &testDoor{handler: server.Handler, door: d, host: s.hosts[0], cookie: cookie, key: key}
}

// request makes a request as the page makes it; f spoils it.
func (d *testDoor) request(pattern string, f func(*http.Request)) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{id}", "x", "{panel}", "x", "{name}", "x").Replace(path)
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("{}")
	}
	r := httptest.NewRequest(method, "http://"+d.host+path, body)
	r.Host = d.host
	r.Header.Set("Origin", "http://"+d.host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(path, "/ws/") {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Sec-WebSocket-Version", "13")
		r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	r.AddCookie(&http.Cookie{Name: cookieName, Value: d.cookie})
	r.Header.Set(keyHeader, d.key)
	if f != nil {
		f(r)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

// S-01 to S-06, S-10: every route, found by the mux itself, refuses what does
// not come from its own page.
func TestEveryRouteRefusesForeignRequests(t *testing.T) {
	d := newTestDoor(t)
	if len(d.door.patterns) < 30 {
		t.Fatalf("only %d routes were found", len(d.door.patterns))
	}
	_, port, _ := net.SplitHostPort(d.host)
	spoil := map[string]func(*http.Request){
		"S-01 a cross-site page":                func(r *http.Request) { r.Header.Set("Origin", "http://evil.test:9000") },
		"S-01 a cross-site page without Origin": func(r *http.Request) { r.Header.Del("Origin"); r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"S-03 a rebound name": func(r *http.Request) {
			r.Host = "evil.test:" + port
			r.Header.Set("Origin", "http://evil.test:"+port)
		},
		"S-03 no host":                  func(r *http.Request) { r.Host = "" },
		"S-03 another port":             func(r *http.Request) { r.Host = "127.0.0.1:1" },
		"S-05 origin null":              func(r *http.Request) { r.Header.Set("Origin", "null") },
		"S-05 a name that begins alike": func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1.evil.test") },
		"S-05 another port's origin":    func(r *http.Request) { r.Header.Set("Origin", "http://localhost:1") },
		"S-05 https":                    func(r *http.Request) { r.Header.Set("Origin", "https://"+d.host) },
		"two origins":                   func(r *http.Request) { r.Header.Add("Origin", "http://"+d.host) },
		"a same-site page":              func(r *http.Request) { r.Header.Del("Origin"); r.Header.Set("Sec-Fetch-Site", "same-site") },
	}
	for _, pattern := range d.door.patterns {
		for name, f := range spoil {
			if got := d.request(pattern, f).Code; got != http.StatusForbidden {
				t.Errorf("%s: %s: got %d, want 403", name, pattern, got)
			}
		}
	}
}

// The cookie reaches every server on this host (cookies ignore the port), so
// that alone it must open nothing; neither must the key alone.
func TestEveryRouteNeedsCookieAndKey(t *testing.T) {
	d := newTestDoor(t)
	for _, pattern := range d.door.patterns {
		if pattern == "POST /api/login" || strings.HasPrefix(pattern, "GET /ws/") {
			continue // sockets are greeted after the upgrade: TestASocketNeedsAGreeting
		}
		for name, f := range map[string]func(*http.Request){
			"the cookie alone": func(r *http.Request) { r.Header.Del(keyHeader) },
			"a wrong key":      func(r *http.Request) { r.Header.Set(keyHeader, secret()) },
			"the key alone":    func(r *http.Request) { r.Header.Del("Cookie") },
			"nothing":          func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Del(keyHeader) },
			"S-02 a query":     func(r *http.Request) { r.Header.Del(keyHeader); r.URL.RawQuery = "key=" + d.key + "&command=touch" },
		} {
			if got := d.request(pattern, f).Code; got != http.StatusUnauthorized {
				t.Errorf("%s: %s: got %d, want 401", name, pattern, got)
			}
		}
	}
}

// S-05: an upgrade without an Origin comes from no page.
func TestAnUpgradeNeedsAnOrigin(t *testing.T) {
	d := newTestDoor(t)
	for _, pattern := range d.door.patterns {
		if strings.HasPrefix(pattern, "GET /ws/") {
			if got := d.request(pattern, func(r *http.Request) { r.Header.Del("Origin") }).Code; got != http.StatusForbidden {
				t.Errorf("%s: got %d, want 403", pattern, got)
			}
		}
	}
}

// S-04: what a browser can send without asking first is never parsed.
func TestOnlyJSONIsParsed(t *testing.T) {
	d := newTestDoor(t)
	for _, pattern := range d.door.patterns {
		if strings.HasPrefix(pattern, "GET ") {
			continue
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp"} {
			got := d.request(pattern, func(r *http.Request) { r.Header.Set("Content-Type", kind) }).Code
			// A route of the command line's refuses a page before that.
			if got != http.StatusUnsupportedMediaType && got != http.StatusForbidden {
				t.Errorf("%s as %q: got %d, want 415", pattern, kind, got)
			}
		}
	}
}

func TestBodiesAreStrictAndBounded(t *testing.T) {
	d := newTestDoor(t)
	for _, row := range []struct {
		name, body string
		want       int
	}{
		{"an unknown field", `{"code":"x","more":1}`, http.StatusBadRequest},
		{"a doubled field", `{"code":"x","code":"y"}`, http.StatusBadRequest},
		{"S-70 a field in other letters", `{"Code":"x"}`, http.StatusBadRequest},
		{"no object", `[]`, http.StatusBadRequest},
		{"F-27 text that is no UTF-8", "{\"code\":\"\xff\"}", http.StatusBadRequest},
		{"more than a megabyte", `{"code":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusRequestEntityTooLarge},
		{"a wrong code", `{"code":"x"}`, http.StatusForbidden},
	} {
		got := d.request("POST /api/login", func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(row.body))
			r.ContentLength = int64(len(row.body))
		})
		if got.Code != row.want {
			t.Errorf("%s: got %d %s, want %d", row.name, got.Code, got.Body, row.want)
		}
		if strings.Contains(got.Body.String(), "xxxx") {
			t.Errorf("%s: the answer repeats what was sent", row.name)
		}
	}
}

// S-90, S-92, S-95: the headers that every answer carries.
func TestEveryAnswerIsGuarded(t *testing.T) {
	d := newTestDoor(t)
	for _, pattern := range append(d.door.patterns, "GET /", "GET /nothing", "GET /assets/../../etc/passwd") {
		h := d.request(pattern, func(r *http.Request) { r.Header.Del(keyHeader) }).Header()
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "img-src 'self' data: blob:", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %q", pattern, want)
			}
		}
		if script := csp[strings.Index(csp, "script-src"):]; strings.Contains(script[:strings.Index(script, ";")], "unsafe") {
			t.Errorf("%s: inline script is allowed", pattern)
		}
		if h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers are %v", pattern, h)
		}
	}
}

// S-09, S-95: a link from elsewhere may open the page, and nothing in its
// address chooses what the page talks to.
func TestALinkOpensOnlyThePage(t *testing.T) {
	d := newTestDoor(t)
	link := func(r *http.Request) {
		r.Header.Del("Origin")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
	}
	if got := d.request("GET /?gateway=ws://evil.test/&token=x", link).Code; got == http.StatusForbidden {
		t.Error("a link does not open the page")
	}
	for _, path := range []string{"GET /api/state", "GET /index.html", "POST /"} {
		if got := d.request(path, link).Code; got != http.StatusForbidden {
			t.Errorf("%s by a link: got %d, want 403", path, got)
		}
	}
}

func TestThePageIsServedOnLoopbackOnly(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := New(Config{Dir: t.TempDir(), Listener: l, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a listener on every address was accepted")
	}
}

// The sentinels are read from the source of the rooms, so that a new one is
// either mapped or said here to reach no door.
func TestEveryErrorHasAnAnswer(t *testing.T) {
	silent := map[string]string{
		"chat.ErrUserCancelled": "the cause of a turn's end, told by its event",
		"chat.ErrShutdown":      "the cause of a turn's end, told by its event",
		"connect.ErrNoKeystore": "answered by the routes of connections",
		"connect.ErrNotFound":   "answered by the routes of connections",
	}
	mapped := map[string]bool{}
	for _, row := range roomErrors {
		mapped[row.is.Error()] = true
	}
	for _, dir := range []string{"../chat", "../broker", "../models/connect"} {
		for name, text := range sentinels(t, dir) {
			if _, ok := silent[name]; !ok && !mapped[text] {
				t.Errorf("%s (%q) has no answer", name, text)
			}
		}
	}
	for _, row := range roomErrors {
		e, known := public(errors.Join(errors.New("in some operation"), row.is))
		if !known || e.status != row.status {
			t.Errorf("%v: got %v, %v", row.is, e, known)
		}
	}
	for _, code := range []control.Code{control.TargetNotFound, control.TargetBusy, control.RevisionConflict} {
		if e, known := public(control.Errorf(code, "words")); !known || e.message != "words" {
			t.Errorf("%s: got %v, %v", code, e, known)
		}
	}
	if e, known := public(errors.New("a secret path")); known || strings.Contains(e.message, "secret") {
		t.Errorf("an internal fault shows %q", e.message)
	}
}

// sentinels finds the package-level errors of a folder: their names, and the
// text of each.
func sentinels(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				if !strings.HasPrefix(v.Names[0].Name, "Err") || len(v.Values) == 0 {
					continue
				}
				text := ""
				ast.Inspect(v.Values[0], func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && text == "" {
						text, _ = strconv.Unquote(lit.Value)
					}
					return true
				})
				found[f.Name.Name+"."+v.Names[0].Name] = text
			}
		}
	}
	return found
}

func TestADeadAdminSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := listenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenAdmin(path); err == nil {
		t.Error("a live socket was replaced")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	again, err := listenAdmin(path)
	if err != nil {
		t.Fatalf("a dead socket was not replaced: %v", err)
	}
	again.Close()
}
