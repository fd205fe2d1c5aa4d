package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	chromepage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"lomi/broker/control"
)

const (
	// loadBound is how long a navigation is waited for; then the answer says
	// how far it came.
	loadBound = 12 * time.Second
	// settleBound is how long after an action a navigation that it started is
	// waited for.
	settleBound = 3 * time.Second
	// stirBound is how soon after an action its navigation must show.
	stirBound = 120 * time.Millisecond
	// pingBound tells a busy page from a browser that answers nothing.
	pingBound = time.Second
)

// starter is asked right before the first byte that can have an effect:
// Permit.Start, or Permit.Check where the effect began earlier.
type starter func() error

// byPerson is the starter of a person, whose right to act nobody takes back.
func byPerson() error { return nil }

// downloadRefused is said of an address that is a download.
const downloadRefused = "the address is a download, which is refused here"

// arrival is how far a navigation came.
type arrival struct {
	committed, loaded bool
}

// goTo loads an address. It answers at the deadline with what there is: a page
// that never ends loading is a page all the same.
func (p *page) goTo(ctx context.Context, begin starter, url, until string) (arrival, error) {
	return p.travel(ctx, begin, until, func(ctx context.Context) (string, error) {
		res, err := cdp.Call(ctx, p.main, chromepage.Navigate, chromepage.NavigateParams{URL: url})
		switch {
		case err != nil:
			return "", err
		case res.IsDownload:
			return "", partial(control.Errorf(control.UnsupportedCapability, downloadRefused))
		case res.ErrorText != "":
			return "", navigationError(res.ErrorText)
		}
		return string(res.LoaderID), nil
	})
}

// navigationError turns Chromium's words into ours. The page shows Chromium's
// error page then, so something has changed.
func navigationError(text string) *control.Error {
	e := control.Errorf(control.DeadlineExceeded, "the page did not load: %s", strings.TrimPrefix(text, "net::"))
	e.Effect = control.EffectPartial
	return e
}

// step goes back or forward in the history, or loads the page again.
func (p *page) step(ctx context.Context, begin starter, history, until string) (arrival, error) {
	if history == "reload" {
		return p.travel(ctx, begin, until, func(ctx context.Context) (string, error) {
			_, err := cdp.Call(ctx, p.main, chromepage.Reload, chromepage.ReloadParams{})
			return "", err
		})
	}
	entry, err := p.historyEntry(ctx, history)
	if err != nil {
		return arrival{}, err
	}
	p.mu.Lock()
	personal := p.personal
	p.mu.Unlock()
	if why := p.b.verdict(p.owner, entry.URL, personal); why != "" {
		return arrival{}, control.Errorf(control.ScopeDenied, "that page of the history cannot be opened: %s", why)
	}
	return p.travel(ctx, begin, until, func(ctx context.Context) (string, error) {
		_, err := cdp.Call(ctx, p.main, chromepage.NavigateToHistoryEntry, chromepage.NavigateToHistoryEntryParams{EntryID: entry.ID})
		return "", err
	})
}

func (p *page) historyEntry(ctx context.Context, history string) (*chromepage.NavigationEntry, error) {
	h, err := cdp.Call(ctx, p.main, chromepage.GetNavigationHistory, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	i := int(h.CurrentIndex) - 1
	if history == "forward" {
		i = int(h.CurrentIndex) + 1
	}
	// The first entry is the empty page that every panel starts with.
	if i < 0 || i >= len(h.Entries) || h.Entries[i].URL == "about:blank" {
		return nil, control.Errorf(control.TargetNotFound, "there is no page to go %s to", history)
	}
	return h.Entries[i], nil
}

// travel starts a navigation and waits until it came as far as wanted, is
// refused, or time is up. start returns the loader of the new document, ""
// when Chromium does not say.
func (p *page) travel(ctx context.Context, begin starter, until string, start func(context.Context) (string, error)) (arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, loadBound)
	defer cancel()
	p.mu.Lock()
	before := p.navigation
	p.refused, p.leaving, p.sent = "", true, 0
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.leaving = false
		p.mu.Unlock()
	}()
	defer p.stopIfWithdrawn(ctx)
	loader, err := p.startTravel(ctx, begin, start)
	if err != nil {
		return arrival{}, err
	}
	var got arrival
	err = p.await(ctx, func() bool {
		if p.refused != "" {
			return true
		}
		got.committed = p.navigation != before && (loader == "" || p.loader == loader)
		got.loaded = got.committed && (p.loaded || !p.loading && loader == "" && p.loader != "")
		if until == "commit" {
			return got.committed
		}
		return got.loaded
	})
	if refused := p.refusal(); refused != nil {
		return arrival{}, refused
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return p.giveUp(got), nil
	}
	return got, err
}

// stopIfWithdrawn stops what still loads for a caller who may load no more.
func (p *page) stopIfWithdrawn(ctx context.Context) {
	if withdrawn(ctx) != nil {
		post(p.main, chromepage.StopLoading, cdp.Empty{})
	}
}

