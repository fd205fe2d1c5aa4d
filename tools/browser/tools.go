package browser

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lomi/broker"
	"lomi/broker/catalog/artifact"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// waitPoll is how often a condition is looked at (catalog spec 1.4).
const waitPoll = 100 * time.Millisecond

// Bounds of the snapshot that comes with a wait (catalog spec 1.4).
const (
	waitNodes = 500
	waitBytes = 49152
)

// open makes a panel and loads the first page in it.
func (b *Browser) open(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target, r *browser.OpenRequest) (broker.Result, error) {
	if why := b.verdict(call.Session, r.URL, false); why != "" {
		return broker.Result{}, control.Errorf(control.ScopeDenied, "%s cannot be opened: %s", shown(r.URL), why)
	}
	if err := b.reserve(); err != nil {
		return broker.Result{}, err
	}
	panel := control.Panel{
		ID: control.NewID(), WorkspaceID: target.WorkspaceID, TabID: control.NewID(), Kind: control.PanelBrowser,
		Title: hostOf(r.URL), BrowserGeneration: control.NewID()[:16], Runtime: "starting", Owner: call.Session,
	}
	p := newPage(b, panel.ID, panel.WorkspaceID, call.Session, panel.BrowserGeneration)
	if err := b.enliven(ctx, p); err != nil {
		b.remove(nil)
		return broker.Result{}, b.startError(ctx, err)
	}
	err := permit.Start()
	if err == nil {
		if _, err = b.cfg.Desk.AddPanel(ctx, panel, r.ExpectedRevision); err != nil && ctx.Err() == nil {
			err = proven{err} // the desk has refused the panel
		}
	}
	if err != nil {
		b.remove(nil)
		return broker.Result{}, errors.Join(err, p.close(context.WithoutCancel(ctx)))
	}
	b.add(p)
	p.op <- struct{}{} // nobody else has seen the page yet
	defer func() { <-p.op }()
	_, failure := p.goTo(ctx, permit.Check, r.URL, "load")
	p.readTitle(ctx)
	b.showRuntime(p, "running")
	w := p.where()
	out := broker.Result{Lease: panel.Resource(), Data: &browser.Opened{
		Kind: "browser", Target: p.named(), ProfileID: b.profileID(call.Session), NavigationID: w.navigation,
		Ready: failure == nil, Engine: "Chromium", NetworkIsolation: "none", URL: w.url, Title: w.title, Notes: p.takeNotes(),
	}}
	if failure != nil {
		// The panel is there and its opener may go elsewhere with it.
		b.halfOpened(&out, permit, p.lost(failure))
	}
	return out, nil
}

// halfOpened words the result of a panel that is there without its page.
func (b *Browser) halfOpened(out *broker.Result, permit *broker.Permit, failure error) {
	out.State, out.Effect, out.Message = control.StateFailed, control.EffectPartial, explain(spent(permit, failure))
	e, public := control.AsError(spent(permit, failure))
	switch {
	case errors.Is(failure, errCancelled):
		out.State, out.Message = control.StateCancelled, "cancelled"
	case !public || e.Effect == control.EffectUnknown:
		out.State, out.Effect = control.StateOutcomeUnknown, control.EffectUnknown
	}
}

// explain is an error's text for a result that carries data as well.
func explain(err error) string {
	if e, ok := control.AsError(err); ok {
		return e.Message
	}
	return "the page could not be loaded; see the daemon's log"
}

// startError keeps a failed start of Chromium readable: the caller reads what
// to do, the log keeps Chromium's own words.
func (b *Browser) startError(ctx context.Context, err error) error {
	if _, ok := control.AsError(err); ok || errors.Is(err, errCancelled) {
		return err
	}
	b.cfg.Logger.ErrorContext(ctx, "starting a browser", "err", err)
	return control.Errorf(control.HostUnqualified, "Chromium could not be started; `lomi doctor` says why")
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "browser"
	}
	return clip(u.Host, 80)
}

// enliven gives a page a target in the running Chromium.
func (b *Browser) enliven(ctx context.Context, p *page) error {
	c, err := b.running(ctx)
	if err != nil {
		return err
	}
	profile, err := b.profile(ctx, c, p.owner)
	if err != nil {
		return err
	}
	id, s, err := c.newTarget(ctx, profile)
	if err != nil {
		return err
	}
	return p.attach(ctx, c, id, s)
}

// navigate loads an address or goes through the history; a page whose browser
// has ended gets a new one, and a new generation.
func (b *Browser) navigate(ctx context.Context, permit *broker.Permit, p *page, r *browser.NavigateRequest) (broker.Result, error) {
	if r.URL != "" {
		if _, err := checkURL(r.URL); err != nil {
			return broker.Result{}, err
		}
		if why := b.verdict(p.owner, r.URL, false); why != "" {
			return broker.Result{}, control.Errorf(control.ScopeDenied, "%s cannot be opened: %s", shown(r.URL), why)
		}
	}
	if p.where().dead {
		if err := b.revive(ctx, p, r); err != nil {
			return broker.Result{}, err
		}
	}
	var got arrival
	var err error
	if r.URL != "" {
		got, err = p.goTo(ctx, permit.Start, r.URL, r.WaitUntil)
	} else {
		got, err = p.step(ctx, permit.Start, r.History, r.WaitUntil)
	}
	if err != nil {
		return broker.Result{}, err
	}
	p.readTitle(ctx)
	b.showRuntime(p, "running")
	w := p.where()
	return broker.Result{Data: &browser.Navigated{
		Kind: "browser_navigation", Target: p.named(), NavigationID: w.navigation, URL: w.url, Title: w.title,
		Committed: got.committed, Loaded: got.loaded, Notes: p.takeNotes(),
	}}, nil
}

