package browser

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"

	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// Bounds of a snapshot (broker spec 7.2, architecture section 10).
const (
	refLife        = time.Minute
	maxFrames      = 16
	maxFrameDepth  = 4
	maxSteps       = 40_000 // nodes visited in one go; the cursor goes on
	maxWalk        = 250 * time.Millisecond
	maxWalks       = time.Second // for all frames of a page; the cursor goes on
	bytesPerFrame  = 250         // of the description of a frame
	ripeBound      = time.Second
	maxNames       = 2000 // elements whose names are kept for people
	snapshotHeader = 700  // bytes of a result besides its lists and address
)

// allowed says whether the caller may read documents of an origin.
type allowed func(origin string) bool

// refs is the one snapshot whose element references are good.
type refs struct {
	id      string
	at      time.Time // of its last part
	part    int       // number of the next part
	frames  []cdp.FrameID
	current int // index in frames of the next one to go on with
	resumed bool
	omitted int
	known   map[string]listed // elements, for what people are asked
}

// listed is what a snapshot knows of an element.
type listed struct {
	name  string // as a person reads it
	plain bool   // by its tag, type and address it can only follow a link or change a field
}

// walked is what walk.js returns of a snapshot.
type walked struct {
	Items  []item `json:"items"`
	Number int    `json:"number"`
	Nodes  int    `json:"nodes"`
	Bytes  int    `json:"bytes"`
	Done   bool   `json:"done"`
	Lost   bool   `json:"lost"`
	Cut    bool   `json:"cut"`
	View   struct {
		Width  float64 `json:"width"`
		Height float64 `json:"height"`
		Scale  float64 `json:"scale"`
	} `json:"view"`
	Frames int `json:"frames"`
}

type item struct {
	Ref      int              `json:"ref"`
	Role     string           `json:"role"`
	Own      string           `json:"own"`   // role by tag and type alone
	Plain    bool             `json:"plain"` // see listed
	Name     string           `json:"name"`
	Level    int              `json:"level"`
	Enabled  bool             `json:"enabled"`
	Editable bool             `json:"editable"`
	Checked  *bool            `json:"checked"`
	Expanded *bool            `json:"expanded"`
	Length   *int             `json:"length"`
	Value    *string          `json:"value"`
	Options  []browser.Option `json:"options"`
	More     int              `json:"more"`
}

// snapshot lists what a page shows. A cursor goes on where the retained
// snapshot stopped, under the same snapshot id.
func (p *page) snapshot(ctx context.Context, may allowed, nodes, bytes int, cursor string) (*browser.Snapshot, error) {
	p.ripen(ctx)
	snap, err := p.snapshotOnce(ctx, may, nodes, bytes, cursor)
	if e, ok := control.AsError(err); ok && e.Code == control.StaleSnapshot && cursor == "" {
		// The page went on under our feet; reading again harms nobody.
		p.ripen(ctx)
		return p.snapshotOnce(ctx, may, nodes, bytes, cursor)
	}
	return snap, err
}

// ripen gives a page that is loading a moment, once for each document.
func (p *page) ripen(ctx context.Context) {
	p.mu.Lock()
	wait := p.loading && !p.slow
	p.mu.Unlock()
	if wait {
		ctx, cancel := context.WithTimeout(ctx, ripeBound)
		defer cancel()
		p.calm(ctx)
	}
}

func (p *page) snapshotOnce(ctx context.Context, may allowed, nodes, bytes int, cursor string) (*browser.Snapshot, error) {
	p.readTitle(ctx)
	r, err := p.retained(may, cursor)
	if err != nil {
		return nil, err
	}
	w := p.where()
	out := &browser.Snapshot{
		Kind: "browser_snapshot", NavigationID: w.navigation, SnapshotID: r.id, SnapshotKind: "dom", FrameID: "main",
		Origin: w.origin, URL: w.url, Title: w.title, CapturedAt: time.Now().UTC().Format(time.RFC3339Nano),
	}
	bytes -= snapshotHeader + len(w.url) + len(w.title)
	begin := time.Now()
	for r.current < len(r.frames) {
		full := len(out.Frames) > 0 && time.Since(begin) > maxWalks
		if !full {
			if full, err = p.snapshotFrame(ctx, r, out, &nodes, &bytes); err != nil {
				return nil, err
			}
		}
		if full {
			out.Truncated = true
			r.part++
			out.NextCursor = r.id + ":" + strconv.Itoa(r.part)
			break
		}
		r.current++
		r.resumed = false
	}
	out.OmittedFrames = r.omitted
	if r.omitted > 0 {
		out.Limitations = append(out.Limitations, "frames of origins that are not allowed, or beyond 16, are left out")
	}
	if !w.loaded {
		out.Limitations = append(out.Limitations, "the page has not finished loading")
	}
	return out, p.keep(r, w.navigation)
}

// retained starts a new snapshot, or finds the one that a cursor goes on with.
func (p *page) retained(may allowed, cursor string) (*refs, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cursor != "" {
		r := p.refs
		if r == nil || time.Since(r.at) > refLife || cursor != r.id+":"+strconv.Itoa(r.part) {
			return nil, control.Errorf(control.CursorExpired, "the page or its snapshot has changed; take a new snapshot")
		}
		return r, nil
	}
	r := &refs{id: control.NewID()[:16], known: map[string]listed{}}
	r.frames, r.omitted = p.grantedLocked(may)
	p.refs = nil // references die with the next snapshot, whether it works or not
	return r, nil
}

