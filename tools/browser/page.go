package browser

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	chromepage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"lomi/broker/control"
)

// The viewport of every page; a person's view scales the pictures instead.
const (
	viewWidth  = 1280
	viewHeight = 800
)

const (
	// opBound is how long one operation may use a page (broker spec 7.2).
	opBound = 3 * time.Second
	// readBound is how long a snapshot may take of a page that is hard to lay
	// out; with the ping of a page that does not answer it stays under 5 s.
	readBound = 3900 * time.Millisecond
	// maxNotes bounds what a page made happen between two results.
	maxNotes = 8
	// maxKnownFrames bounds the frames that are kept in mind; a page may make
	// thousands. Those beyond it are not read.
	maxKnownFrames = 256
)

// frame is one document of a page.
type frame struct {
	id, parent cdp.FrameID
	session    session
	url        string
	world      runtime.ExecutionContextID // our isolated world in it, 0 none
	short      string                     // "main", "f1": the frame in results
}

// page is one tab of a session. Its state follows the events of Chromium; the
// mutex is held for moments only and never during a call to Chromium.
type page struct {
	b         *Browser
	panel     string // panel id
	workspace string
	owner     string        // session that opened it
	op        chan struct{} // held by the operation that uses the page
	// windowBinding is the name under which windowScript reports, which a page
	// cannot guess.
	windowBinding string

	mu         sync.Mutex
	c          *chromium
	targetID   target.ID
	main       session
	generation string
	top        cdp.FrameID
	frames     map[cdp.FrameID]*frame
	nextShort  int
	navigation int    // counts documents and addresses
	loader     string // of the document now
	title      string
	loaded     bool // the load event came
	loading    bool // something is under way
	stirs      int  // counts the starts of navigations, refused ones too
	slow       bool // this document was waited for in vain
	personal   bool // a person has taken over
	dead       bool
	sent       int           // requests for documents let pass since the last navigation began
	refused    string        // why the last navigation was refused, "" if it was not
	leaving    bool          // an operation navigates, so a beforeunload is about that
	leave      bool          // the next beforeunload may be answered "leave"
	changed    chan struct{} // closed and replaced when the state changes
	notes      []string
	logs       map[string]*ring
	refs       *refs // of the retained snapshot
	nextRef    int   // last element number given; they never repeat
	cast       *cast // the person's view, nil when nobody looks
}

func newPage(b *Browser, panel, workspace, owner, generation string) *page {
	return &page{
		b: b, panel: panel, workspace: workspace, owner: owner, generation: generation,
		windowBinding: "lomi" + control.NewID()[:16],
		op:            make(chan struct{}, 1), frames: map[cdp.FrameID]*frame{},
		changed: make(chan struct{}), logs: newRings(),
	}
}

