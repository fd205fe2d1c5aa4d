package ollama

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
	"lomi/models/modelstest"
)

// desk is an Ollama that notes what it is asked. Its model can be unloaded
// behind the client's back; it is loaded again once a look has found it gone.
type desk struct {
	mu     sync.Mutex
	asked  []string
	window int
	gone   chan struct{} // not nil: the model is not loaded until a look closed it
}

func (d *desk) open(t *testing.T) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"capabilities":["completion","tools"],"model_info":{"general.architecture":"q","q.context_length":40960}}`)
	})
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, "ps")
		if d.gone != nil {
			close(d.gone)
			d.gone = nil
			io.WriteString(w, `{"models":[]}`)
			return
		}
		window := map[int]string{4096: "4096", 2048: "2048"}[d.window]
		io.WriteString(w, `{"models":[{"name":"m:latest","model":"m:latest","context_length":`+window+`}]}`)
	})
	mux.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked = append(d.asked, "chat")
		gone := d.gone
		d.mu.Unlock()
		if gone != nil {
			<-gone
		}
		io.WriteString(w, `{"message":{"content":"Hi"},"done":true,"done_reason":"stop"}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return newClient(t, server.URL, Limits{})
}

func (d *desk) ask(t *testing.T, c *Client, req models.Request) ([]string, modelstest.Reply) {
	t.Helper()
	d.mu.Lock()
	d.asked = nil
	d.mu.Unlock()
	got := modelstest.Collect(t.Context(), t, c, req)
	if got.Err != nil || got.Text != "Hi" {
		t.Errorf("got %q, %v", got.Text, got.Err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked, got
}

// TestWarmModelIsAskedAtOnce puts no round trip before the first token of a
// model that has just answered, and still reads the window back.
func TestWarmModelIsAskedAtOnce(t *testing.T) {
	d := &desk{window: 4096}
	c := d.open(t)
	other := modelstest.Request("Hi")
	other.Window = 8192
	for i, step := range []struct {
		req    models.Request
		window int // that Ollama gives
		want   []string
	}{
		{modelstest.Request("Hi"), 4096, []string{"ps", "chat"}},
		{modelstest.Request("Hi"), 4096, []string{"chat", "ps"}},
		{modelstest.Request("Hi"), 4096, []string{"chat", "ps"}},
		{other, 4096, []string{"ps", "chat", "ps", "chat"}}, // another window: looked, loaded, read back
		{modelstest.Request("Hi"), 4096, []string{"ps", "chat"}},
		{modelstest.Request("Hi"), 2048, []string{"chat", "ps"}}, // changed behind our back: the usage says so
		{modelstest.Request("Hi"), 4096, []string{"ps", "chat"}}, // and it is looked at again
	} {
		d.window = step.window
		asked, got := d.ask(t, c, step.req)
		if diff := cmp.Diff(step.want, asked); diff != "" || got.Usage.ContextWindow != step.window {
			t.Errorf("step %d: window %d, want %d; asked (-want +got):\n%s", i, got.Usage.ContextWindow, step.window, diff)
		}
	}
}

// TestUnloadedModelIsNoticed says why the first token takes long when the model
// was unloaded by somebody else.
func TestUnloadedModelIsNoticed(t *testing.T) {
	d := &desk{window: 4096}
	c := d.open(t)
	d.ask(t, c, modelstest.Request("Hi"))
	d.gone = make(chan struct{})
	asked, got := d.ask(t, c, modelstest.Request("Hi"))
	if want := []string{"reading the prompt", "loading the model"}; len(got.Progress) < 2 || !cmp.Equal(want, got.Progress[:2]) {
		t.Errorf("progress %q, want %q", got.Progress, want)
	}
	if len(asked) < 2 || asked[0] != "chat" || asked[1] != "ps" {
		t.Errorf("asked %q, want the question first", asked)
	}
}