// startTravel runs start, and stops waiting for its answer when the guard has
// refused what it asked for.
func (p *page) startTravel(ctx context.Context, begin starter, start func(context.Context) (string, error)) (string, error) {
	p.unblock(ctx)
	if err := begin(); err != nil {
		return "", err
	}
	loader, err := start(ctx)
	if refused := p.refusal(); refused != nil {
		return "", refused
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "", nil // no answer from the site yet: await reports how far it is
	}
	return loader, err
}

// refusal says why a navigation was stopped. One of which no request was let
// pass has no effect; behind a redirect or a download there was a request.
func (p *page) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == "" {
		return nil
	}
	err := control.Errorf(control.UnsupportedCapability, "%s", p.refused)
	switch {
	case strings.Contains(p.refused, string(control.ScopeDenied)):
		err = control.Errorf(control.ScopeDenied, "%s", strings.Replace(p.refused, "SCOPE_DENIED: ", "", 1))
	case p.leave:
		err.Code = control.TargetBusy
	}
	if p.sent > 0 {
		return partial(err)
	}
	return proven{err}
}

// giveUp settles a navigation at its deadline. One that has no document yet is
// stopped, so that it cannot replace the page in the middle of what comes next.
func (p *page) giveUp(got arrival) arrival {
	if !got.committed {
		post(p.main, chromepage.StopLoading, cdp.Empty{})
		p.note("the site did not answer in time; the page is as it was")
		return got
	}
	p.note("the page has not finished loading; it can be used as it is")
	return got
}

// unblock ends a script that keeps the page from answering, since a page that
// is being left has no use for it and a new one may share its process.
func (p *page) unblock(ctx context.Context) {
	ping, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	_, err := cdp.Call(ping, p.main, runtime.Evaluate, runtime.EvaluateParams{Expression: "1"})
	if errors.Is(err, context.DeadlineExceeded) {
		post(p.main, runtime.TerminateExecution, cdp.Empty{})
	}
}

// moment is where a page stood before an action.
type moment struct{ navigation, stirs int }

// moment begins an action: what was refused before is not its doing.
func (p *page) moment() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = ""
	return moment{p.navigation, p.stirs}
}

// settle waits, after an action, for the navigation that it may have started.
// The page is asked something first: what the action queued in it has run
// when the answer comes, also on a machine that is busy. It fails only when
// the right to act has ended meanwhile: then nothing more is to load, and how
// far the action came nobody knows.
func (p *page) settle(ctx context.Context, before moment) error {
	p.settled(ctx, before)
	p.stopIfWithdrawn(ctx)
	err := withdrawn(ctx)
	if err == nil || errors.Is(err, errCancelled) {
		return err // a wish to cancel keeps its name: Do answers it as such
	}
	return unknown(err)
}

func (p *page) settled(ctx context.Context, before moment) {
	ctx, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	if main := p.frameNamed("main"); main != nil {
		if _, err := run[aimed](ctx, p, main, "pause"); err != nil {
			p.b.cfg.Logger.Debug("page left during an action", "err", err)
		}
	}
	stir, stop := context.WithTimeout(ctx, stirBound)
	defer stop()
	if p.await(stir, func() bool { return p.stirs != before.stirs || p.navigation != before.navigation }) != nil {
		return // nothing came of it
	}
	// Between a request and its document nothing counts as loading yet.
	loads, end := context.WithTimeout(ctx, stirBound)
	defer end()
	if p.await(loads, func() bool { return p.loading || p.refused != "" || p.navigation != before.navigation }) == nil {
		p.calm(ctx)
	}
}

// calm waits until nothing is loading. Not calm by then is not wrong: what is
// read next says so.
func (p *page) calm(ctx context.Context) {
	if err := p.await(ctx, func() bool { return !p.loading }); err != nil {
		p.mu.Lock()
		p.slow = true
		p.mu.Unlock()
	}
}

// readTitle asks Chromium, not the page, so that a busy page has a title too.
func (p *page) readTitle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	h, err := cdp.Call(ctx, p.main, chromepage.GetNavigationHistory, cdp.Empty{})
	if err != nil || int(h.CurrentIndex) >= len(h.Entries) || h.CurrentIndex < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title = h.Entries[h.CurrentIndex].Title
}

// lost explains a failure: a browser that answers nothing at all is ended, so
// that the next call gets a new one.
func (p *page) lost(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		c := p.chromium()
		ping, cancel := context.WithTimeout(context.Background(), pingBound)
		defer cancel()
		if _, pingErr := cdp.Call(ping, c.root(), chrome.GetVersion, cdp.Empty{}); pingErr == nil {
			return control.Errorf(control.TargetBusy, "the page does not answer: a script or its size keeps it busy; try again, or navigate elsewhere")
		}
		c.drop()
		err = errGone
	}
	if errors.Is(err, errGone) {
		select {
		case <-p.chromium().done:
		default:
			return control.Errorf(control.PanelNotRenderable, "the page crashed; navigate to load it or another one anew")
		}
		return control.Errorf(control.PanelNotRenderable, "the browser has ended; navigate to start it again")
	}
	if _, ok := control.AsError(err); ok {
		return err
	}
	return fmt.Errorf("using a page: %w", err)
}
