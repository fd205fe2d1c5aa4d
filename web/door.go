package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"lomi/broker/control"
)

const (
	cookieName = "lomi_page"
	keyHeader  = "X-Lomi-Key"
	maxBody    = 1 << 20
	// No route waits longer: what takes time is reported through the logs.
	routeTimeout = 60 * time.Second
	bodyTimeout  = 10 * time.Second
)

// caller is who asks: a page that is logged in, or a process at the admin
// socket.
type caller struct {
	login string // of a page
	peer  *peer  // of the admin socket
}

// peer is the process at the other end of the admin socket.
type peer struct {
	// decide returns nil when this process may decide for the person. subject is
	// the pid that the decision is about, 0 for none.
	decide func(subject int) error
}

// door checks requests before a route sees them. One door serves the page, one
// the admin socket; the routes are the same.
type door struct {
	admin   bool
	hosts   []string // exact values of Host, page only
	logins  *logins
	logger  *slog.Logger
	headers http.Header
	// patterns lists the routes behind this door.
	patterns []string
}

// securityHeaders go with every answer. Styles may be inline because xterm.js
// and the panels set them; scripts may not, ever.
func securityHeaders() http.Header {
	h := http.Header{}
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "+
		"img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	return h
}

// wrap is the outermost check of the page's door: who is this host, and
// where does the request come from. It stands before routing, so that no route
// can be forgotten.
func (d *door) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range d.headers {
			w.Header()[k] = v
		}
		if !d.admin && !d.local(r) {
			d.fail(w, r, errForeign)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a request names this host, and comes from this page or
// from no page at all. A rebound name has another Host; a foreign page has
// another Origin, or says cross-site.
func (d *door) local(r *http.Request) bool {
	if !slices.Contains(d.hosts, strings.ToLower(r.Host)) {
		return false
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && (len(origins) > 1 || !d.ownOrigin(origins[0])) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// A link from elsewhere may open the page itself, nothing else.
	return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

func (d *door) ownOrigin(origin string) bool {
	host, ok := strings.CutPrefix(origin, "http://")
	return ok && slices.Contains(d.hosts, strings.ToLower(host))
}

// who finds the caller of a request that passed the outermost check.
func (d *door) who(r *http.Request, key string) (caller, error) {
	if d.admin {
		p, ok := r.Context().Value(peerKey{}).(*peer)
		if !ok {
			return caller{}, errForeign
		}
		return caller{peer: p}, nil
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return caller{}, errNoLogin
	}
	id, ok := d.logins.find(cookie.Value, key)
	if !ok {
		return caller{}, errNoLogin
	}
	return caller{login: id}, nil
}

// peerKey carries the peer of an admin connection. It is set once, when the
// connection is accepted, by the only code that can know it.
type peerKey struct{}

// rule says what a route asks of its caller beyond being known.
type rule int

const (
	anyone    rule = iota // the page or the command line
	decides               // a person's decision: a process must be one that may decide
	command               // the command line only, and one that may decide
	strangers             // the page before its login
)

// routes collects what the two doors serve.
type routes struct {
	mux      *http.ServeMux
	door     *door
	patterns *[]string // every route, so that a test can try each
}

// add registers a handler that checks its caller by itself: a socket, a
// picture.
func (rs routes) add(pattern string, h http.HandlerFunc) {
	*rs.patterns = append(*rs.patterns, pattern)
	rs.mux.HandleFunc(pattern, h)
}

// none is the request or the answer of a route that has none.
type none struct{}

// handle adds a route. Everything that all routes have in common is here, in
// one order: who asks, may they, content type, size, decoding, the call, the
// answer.
func handle[Req, Resp any](rs routes, pattern string, may rule, f func(context.Context, call[Req]) (Resp, error)) {
	rs.add(pattern, func(w http.ResponseWriter, r *http.Request) {
		resp, err := serve(rs.door, may, f, w, r)
		if err != nil {
			rs.door.fail(w, r, err)
			return
		}
		status := http.StatusOK
		if s, ok := any(resp).(interface{ status() int }); ok {
			status = s.status()
		}
		rs.door.answer(w, r, status, resp)
	})
}

// call is one request with its caller.
type call[Req any] struct {
	caller caller
	body   Req
	path   func(name string) string // a wildcard of the pattern
	query  func(name string) string
	header http.Header // of the answer
}

func serve[Req, Resp any](d *door, may rule, f func(context.Context, call[Req]) (Resp, error), w http.ResponseWriter, r *http.Request) (Resp, error) {
	var zero Resp
	who := caller{}
	if may != strangers {
		var err error
		if who, err = d.who(r, r.Header.Get(keyHeader)); err != nil {
			return zero, err
		}
	}
	if err := allowed(who, may); err != nil {
		return zero, err
	}
	c := call[Req]{caller: who, path: r.PathValue, query: r.URL.Query().Get, header: w.Header()}
	if r.Method != http.MethodGet {
		if err := read(w, r, &c.body); err != nil {
			return zero, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), routeTimeout)
	defer cancel()
	return f(ctx, c)
}

// mayDecide asks whether this caller may take a decision about a process. A
// page that is logged in is a person; a process at the admin socket has to
// show where it comes from.
func (c caller) mayDecide(subject int) error {
	if c.peer == nil {
		return nil
	}
	return c.peer.decide(subject)
}

func allowed(who caller, may rule) error {
	switch {
	case may == command && who.peer == nil:
		return errAdminOnly
	case (may == decides || may == command) && who.peer != nil:
		return who.mayDecide(0)
	}
	return nil
}

// read decodes a body with the decoder of the broker, so that a page and a
// host are held to one grammar. A route without a request takes {}.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errNotJSON
	}
	// F-23: a body comes at once from a page or a command, or not at all.
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(bodyTimeout)); err == nil {
		defer conn.SetReadDeadline(time.Time{})
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return errTooLarge
		}
		return badRequest("The request could not be read whole.")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	return control.DecodeWithin(raw, maxBody, into)
}

func (d *door) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw)
}

// failure is the body of every refusal.
type failure struct {
	Error failureText `json:"error"`
}

type failureText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (d *door) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, known := public(err)
	text := failureText{e.code, e.message, e.hint}
	if !known {
		id := control.NewID()[:8]
		text.Hint = "The daemon's log has it under " + id + "."
		d.logger.ErrorContext(r.Context(), "route failed", "path", r.Pattern, "id", id, "err", err)
	}
	d.answer(w, r, e.status, failure{text})
}
