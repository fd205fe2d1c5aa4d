package browser

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"

	"lomi/broker"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// How input reached the page.
const (
	modeTrusted   = "trusted"
	modeSynthetic = "synthetic_dom" // for what no mouse or key can set
)

// acted is what an interaction did.
type acted struct {
	mode   string
	action string // what the browser did by itself, "" when nothing is known
	length *int
	scroll *browser.ScrollPosition
}

// aimed is what walk.js returns of an element that is to be used, or of a
// check on one. Error is "" when all is well.
type aimed struct {
	Error    string  `json:"error"`
	Cover    string  `json:"cover"`
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
	Kind     string  `json:"kind"`
	Href     string  `json:"href"`
	ReadOnly bool    `json:"readonly"`
	Editable bool    `json:"editable"`
	Plain    bool    `json:"plain"`
	Checked  bool    `json:"checked"`
	Same     bool    `json:"same"`
	Length   int     `json:"length"`
}

// err says in words why an element cannot be used; nothing has happened then.
func (a aimed) err() error {
	switch a.Error {
	case "":
		return nil
	case "stale":
		return control.Errorf(control.StaleSnapshot, "the element is gone; take a new snapshot")
	case "disabled":
		return control.Errorf(control.TargetBusy, "the element is disabled")
	case "file":
		return control.Errorf(control.UnsupportedCapability, "file inputs are used with lomi_browser_upload")
	case "download":
		return control.Errorf(control.UnsupportedCapability, "the link is a download; use lomi_browser_download")
	case "covered":
		return control.Errorf(control.TargetBusy, "%s", fromPage("the element is covered by another one", a.Cover, 80))
	case "moving":
		return control.Errorf(control.TargetBusy, "the element keeps moving")
	case "option":
		return control.Errorf(control.TargetNotFound, "%s", fromPage("the list has no such option; a snapshot lists what it has", a.Cover, 200))
	case "unfocused":
		return control.Errorf(control.TargetBusy, "the element does not take the focus")
	case "transformed":
		return control.Errorf(control.PanelNotRenderable, "the element is in a frame that is scaled or turned")
	default:
		return control.Errorf(control.PanelNotRenderable, "the element is not visible")
	}
}

// spot is where in the page an element can be hit.
type spot struct {
	aimed
	frame  *frame
	number int
	px, py float64 // in the page's viewport
}

// mark is an element that a caller named.
type mark struct {
	frame  *frame // nil for what has the focus
	number int
	// plain says that nobody was asked because the element was of a kind that
	// only follows a link or changes a field. It must still be of that kind.
	plain bool
}

// still refuses an element that has become another since nobody was asked.
func (m mark) still(a aimed) error {
	if m.plain && !a.Plain {
		return control.Errorf(control.StaleSnapshot, "the element has become another kind; take a new snapshot")
	}
	return nil
}

// find brings an element into view and finds a point at which it can be hit.
func (p *page) find(ctx context.Context, m mark) (spot, error) {
	a, err := run[aimed](ctx, p, m.frame, "ready", m.number)
	if err == nil {
		err = a.err()
	}
	if err == nil {
		err = m.still(a)
	}
	if err != nil {
		return spot{}, err
	}
	x, y, err := p.toPage(ctx, m.frame, a.X, a.Y)
	return spot{aimed: a, frame: m.frame, number: m.number, px: x, py: y}, err
}

// toPage turns a point of a frame into one of the page, and checks on the way
// up that nothing lies over the frames.
func (p *page) toPage(ctx context.Context, f *frame, x, y float64) (float64, float64, error) {
	for f.short != "main" {
		parent, node, err := p.ownerOf(ctx, f)
		if err != nil {
			return 0, 0, err
		}
		at, err := runOn[aimed](ctx, p, parent, node, "owner", x, y)
		if err == nil && at.Error == "outside" {
			if _, err = runOn[aimed](ctx, p, parent, node, "show"); err == nil {
				at, err = runOn[aimed](ctx, p, parent, node, "owner", x, y)
			}
		}
		if err != nil {
			return 0, 0, err
		}
		if err := at.err(); err != nil {
			return 0, 0, err
		}
		f, x, y = parent, at.X, at.Y
	}
	return x, y, nil
}

