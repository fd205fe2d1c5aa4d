package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker"
	"lomi/broker/catalog"
	"lomi/broker/control"
	"lomi/broker/identity"
	"lomi/broker/ledger"
	"lomi/broker/wire"
	"lomi/chat"
	"lomi/chat/store"
	"lomi/internal/keeper"
	"lomi/models/connect"
	"lomi/tools/artifact"
	"lomi/tools/browser"
	"lomi/tools/terminal"
	"lomi/tools/workbench"
	"lomi/web"
)

// daemon is everything that `lomi serve` runs, wired. It holds no logic: each
// part is a room, and the functions below say who knows whom.
type daemon struct {
	flags    serveFlags
	logger   *slog.Logger
	instance string
	mark     string // names the data folder to keepers, across restarts

	ledger    *ledger.Ledger
	bench     *workbench.Workbench
	broker    *broker.Broker
	artifacts *broker.Artifacts
	terminals *terminal.Manager
	browser   *browser.Browser
	store     *store.Store
	models    *connect.Registry
	chat      *chat.Service
	web       *web.Server

	presence      web.Presence
	socket        net.Listener
	endpoint      string
	certificate   identityFiles
	discoveryFile string
	discoveryKey  string

	// Rooms that were made before the one they report to reach it through
	// these; nil until then.
	engine  atomic.Pointer[broker.Broker]
	door    atomic.Pointer[web.Server]
	closers []func(context.Context) error // in the order of a stop, reversed
}

// newDaemon opens everything, in the order in which one needs the other. What
// was opened is closed again when a later part fails.
func newDaemon(ctx context.Context, f serveFlags, e env, logger *slog.Logger) (_ *daemon, err error) {
	d := &daemon{flags: f, logger: logger, instance: control.NewID()}
	sum := sha256.Sum256([]byte(f.data))
	d.mark = hex.EncodeToString(sum[:8])
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context, env) error{
		d.openFolders, d.openLedger, d.openBench, d.openTools, d.openBroker, d.openSocket, d.openModels, d.openChat, d.openWeb,
	} {
		if err := step(ctx, e); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *daemon) closer(f func(context.Context) error) { d.closers = append(d.closers, f) }

func (d *daemon) openFolders(context.Context, env) error {
	for _, dir := range []string{d.flags.data, d.control(), d.dir("chat"), d.dir("artifacts"), d.dir("browser"), d.flags.config} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the data folder: %w", err)
		}
	}
	// A folder that was there before may be open to others; what Lomi keeps in
	// it is not for them.
	if info, err := os.Stat(d.flags.data); err != nil {
		return fmt.Errorf("looking at the data folder: %w", err)
	} else if info.Mode().Perm() != 0o700 {
		d.logger.Warn("the data folder was open to others and is closed to them now", "mode", info.Mode().Perm().String())
		if err := os.Chmod(d.flags.data, 0o700); err != nil {
			return fmt.Errorf("closing the data folder to others: %w", err)
		}
	}
	return nil
}

func (d *daemon) dir(name string) string { return filepath.Join(d.flags.data, name) }
func (d *daemon) control() string        { return d.dir("agent-control") }

// openLedger is first, because its lock makes this the only daemon of the data
// folder. What an earlier one left running is ended before anything new runs.
func (d *daemon) openLedger(ctx context.Context, _ env) error {
	config := ledger.Config{Dir: d.control(), MarkPath: d.dir("ledger.mark"), Instance: d.instance, Logger: d.logger}
	l, err := ledger.Open(ctx, config)
	if _, lost := errors.AsType[*ledger.LossError](err); lost && d.flags.newLedger {
		aside, asideErr := ledger.SetAside(config)
		if asideErr != nil {
			return errors.Join(err, asideErr)
		}
		d.logger.Warn("the receipt store that lost rows was set aside", "store", aside, "err", err)
		l, err = ledger.Open(ctx, config)
	}
	if err != nil {
		return err
	}
	d.ledger = l
	d.closer(l.Close)
	killed, err := keeper.Sweep(ctx, d.mark)
	if err != nil {
		return fmt.Errorf("ending what an earlier daemon left running: %w", err)
	}
	if killed > 0 {
		d.logger.Warn("ended processes of an earlier daemon", "count", killed)
	}
	return nil
}

