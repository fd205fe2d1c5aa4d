package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

const (
	// maxPages bounds the pages that are open at once (broker spec 7.2).
	maxPages = 16
	// idleExit is how long a Chromium without pages is kept for the next one.
	idleExit = time.Minute
)

// Desk is what the adapter needs of the workbench, which owns the panels.
type Desk interface {
	// AddPanel adds a panel if the workspace is at expectedRevision, and
	// returns the new revision.
	AddPanel(ctx context.Context, panel control.Panel, expectedRevision string) (string, error)
	// UpdatePanel replaces the panel of the same id.
	UpdatePanel(ctx context.Context, panel control.Panel) error
	// Panel finds a panel.
	Panel(id string) (control.Panel, bool)
}

// Artifacts keeps pictures; the broker implements it.
type Artifacts interface {
	// Put stores a PNG for a session and returns what a caller may know of
	// it, image included.
	Put(ctx context.Context, session, workspaceID string, source artifact.Source, image artifact.Image, png []byte) (artifact.Artifact, error)
}

// Config is what a Browser needs.
type Config struct {
	// Dir holds the profile folders; required. Folders of a former daemon in
	// it are removed by New.
	Dir string
	// Instance names the data folder to the keepers.
	Instance string
	// Path is the Chromium to run; empty means FindChromium.
	Path string
	// Allow says whether a session may load documents of an origin
	// ("https://host:443"). It is asked on the goroutine that reads from
	// Chromium, so it must not wait. Nil allows none.
	Allow func(session, origin string) bool
	// Forbidden says which addresses are the daemon's own; nobody, not even a
	// person, opens them in these pages. Nil forbids none.
	Forbidden func(host string, port int) bool
	// OwnPorts gives the TCP ports of the daemon when a Chromium starts:
	// under any host name they get no connection at all.
	OwnPorts func() []int
	// TakeOver is called before a person's input reaches a page.
	TakeOver func(resource string)
	// Desk owns the panels; required.
	Desk Desk
	// Artifacts keeps screenshots; required.
	Artifacts Artifacts
	// IdleExit is how long a Chromium without pages lives; zero means 1 min.
	IdleExit time.Duration
	// Logger takes what no caller can be told; nil discards.
	Logger *slog.Logger
}

// Browser is the adapter of the browser tools and the seam of the person's
// view. It is safe for concurrent use.
type Browser struct {
	cfg  Config
	turn chan struct{} // held while a Chromium is started

	mu       sync.Mutex
	current  *chromium // nil when none runs
	pages    map[string]*page
	reserved int               // pages being opened
	profiles map[string]string // session to the id of its profile
	idle     *time.Timer
	closed   bool
	wg       sync.WaitGroup
}

// New checks the config and removes the profiles of a former daemon.
func New(cfg Config) (*Browser, error) {
	if cfg.Dir == "" || cfg.Desk == nil || cfg.Artifacts == nil {
		return nil, errors.New("browser: Dir, Desk and Artifacts are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.IdleExit == 0 {
		cfg.IdleExit = idleExit
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the browser folder: %w", err)
	}
	if err := sweepProfiles(cfg.Dir); err != nil {
		return nil, err
	}
	return &Browser{
		cfg: cfg, turn: make(chan struct{}, 1),
		pages: map[string]*page{}, profiles: map[string]string{},
	}, nil
}

// Close ends every page and Chromium and waits for both, bounded by ctx.
func (b *Browser) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	c := b.current
	if b.idle != nil {
		b.idle.Stop()
	}
	b.mu.Unlock()
	if c != nil {
		c.shut(ctx)
	}
	done := make(chan struct{})
	go func() { b.wg.Wait(); close(done) }() // ends with the last follower
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the browser: %w", context.Cause(ctx))
	}
}

// running returns the Chromium that runs, starting one if there is none.
func (b *Browser) running(ctx context.Context) (*chromium, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	c, closed := b.current, b.closed
	b.mu.Unlock()
	if closed {
		return nil, control.Errorf(control.AppClosing, "Lomi is closing")
	}
	if c != nil {
		select {
		case <-c.done:
		default:
			return c, nil
		}
	}
	c, err := launch(ctx, b.cfg)
	if err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, c); err != nil {
		c.end()
		return nil, err
	}
	b.mu.Lock()
	b.current = c
	closed = b.closed
	b.wg.Go(func() { b.follow(c) }) // ends with that Chromium; Close waits
	b.mu.Unlock()
	if closed {
		c.end()
		return nil, control.Errorf(control.AppClosing, "Lomi is closing")
	}
	return c, nil
}

// prepare makes every new target stop before its first step, so that no popup
// runs unseen.
func (b *Browser) prepare(ctx context.Context, c *chromium) error {
	c.handle("", func(method string, params jsonv2.Value) { b.rootEvent(c, method, params) })
	attach := target.SetAutoAttachParams{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true)}
	attach.Filter = append(attach.Filter, target.FilterEntry{Type: "page"}, target.FilterEntry{Type: "service_worker"},
		target.FilterEntry{Type: "shared_worker"}, target.FilterEntry{Exclude: true})
	if _, err := cdp.Call(ctx, c.root(), target.SetAutoAttach, attach); err != nil {
		return fmt.Errorf("preparing Chromium: %w", err)
	}
	return nil
}

// follow waits for the end of a Chromium and tells its pages.
func (b *Browser) follow(c *chromium) {
	<-c.done
	b.mu.Lock()
	var lost []*page
	for _, p := range b.pages {
		if p.chromium() == c {
			lost = append(lost, p)
		}
	}
	if b.current == c {
		b.current = nil
	}
	closed := b.closed
	b.mu.Unlock()
	for _, p := range lost {
		p.die()
		if !closed {
			b.showRuntime(p, "exited")
		}
	}
	c.end()
	c.close()
}

