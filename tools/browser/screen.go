package browser

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	chromepage "github.com/chromedp/cdproto/page"

	"lomi/broker/control"
)

// The person's view.
const (
	castQuality = 70
	minView     = 200
	maxView     = 4096
	maxTyped    = 16 << 10
	// titleEvery is how often the title of a page is looked at while a person
	// watches; a page may change it a hundred times a second.
	titleEvery = time.Second
)

// View is one picture of a page for a person. JPEG is nil when only the rest
// has changed.
type View struct {
	JPEG          []byte
	Width, Height int // of the page, in CSS pixels: the space of Mouse
	URL, Title    string
}

// Input is what a person did in the view of a page. Type is "mouse", "wheel",
// "key", "text", "navigate" (URL) or "history" (Key: back, forward, reload).
type Input struct {
	Type string `json:"type"`
	// Action of a mouse (move, down, up) or a key (down, up).
	Action    string  `json:"action,omitempty"`
	X         float64 `json:"x,omitempty"` // CSS pixels of the page
	Y         float64 `json:"y,omitempty"`
	Button    string  `json:"button,omitempty"` // left, middle, right
	Buttons   int64   `json:"buttons,omitempty"`
	Clicks    int64   `json:"clicks,omitempty"`
	DeltaX    float64 `json:"deltaX,omitempty"`
	DeltaY    float64 `json:"deltaY,omitempty"`
	Key       string  `json:"key,omitempty"`  // KeyboardEvent.key
	Code      string  `json:"code,omitempty"` // KeyboardEvent.code
	KeyCode   int64   `json:"keyCode,omitempty"`
	Text      string  `json:"text,omitempty"`
	Modifiers int64   `json:"modifiers,omitempty"` // 1 alt, 2 ctrl, 4 meta, 8 shift
	URL       string  `json:"url,omitempty"`
}

// cast hands the pictures of one page to those who look at it. Each keeps only
// the last one: a slow reader sees fewer pictures, never old ones.
type cast struct {
	mu      sync.Mutex
	last    View
	viewers map[chan View]struct{}
	over    bool
}

func (c *cast) send(v View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.JPEG != nil {
		c.last = v
	} else {
		jpeg := c.last.JPEG
		c.last = v
		c.last.JPEG = jpeg
	}
	for ch := range c.viewers {
		if v.JPEG == nil { // must not push a picture out
			select {
			case ch <- v:
			default:
			}
			continue
		}
		select {
		case <-ch:
		default:
		}
		ch <- v // room for one, and only send fills it
	}
}

// join adds a viewer, which gets the last picture first.
func (c *cast) join() chan View {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan View, 1)
	if c.over {
		close(ch)
		return ch
	}
	if c.last.JPEG != nil {
		ch <- c.last
	}
	c.viewers[ch] = struct{}{}
	return ch
}

// leave takes a viewer away and reports whether it was the last.
func (c *cast) leave(ch chan View) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.viewers, ch)
	return len(c.viewers) == 0 && !c.over
}

// end closes every view; a nil cast has none.
func (c *cast) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for ch := range c.viewers {
		close(ch)
	}
	c.viewers = map[chan View]struct{}{}
}

// Screencast streams pictures of a panel's page that fit the given size until
// ctx ends or the page does, which closes the channel. The page keeps its own
// size: one that changed with who looks would show an agent another layout in
// every snapshot. A reader that is slow gets the last picture only.
func (b *Browser) Screencast(ctx context.Context, panelID string, width, height int) (<-chan View, error) {
	p := b.page(panelID)
	if p == nil {
		return nil, control.Errorf(control.TargetNotFound, "no such browser panel")
	}
	width, height = min(max(width, minView), maxView), min(max(height, minView), maxView)
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return nil, control.Errorf(control.PanelNotRenderable, "the page has ended")
	}
	if p.cast == nil {
		p.cast = &cast{viewers: map[chan View]struct{}{}}
	}
	c, main := p.cast, p.main
	p.mu.Unlock()
	ch := c.join()
	start := chromepage.StartScreencastParams{Format: chromepage.StartScreencastFormatJpeg, Quality: new(int64(castQuality)),
		MaxWidth: int64(width), MaxHeight: int64(height), EveryNthFrame: 1}
	if _, err := cdp.Call(ctx, main, chromepage.StartScreencast, start); err != nil {
		c.leave(ch)
		return nil, fmt.Errorf("starting a view of a page: %w", err)
	}
	b.wg.Go(func() { p.watch(ctx, c, ch) }) // ends with ctx or the page; Close waits
	return ch, nil
}

// watch keeps a view's title fresh and ends the view with ctx.
func (p *page) watch(ctx context.Context, c *cast, ch chan View) {
	ticker := time.NewTicker(titleEvery)
	defer ticker.Stop()
	last := p.where()
	for {
		select {
		case <-ctx.Done():
			if c.leave(ch) {
				p.stopCast(c)
			}
			return
		case <-ticker.C:
		}
		p.readTitle(ctx)
		now := p.where()
		if now.dead {
			c.leave(ch)
			return
		}
		if now.title != last.title || now.url != last.url {
			c.send(View{URL: now.url, Title: now.title, Width: viewWidth, Height: viewHeight})
			p.b.showRuntime(p, "running")
			last = now
		}
	}
}

