package browser

import (
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	chromepage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// event takes one event of the page's session or of one of its frames'. It
// runs on the reading goroutine and never waits.
func (p *page) event(s session, method string, params jsonv2.Value) {
	switch method {
	case fetch.RequestPaused.Method:
		if ev, ok := decode[fetch.EventRequestPaused](s.link, params); ok {
			p.gate(s, ev)
		}
	case fetch.AuthRequired.Method:
		if ev, ok := decode[fetch.EventAuthRequired](s.link, params); ok {
			p.note("the site asks for a login of its own (HTTP authentication); it was cancelled")
			post(s, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: ev.RequestID,
				AuthChallengeResponse: &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}})
		}
	case chromepage.JavascriptDialogOpening.Method:
		if ev, ok := decode[chromepage.EventJavascriptDialogOpening](s.link, params); ok {
			p.dialog(s, ev)
		}
	case chromepage.FileChooserOpened.Method:
		p.note("the page asked for a file; the chooser was not opened")
	case chromepage.WindowOpen.Method:
		if ev, ok := decode[chromepage.EventWindowOpen](s.link, params); ok {
			p.note("the page opened " + shown(ev.URL) + " in a new window, which was closed; navigate there to see it")
		}
	case chromepage.ScreencastFrame.Method:
		if ev, ok := decode[chromepage.EventScreencastFrame](s.link, params); ok {
			post(s, chromepage.ScreencastFrameAck, chromepage.ScreencastFrameAckParams{SessionID: ev.SessionID})
			p.picture(ev)
		}
	case target.AttachedToTarget.Method:
		if ev, ok := decode[target.EventAttachedToTarget](s.link, params); ok {
			p.frameAttached(s, ev)
		}
	case target.DetachedFromTarget.Method:
		if ev, ok := decode[target.EventDetachedFromTarget](s.link, params); ok {
			s.link.handle(ev.SessionID, nil)
		}
	case inspector.TargetCrashed.Method:
		p.note("the page crashed")
		p.die()
		p.b.wg.Go(func() { p.b.showRuntime(p, "exited") }) // bounded by its own deadline
	case runtime.BindingCalled.Method:
		if ev, ok := decode[runtime.EventBindingCalled](s.link, params); ok {
			p.windowsAsked(ev)
		}
	case runtime.ConsoleAPICalled.Method, runtime.ExceptionThrown.Method:
		p.logEvent(s, method, params)
	default:
		p.frameEvent(s, method, params)
	}
}

// gate lets the request of a document pass or stops it. A stopped one is
// "aborted", which leaves the page where it is; an error page would take away
// what the agent was looking at.
func (p *page) gate(s session, ev fetch.EventRequestPaused) {
	if ev.Request == nil {
		post(s, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: ev.RequestID})
		return
	}
	p.mu.Lock()
	main, personal := ev.FrameID == p.top, p.personal
	if main {
		p.stirs++
		p.touchLocked()
	}
	p.mu.Unlock()
	// A frame may be of any site, but is read and used only where granted.
	why := p.b.verdict(p.owner, ev.Request.URL, personal || !main)
	if why == "" {
		p.mu.Lock()
		if main {
			p.sent++
		}
		p.mu.Unlock()
		post(s, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: ev.RequestID})
		return
	}
	if main {
		p.note("the page tried to go to " + shown(ev.Request.URL) + ", which was refused: " + why)
		// The page chose the path, so only the origin is in our words.
		p.refuse("the page to be loaded was refused: " + why)
	}
	post(s, fetch.FailRequest, fetch.FailRequestParams{RequestID: ev.RequestID, ErrorReason: network.ErrorReasonAborted})
}

// dialog answers a dialog at once with no, because a page stands still while
// one is open, and reports it. Only "leave this page?" gets a yes, when the
// same was asked before and the agent insists.
func (p *page) dialog(s session, ev chromepage.EventJavascriptDialogOpening) {
	accept := false
	text := line(ev.Message, 200)
	p.mu.Lock()
	switch ev.Type {
	case chromepage.DialogTypeBeforeunload:
		accept = p.leave && p.leaving
		p.leave = !accept
		if accept {
			p.noteLocked("the page asked whether to leave it with unsaved changes; it was left")
		} else {
			p.noteLocked("the page asked whether to leave it with unsaved changes; it was not left. Navigate again to leave it anyway")
			p.refused = "the page has unsaved changes and asked to stay; navigate again to leave it anyway"
		}
	case chromepage.DialogTypeConfirm:
		p.noteLocked("the page asked \"" + text + "\"; it was answered with cancel")
	case chromepage.DialogTypePrompt:
		p.noteLocked("the page asked for text: \"" + text + "\"; it was answered with cancel")
	default:
		p.noteLocked("the page said \"" + text + "\"; the message was closed")
	}
	p.touchLocked()
	p.mu.Unlock()
	post(s, chromepage.HandleJavaScriptDialog, chromepage.HandleJavaScriptDialogParams{Accept: accept})
}

