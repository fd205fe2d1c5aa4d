package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker"
	"lomi/broker/identity"
	"lomi/chat"
	"lomi/models/connect"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// How long an orderly stop waits for requests under way.
	shutdownTimeout = 2 * time.Second
)

// Config is what a Server is made of. All fields are required but those that
// say otherwise.
type Config struct {
	Chat      *chat.Service
	Broker    *broker.Broker
	Models    *connect.Registry
	Terminals Terminals
	Screens   Screens
	Desk      Desk
	Panels    Panels
	Decider   *identity.Decider
	// Presence is told of each open page; it may be nil.
	Presence *Presence
	// Dir is the data folder: admin.sock and logins.json are in it.
	Dir string
	// Listener is the loopback listener of the page.
	Listener net.Listener
	// Doctor reports what this machine has; its answer goes out as JSON.
	Doctor func(context.Context) any
	// Search finds messages.
	Search func(ctx context.Context, text string, limit int) ([]Hit, error)
	// Home is the folder that a new conversation suggests.
	Home     string
	Version  string
	Instance string
	Now      func() time.Time // nil for time.Now
	Logger   *slog.Logger
}

// Server is the daemon's two doors: the page on loopback and the admin socket.
type Server struct {
	cfg    Config
	desk   *deskLog
	logins *logins
	open   atomic.Int64 // sockets
	page   *http.Server
	admin  *http.Server
	socket net.Listener
	hosts  []string
	owned  sync.WaitGroup
	end    context.CancelFunc
}

// New makes the doors; Serve opens them.
func New(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	addr, ok := cfg.Listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("the page is served on loopback only, not on %s", cfg.Listener.Addr())
	}
	logins, err := openLogins(filepath.Join(cfg.Dir, "logins.json"), cfg.Now)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, desk: newDeskLog(cfg.Now), logins: logins}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		s.hosts = append(s.hosts, fmt.Sprintf("%s:%d", host, addr.Port))
	}
	if s.socket, err = listenAdmin(filepath.Join(cfg.Dir, "admin.sock")); err != nil {
		return nil, err
	}
	s.page = s.server(&door{hosts: s.hosts, logins: logins, logger: cfg.Logger, headers: securityHeaders()})
	s.admin = s.server(&door{admin: true, logins: logins, logger: cfg.Logger})
	s.admin.ConnContext = s.peerOf
	return s, nil
}

func (s *Server) server(d *door) *http.Server {
	mux := http.NewServeMux()
	s.routes(routes{mux, d, &d.patterns})
	if !d.admin {
		mux.Handle("/", s.static())
	}
	return &http.Server{
		Handler: d.wrap(mux), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// URL is the page's address.
func (s *Server) URL() string { return "http://" + s.hosts[0] + "/" }

// LoginLink makes a single-use link that logs a page in; it lives 2 minutes.
func (s *Server) LoginLink() string { return s.URL() + "#login=" + s.logins.newCode() }

// AdminSocket is the path of the admin socket.
func (s *Server) AdminSocket() string { return s.socket.Addr().String() }

// Changed puts an event on the desk log. Rooms that have events of their own
// are wired to it.
func (s *Server) Changed(kind string, data any) { s.desk.append(kind, data) }

// Serve opens both doors and returns when ctx ends or one of them fails. What
// waits in a request is given a moment; sockets end at once.
func (s *Server) Serve(ctx context.Context) error {
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	base := func(net.Listener) context.Context { return ctx }
	s.page.BaseContext, s.admin.BaseContext = base, base
	failed := make(chan error, 2)
	s.owned.Go(func() { s.carryEvents(ctx) })
	s.owned.Go(func() { failed <- s.page.Serve(s.cfg.Listener) })
	s.owned.Go(func() { failed <- s.admin.Serve(s.socket) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.end()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, one := range []*http.Server{s.page, s.admin} {
		if one.Shutdown(stop) != nil {
			one.Close()
		}
	}
	s.owned.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// carryEvents puts the broker's events on the desk log. A cut-off cannot lose
// one for good: the state that every page reads is the broker's own.
func (s *Server) carryEvents(ctx context.Context) {
	for ctx.Err() == nil {
		sub := s.cfg.Broker.Subscribe(ctx)
		for e := range sub.Events() {
			s.desk.append(e.Kind, e.Data)
		}
		if !errors.Is(sub.Err(), broker.ErrBehind) {
			return
		}
		s.desk.append("control.changed", s.cfg.Broker.Control())
	}
}