// stopCast ends the pictures when nobody looks any more.
func (p *page) stopCast(c *cast) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cast != c {
		return
	}
	p.cast = nil
	post(p.main, chromepage.StopScreencast, cdp.Empty{})
}

// picture takes a frame from Chromium.
func (p *page) picture(ev chromepage.EventScreencastFrame) {
	p.mu.Lock()
	c := p.cast
	p.mu.Unlock()
	if c == nil || ev.Metadata == nil {
		return
	}
	w := p.where()
	c.send(View{JPEG: ev.Data, Width: int(ev.Metadata.DeviceWidth), Height: int(ev.Metadata.DeviceHeight), URL: w.url, Title: w.title})
}

// Act carries out what a person did in the view of a page. The lease of
// whoever held the page ends first.
func (b *Browser) Act(ctx context.Context, panelID string, in Input) error {
	p := b.page(panelID)
	if p == nil {
		return control.Errorf(control.TargetNotFound, "no such browser panel")
	}
	if err := in.check(); err != nil {
		return err
	}
	if b.cfg.TakeOver != nil {
		b.cfg.TakeOver(control.Panel{Kind: control.PanelBrowser, ID: panelID}.Resource())
	}
	p.mu.Lock()
	p.personal = true
	main, dead := p.main, p.dead
	p.mu.Unlock()
	if dead {
		return control.Errorf(control.PanelNotRenderable, "the page has ended")
	}
	ctx, cancel := context.WithTimeout(ctx, opBound)
	defer cancel()
	err := p.carry(ctx, main, in)
	if errors.Is(err, context.DeadlineExceeded) {
		return control.Errorf(control.TargetBusy, "the page does not answer")
	}
	return err
}

func (p *page) carry(ctx context.Context, main session, in Input) error {
	switch in.Type {
	case "wheel":
		return turnWheel(ctx, main, in.mouse(), in.DeltaX, in.DeltaY)
	case "mouse":
		_, err := cdp.Call(ctx, main, input.DispatchMouseEvent, in.mouse())
		return err
	case "key":
		_, err := cdp.Call(ctx, main, input.DispatchKeyEvent, in.keyEvent())
		return err
	case "text":
		_, err := cdp.Call(ctx, main, input.InsertText, input.InsertTextParams{Text: in.Text})
		return err
	case "history":
		_, err := p.step(ctx, byPerson, in.Key, "commit")
		return err
	default:
		if _, err := checkURL(in.URL); err != nil {
			return err
		}
		if why := p.b.verdict(p.owner, in.URL, true); why != "" {
			return control.Errorf(control.ScopeDenied, "%s", why)
		}
		_, err := p.goTo(ctx, byPerson, in.URL, "commit")
		return err
	}
}

// check refuses input that no view sends.
func (in Input) check() error {
	ok := !math.IsNaN(in.X) && !math.IsNaN(in.Y) && math.Abs(in.X) <= maxView && math.Abs(in.Y) <= maxView &&
		math.Abs(in.DeltaX) <= 10000 && math.Abs(in.DeltaY) <= 10000 && in.Modifiers >= 0 && in.Modifiers < 16 &&
		len(in.Key) <= 32 && len(in.Code) <= 32 && len(in.Text) <= maxTyped && utf8.ValidString(in.Text) &&
		in.Clicks >= 0 && in.Clicks <= 3 && in.Buttons >= 0 && in.Buttons < 32 && in.KeyCode >= 0 && in.KeyCode < 1<<16
	switch in.Type {
	case "mouse":
		ok = ok && (in.Action == "move" || in.Action == "down" || in.Action == "up")
	case "key":
		ok = ok && (in.Action == "down" || in.Action == "up") && in.Key != ""
	case "history":
		ok = ok && (in.Key == "back" || in.Key == "forward" || in.Key == "reload")
	case "wheel", "text", "navigate":
	default:
		ok = false
	}
	if !ok {
		return control.Errorf(control.ResourceExhausted, "input: is malformed")
	}
	return nil
}

func (in Input) mouse() input.DispatchMouseEventParams {
	ev := input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMouseMoved, X: in.X, Y: in.Y, Buttons: in.Buttons, Modifiers: in.Modifiers, ClickCount: in.Clicks,
	}
	switch in.Action {
	case "down":
		ev.Type = input.DispatchMouseEventTypeMousePressed
	case "up":
		ev.Type = input.DispatchMouseEventTypeMouseReleased
	}
	switch in.Button {
	case "left", "middle", "right":
		ev.Button = input.MouseButton(in.Button)
	}
	return ev
}

func (in Input) keyEvent() input.DispatchKeyEventParams {
	ev := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyUp, Key: in.Key, Code: in.Code, Modifiers: in.Modifiers,
		WindowsVirtualKeyCode: in.KeyCode, NativeVirtualKeyCode: in.KeyCode,
	}
	if in.Action != "down" {
		return ev
	}
	ev.Type = input.DispatchKeyEventTypeRawKeyDown
	text := ""
	switch {
	case in.Key == "Enter":
		text = "\r"
	case utf8.RuneCountInString(in.Key) == 1 && in.Modifiers&^8 == 0:
		text = in.Key
	}
	if text != "" {
		ev.Type, ev.Text, ev.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, text, text
	}
	return ev
}
