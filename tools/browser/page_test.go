package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

func TestFormIsSubmittedOnce(t *testing.T) {
	t.Parallel()
	r := common(t)
	var mu sync.Mutex
	var got []string
	srv := r.site(t, map[string]http.HandlerFunc{
		"/": html(`<title>Order</title><h1>Order</h1><form action=/send method=post>
			<label>Name <input name=who></label>
			<label>Country <select name=c><option value=de>Germany<option value=no>Norway</select></label>
			<label>When <input type=date name=d></label>
			<label><input type=checkbox name=ok> I agree</label>
			<label><input type=radio name=size value=s checked> Small</label>
			<label><input type=radio name=size value=l> Large</label>
			<div contenteditable role=textbox aria-label=Note>old</div><input type=hidden name=note>
			<button onclick="this.form.note.value=document.querySelector('[role=textbox]').innerText">Send it</button></form>`),
		"/send": func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			got = append(got, strings.Join([]string{q.FormValue("who"), q.FormValue("c"), q.FormValue("d"), q.FormValue("ok"), q.FormValue("size"), q.FormValue("note")}, "|"))
			mu.Unlock()
			html("<title>Thanks</title><p>Thanks!")(w, q)
		},
	})
	v := r.visit(t, srv.URL+"/")
	v.look()
	for _, step := range []struct{ role, name, text, mode string }{
		{"textbox", "Name", "first", modeTrusted},
		{"textbox", "Name", "Zoë 漢字 🙂", modeTrusted}, // replaces
		{"combobox", "Country", "norway", modeSynthetic},
		{"textbox", "When", "2026-01-31", modeSynthetic},
		{"checkbox", "I agree", "true", modeTrusted},
		{"checkbox", "I agree", "true", modeTrusted}, // stays
		{"radio", "Large", "true", modeTrusted},
		{"textbox", "Note", "wörld", modeTrusted},
	} {
		did, err := v.fill(step.role, step.name, step.text)
		if err != nil {
			t.Fatalf("filling %s: %v", step.name, err)
		}
		if did.InputMode != step.mode || len(did.Notes) > 0 {
			t.Errorf("filling %s: mode %q notes %q, want %q and none", step.name, did.InputMode, did.Notes, step.mode)
		}
	}
	did, err := v.click("button", "Send it")
	if err != nil {
		t.Fatal(err)
	}
	if did.DefaultAction != "submit" || !did.Dispatched {
		t.Errorf("got %+v, want a dispatched submit", did)
	}
	if s := v.look(); s.Title != "Thanks" || !strings.Contains(list(s), "Thanks!") {
		t.Errorf("title %q, want Thanks\n%s", s.Title, list(s))
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "Zoë 漢字 🙂|no|2026-01-31|on|l|wörld"; len(got) != 1 || got[0] != want {
		t.Errorf("server got %q, want exactly %q", got, want)
	}
}

func TestFieldsThatRefuse(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`
		<input aria-label=fixed readonly value=x><button disabled>Off</button><input type=file aria-label=File>
		<a href=/f download>Get</a><select aria-label=Pick><option>one<option disabled>two</select>
		<input type=number aria-label=Number><div role=button tabindex=0>Div</div>
		<input aria-label=Short maxlength=3>
		<div style="position:relative"><button id=under>Under</button><div id=veil aria-label="Cookie wall" style="position:absolute;inset:0;background:#eee"></div></div>`)})
	v := r.visit(t, srv.URL)
	v.look()
	for _, c := range []struct {
		role, name, text string
		code             control.Code
		words            string
	}{
		{"textbox", "fixed", "y", control.TargetBusy, "read-only"},
		{"button", "Off", "", control.TargetBusy, "disabled"},
		{"file", "File", "", control.UnsupportedCapability, "upload"},
		{"link", "Get", "", control.UnsupportedCapability, "download"},
		{"combobox", "Pick", "three", control.TargetNotFound, "From the page:\none, two"},
		{"combobox", "Pick", "two", control.TargetBusy, "disabled"},
		{"button", "Div", "text", control.UnsupportedCapability, "takes no text"},
		{"button", "Under", "", control.TargetBusy, "covered by another one\nFrom the page:\ndiv \"Cookie wall\""},
	} {
		var err error
		if c.text == "" {
			_, err = v.click(c.role, c.name)
		} else {
			_, err = v.fill(c.role, c.name, c.text)
		}
		wantCode(t, err, c.code, c.words)
		if e, _ := control.AsError(err); e.Effect != control.EffectNone {
			t.Errorf("%s: effect %s, want none", c.name, e.Effect)
		}
	}
	did, err := v.fill("textbox", "Short", "abcdef")
	if err != nil {
		t.Fatal(err)
	}
	wantNote(t, did.Notes, "changed the text")
}