// showRuntime tells the workbench how a page stands.
func (b *Browser) showRuntime(p *page, state string) {
	panel, ok := b.cfg.Desk.Panel(p.panel)
	if !ok {
		return
	}
	panel.Runtime, panel.BrowserGeneration = state, p.generationNow()
	if title := p.titleNow(); title != "" {
		panel.Title = title
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	if err := b.cfg.Desk.UpdatePanel(ctx, panel); err != nil {
		b.cfg.Logger.Warn("browser panel not updated", "err", err)
	}
}

// rootEvent takes the events of the browser itself.
func (b *Browser) rootEvent(c *chromium, method string, params jsonv2.Value) {
	switch method {
	case target.AttachedToTarget.Method:
		ev, ok := decode[target.EventAttachedToTarget](c.link, params)
		if !ok || ev.TargetInfo == nil {
			return
		}
		if ev.TargetInfo.Type != "page" {
			post(session{link: c.link, id: ev.SessionID}, runtime.RunIfWaitingForDebugger, cdp.Empty{})
			return
		}
		if c.expects(ev) {
			return
		}
		// Not ours: a popup, paused before it loads anything. It shares the
		// main thread of its opener, which stands still as long as it does, so
		// it is let go, with every request of its own held, and closed.
		popup := session{link: c.link, id: ev.SessionID}
		post(popup, fetch.Enable, fetch.EnableParams{})
		post(popup, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		post(c.root(), target.CloseTarget, target.CloseTargetParams{TargetID: ev.TargetInfo.TargetID})
	case chrome.DownloadWillBegin.Method:
		ev, ok := decode[chrome.EventDownloadWillBegin](c.link, params)
		if !ok {
			return
		}
		if p := b.pageOfFrame(c, ev.FrameID); p != nil {
			p.note("a download of " + line(ev.SuggestedFilename, 80) + " from " + shown(ev.URL) + " was refused")
			p.refuse(downloadRefused)
		}
	}
}

func (b *Browser) pageOfFrame(c *chromium, id cdp.FrameID) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pages {
		if p.chromium() == c && p.hasFrame(id) {
			return p
		}
	}
	return nil
}

// profile is the browser context of a session in a Chromium.
func (b *Browser) profile(ctx context.Context, c *chromium, owner string) (cdp.BrowserContextID, error) {
	c.making.Lock()
	defer c.making.Unlock()
	if id, ok := c.contexts[owner]; ok {
		return id, nil
	}
	made, err := cdp.Call(ctx, c.root(), target.CreateBrowserContext, target.CreateBrowserContextParams{DisposeOnDetach: new(true)})
	if err != nil {
		return "", fmt.Errorf("making a browser profile: %w", err)
	}
	id := made.BrowserContextID
	_, denied := cdp.Call(ctx, c.root(), chrome.SetDownloadBehavior, chrome.SetDownloadBehaviorParams{
		Behavior: chrome.SetDownloadBehaviorBehaviorDeny, BrowserContextID: id, EventsEnabled: new(true)})
	if denied != nil {
		return "", fmt.Errorf("closing a browser profile off: %w", denied)
	}
	// Nobody is there to be asked. A name that this Chromium does not know is
	// one it cannot grant either.
	for _, name := range []string{"geolocation", "notifications", "camera", "microphone", "clipboard-read", "midi", "storage-access", "local-fonts", "idle-detection", "window-management", "persistent-storage"} {
		post(c.root(), chrome.SetPermission, chrome.SetPermissionParams{
			Permission: &chrome.PermissionDescriptor{Name: name}, Setting: chrome.PermissionSettingDenied, BrowserContextID: id})
	}
	c.contexts[owner] = id
	return id, nil
}

// profileID is the name of a session's profile in results.
func (b *Browser) profileID(owner string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := b.profiles[owner]
	if id == "" {
		id = control.NewID()
		b.profiles[owner] = id
	}
	return id
}

// reserve counts a page in before it exists, so that two calls cannot share
// the last place.
func (b *Browser) reserve() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pages)+b.reserved >= maxPages {
		return control.Errorf(control.ResourceExhausted, "%d browser pages are open; close one first", maxPages)
	}
	b.reserved++
	return nil
}

// add makes a page known, in the place that reserve kept.
func (b *Browser) add(p *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved--
	b.pages[p.panel] = p
	if b.idle != nil {
		b.idle.Stop()
	}
}

// remove forgets a page (nil gives a reserved place back) and lets Chromium
// go when nobody has needed it for a while.
func (b *Browser) remove(p *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == nil {
		b.reserved--
	} else if b.pages[p.panel] == p {
		delete(b.pages, p.panel)
	}
	if len(b.pages)+b.reserved == 0 && !b.closed {
		if b.idle != nil {
			b.idle.Stop()
		}
		b.idle = time.AfterFunc(b.cfg.IdleExit, b.exitIdle)
	}
}

func (b *Browser) exitIdle() {
	b.mu.Lock()
	c := b.current
	busy := len(b.pages)+b.reserved > 0 || b.closed
	if !busy {
		b.current = nil
	}
	b.mu.Unlock()
	if c == nil || busy {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	c.shut(ctx)
}

func (b *Browser) page(panel string) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[panel]
}

// ClosePanel ends the page of a panel that is closed; an unknown one is no
// error.
func (b *Browser) ClosePanel(ctx context.Context, panelID string) error {
	p := b.page(panelID)
	if p == nil {
		return nil
	}
	b.remove(p)
	return p.close(ctx)
}
