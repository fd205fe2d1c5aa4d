package browser

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"lomi/broker"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// unasked is the risk of what no policy but "ask always" asks about.
const unasked = "none"

// errCancelled says that the caller or a person asked for the end.
var errCancelled = errors.New("cancelled")

// supported names the tools that Do carries out.
func (b *Browser) supported() []string {
	return []string{
		"lomi_browser_open", "lomi_browser_navigate", "lomi_browser_snapshot", "lomi_browser_wait",
		"lomi_browser_click", "lomi_browser_fill", "lomi_browser_key", "lomi_browser_scroll",
		"lomi_browser_screenshot", "lomi_browser_logs",
	}
}

// Resolve implements broker.Adapter.
func (b *Browser) Resolve(_ context.Context, call broker.Call) (broker.Target, error) {
	switch r := call.Request.(type) {
	case *browser.OpenRequest:
		origin, err := checkURL(r.URL)
		if err != nil {
			return broker.Target{}, err
		}
		// The origin is what is asked about; one that is granted asks no more.
		return broker.Target{WorkspaceID: r.WorkspaceID, Origin: origin, Risk: unasked, Summary: "Open " + shown(r.URL) + " in a browser panel"}, nil
	case *browser.NavigateRequest:
		t, p, err := b.target(r.WorkspaceID, r.Panel)
		if err != nil {
			return t, err
		}
		t.LeaseID, t.Risk = r.LeaseID, unasked
		if r.History != "" {
			t.Summary = strings.ToUpper(r.History[:1]) + r.History[1:] + " in the browser page " + p.label()
			return t, nil
		}
		t.Summary = "Load " + shown(r.URL) + " in a browser panel"
		t.Origin, err = checkURL(r.URL)
		return t, err
	case *browser.ClickRequest:
		return b.elementTarget(r.WorkspaceID, r.Panel, r.Element, "Click ")
	case *browser.FillRequest:
		return b.elementTarget(r.WorkspaceID, r.Panel, r.Element, "Fill in ")
	case *browser.KeyRequest:
		return b.elementTarget(r.WorkspaceID, r.Panel, r.Element, "Press "+r.Key+" in ")
	case *browser.ScrollRequest:
		t, p, err := b.target(r.WorkspaceID, r.Panel)
		if err == nil {
			t.LeaseID, t.Risk, t.Summary = r.LeaseID, unasked, "Scroll the browser page "+p.label()
		}
		return t, err
	case *browser.SnapshotRequest:
		return b.readTarget(r.WorkspaceID, r.Panel, "Read")
	case *browser.WaitRequest:
		return b.readTarget(r.WorkspaceID, r.Panel, "Wait for")
	case *browser.ScreenshotRequest:
		return b.readTarget(r.WorkspaceID, r.Panel, "Take a picture of")
	case *browser.LogsRequest:
		return b.readTarget(r.WorkspaceID, r.Panel, "Read the logs of")
	}
	return broker.Target{}, control.Errorf(control.UnsupportedCapability, "this version of Lomi does not carry out this tool yet")
}

// target finds the page that a request names.
func (b *Browser) target(workspace string, named browser.Panel) (broker.Target, *page, error) {
	p := b.page(named.PanelID)
	if p == nil || p.workspace != workspace {
		return broker.Target{}, nil, control.Errorf(control.TargetNotFound, "no such browser panel")
	}
	generation := p.generationNow()
	if generation != named.BrowserGeneration {
		return broker.Target{}, nil, control.Errorf(control.StaleGeneration, "the page was started anew; list the panels for its generation")
	}
	return broker.Target{
		WorkspaceID: workspace, Generation: generation,
		Resource: control.Panel{Kind: control.PanelBrowser, ID: named.PanelID}.Resource(),
	}, p, nil
}

func (b *Browser) readTarget(workspace string, named browser.Panel, verb string) (broker.Target, error) {
	t, p, err := b.target(workspace, named)
	if err == nil {
		t.Summary = verb + " the browser page " + p.label()
	}
	return t, err
}

