package browser

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"lomi/broker"
	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

// What a page says of its elements decides nothing about whether a person is
// asked: only tag, type and address do.
func TestRiskIsNotWhatThePageSays(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`<title>risk</title><form>
		<button role=tab>tab</button><button role=checkbox>check</button><button role=link>link</button><button role="option textbox">opt</button>
		<input type=submit role=textbox value=submit><input type=image role=textbox alt=image><input type=button role=radio value=plainbutton>
		<div role=textbox tabindex=0 aria-label=div>x</div><span role=link tabindex=0>span</span><summary role=tab>summary</summary>
		<a href="javascript:pay()">script</a><a href="#pay">hash</a><a href="" role=link>empty</a><a role=link tabindex=0>nowhere</a>
		<a href=/x><b role=none><my-pay>inner</my-pay></b></a><a href=/y aria-label=nested id=nest>y</a>
		<a href=/real>real</a><input aria-label=text><input type=checkbox role=button aria-label=box><textarea aria-label=area></textarea>
		<select aria-label=pick role=button><option>a</select><input type=range role=menuitem aria-label=range>
		<label><input type=checkbox style="display:none">drawn</label><label><input type=checkbox style="display:none"><button>Pay</button>tricked</label>
		<input aria-label=turncoat id=turncoat></form>
		<script>nest.append(document.createElement('button')); nest.lastChild.textContent='Pay'</script>`)})
	v := r.visit(t, srv.URL)
	s := v.look()
	none := map[string]bool{"real": true, "text": true, "box": true, "area": true, "pick": true, "range": true, "drawn": true, "turncoat": true}
	asks := []string{"tab", "check", "link", "opt", "submit", "image", "plainbutton", "div", "span", "summary", "script", "hash", "empty", "nowhere", "inner", "nested"}
	found := map[string]broker.Target{}
	for _, n := range s.Elements {
		if n.ElementRef == "" {
			continue
		}
		target, err := r.Resolve(context.Background(), broker.Call{Session: "alice",
			Request: &browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(n.ElementRef)}})
		if err != nil {
			t.Fatal(err)
		}
		found[n.Name] = target
		if want := none[n.Name]; (target.Risk == unasked) != want {
			t.Errorf("%s %q: risk %q, want unasked %v", n.Role, n.Name, target.Risk, want)
		}
		key, err := r.Resolve(context.Background(), broker.Call{Session: "alice",
			Request: &browser.KeyRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(n.ElementRef), Key: "Enter"}})
		if err != nil || key.Risk != "" {
			t.Errorf("Enter in %q: risk %q %v", n.Name, key.Risk, err)
		}
	}
	for _, name := range append(asks, "real", "text", "box", "area", "pick", "range", "drawn") {
		if _, ok := found[name]; !ok {
			t.Errorf("%q is missing in:\n%s", name, list(s))
		}
	}
	if got := found["tab"].Summary; !strings.HasPrefix(got, `Click button "tab"`) {
		t.Errorf("a person reads %q", got)
	}

	// One that turns into a button after nobody was asked is not used.
	call := broker.Call{Session: "alice", Request: &browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(v.ref("textbox", "turncoat"))}}
	target, err := r.Resolve(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	p := r.page(v.panel.PanelID)
	evaluate(t, p, "turncoat.type='submit'")
	_, err = r.Do(context.Background(), broker.NewPermit(func() error { return nil }, nil), call, target)
	wantCode(t, err, control.StaleSnapshot, "another kind")
}