// click presses and releases the mouse on an element.
func (p *page) click(ctx context.Context, permit *broker.Permit, m mark) (acted, error) {
	at, err := p.find(ctx, m)
	if err != nil {
		return acted{}, err
	}
	before := p.moment()
	if err := p.hit(ctx, permit, at); err != nil {
		return acted{}, err
	}
	return acted{mode: modeTrusted, action: clickAction(at.aimed)}, p.settle(ctx, before)
}

func clickAction(a aimed) string {
	switch {
	case a.Kind == "checkbox" || a.Kind == "radio":
		return "toggle"
	case a.Kind == "submit":
		return "submit"
	case a.Href != "":
		return "follow_link"
	}
	return ""
}

// hit clicks at a spot. The pointer moves there first, because a page may put
// something under it then; the last look is right before the press.
func (p *page) hit(ctx context.Context, permit *broker.Permit, at spot) error {
	if err := permit.Check(); err != nil {
		return err
	}
	mouse := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.px, Y: at.py}
	if _, err := cdp.Call(ctx, p.main, input.DispatchMouseEvent, mouse); err != nil {
		return err
	}
	look, err := run[aimed](ctx, p, at.frame, "still", at.number, at.X, at.Y)
	if err != nil {
		return err
	}
	if err := look.err(); err != nil {
		return err
	}
	before := p.count()
	if err := permit.Start(); err != nil {
		return err
	}
	mouse.Type, mouse.Button, mouse.Buttons, mouse.ClickCount = input.DispatchMouseEventTypeMousePressed, input.MouseButtonLeft, 1, 1
	if _, err := cdp.Call(ctx, p.main, input.DispatchMouseEvent, mouse); err != nil {
		return unknown(err)
	}
	if p.count() != before {
		return unknown(errors.New("the page changed in the middle of the click"))
	}
	mouse.Type, mouse.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
	if _, err := cdp.Call(ctx, p.main, input.DispatchMouseEvent, mouse); err != nil && p.count() == before {
		return unknown(err)
	}
	return nil
}

// count is the number of the document and address now.
func (p *page) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.navigation
}

// fill puts text into a field, chooses an option, or sets a checkbox.
func (p *page) fill(ctx context.Context, permit *broker.Permit, m mark, text string) (acted, error) {
	at, err := p.find(ctx, m)
	if err != nil {
		return acted{}, err
	}
	if at.ReadOnly {
		return acted{}, control.Errorf(control.TargetBusy, "the field is read-only")
	}
	switch at.Kind {
	case "checkbox", "radio":
		return p.tick(ctx, permit, at, text)
	case "select", "date", "time", "datetime-local", "month", "week", "color", "range":
		return p.set(ctx, permit, at, text)
	case "text", "search", "email", "url", "tel", "password", "number", "textarea":
	default:
		if !at.Editable {
			return acted{}, control.Errorf(control.UnsupportedCapability, "the element takes no text; click it instead")
		}
	}
	return p.typeOver(ctx, permit, at, text)
}

// tick clicks a checkbox or radio if it is not as wanted.
func (p *page) tick(ctx context.Context, permit *broker.Permit, at spot, text string) (acted, error) {
	want, ok := truth(text)
	switch {
	case !ok:
		return acted{}, control.Errorf(control.ResourceExhausted, "text: must be true or false for a %s", at.Kind)
	case want == at.Checked:
		return acted{mode: modeTrusted, action: "none"}, nil
	case at.Kind == "radio" && !want:
		return acted{}, control.Errorf(control.UnsupportedCapability, "a radio button is switched off by choosing another")
	}
	before := p.moment()
	if err := p.hit(ctx, permit, at); err != nil {
		return acted{}, err
	}
	if err := p.settle(ctx, before); err != nil {
		return acted{}, err
	}
	now, err := run[aimed](ctx, p, at.frame, "checked", at.number)
	if err == nil && now.Error == "" && now.Checked != want {
		p.note("the " + at.Kind + " did not keep the new state")
	}
	return acted{mode: modeTrusted, action: "toggle"}, nil
}