// revive starts a page anew whose browser or renderer has ended.
func (b *Browser) revive(ctx context.Context, p *page, r *browser.NavigateRequest) error {
	if r.URL == "" {
		return control.Errorf(control.PanelNotRenderable, "the browser has ended and its history with it; navigate to an address")
	}
	if err := p.close(ctx); err != nil {
		b.cfg.Logger.DebugContext(ctx, "closing a crashed page", "err", err)
	}
	p.mu.Lock()
	p.generation = control.NewID()[:16]
	p.navigation = 0
	p.mu.Unlock()
	if err := b.enliven(ctx, p); err != nil {
		p.die()
		return b.startError(ctx, err)
	}
	return nil
}

// wait looks until a condition holds or time is up, and answers with what the
// page shows then.
func (b *Browser) wait(ctx context.Context, p *page, may allowed, r *browser.WaitRequest) (broker.Result, error) {
	begin := time.Now()
	limit, cancel := context.WithTimeout(ctx, time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	matched := false
	var last error
	for !matched && limit.Err() == nil {
		if matched, last = p.holds(limit, may, r.Condition); matched {
			break
		}
		if errors.Is(last, errGone) {
			return broker.Result{}, last
		}
		select {
		case <-ticker.C:
		case <-limit.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return broker.Result{}, context.Cause(ctx)
	}
	elapsed := int(time.Since(begin).Milliseconds())
	look, stop := context.WithTimeout(ctx, opBound)
	defer stop()
	snap, err := p.snapshot(look, may, waitNodes, waitBytes, "")
	if err != nil {
		return broker.Result{}, err
	}
	snap.Target, snap.Notes = p.named(), p.takeNotes()
	return broker.Result{Data: &browser.Waited{Kind: "browser_wait", Matched: matched, ElapsedMS: elapsed, Snapshot: *snap}}, nil
}

func (p *page) holds(ctx context.Context, may allowed, c browser.Condition) (bool, error) {
	w := p.where()
	switch c.Type {
	case "load":
		return w.loaded, nil
	case "url":
		return w.url == c.URL, nil
	case "text":
		got, err := run[aimed](ctx, p, p.frameNamed("main"), "has", c.Text)
		return got.Same, err
	}
	snap, err := p.snapshot(ctx, may, waitNodes, waitBytes, "")
	if err != nil {
		return false, err
	}
	for _, n := range snap.Elements {
		if n.Role == c.Role && (c.Name == "" || n.Name == c.Name || strings.EqualFold(strings.TrimSpace(c.Name), n.Name)) {
			return true, nil
		}
	}
	return false, nil
}

// shoot takes a picture and keeps it.
func (b *Browser) shoot(ctx context.Context, call broker.Call, p *page, r *browser.ScreenshotRequest) (broker.Result, error) {
	w := p.where()
	if w.navigation != r.NavigationID {
		return broker.Result{}, control.Errorf(control.StaleSnapshot, "the page has changed; take a new snapshot")
	}
	ctx, cancel := context.WithTimeout(ctx, shotBound)
	defer cancel()
	taken, err := p.screenshot(ctx, r.MaxWidth, r.MaxBytes)
	if err != nil {
		return broker.Result{}, err
	}
	source := artifact.Source{
		Type: "browser", WorkspaceID: p.workspace, PanelID: p.panel, BrowserGeneration: w.generation,
		ProfileID: b.profileID(p.owner), NavigationID: w.navigation, Origin: w.origin, RequiredScope: control.BrowserCaptureComposite,
	}
	kept, err := b.cfg.Artifacts.Put(ctx, call.Session, p.workspace, source, taken.image, taken.png)
	if err != nil {
		return broker.Result{}, err
	}
	return broker.Result{Data: kept, Image: &control.Image{MediaType: "image/png", Data: taken.png}}, nil
}

// logs reads one ring of a page's logs.
func (b *Browser) logs(p *page, r *browser.LogsRequest) (broker.Result, error) {
	w := p.where()
	from, err := logCursor(r.Cursor, w.generation, r.LogKind)
	if err != nil {
		return broker.Result{}, err
	}
	p.mu.Lock()
	ring := p.logs[r.LogKind]
	lines, dropped, more := ring.after(from, r.Limit)
	since := ring.since
	p.mu.Unlock()
	out := &browser.Logs{
		Kind: "browser_logs", Target: p.named(), NavigationID: w.navigation, FrameID: "main", LogKind: r.LogKind, Origin: w.origin,
		CaptureStartedAtMillis: since.UnixMilli(), Coverage: []string{"main frame and its frames, since the page was opened"},
		Dropped: dropped, HasMore: more,
	}
	last := from + dropped
	for _, l := range lines {
		last = l.sequence
		out.Entries = append(out.Entries, browser.LogEntry{
			Sequence: strconv.Itoa(l.sequence), CapturedAtMillis: l.at.UnixMilli(), Kind: r.LogKind, Message: l.message, Level: l.level,
		})
	}
	out.NextCursor = w.generation + ":" + r.LogKind + ":" + strconv.Itoa(last)
	return broker.Result{Data: out}, nil
}
