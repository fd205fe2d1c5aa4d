package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	chromepage "github.com/chromedp/cdproto/page"

	"lomi/broker"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// doWith is do with a life that may end and a wish to cancel.
func (r *rig) doWith(ctx context.Context, t testing.TB, wish <-chan struct{}, request any) (broker.Result, error) {
	t.Helper()
	call := broker.Call{Request: request, Session: "alice"}
	target, err := r.Resolve(ctx, call)
	if err != nil {
		return broker.Result{}, err
	}
	return r.Do(ctx, broker.NewPermit(func() error { return nil }, wish), call, target)
}

// What is left of a request whose caller goes away after it was sent: the
// receipt never says that nothing happened, and the page stops loading.
func TestEndedInTheMiddle(t *testing.T) {
	t.Parallel()
	r := common(t)
	arrived, left := make(chan struct{}, 1), make(chan struct{}, 1)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/": html(`<title>here</title><button onclick="location='/hold'">Go</button><form action=/hold><input aria-label=Word></form>`),
		"/half": func(w http.ResponseWriter, q *http.Request) {
			html("<title>half</title>")(w, q)
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		},
		"/hold": func(_ http.ResponseWriter, q *http.Request) {
			arrived <- struct{}{}
			<-q.Context().Done()
			left <- struct{}{}
		},
	})
	v := r.visit(t, srv.URL)
	path := "/hold"
	navigate := func() any {
		return &browser.NavigateRequest{Keyed: v.keyed(), Panel: v.panel, URL: srv.URL + path, WaitUntil: "load"}
	}
	click := func() any {
		v.look()
		return &browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref("button", "Go"))}
	}
	enter := func() any {
		v.look()
		return &browser.KeyRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref("textbox", "Word")), Key: "Enter"}
	}
	open := func() any {
		return &browser.OpenRequest{Mutation: control.Mutation{WorkspaceID: testWorkspace}, URL: srv.URL + "/hold"}
	}
	revoked := control.Errorf(control.ControlRevoked, "revoked")
	for _, c := range []struct {
		name    string
		request func() any
		cause   error // nil: a wish to cancel
		want    control.Effect
	}{
		{"a navigation is revoked", navigate, revoked, control.EffectUnknown},
		{"the daemon stops in a navigation", navigate, context.Canceled, control.EffectUnknown},
		{"a navigation is cancelled", navigate, nil, control.EffectPartial},
		{"a click is revoked", click, revoked, control.EffectUnknown},
		{"a click is cancelled", click, nil, control.EffectPartial},
		{"a key is revoked", enter, revoked, control.EffectUnknown},
		{"an opening is revoked", open, revoked, control.EffectUnknown},
		{"an opening is cancelled", open, nil, control.EffectPartial},
	} {
		ctx, end := context.WithCancelCause(context.Background())
		wish := make(chan struct{})
		request := c.request()
		go func() { // ends with the request's arrival, which receive waits for below
			<-arrived
			if c.cause == nil {
				close(wish)
			} else {
				end(c.cause)
			}
		}()
		res, err := r.doWith(ctx, t, wish, request)
		effect := res.Effect
		if e, ok := control.AsError(err); ok {
			effect = e.Effect
		} else if err != nil {
			effect = control.EffectUnknown // as the broker counts it
		}
		if effect != c.want {
			t.Errorf("%s: effect %q of %+v %v, want %s", c.name, effect, res, err, c.want)
		}
		receive(t, left)
		end(nil)
		if opened, ok := res.Data.(*browser.Opened); ok {
			if err := r.ClosePanel(context.Background(), opened.PanelID); err != nil {
				t.Error(err)
			}
		}
	}
	if s := v.look(); s.Title != "here" {
		t.Errorf("title %q", s.Title)
	}

	// The page crashes while its document comes.
	path = "/half"
	ended := make(chan error, 1)
	request := navigate()
	go func() { // ends with the crash
		_, err := r.doWith(context.Background(), t, nil, request)
		ended <- err
	}()
	p := r.page(v.panel.PanelID)
	await(t, "half the page", func() bool { return strings.HasSuffix(p.where().url, path) })
	post(p.main, chromepage.Crash, cdp.Empty{})
	err := receive(t, ended)
	wantCode(t, err, control.OutcomeUnknown, "crashed")
	if e, _ := control.AsError(err); e.Effect != control.EffectUnknown {
		t.Errorf("a crash: effect %s", e.Effect)
	}
}

// A refusal has no effect only when nothing was let pass before it.
func TestEffectOfRefusals(t *testing.T) {
	t.Parallel()
	r := common(t)
	out := httptest.NewServer(html("outside"))
	defer out.Close()
	srv := r.site(t, map[string]http.HandlerFunc{
		"/": html(`<title>here</title><a href=/two>two</a>`), "/two": html("<title>two</title>"),
		"/redirect": func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, out.URL, http.StatusFound) },
		"/file": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", "attachment; filename=x")
		},
	})
	v := r.visit(t, srv.URL)
	for _, c := range []struct {
		url, history string
		want         control.Effect
	}{
		{out.URL, "", control.EffectNone}, {"", "forward", control.EffectNone},
		{srv.URL + "/redirect", "", control.EffectPartial}, {srv.URL + "/file", "", control.EffectPartial},
	} {
		_, err := v.navigate(c.url, c.history)
		if e, ok := control.AsError(err); !ok || e.Effect != c.want {
			t.Errorf("%s%s: got %v, want effect %s", c.url, c.history, err, c.want)
		}
	}
	// The guard of the network is asked last; what it holds back never left.
	p := r.page(v.panel.PanelID)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := p.goTo(ctx, byPerson, out.URL, "load")
	if e, ok := control.AsError(err); !ok || e.Effect != control.EffectNone || !untouched(err) {
		t.Errorf("held back: %v", err)
	}
}