func truth(text string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "on", "yes", "1", "checked":
		return true, true
	case "false", "off", "no", "0", "unchecked":
		return false, true
	}
	return false, false
}

// set gives a value to what keys cannot fill: a list, a date, a colour.
func (p *page) set(ctx context.Context, permit *broker.Permit, at spot, text string) (acted, error) {
	before := p.moment()
	if err := permit.Start(); err != nil {
		return acted{}, err
	}
	got, err := run[aimed](ctx, p, at.frame, "set", at.number, text)
	if err != nil {
		return acted{}, unknown(err)
	}
	if err := got.err(); err != nil {
		return acted{}, proven{err} // walk.js looks before it sets
	}
	if !got.Same {
		return acted{}, &control.Error{Code: control.ResourceExhausted, Effect: control.EffectPartial,
			Message: "text: the field did not take it; a " + at.Kind + " needs its own format (date: 2026-01-31, time: 09:30, color: #rrggbb)"}
	}
	return acted{mode: modeSynthetic, action: "change", length: &got.Length}, p.settle(ctx, before)
}

// typeOver clicks a field, selects what it holds and types over it.
func (p *page) typeOver(ctx context.Context, permit *broker.Permit, at spot, text string) (acted, error) {
	before := p.moment()
	if err := p.hit(ctx, permit, at); err != nil {
		return acted{}, err
	}
	held, err := run[aimed](ctx, p, at.frame, "select", at.number)
	if err == nil {
		err = held.err()
	}
	if err != nil {
		return acted{}, partial(err)
	}
	if err := permit.Check(); err != nil {
		return acted{}, partial(err)
	}
	switch {
	case text != "":
		_, err = cdp.Call(ctx, p.main, input.InsertText, input.InsertTextParams{Text: text})
	case held.Length > 0:
		err = p.press(ctx, keys()["Delete"])
	}
	if err != nil || p.count() != before.navigation {
		return acted{}, unknown(err)
	}
	got, err := run[aimed](ctx, p, at.frame, "holds", at.number, text)
	if err != nil || got.Error != "" {
		return acted{}, unknown(err)
	}
	if !got.Same {
		p.note("the field changed the text that was typed; check what it holds now")
	}
	out := acted{mode: modeTrusted, action: "input"}
	if got.Length >= 0 {
		out.length = &got.Length
	}
	return out, p.settle(ctx, before)
}

// key presses one key in an element, or in what has the focus.
func (p *page) key(ctx context.Context, permit *broker.Permit, m mark, name string) (acted, error) {
	k, ok := keys()[name]
	if !ok {
		return acted{}, control.Errorf(control.ResourceExhausted, "key: is none of the keys")
	}
	if m.frame != nil {
		got, err := run[aimed](ctx, p, m.frame, "focus", m.number)
		if err == nil {
			err = got.err()
		}
		if err == nil {
			err = m.still(got)
		}
		if err != nil {
			return acted{}, err
		}
	}
	before := p.moment()
	if err := permit.Start(); err != nil {
		return acted{}, err
	}
	if err := p.press(ctx, k); err != nil && p.count() == before.navigation {
		return acted{}, unknown(err)
	}
	return acted{mode: modeTrusted}, p.settle(ctx, before)
}

// chord is one key as Chromium wants it told.
type chord struct {
	key, code, text string
	number          int64
}