// grantedLocked lists the frames that may be read, the main one first.
func (p *page) grantedLocked(may allowed) (ids []cdp.FrameID, omitted int) {
	rest := make([]*frame, 0, len(p.frames))
	for _, f := range p.frames {
		if f.id != p.top {
			rest = append(rest, f)
		}
	}
	slices.SortFunc(rest, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(len(a.short), len(b.short)), cmp.Compare(a.short, b.short))
	})
	ids = append(ids, p.top)
	for _, f := range rest {
		depth := 0
		for up := f; up != nil && up.id != p.top && depth <= maxFrameDepth; up = p.frames[up.parent] {
			depth++
		}
		if len(ids) < maxFrames && depth <= maxFrameDepth && p.readableLocked(may, f) {
			ids = append(ids, f.id)
		} else {
			omitted++
		}
	}
	return ids, omitted
}

// readableLocked reports whether a frame's document may be read. A document
// without an address of its own (about:srcdoc) belongs to its parent.
func (p *page) readableLocked(may allowed, f *frame) bool {
	for f != nil {
		if origin := originOf(f.url); origin != "" {
			return may(origin)
		}
		if f.id == p.top {
			return true // empty, or Chromium's own error page
		}
		if !strings.HasPrefix(f.url, "about:") && f.url != "" {
			return false
		}
		f = p.frames[f.parent]
	}
	return false
}

// snapshotFrame walks one frame, as far as there is room.
func (p *page) snapshotFrame(ctx context.Context, r *refs, out *browser.Snapshot, nodes, bytes *int) (full bool, err error) {
	p.mu.Lock()
	f := p.frames[r.frames[r.current]]
	number := p.nextRef
	var parent string
	if f != nil && p.frames[f.parent] != nil {
		parent = p.frames[f.parent].short
	}
	p.mu.Unlock()
	if f == nil {
		return false, nil // gone since
	}
	*bytes -= bytesPerFrame + len(f.url)
	if *bytes < 0 && len(out.Elements) > 0 {
		return true, nil
	}
	got, err := run[walked](ctx, p, f, "snapshot", map[string]any{
		"resume": r.resumed, "nodes": *nodes, "bytes": *bytes, "number": number + 1, "steps": maxSteps, "ms": maxWalk.Milliseconds()})
	if err != nil {
		if f.short != "main" {
			r.omitted++ // one frame that cannot be read does not hide the others
			return false, nil
		}
		return false, err
	}
	if got.Lost {
		return false, control.Errorf(control.CursorExpired, "the page has changed; take a new snapshot")
	}
	p.mu.Lock()
	p.nextRef = max(p.nextRef, got.Number-1)
	p.mu.Unlock()
	view := browser.Viewport{Width: got.View.Width, Height: got.View.Height, DeviceScaleFactor: got.View.Scale}
	if f.short == "main" {
		out.Viewport = view
	}
	out.Frames = append(out.Frames, browser.Frame{FrameID: f.short, ParentFrameID: parent, Origin: originOf(f.url), URL: f.url, ViewportRef: viewportRef(f.short), Viewport: view})
	for _, i := range got.Items {
		n := i.node(f.short)
		out.Elements = append(out.Elements, n)
		if n.ElementRef != "" && len(r.known) < maxNames {
			r.known[n.ElementRef] = listed{cmp.Or(i.Own, "element") + " \"" + line(n.Name, 60) + "\"", i.Plain}
		}
	}
	if got.Cut {
		out.Truncated = true
		out.Limitations = append(out.Limitations, "a very long text is shown in part")
	}
	*nodes, *bytes = got.Nodes, got.Bytes
	r.resumed = true
	return !got.Done, nil
}

func viewportRef(short string) string {
	if short == "main" {
		return "viewport"
	}
	return "viewport:" + short
}

func (i item) node(frame string) browser.Node {
	n := browser.Node{
		FrameID: frame, Role: i.Role, Name: i.Name, Level: i.Level, Enabled: i.Enabled, Editable: i.Editable,
		Checked: i.Checked, Expanded: i.Expanded, ValueLength: i.Length, Value: i.Value, Options: i.Options,
	}
	if i.Ref > 0 {
		n.ElementRef = frame + ":" + strconv.Itoa(i.Ref)
	}
	if i.More > 0 {
		n.Options = append(n.Options, browser.Option{Label: "… and " + strconv.Itoa(i.More) + " more"})
	}
	return n
}

// keep retains a snapshot, unless the page has moved on meanwhile.
func (p *page) keep(r *refs, navigation string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation+":"+strconv.Itoa(p.navigation) != navigation {
		return control.Errorf(control.StaleSnapshot, "the page changed while it was read; take a new snapshot")
	}
	r.at = time.Now()
	p.refs = r
	return nil
}

// element finds what a reference of the retained snapshot names.
func (p *page) element(may allowed, navigation, snapshot, ref string) (*frame, int, error) {
	gone := control.Errorf(control.StaleSnapshot, "the page or its snapshot has changed; take a new snapshot")
	short, digits, ok := strings.Cut(ref, ":")
	number, err := strconv.Atoi(digits)
	if !ok || err != nil || number < 1 {
		return nil, 0, control.Errorf(control.TargetNotFound, "elementRef: is none of the snapshot")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.refs
	if r == nil || r.id != snapshot || time.Since(r.at) > refLife || p.generation+":"+strconv.Itoa(p.navigation) != navigation {
		return nil, 0, gone
	}
	f := p.frameNamedLocked(short)
	if f == nil || !slices.Contains(r.frames, f.id) {
		return nil, 0, gone
	}
	if !p.readableLocked(may, f) {
		return nil, 0, control.Errorf(control.ScopeDenied, "the frame's origin is not allowed")
	}
	return f, number, nil
}

func (p *page) frameNamedLocked(short string) *frame {
	for _, f := range p.frames {
		if f.short == short {
			return f
		}
	}
	return nil
}