func TestHistoryAndSinglePageApps(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/":    html(`<title>One</title><a href=/two>next</a>`),
		"/two": html(`<title>Two</title><button onclick="history.pushState(0,'','/three');document.title='Three';p.textContent='third'">go</button><p id=p>second`),
	})
	v := r.visit(t, srv.URL+"/")
	first := v.panel
	v.look()
	if _, err := v.click("link", "next"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "Two" {
		t.Fatalf("title %q, want Two", s.Title)
	}
	before := v.nav
	stale := v.element(v.ref("button", "go"))
	if _, err := v.click("button", "go"); err != nil {
		t.Fatal(err)
	}
	s := v.look()
	if s.Title != "Three" || !strings.HasSuffix(s.URL, "/three") || v.nav == before || !strings.Contains(list(s), "third") {
		t.Errorf("after pushState: %q %q %s", s.Title, s.URL, list(s))
	}
	_, err := v.interact(&browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: stale})
	wantCode(t, err, control.StaleSnapshot, "")
	for _, step := range []struct{ history, title string }{{"back", "Two"}, {"back", "One"}, {"forward", "Two"}, {"reload", "Two"}} {
		n, err := v.navigate("", step.history)
		if err != nil {
			t.Fatalf("%s: %v", step.history, err)
		}
		// Chromium keeps the title that a document had when it was left.
		if !n.Committed || !n.Loaded || (n.Title != step.title && n.Title != "Three") {
			t.Errorf("%s: got %+v, want %s", step.history, n, step.title)
		}
	}
	if v.panel != first {
		t.Errorf("panel %v, want the same %v", v.panel, first)
	}
	if _, err := v.navigate(srv.URL+"/", ""); err != nil {
		t.Fatal(err)
	}
	_, err = v.navigate("", "forward")
	wantCode(t, err, control.TargetNotFound, "no page to go forward")
}

func TestFrames(t *testing.T) {
	t.Parallel()
	r := common(t)
	clicked := make(chan string, 8)
	inner := `<button onclick="fetch('/hit?%s')">Inner %s</button><input aria-label="Field %s">`
	hit := func(_ http.ResponseWriter, q *http.Request) { clicked <- q.URL.RawQuery }
	other := r.site(t, map[string]http.HandlerFunc{"/": html(fmt.Sprintf(inner, "other", "other", "other")), "/hit": hit})
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // another site: a process of its own
	r.grant(elsewhere)
	hidden := httptest.NewServer(html("<button>Never shown</button>"))
	defer hidden.Close()
	srv := r.site(t, map[string]http.HandlerFunc{
		"/same": html(fmt.Sprintf(inner, "same", "same", "same")), "/hit": hit,
		"/": func(w http.ResponseWriter, q *http.Request) {
			html(`<h2>Frames</h2><p style="height:1500px">tall<iframe src=/same title=Same></iframe><br>
				<iframe src="`+other.URL+`"></iframe><iframe style="border:7px solid;padding:3px" src="`+elsewhere+`"></iframe>
				<iframe src="`+hidden.URL+`"></iframe><iframe srcdoc="<button>Written</button>"></iframe>`)(w, q)
		},
	})
	v := r.visit(t, srv.URL)
	s := v.look()
	text := list(s)
	if strings.Contains(text, "Never shown") || s.OmittedFrames != 1 {
		t.Errorf("omitted %d frames, want 1:\n%s", s.OmittedFrames, text)
	}
	if !strings.Contains(text, `"Written"`) || strings.Count(text, `"Inner other"`) != 2 {
		t.Errorf("frames are missing in:\n%s", text)
	}
	var refs []string
	for _, n := range s.Elements {
		if strings.HasPrefix(n.Name, "Inner") {
			refs = append(refs, n.ElementRef)
		}
		if strings.HasPrefix(n.Name, "Field") {
			did, err := v.interact(&browser.FillRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(n.ElementRef), Text: "hello"})
			if err != nil || did.ValueLength == nil || *did.ValueLength != 5 {
				t.Errorf("filling %s in %s: %+v %v", n.Name, n.FrameID, did, err)
			}
		}
	}
	for _, ref := range refs {
		if _, err := v.interact(&browser.ClickRequest{Keyed: v.keyed(), Panel: v.panel, Element: v.element(ref)}); err != nil {
			t.Errorf("clicking %s: %v", ref, err)
			continue
		}
		receive(t, clicked)
	}
}

