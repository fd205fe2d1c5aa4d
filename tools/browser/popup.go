package browser

import (
	"fmt"
	"strconv"

	chromepage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// maxWindows is how many windows one task of a page may ask Chromium for. Each
// call stops the page until the browser has refused or closed its window, so
// a thousand of them take longer than a click may.
const maxWindows = 3

// windowScript runs before everything else in each document. A page that finds
// a way around it only gets what Chromium does anyway: one window for a click,
// which is closed.
const windowScript = `(() => {
	const open = window.open, tell = window[%[1]q], later = setTimeout;
	delete window[%[1]q];
	let n = 0;
	window.open = new Proxy(open, { apply(f, self, args) {
		if (n++ === 0) later(() => { if (n > %[2]d) tell(String(n)); n = 0; });
		return n > %[2]d ? null : Reflect.apply(f, self, args);
	} });
})()`

// capWindows bounds the windows that documents of a session ask for.
func (p *page) capWindows(s session) {
	post(s, runtime.AddBinding, runtime.AddBindingParams{Name: p.windowBinding})
	post(s, chromepage.AddScriptToEvaluateOnNewDocument, chromepage.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf(windowScript, p.windowBinding, maxWindows)})
}

// windowsAsked reports how many windows a page asked for at once.
func (p *page) windowsAsked(ev runtime.EventBindingCalled) {
	n, err := strconv.Atoi(ev.Payload)
	if ev.Name != p.windowBinding || err != nil || n <= maxWindows {
		return
	}
	p.note("the page asked for " + strconv.Itoa(n) + " windows at once; none was kept")
}