func (d *daemon) openBench(context.Context, env) error {
	bench, err := workbench.Open(workbench.Config{Path: d.dir("workbench.json"), Changed: d.changed, Logger: d.logger})
	d.bench = bench
	return err
}

// changed puts an event on the desk log, once there is one.
func (d *daemon) changed(kind string, data any) {
	if w := d.door.Load(); w != nil {
		w.Changed(kind, data)
	}
}

// takeOver ends the lease of an agent before a person's bytes are written.
func (d *daemon) takeOver(resource string) {
	if b := d.engine.Load(); b != nil {
		b.TakeOver(resource)
	}
}

// connected reports whether a session is still there.
func (d *daemon) connected(session string) bool {
	b := d.engine.Load()
	return b != nil && slices.ContainsFunc(b.Sessions(), func(s broker.SessionInfo) bool { return s.ID == session })
}

func (d *daemon) openTools(context.Context, env) error {
	var err error
	if d.artifacts, err = broker.OpenArtifacts(d.dir("artifacts"), d.logger); err != nil {
		return err
	}
	if d.terminals, err = terminal.New(terminal.Config{Desk: d.bench, TakeOver: d.takeOver, Alive: d.connected, Instance: d.mark, Logger: d.logger}); err != nil {
		return err
	}
	d.closer(d.terminals.Shutdown)
	chromium, err := browser.FindChromium()
	if err != nil {
		d.logger.Warn("no chromium found, the browser tools are off")
		return nil
	}
	d.browser, err = browser.New(browser.Config{
		Dir: d.dir("browser"), Instance: d.mark, Path: chromium, Desk: d.bench, Artifacts: d.artifacts,
		TakeOver: d.takeOver, Logger: d.logger,
		Allow: func(session, origin string) bool {
			b := d.engine.Load()
			return b != nil && b.AllowsOrigin(session, origin)
		},
		Forbidden: d.ownAddress,
		OwnPorts: func() []int {
			if port := d.port(); port != 0 {
				return []int{port}
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	d.closer(d.browser.Close)
	return nil
}

// port is the page's, 0 before it is open.
func (d *daemon) port() int {
	w := d.door.Load()
	if w == nil {
		return 0
	}
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(w.URL(), "http://"), "/"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// ownAddress reports whether an address is the daemon's page. Any name may
// lead to loopback, so the port alone decides for every host that could.
func (d *daemon) ownAddress(_ string, port int) bool { return port != 0 && port == d.port() }

func (d *daemon) openBroker(ctx context.Context, _ env) error {
	pictures, err := artifact.New(d.artifacts)
	if err != nil {
		return err
	}
	adapters := map[string]broker.Adapter{"workbench": workbench.NewAdapter(d.bench), "terminal": d.terminals, "artifact": pictures}
	if d.browser != nil {
		adapters["browser"] = d.browser
	}
	d.broker, err = broker.New(ctx, broker.Config{
		Ledger: d.ledger, Desk: d.bench, Tools: catalog.All(), Adapters: adapters, Instance: d.instance, YOLO: d.flags.yolo, Logger: d.logger,
		Internal: func(_, port string) bool {
			n, err := strconv.Atoi(port)
			return err == nil && d.ownAddress("", n)
		},
	})
	if err != nil {
		return err
	}
	d.engine.Store(d.broker)
	d.closer(func(context.Context) error { return d.broker.Close() })
	return nil
}

// identityFiles are what a client needs to know this daemon by.
type identityFiles struct{ pin string }

func (d *daemon) openSocket(ctx context.Context, e env) error {
	key, err := identity.LoadKey(d.control())
	if err != nil {
		return err
	}
	certificate, err := identity.NewCertificate(identity.BrokerName(d.instance))
	if err != nil {
		return err
	}
	if d.socket, err = wire.ListenFresh(e.getenv("XDG_RUNTIME_DIR")); err != nil {
		return err
	}
	d.endpoint = d.socket.Addr().String()
	d.certificate.pin = identity.Pin(certificate.Certificate[0])
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var served sync.WaitGroup
	served.Go(func() { // ends with the closer below
		err := wire.Serve(serving, d.socket, wire.Config{
			InstanceID: d.instance, Certificate: certificate, UID: os.Getuid(), Identify: identity.Identify, Handler: d.broker, Logger: d.logger,
		})
		if err != nil {
			d.logger.Error("the control socket failed", "err", err)
		}
	})
	d.closer(func(context.Context) error {
		stop()
		served.Wait()
		return identity.Withdraw(d.control(), d.instance)
	})
	d.discoveryFile, d.discoveryKey = identity.DiscoveryPath(d.control()), identity.PublicHex(key)
	return identity.Publish(d.control(), key, identity.Descriptor{InstanceID: d.instance, Endpoint: d.endpoint, BrokerSHA256: d.certificate.pin})
}

func (d *daemon) openChat(ctx context.Context, e env) error {
	var err error
	if d.store, err = store.Open(ctx, store.Config{Dir: d.dir("chat"), Logger: d.logger}); err != nil {
		return err
	}
	d.closer(func(context.Context) error { return d.store.Close() })
	d.chat, err = chat.New(ctx, chat.Config{
		Store: chat.Keep(d.store), Models: chatModels{d.models}, Broker: chat.Client(d.ownBroker), Desk: chatDesk{d}, Presence: &d.presence,
		Host: hostOf(e), DefaultModel: "demo/guide", Logger: d.logger,
	})
	if err != nil {
		return err
	}
	d.closer(d.chat.Close)
	return nil
}

func (d *daemon) openWeb(ctx context.Context, e env) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.flags.listen)
	if err != nil {
		return err
	}
	home, err := os.Getwd()
	if err != nil {
		home = d.flags.data
	}
	d.web, err = web.New(web.Config{
		Chat: d.chat, Broker: d.broker, Models: d.models, Terminals: d.terminals, Screens: screens{d.browser}, Desk: d.bench,
		Panels: panels{d}, Presence: &d.presence, Dir: d.flags.data, Listener: listener, Home: home, Version: version,
		Instance: d.instance, Logger: d.logger, Search: d.search,
		Doctor: func(ctx context.Context) any { return examine(ctx) },
		Decider: &identity.Decider{
			Daemon: os.Getpid(), PageOnly: d.flags.decide == "page", Helpers: d.helpers,
		},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	d.door.Store(d.web)
	return nil
}

// helpers lists the processes of external hosts' helpers, open or waiting.
func (d *daemon) helpers() []int {
	var pids []int
	for _, s := range d.broker.Sessions() {
		pids = append(pids, s.PID)
	}
	for _, p := range d.broker.Pairings() {
		pids = append(pids, p.PID)
	}
	own := os.Getpid()
	out := pids[:0]
	for _, pid := range pids {
		if pid != own && pid != 0 {
			out = append(out, pid)
		}
	}
	return out
}

// run serves until ctx ends, then stops everything in order.
func (d *daemon) run(ctx context.Context, announce func() error) error {
	err := announce()
	if err == nil {
		err = d.web.Serve(ctx)
	}
	return errors.Join(err, d.stop(context.WithoutCancel(ctx)))
}

// stop closes what is open, the last opened first: no new effects, running
// turns end as interrupted, children are gone.
func (d *daemon) stop(ctx context.Context) error {
	deadline := time.Now().Add(stopTime)
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		// A part that hung must not take the time of those after it: the ledger
		// is the last, and has to be synced.
		one, cancel := context.WithTimeout(ctx, max(time.Until(deadline), leastTime))
		errs = append(errs, d.closers[i](one))
		cancel()
	}
	d.closers = nil
	return errors.Join(errs...)
}