func keys() map[string]chord {
	return map[string]chord{
		"Enter": {"Enter", "Enter", "\r", 13}, "Tab": {"Tab", "Tab", "", 9}, "Escape": {"Escape", "Escape", "", 27},
		"Backspace": {"Backspace", "Backspace", "", 8}, "Delete": {"Delete", "Delete", "", 46},
		"ArrowUp": {"ArrowUp", "ArrowUp", "", 38}, "ArrowDown": {"ArrowDown", "ArrowDown", "", 40},
		"ArrowLeft": {"ArrowLeft", "ArrowLeft", "", 37}, "ArrowRight": {"ArrowRight", "ArrowRight", "", 39},
		"Home": {"Home", "Home", "", 36}, "End": {"End", "End", "", 35},
	}
}

func (p *page) press(ctx context.Context, k chord) error {
	down := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeRawKeyDown, Key: k.key, Code: k.code,
		WindowsVirtualKeyCode: k.number, NativeVirtualKeyCode: k.number,
	}
	if k.text != "" {
		down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, k.text, k.text
	}
	if _, err := cdp.Call(ctx, p.main, input.DispatchKeyEvent, down); err != nil {
		return err
	}
	up := down
	up.Type, up.Text, up.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	_, err := cdp.Call(ctx, p.main, input.DispatchKeyEvent, up)
	return err
}

// scrollPoll and scrollBound say how long a wheel's effect is watched for.
const (
	scrollPoll  = 25 * time.Millisecond
	scrollBound = 400 * time.Millisecond
)

// scroll turns the wheel over an element, or over the middle of a frame when
// number is 0.
func (p *page) scroll(ctx context.Context, permit *broker.Permit, f *frame, number int, dx, dy float64) (acted, error) {
	var x, y float64
	if number > 0 {
		at, err := p.find(ctx, mark{frame: f, number: number})
		if err != nil {
			return acted{}, err
		}
		x, y = at.px, at.py
	} else {
		view, err := run[walkedView](ctx, p, f, "view")
		if err != nil {
			return acted{}, err
		}
		if x, y, err = p.toPage(ctx, f, view.Width/2, view.Height/2); err != nil {
			return acted{}, err
		}
	}
	from, err := run[browser.ScrollPosition](ctx, p, f, "position", number)
	if err != nil {
		return acted{}, err
	}
	before := p.count()
	if err := permit.Start(); err != nil {
		return acted{}, err
	}
	if err := turnWheel(ctx, p.main, input.DispatchMouseEventParams{X: x, Y: y}, dx, dy); err != nil {
		return acted{}, unknown(err)
	}
	to, err := p.watchScroll(ctx, f, number, from)
	if err != nil || p.count() != before {
		return acted{}, unknown(err)
	}
	return acted{mode: modeTrusted, scroll: &to}, nil
}

// turnWheel sends a wheel event. The protocol library leaves out a distance of
// zero, which Chromium insists on.
func turnWheel(ctx context.Context, s session, at input.DispatchMouseEventParams, dx, dy float64) error {
	at.Type = input.DispatchMouseEventTypeMouseWheel
	return s.Call(ctx, input.DispatchMouseEvent.Method, struct {
		input.DispatchMouseEventParams
		DeltaX float64 `json:"deltaX"`
		DeltaY float64 `json:"deltaY"`
	}{at, dx, dy}, nil)
}

// walkedView is the visible part of a frame.
type walkedView struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Scale  float64 `json:"scale"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Zoom   float64 `json:"zoom"`
}

// watchScroll reads the position until it has changed and stands still.
func (p *page) watchScroll(ctx context.Context, f *frame, number int, from browser.ScrollPosition) (browser.ScrollPosition, error) {
	ticker := time.NewTicker(scrollPoll)
	defer ticker.Stop()
	last := from
	for end := time.Now().Add(scrollBound); ; {
		now, err := run[browser.ScrollPosition](ctx, p, f, "position", number)
		if err != nil {
			return now, err
		}
		if now == last && now != from || time.Now().After(end) {
			return now, nil
		}
		last = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}