// elementTarget words an action on an element. What only moves within a page
// or fills in a form that is not yet sent needs no question; a button may do
// anything, and so may Enter. Which is which, walk.js tells from tag, type and
// address: a role is what the page says of itself.
func (b *Browser) elementTarget(workspace string, named browser.Panel, e browser.Element, verb string) (broker.Target, error) {
	t, p, err := b.target(workspace, named)
	if err != nil {
		return t, err
	}
	p.mu.Lock()
	var known listed
	if p.refs != nil && p.refs.id == e.SnapshotID {
		known = p.refs.known[e.ElementRef]
	}
	p.mu.Unlock()
	if known.name == "" {
		known.name = "an element"
	}
	t.LeaseID, t.Summary = e.LeaseID, verb+known.name+" on "+p.label()
	if known.plain && !strings.HasPrefix(verb, "Press Enter") {
		t.Risk = unasked
	}
	return t, nil
}

// label is how a page is called in questions and summaries.
func (p *page) label() string {
	w := p.where()
	u, err := url.Parse(w.url)
	if err != nil || u.Host == "" {
		return "(empty)"
	}
	return u.Host + clip(u.EscapedPath(), 60)
}

// Do implements broker.Adapter.
func (b *Browser) Do(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target) (broker.Result, error) {
	ctx, stop := endWith(ctx, permit.Cancelled())
	defer stop()
	result, err := b.dispatch(ctx, permit, call, target)
	if errors.Is(err, errCancelled) {
		effect := control.EffectNone
		if permit.Started() {
			effect = control.EffectPartial
		}
		return broker.Result{State: control.StateCancelled, Effect: effect, Message: "cancelled"}, nil
	}
	return result, spent(permit, err)
}

func (b *Browser) dispatch(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target) (broker.Result, error) {
	if r, ok := call.Request.(*browser.OpenRequest); ok {
		return b.open(ctx, permit, call, target, r)
	}
	_, panelID, _ := strings.Cut(target.Resource, ":")
	p := b.page(panelID)
	if p == nil {
		return broker.Result{}, control.Errorf(control.TargetNotFound, "no such browser panel")
	}
	if p.generationNow() != target.Generation {
		return broker.Result{}, control.Errorf(control.StaleGeneration, "the page was started anew")
	}
	release, err := p.use(ctx)
	if err != nil {
		return broker.Result{}, err
	}
	defer release()
	result, err := b.carryOut(ctx, permit, call, target, p)
	if err == nil || errors.Is(err, errCancelled) {
		return result, err
	}
	return result, p.lost(err)
}