// attach gives the page a target in a Chromium and prepares it.
func (p *page) attach(ctx context.Context, c *chromium, id target.ID, s session) error {
	p.mu.Lock()
	p.c, p.targetID, p.main = c, id, s
	p.frames, p.top, p.nextShort = map[cdp.FrameID]*frame{}, "", 0
	p.dead, p.refs, p.loaded, p.loading = false, nil, false, false
	p.mu.Unlock()
	c.handle(s.id, func(method string, params jsonv2.Value) { p.event(s, method, params) })
	p.enable(s)
	size := emulation.SetDeviceMetricsOverrideParams{Width: viewWidth, Height: viewHeight, DeviceScaleFactor: 1}
	post(s, emulation.SetDeviceMetricsOverride, size)
	// Without it only one page of a browser believes that it has the focus.
	post(s, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	post(s, inspector.Enable, cdp.Empty{})
	post(s, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	tree, err := cdp.Call(ctx, s, chromepage.GetFrameTree, cdp.Empty{})
	if err != nil {
		return fmt.Errorf("preparing a page: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.top = tree.FrameTree.Frame.ID
	f := p.frameLocked(p.top, "", s)
	f.url = tree.FrameTree.Frame.URL
	return nil
}

// enable turns on, for the session of a page or of one of its frames, the
// events that we follow and the gate for documents.
func (p *page) enable(s session) {
	post(s, chromepage.Enable, chromepage.EnableParams{})
	post(s, runtime.Enable, cdp.Empty{})
	p.capWindows(s)
	post(s, fetch.Enable, fetch.EnableParams{
		Patterns:           []*fetch.RequestPattern{{URLPattern: "*", ResourceType: network.ResourceTypeDocument}},
		HandleAuthRequests: new(true),
	})
	post(s, chromepage.SetInterceptFileChooserDialog, chromepage.SetInterceptFileChooserDialogParams{Enabled: true})
	attach := target.SetAutoAttachParams{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true)}
	// Workers stop at their start as well, asked for or not, so they are
	// attached too and let go at once.
	attach.Filter = append(attach.Filter, target.FilterEntry{Type: "iframe"}, target.FilterEntry{Type: "worker"}, target.FilterEntry{Exclude: true})
	post(s, target.SetAutoAttach, attach)
}

// close ends the page's target.
func (p *page) close(ctx context.Context) error {
	p.mu.Lock()
	c, id, dead := p.c, p.targetID, p.dead
	p.mu.Unlock()
	p.die()
	if c == nil || dead {
		return nil
	}
	if _, err := cdp.Call(ctx, c.root(), target.CloseTarget, target.CloseTargetParams{TargetID: id}); err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("closing a page: %w", err)
	}
	return nil
}

// die marks a page whose target is gone and wakes all who wait.
func (p *page) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead && p.main.dead != nil {
		close(p.main.dead)
	}
	p.dead, p.refs = true, nil
	p.cast.end()
	p.cast = nil
	for _, f := range p.frames {
		if p.c != nil {
			p.c.handle(f.session.id, nil)
		}
	}
	p.touchLocked()
}

// touchLocked wakes who waits for a change.
func (p *page) touchLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until done, asked under the mutex after every change, says so.
func (p *page) await(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		ok, dead, changed := done(), p.dead, p.changed
		p.mu.Unlock()
		switch {
		case ok:
			return nil
		case dead:
			return errGone
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// use holds the page for one operation. Only one acts or reads at a time,
// because a snapshot during a click would be of neither state.
func (p *page) use(ctx context.Context) (release func(), err error) {
	select {
	case p.op <- struct{}{}:
		return func() { <-p.op }, nil
	case <-ctx.Done():
		return nil, control.Errorf(control.TargetBusy, "another operation is using this page")
	}
}

func (p *page) chromium() *chromium {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.c
}

func (p *page) hasFrame(id cdp.FrameID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames[id] != nil
}

func (p *page) generationNow() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

func (p *page) titleNow() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return line(p.title, 120)
}

// where is the page's main document now.
type where struct {
	generation, navigation, url, origin, title string
	loaded, loading, dead                      bool
}

func (p *page) where() where {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := where{
		generation: p.generation, navigation: p.generation + ":" + strconv.Itoa(p.navigation),
		title: line(p.title, 512), loaded: p.loaded, loading: p.loading, dead: p.dead,
	}
	if f := p.frames[p.top]; f != nil {
		w.url, w.origin = f.url, originOf(f.url)
	}
	return w
}

// note keeps what a page did by itself for the next result.
func (p *page) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(text)
}

func (p *page) noteLocked(text string) {
	for _, n := range p.notes {
		if n == text {
			return
		}
	}
	switch {
	case len(p.notes) < maxNotes:
		p.notes = append(p.notes, text)
	case len(p.notes) == maxNotes:
		p.notes = append(p.notes, "the page did more of this than is listed")
	}
	p.touchLocked()
}

// takeNotes gives the notes to the result that reports them.
func (p *page) takeNotes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes := p.notes
	p.notes = nil
	return notes
}

// refuse records that a navigation of the main document was stopped.
func (p *page) refuse(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = why
	p.stirs++
	p.touchLocked()
}

// frameLocked finds or adds a frame; nil when there are too many.
func (p *page) frameLocked(id, parent cdp.FrameID, s session) *frame {
	f := p.frames[id]
	if f == nil {
		if len(p.frames) >= maxKnownFrames {
			return nil
		}
		short := "main"
		if id != p.top {
			p.nextShort++
			short = "f" + strconv.Itoa(p.nextShort)
		}
		f = &frame{id: id, parent: parent, session: s, short: short}
		p.frames[id] = f
	}
	if parent != "" {
		f.parent = parent
	}
	return f
}

// dropFrameLocked forgets a frame and what is in it.
func (p *page) dropFrameLocked(id cdp.FrameID) {
	delete(p.frames, id)
	for _, f := range p.frames {
		if f.parent == id {
			p.dropFrameLocked(f.id)
		}
	}
}