func TestMovingTarget(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`
		<style>@keyframes m{from{margin-left:0}to{margin-left:600px}} #run{animation:m 1s linear infinite alternate}
		#dodge{position:absolute;top:200px;left:10px}</style>
		<button id=run>Runner</button>
		<button id=dodge onmouseover="this.style.left='900px'" onclick="document.title='caught'">Dodger</button>
		<div style="height:3000px"></div><button onclick="document.title='deep'">Deep</button>`)})
	v := r.visit(t, srv.URL)
	v.look()
	_, err := v.click("button", "Runner")
	wantCode(t, err, control.TargetBusy, "keeps moving")
	_, err = v.click("button", "Dodger")
	wantCode(t, err, control.TargetBusy, "covered by")
	if s := v.look(); s.Title == "caught" {
		t.Error("a button that moved away was clicked")
	}
	if _, err := v.click("button", "Deep"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "deep" {
		t.Errorf("title %q, want deep", s.Title)
	}
}

func TestKeysAndScrolling(t *testing.T) {
	t.Parallel()
	r := common(t)
	var sent atomic.Int32
	srv := r.site(t, map[string]http.HandlerFunc{
		"/": html(`<form action=/go><input name=q aria-label=Search></form><div id=k tabindex=0 role=listbox aria-label=Keys onkeydown="document.title+=event.key+event.isTrusted"></div>
			<div id=box tabindex=0 role=textbox aria-label=Box style="height:100px;overflow:auto"><p style="height:900px">x</div><p style="height:4000px">y`),
		"/go": func(w http.ResponseWriter, q *http.Request) { sent.Add(1); html("<title>went</title>")(w, q) },
	})
	v := r.visit(t, srv.URL)
	v.look()
	for _, key := range []string{"ArrowDown", "Escape", "Home"} {
		if _, err := v.key(v.ref("listbox", "Keys"), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.key("focused", "End"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "ArrowDowntrueEscapetrueHometrueEndtrue" {
		t.Errorf("keys gave %q", s.Title)
	}
	scroll := func(ref string) browser.ScrollPosition {
		did, err := v.interact(&browser.ScrollRequest{Keyed: v.keyed(), Panel: v.panel, NavigationID: v.nav, SnapshotID: v.snap.SnapshotID, ViewportRef: ref, DeltaY: 300})
		if err != nil {
			t.Fatal(err)
		}
		return *did.ScrollPosition
	}
	if at := scroll(v.ref("textbox", "Box")); at.Y != 300 {
		t.Errorf("box at %v, want 300", at)
	}
	if at := scroll("viewport"); at.Y != 300 {
		t.Errorf("page at %v, want 300", at)
	}
	if _, err := v.fill("textbox", "Search", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.key(v.ref("textbox", "Search"), "Enter"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "went" || sent.Load() != 1 {
		t.Errorf("Enter: title %q, %d requests", s.Title, sent.Load())
	}
}