// endWith returns a context that also ends when done is closed.
func endWith(ctx context.Context, done <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if done != nil {
		go func() { // ends with the context, which Do cancels
			select {
			case <-done:
				cancel(errCancelled)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(context.Canceled) }
}

func (b *Browser) carryOut(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target, p *page) (broker.Result, error) {
	if r, ok := call.Request.(*browser.NavigateRequest); ok {
		return b.navigate(ctx, permit, p, r)
	}
	if p.where().dead {
		return broker.Result{}, errGone
	}
	may := b.mayRead(call)
	if origin := p.where().origin; origin != "" && !may(origin) {
		return broker.Result{}, control.Errorf(control.ScopeDenied, "the page is at %s now, which is not among the allowed origins", origin)
	}
	switch r := call.Request.(type) {
	case *browser.WaitRequest:
		return b.wait(ctx, p, may, r)
	case *browser.ScreenshotRequest:
		return b.shoot(ctx, call, p, r)
	}
	bound := opBound
	if call.Tool.ReadOnly {
		bound = readBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	switch r := call.Request.(type) {
	case *browser.SnapshotRequest:
		snap, err := p.snapshot(ctx, may, r.MaxNodes, r.MaxBytes, r.Cursor)
		if err != nil {
			return broker.Result{}, err
		}
		snap.Target, snap.Notes = p.named(), p.takeNotes()
		return broker.Result{Data: snap}, nil
	case *browser.LogsRequest:
		return b.logs(p, r)
	case *browser.ScrollRequest:
		return b.scrolled(ctx, permit, p, may, r)
	}
	return b.interact(ctx, permit, call, target, p, may)
}

// mayRead is the caller's own permission, which may be less than that of the
// session that opened the page.
func (b *Browser) mayRead(call broker.Call) allowed {
	if call.Authority != nil {
		return call.Authority.Origin
	}
	return func(origin string) bool { return b.allowed(call.Session, origin) }
}

func (p *page) named() browser.Target {
	return browser.Target{WorkspaceID: p.workspace, PanelID: p.panel, BrowserGeneration: p.generationNow()}
}

// interact carries out a click, a fill or a key.
func (b *Browser) interact(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target, p *page, may allowed) (broker.Result, error) {
	var e browser.Element
	switch r := call.Request.(type) {
	case *browser.ClickRequest:
		e = r.Element
	case *browser.FillRequest:
		e = r.Element
	case *browser.KeyRequest:
		e = r.Element
	default:
		return broker.Result{}, control.Errorf(control.UnsupportedCapability, "this version of Lomi does not carry out this tool yet")
	}
	var did acted
	f, number, err := p.aimAt(may, e, call)
	if err != nil {
		return broker.Result{}, err
	}
	m := mark{frame: f, number: number, plain: target.Risk == unasked}
	switch r := call.Request.(type) {
	case *browser.ClickRequest:
		did, err = p.click(ctx, permit, m)
	case *browser.FillRequest:
		did, err = p.fill(ctx, permit, m, r.Text)
	case *browser.KeyRequest:
		did, err = p.key(ctx, permit, m, r.Key)
	}
	if err != nil {
		return broker.Result{}, err
	}
	return broker.Result{Data: p.interaction(did, e.NavigationID, e.SnapshotID, e.ElementRef)}, nil
}

// aimAt finds the element of a request. A key may also go to "focused": what
// has the focus now.
func (p *page) aimAt(may allowed, e browser.Element, call broker.Call) (*frame, int, error) {
	if _, ok := call.Request.(*browser.KeyRequest); ok && e.ElementRef == "focused" {
		if p.where().navigation != e.NavigationID {
			return nil, 0, control.Errorf(control.StaleSnapshot, "the page has changed; take a new snapshot")
		}
		return nil, 0, nil
	}
	return p.element(may, e.NavigationID, e.SnapshotID, e.ElementRef)
}

func (p *page) interaction(did acted, navigation, snapshot, ref string) *browser.Interaction {
	return &browser.Interaction{
		Kind: "browser_interaction", Target: p.named(), NavigationID: navigation, SnapshotID: snapshot, ElementRef: ref,
		Dispatched: true, InputMode: did.mode, DefaultAction: did.action, ScrollPosition: did.scroll,
		ValueLength: did.length, Notes: p.takeNotes(),
	}
}

func (b *Browser) scrolled(ctx context.Context, permit *broker.Permit, p *page, may allowed, r *browser.ScrollRequest) (broker.Result, error) {
	ref := r.ViewportRef
	var f *frame
	number := 0
	var err error
	if ref == "viewport" || strings.HasPrefix(ref, "viewport:") {
		short := "main"
		if ref != "viewport" {
			short = strings.TrimPrefix(ref, "viewport:")
		}
		// Number 1 stands for any: only the frame and the snapshot matter.
		f, _, err = p.element(may, r.NavigationID, r.SnapshotID, short+":1")
	} else {
		f, number, err = p.element(may, r.NavigationID, r.SnapshotID, ref)
	}
	if err != nil {
		return broker.Result{}, err
	}
	did, err := p.scroll(ctx, permit, f, number, r.DeltaX, r.DeltaY)
	if err != nil {
		return broker.Result{}, err
	}
	return broker.Result{Data: p.interaction(did, r.NavigationID, r.SnapshotID, "")}, nil
}
