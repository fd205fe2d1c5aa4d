package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"lomi/broker/catalog/browser"
	"lomi/broker/control"
)

func (v *view) part(nodes, bytes int, cursor string) (*browser.Snapshot, error) {
	v.t.Helper()
	res, err := v.rig.do(v.t, &browser.SnapshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, MaxNodes: nodes, MaxBytes: bytes, Cursor: cursor})
	if err != nil {
		return nil, err
	}
	return res.Data.(*browser.Snapshot), nil
}

func TestWhatASnapshotShows(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`<title>All</title>
		<header><nav aria-label=Main><a href=/a>Home</a> <a href=/b><img alt=Logo src=x></a></nav></header>
		<main><h1>Big <em>news</em></h1><p>Some <b>bold</b> text.</p><h2><a href=/c>Linked head</a></h2>
		<label for=mail>Mail</label><input id=mail type=email value=ann@example.org>
		<input type=password aria-label=Password value=hunter2><input type=hidden value=hid><input name=api_key aria-label=Key value=sk-123>
		<input autocomplete=cc-number aria-label=Card value=4111>
		<select aria-label=Pick><option>one<option selected>two</select><textarea aria-label=Area>long</textarea>
		<button aria-expanded=false>Menu</button><details><summary>More</summary>secret inside</details>
		<div role=button tabindex=0 aria-pressed=true>Bold</div><div onclick=x() style="cursor:pointer">Card <b>click</b></div>
		<div style="display:none">gone <button>gone</button></div><div style="visibility:hidden"><button>gone2</button></div>
		<div aria-hidden=true>gone3</div><p hidden>gone4</p><div style="display:contents"><button>Boxless</button></div>
		<label class=sw><input type=checkbox style="display:none" checked>Switch</label>
		<table><tr><th>Item</th><th>Price</th></tr><tr><td>Tea</td><td>3</td></tr></table>
		<my-box></my-box><img alt="A cat" src=x><svg aria-label=Chart width=10 height=10></svg></main>
		<script>const s=document.querySelector('my-box').attachShadow({mode:'open'});s.innerHTML='<button>In shadow</button><slot></slot>'</script>`)})
	v := r.visit(t, srv.URL)
	s := v.look()
	text := list(s)
	for _, want := range []string{
		`[] banner ""`, `[] navigation "Main"`, `link "Home"`, `link "Logo"`, `[] heading "Big news"`, `[] text "Some bold text."`, `heading "Linked head"`, `link "Linked head"`,
		`textbox "Mail" = "ann@example.org"`, `combobox "Pick" = "two"`, `textbox "Area" = "long"`, `button "Menu"`, `button "More"`,
		`button "Bold" checked=true`, `clickable "Card click"`, `button "Boxless"`, `checkbox "Switch" checked=true`, `text "Item | Price"`, `text "Tea | 3"`,
		`button "In shadow"`, `img "A cat"`, `img "Chart"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
	for _, never := range []string{"hunter2", "sk-123", "4111", "gone", "secret inside", `"hid"`} {
		if strings.Contains(fmt.Sprint(text), never) {
			t.Errorf("%q is shown in:\n%s", never, text)
		}
	}
	for _, n := range s.Elements {
		if n.Name == "Password" && (n.ValueLength != nil || n.Value != nil) {
			t.Error("the length of a password is told")
		}
	}
	if _, err := v.click("button", "In shadow"); err != nil {
		t.Errorf("a button in a shadow root: %v", err)
	}
}

// bugs 49: a page with thousands of links is cut and can be read on; references of
// earlier parts stay good.
func TestPaging(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, q *http.Request) {
		var b strings.Builder
		for i := range 5_000 {
			fmt.Fprintf(&b, "<li><a href='#%d'>Link number %d</a>", i, i)
		}
		html("<title>Links</title><ul>"+b.String())(w, q)
	}})
	v := r.visit(t, srv.URL)
	first, err := v.part(100, 16384, "")
	if err != nil {
		t.Fatal(err)
	}
	if !first.Truncated || len(first.Elements) > 100 || size(t, first) > 16384 {
		t.Fatalf("truncated %v, %d elements, %d bytes", first.Truncated, len(first.Elements), size(t, first))
	}
	// What a model reads of it: the short form's "[12] link "Name"".
	if perElement := len(list(first)) / len(first.Elements) / 3; perElement > 14 {
		t.Errorf("%d tokens an element", perElement)
	}
	next, err := v.part(500, 49152, first.NextCursor)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Link number %d", len(first.Elements))
	if next.SnapshotID != first.SnapshotID || next.Elements[0].Name != want || next.Elements[0].ElementRef == first.Elements[0].ElementRef {
		t.Errorf("the second part begins with %+v, want %s", next.Elements[0], want)
	}
	if _, err := v.part(500, 49152, first.NextCursor); err == nil {
		t.Error("a used cursor was taken again")
	}
	v.snap, v.nav = first, first.NavigationID
	if _, err := v.click("link", "Link number 1"); err != nil {
		t.Errorf("an element of the first part: %v", err)
	}
	_, err = v.part(10, 4096, next.NextCursor)
	wantCode(t, err, control.CursorExpired, "") // the address has changed
}

// F-76, bugs 51: pages made to be too much.
func TestHugePages(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/flat": html(`<title>flat</title><body><script>const f=document.createDocumentFragment();for(let i=0;i<5e4;i++){const e=document.createElement('i');e.title='t'+i;f.append(e)}document.body.append(f)</script>`),
		"/deep": html(`<title>deep</title><body><script>let e=document.body;for(let i=0;i<1e3;i++){const n=document.createElement('div');e.append(n);e=n}e.textContent='bottom'</script>`),
		"/text": html(`<title>text</title><body><script>document.body.textContent='word '.repeat(3e5)</script>`),
		// Each box looks for something clickable in all that is in it, in vain.
		"/wide":   html(`<title>wide</title><style>div{content-visibility:auto}</style><body><p>first</p><script>let e=document.body;for(let i=0;i<200;i++){const n=document.createElement('div');n.setAttribute('onclick','0');for(let j=0;j<100;j++)n.append(document.createElement('b'));e.append(n);e=n}</script>`),
		"/frames": html(`<title>frames</title><body><script>for(let i=0;i<60;i++)document.body.append(document.createElement('iframe'))</script><button>after</button>`),
	})
	v := r.visit(t, srv.URL+"/flat")
	for _, path := range []string{"/flat", "/deep", "/text", "/frames", "/wide"} {
		if path != "/flat" {
			if _, err := v.navigate(srv.URL+path, ""); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		s, err := v.part(500, 49152, "")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if n := size(t, s); n > 49152 || len(s.Elements) > 500 {
			t.Errorf("%s: %d bytes, %d elements", path, n, len(s.Elements))
		}
		if path == "/wide" && len(s.Elements) == 0 {
			t.Errorf("%s: nothing of what was read in time", path)
		}
		if path != "/frames" && path != "/deep" && !s.Truncated {
			t.Errorf("%s: not told that it was cut", path)
		}
		if path == "/frames" && s.OmittedFrames == 0 {
			t.Errorf("no frame was left out")
		}
	}
}

// F-76: a page too deep for Chromium may end its renderer, whoever looks; that
// is said, and the next address brings the panel back.
func TestAbyss(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{
		"/":      html("<title>fine</title>"),
		"/abyss": html(`<title>abyss</title><body><script>let e=document.body;for(let i=0;i<5e3;i++){const n=document.createElement('div');e.append(n);e=n}e.textContent='bottom'</script>`),
	})
	v := r.visit(t, srv.URL)
	_, err := v.navigate(srv.URL+"/abyss", "")
	if err == nil {
		_, err = v.part(100, 16384, "")
	}
	if err != nil {
		e, ok := control.AsError(err)
		if !ok || !strings.Contains(e.Message, "the page crashed; navigate") {
			t.Errorf("got %v", err)
		}
	}
	if n, err := v.navigate(srv.URL, ""); err != nil || n.Title != "fine" {
		t.Fatalf("after the abyss: %+v %v", n, err)
	}
	v.look()
}

func TestScreenshots(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`<title>shot</title><canvas id=c width=1280 height=800></canvas><script>
		const x=c.getContext('2d'),d=x.createImageData(1280,800);for(let i=0;i<d.data.length;i++)d.data[i]=Math.random()*256;x.putImageData(d,0,0)</script>`)})
	v := r.visit(t, srv.URL)
	v.look()
	shoot := func(width, most int) (*browser.ScreenshotRequest, error) {
		q := &browser.ScreenshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, NavigationID: v.nav, MaxWidth: width, MaxBytes: most}
		res, err := r.do(t, q)
		if err != nil {
			return q, err
		}
		img, err := png.DecodeConfig(bytes.NewReader(res.Image.Data))
		if err != nil {
			t.Fatal(err)
		}
		if img.Width > width || len(res.Image.Data) > most || img.Width < width/4 {
			t.Errorf("asked for %d wide in %d bytes, got %d wide in %d", width, most, img.Width, len(res.Image.Data))
		}
		return q, nil
	}
	for _, c := range []struct{ width, bytes int }{{1280, 3 << 20}, {640, 3 << 20}, {1280, 400 << 10}} {
		if _, err := shoot(c.width, c.bytes); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	v.nav = "old"
	_, err := shoot(100, 1<<20)
	wantCode(t, err, control.StaleSnapshot, "")
}

func TestWaitAndLogs(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`<title>w</title><p id=p></p><script>
		console.log('hello', 42, {a: 1}, '漢'.repeat(400)); setTimeout(() => { throw new Error('boom') }); Promise.reject(new Error('nope'));
		setTimeout(() => { p.textContent = 'Order saved'; document.body.insertAdjacentHTML('beforeend', '<button>Pay</button>') }, 400)</script>`)})
	v := r.visit(t, srv.URL)
	wait := func(c browser.Condition, ms int) *browser.Waited {
		res, err := r.do(t, &browser.WaitRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, Condition: c, TimeoutMS: ms})
		if err != nil {
			t.Fatal(err)
		}
		return res.Data.(*browser.Waited)
	}
	for _, c := range []browser.Condition{{Type: "text", Text: "Order saved"}, {Type: "element", Role: "button", Name: "Pay"}, {Type: "load"}, {Type: "url", URL: srv.URL + "/"}} {
		if w := wait(c, 10000); !w.Matched || len(w.Snapshot.Elements) == 0 {
			t.Errorf("%+v: %+v", c, w)
		}
	}
	if w := wait(browser.Condition{Type: "text", Text: "never"}, 150); w.Matched {
		t.Error("matched what is not there")
	}
	for kind, words := range map[string]string{logConsole: "hello 42 Object 漢", logError: "Error: boom", logRejection: "Error: nope"} {
		res, err := r.do(t, &browser.LogsRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, LogKind: kind, Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		l := res.Data.(*browser.Logs)
		if len(l.Entries) != 1 || !strings.Contains(l.Entries[0].Message, words) || len([]rune(l.Entries[0].Message)) > maxMessage {
			t.Errorf("%s: %+v, want %q", kind, l.Entries, words)
		}
		if _, err := r.do(t, &browser.LogsRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, LogKind: kind, Limit: 50, Cursor: "x:1"}); err == nil {
			t.Error("a foreign cursor was taken")
		}
	}
}

func TestRing(t *testing.T) {
	r := newRings()[logConsole]
	for i := range 100 {
		r.add("log", fmt.Sprint(i))
	}
	lines, dropped, more := r.after(10, 5)
	if dropped != 26 || !more || len(lines) != 5 || lines[0].message != "36" {
		t.Errorf("got %d dropped, more %v, %+v", dropped, more, lines)
	}
}

// bugs 57: messages of several megabytes do not cut the link.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	r := common(t)
	srv := r.site(t, map[string]http.HandlerFunc{"/": html(`<title>x</title><p>small</p>`)})
	v := r.visit(t, srv.URL)
	v.look()
	p := r.page(v.panel.PanelID)
	big := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	if got, err := run[aimed](t.Context(), p, p.frameNamed("main"), "has", big); err != nil || got.Same {
		t.Errorf("got %+v %v", got, err)
	}
	if s := v.look(); !strings.Contains(list(s), "small") {
		t.Errorf("after a large message: %s", list(s))
	}
}

func BenchmarkSnapshot(b *testing.B) {
	r := common(b)
	srv := r.site(b, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, q *http.Request) {
		var s strings.Builder
		for i := range 1000 { // five nodes each, text not counted
			fmt.Fprintf(&s, "<div class=row><h3>Row %d</h3><p>Some words about it</p><a href='/%d'>Open</a><button>Do %d</button></div>", i, i, i)
		}
		html("<title>rows</title><main>"+s.String())(w, q)
	}})
	v := r.visit(b, srv.URL)
	for b.Loop() {
		if _, err := v.part(100, 16384, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScreenshot(b *testing.B) {
	r := common(b)
	srv := r.site(b, map[string]http.HandlerFunc{"/": html("<title>x</title><h1>Hello</h1>" + strings.Repeat("<p>Some words about it</p>", 100))})
	v := r.visit(b, srv.URL)
	v.look()
	for b.Loop() {
		if _, err := r.do(b, &browser.ScreenshotRequest{Scoped: control.Scoped{WorkspaceID: testWorkspace}, Panel: v.panel, NavigationID: v.nav, MaxWidth: 1280, MaxBytes: 3 << 20}); err != nil {
			b.Fatal(err)
		}
	}
}
