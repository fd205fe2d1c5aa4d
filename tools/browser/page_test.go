package browser

import (
	"net/http"
	"sync"
	"testing"
)

func TestFormIsSubmittedOnce(t *testing.T) {
	r := own(t)
	var mu sync.Mutex
	var got []string
	srv := r.site(t, map[string]http.HandlerFunc{
		"/": html(`<title>Order</title><h1>Order</h1><form action=/send method=post>
			<label>Name <input name=who></label>
			<label>Country <select name=c><option value=de>Germany<option value=no>Norway</select></label>
			<label><input type=checkbox name=ok> I agree</label>
			<button>Send it</button></form>`),
		"/send": func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			got = append(got, q.FormValue("who")+"|"+q.FormValue("c")+"|"+q.FormValue("ok"))
			mu.Unlock()
			html("<title>Thanks</title><p>Thanks!")(w, q)
		},
	})
	v := r.visit(t, srv.URL+"/")
	t.Log(list(v.look()))
	if _, err := v.fill("textbox", "Name", "Zoë 漢字 🙂"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.fill("combobox", "Country", "Norway"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.fill("checkbox", "I agree", "true"); err != nil {
		t.Fatal(err)
	}
	t.Log(list(v.look()))
	if _, err := v.click("button", "Send it"); err != nil {
		t.Fatal(err)
	}
	if s := v.look(); s.Title != "Thanks" {
		t.Errorf("title %q, want Thanks\n%s", s.Title, list(s))
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "Zoë 漢字 🙂|no|on"; len(got) != 1 || got[0] != want {
		t.Errorf("server got %q, want exactly %q", got, want)
	}
}