// frameAttached takes over a frame that runs in a process of its own.
func (p *page) frameAttached(parent session, ev target.EventAttachedToTarget) {
	child := session{link: parent.link, id: ev.SessionID, dead: parent.dead}
	if ev.TargetInfo == nil || ev.TargetInfo.Type != "iframe" {
		post(child, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		return
	}
	id := cdp.FrameID(ev.TargetInfo.TargetID)
	p.mu.Lock()
	if f := p.frameLocked(id, ev.TargetInfo.ParentFrameID, child); f != nil {
		f.session, f.world = child, 0
	}
	p.mu.Unlock()
	parent.link.handle(child.id, func(method string, params jsonv2.Value) { p.event(child, method, params) })
	p.enable(child)
	post(child, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	ask(child, chromepage.GetFrameTree, cdp.Empty{}, func(r chromepage.GetFrameTreeResult) {
		if r.FrameTree == nil || r.FrameTree.Frame == nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if f := p.frames[id]; f != nil && f.session == child && f.url == "" {
			f.url = r.FrameTree.Frame.URL
		}
	})
}

// frameEvent follows the frames of a page and how far they are.
func (p *page) frameEvent(s session, method string, params jsonv2.Value) {
	if !strings.HasPrefix(method, "Page.") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case chromepage.FrameAttached.Method:
		if ev, ok := decode[chromepage.EventFrameAttached](s.link, params); ok {
			p.frameLocked(ev.FrameID, ev.ParentFrameID, s)
		}
	case chromepage.FrameDetached.Method:
		// "swap" means that the frame moves to a process of its own.
		if ev, ok := decode[chromepage.EventFrameDetached](s.link, params); ok && ev.Reason != chromepage.FrameDetachedReasonSwap {
			p.dropFrameLocked(ev.FrameID)
		}
	case chromepage.FrameNavigated.Method:
		if ev, ok := decode[chromepage.EventFrameNavigated](s.link, params); ok && ev.Frame != nil {
			p.committedLocked(s, ev.Frame)
		}
	case chromepage.NavigatedWithinDocument.Method:
		ev, ok := decode[chromepage.EventNavigatedWithinDocument](s.link, params)
		if f := p.frames[ev.FrameID]; ok && f != nil && f.url != ev.URL {
			f.url = ev.URL
			if ev.FrameID == p.top {
				p.navigation++
				p.refs = nil
			}
		}
	case chromepage.FrameRequestedNavigation.Method:
		if ev, ok := decode[chromepage.EventFrameRequestedNavigation](s.link, params); ok && ev.FrameID == p.top {
			p.stirs++
		}
	case chromepage.FrameStartedLoading.Method:
		if ev, ok := decode[chromepage.EventFrameStartedLoading](s.link, params); ok && ev.FrameID == p.top {
			p.loading = true
			p.stirs++
		}
	case chromepage.FrameStoppedLoading.Method:
		if ev, ok := decode[chromepage.EventFrameStoppedLoading](s.link, params); ok && ev.FrameID == p.top {
			p.loading = false
		}
	case chromepage.LoadEventFired.Method:
		if s.id == p.main.id {
			p.loaded = true
		}
	default:
		return
	}
	p.touchLocked()
}

// committedLocked takes a new document of a frame.
func (p *page) committedLocked(s session, doc *cdp.Frame) {
	if doc.ParentID == "" && s.id == p.main.id {
		p.top = doc.ID
		for id := range p.frames {
			if id != doc.ID {
				delete(p.frames, id)
			}
		}
		p.navigation++
		p.refs, p.loaded, p.slow, p.title = nil, false, false, ""
		p.loader = string(doc.LoaderID)
		p.leave = false
	}
	f := p.frameLocked(doc.ID, doc.ParentID, s)
	if f == nil {
		return
	}
	f.session, f.url, f.world = s, doc.URL+doc.URLFragment, 0
}
