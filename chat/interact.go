package chat

import (
	"fmt"
	"strings"
	"time"

	"lomi/agent"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

type elementArguments struct {
	Element integer `json:"element"`
}

func (a *elementArguments) check() string { return checkElement(a.Element) }

func checkElement(n integer) string {
	if n < 1 {
		return `element: the number from the snapshot is needed. Example: {"element":12}`
	}
	return ""
}

func (c *sessionCall) browserClick(a elementArguments) (agent.Result, error) {
	return c.act(int(a.Element), "Clicked", "lomi_browser_click", func(key string, p *pageState, e browser.Element) control.Retryable {
		return browser.ClickRequest{Keyed: c.keyed(key), Panel: p.panel, Element: e}
	})
}

type fillArguments struct {
	Element integer `json:"element"`
	Text    string  `json:"text"`
}

func (a *fillArguments) check() string { return checkElement(a.Element) }

func (c *sessionCall) browserFill(a fillArguments) (agent.Result, error) {
	return c.fill(int(a.Element), "Filled", a.Text)
}

func (c *sessionCall) fill(number int, verb, text string) (agent.Result, error) {
	return c.act(number, verb, "lomi_browser_fill", func(key string, p *pageState, e browser.Element) control.Retryable {
		return browser.FillRequest{Keyed: c.keyed(key), Panel: p.panel, Element: e, Text: text}
	})
}

type selectArguments struct {
	Element integer `json:"element"`
	Option  string  `json:"option"`
}

func (a *selectArguments) check() string {
	if a.Option == "" {
		return `option: the text of the option is needed. Example: {"element":9,"option":"Norway"}`
	}
	return checkElement(a.Element)
}

func (c *sessionCall) browserSelect(a selectArguments) (agent.Result, error) {
	return c.fill(int(a.Element), "Chose in", a.Option)
}

type keyArguments struct {
	Key     string  `json:"key"`
	Element integer `json:"element,omitempty"`
}

func (a *keyArguments) check() string {
	switch a.Key {
	case "Enter", "Tab", "Escape", "Backspace", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End":
		return ""
	}
	return "key: must be Enter, Tab, Escape, Backspace, ArrowUp, ArrowDown, ArrowLeft, ArrowRight, Home or End. For text use browser_fill."
}

// focusedRef is the element reference of whatever has the focus.
const focusedRef = "focused"

func (c *sessionCall) browserKey(a keyArguments) (agent.Result, error) {
	build := func(key string, p *pageState, e browser.Element) control.Retryable {
		return browser.KeyRequest{Keyed: c.keyed(key), Panel: p.panel, Element: e, Key: a.Key}
	}
	if a.Element > 0 {
		return c.act(int(a.Element), "Pressed "+a.Key+" in", "lomi_browser_key", build)
	}
	return c.actOnPage("Pressed "+a.Key, "lomi_browser_key", func(key string, p *pageState) control.Retryable {
		return build(key, p, p.element(focusedRef))
	})
}

type scrollArguments struct {
	Direction string  `json:"direction"`
	Element   integer `json:"element,omitempty"`
}

func (a *scrollArguments) check() string {
	switch a.Direction {
	case "up", "down", "left", "right":
		return ""
	}
	return "direction: must be up, down, left or right."
}

func (c *sessionCall) browserScroll(a scrollArguments) (agent.Result, error) {
	build := func(key string, p *pageState, ref string) control.Retryable {
		x, y := p.screenful(a.Direction)
		return browser.ScrollRequest{Keyed: c.keyed(key), Panel: p.panel, LeaseID: p.lease, NavigationID: p.navigation, SnapshotID: p.snapshot,
			ViewportRef: ref, DeltaX: x, DeltaY: y}
	}
	if a.Element > 0 {
		return c.act(int(a.Element), "Scrolled "+a.Direction, "lomi_browser_scroll", func(key string, p *pageState, e browser.Element) control.Retryable {
			return build(key, p, e.ElementRef)
		})
	}
	return c.actOnPage("Scrolled "+a.Direction, "lomi_browser_scroll", func(key string, p *pageState) control.Retryable {
		return build(key, p, "viewport")
	})
}

func (p *pageState) screenful(direction string) (x, y float64) {
	width, height := p.viewport.Width*scrollPart, p.viewport.Height*scrollPart
	switch direction {
	case "up":
		return 0, -height
	case "left":
		return -width, 0
	case "right":
		return width, 0
	}
	return 0, height
}

func (p *pageState) element(ref string) browser.Element {
	return browser.Element{LeaseID: p.lease, NavigationID: p.navigation, SnapshotID: p.snapshot, ElementRef: ref}
}

// act does something to an element by its number. References die with time and
// with every change of the page, so a stale one is looked up anew: the element
// is used if it is still there, else the model gets the new snapshot.
func (c *sessionCall) act(number int, verb, tool string, build func(key string, p *pageState, e browser.Element) control.Retryable) (agent.Result, error) {
	for attempt := 0; ; attempt++ {
		p, n, gone, err := c.element(number)
		if err != nil || gone != nil {
			return orGone(gone), err
		}
		c.session.pages.used = p.name
		result, err := c.perform(p, fmt.Sprintf("%s [%d].", verb, n.number), tool, func(key string) control.Retryable { return build(key, p, p.element(n.ElementRef)) })
		if code, ok := errorCode(err); !ok || code != control.StaleSnapshot || attempt > 0 {
			return result, err
		}
		if err := c.look(p); err != nil {
			return agent.Result{}, err
		}
	}
}

func orGone(gone *agent.Result) agent.Result {
	if gone == nil {
		return agent.Result{}
	}
	return *gone
}

// element finds what a number means now, or says that it means nothing any
// more.
func (c *sessionCall) element(number int) (*pageState, node, *agent.Result, error) {
	book := &c.session.elements
	p := book.live[number]
	if p != nil && time.Since(p.taken) > referenceLife {
		if err := c.look(p); err != nil {
			return nil, node{}, nil, err
		}
		p = book.live[number]
	}
	if p != nil {
		for _, n := range p.nodes {
			if n.number == number {
				return p, n, nil, nil
			}
		}
	}
	p, err := c.pageOf("")
	if err != nil {
		return nil, node{}, nil, err
	}
	if err := c.look(p); err != nil {
		return nil, node{}, nil, err
	}
	why := fmt.Sprintf("Element %d is gone: the page changed; here is the new snapshot.", number)
	if number > book.last {
		why = fmt.Sprintf("There is no element %d; here is the snapshot with the numbers.", number)
	}
	result := c.snapshotResult(p, why)
	result.IsError, result.Outcome = true, agent.OutcomeError
	return nil, node{}, &result, nil
}

// actOnPage does something to the page used last as a whole.
func (c *sessionCall) actOnPage(did, tool string, build func(key string, p *pageState) control.Retryable) (agent.Result, error) {
	p, err := c.pageOf("")
	if err != nil {
		return agent.Result{}, err
	}
	if p.snapshot == "" || time.Since(p.taken) > referenceLife {
		if err := c.look(p); err != nil {
			return agent.Result{}, err
		}
	}
	result, err := c.perform(p, did+".", tool, func(key string) control.Retryable { return build(key, p) })
	if code, ok := errorCode(err); !ok || code != control.StaleSnapshot {
		return result, err
	}
	if err := c.look(p); err != nil {
		return agent.Result{}, err
	}
	return c.perform(p, did+".", tool, func(key string) control.Retryable { return build(key, p) })
}

// perform carries an interaction out and says what changed.
func (c *sessionCall) perform(p *pageState, did, tool string, build func(key string) control.Retryable) (agent.Result, error) {
	done, err := resultOf[browser.Interaction](c.mutate(tool, actWait, false, func(key, _ string) control.Retryable { return build(key) }, nil))
	if err != nil {
		return agent.Result{}, err
	}
	p.notes = append(p.notes, done.Notes...)
	before, navigation := p.nodes, p.navigation
	if err := c.look(p); err != nil {
		return agent.Result{Text: did + " The page could not be read after it; take a browser_snapshot{}."}, nil
	}
	if p.navigation != navigation {
		return c.snapshotResult(p, did+" A new page was loaded."), nil
	}
	diff := changes(before, p.nodes)
	switch {
	case len(diff) > mostChanges || len(diff) > 10 && len(diff) > len(p.nodes):
		return c.snapshotResult(p, did+" The page changed in most of its parts."), nil
	case len(diff) == 0 && len(p.notes) == 0:
		return agent.Result{Text: did + " Nothing that is listed changed."}, nil
	}
	// What was shown before and did not change still holds.
	p.shown = len(p.nodes)
	text := p.takeNotes() + strings.Join(diff, "\n")
	return agent.Result{Text: did + " What changed (+ new, - gone, ~ different):\n" + c.fenced(p.source(), text, "browser_snapshot{} lists the page")}, nil
}
