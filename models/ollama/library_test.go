package ollama

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
)

// library is an Ollama with models whose facts are given.
func library(t *testing.T, shows map[string]string, asked map[string]int) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"models":[{"name":"a:1","digest":"d1","size":5},{"name":"broken:1","digest":"d2"},{"name":"bad name","digest":"d3"}]}`)
	})
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"models":[{"name":"a:1","context_length":8192}]}`)
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, facts := range shows {
			if strings.Contains(string(body), `"`+name+`"`) {
				asked[name]++
				io.WriteString(w, facts)
				return
			}
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return newClient(t, server.URL, Limits{})
}

func TestListBoundsAndNotes(t *testing.T) {
	asked := map[string]int{}
	client := library(t, map[string]string{"a:1": `{"capabilities":["completion","tools","vision"],"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960}}`}, asked)
	want := []models.Info{{Name: "a:1", Window: 40960, Tools: true, Vision: true, Size: 5, Loaded: true}}
	for range 2 {
		got, err := client.List(t.Context())
		if err != nil || len(got) != 2 || got[1].Note == "" {
			t.Fatalf("got %+v, %v; want two models, the second with a note", got, err)
		}
		if diff := cmp.Diff(want, got[:1]); diff != "" {
			t.Errorf("models (-want +got):\n%s", diff)
		}
	}
	if asked["a:1"] != 1 {
		t.Errorf("the facts of one version were read %d times, want once", asked["a:1"])
	}
}

func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		name, facts string
		note        string
		remote      bool
	}{
		{"Go structs", `{"template":"{\"function\": {{ .Function }}}"}`, "Go structs", false},
		{"JSON", `{"template":"{{ json .Function }}"}`, "", false},
		{"a renderer replaces the template", `{"renderer":"qwen3-coder","template":"{{ .Function }}"}`, "", false},
		{"a cloud model", `{"remote_host":"https://ollama.com:443","remote_model":"big"}`, "ollama.com", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := library(t, map[string]string{"m": tt.facts}, map[string]int{}).Show(t.Context(), "m")
			if err != nil || got.Remote != tt.remote || (tt.note == "") != (got.Note == "") || !strings.Contains(got.Note, tt.note) {
				t.Errorf("got note %q, remote %v, %v; want %q, %v", got.Note, got.Remote, err, tt.note, tt.remote)
			}
		})
	}
}

func TestNamesThatAreNone(t *testing.T) {
	client := library(t, nil, nil)
	for _, name := range []string{"", "a b", "a\nb", strings.Repeat("x", 201)} {
		if _, err := client.Show(t.Context(), name); !errors.Is(err, models.ErrNoModel) {
			t.Errorf("%.20q: got %v, want %v", name, err, models.ErrNoModel)
		}
	}
}

func TestPull(t *testing.T) {
	const layer = `{"status":"pulling abc","digest":"sha256:abc","total":10,"completed":5}` + "\n"
	for _, tt := range []struct {
		name, body string
		want       []PullProgress
		err        error
	}{
		{"done", layer + `{"status":"success"}` + "\n", []PullProgress{{"pulling abc", "sha256:abc", 10, 5}, {Status: "success"}}, nil},
		{"cut", layer, []PullProgress{{"pulling abc", "sha256:abc", 10, 5}}, models.ErrCutOff},
		{"error", layer + `{"error":"pull model manifest: file does not exist"}`, []PullProgress{{"pulling abc", "sha256:abc", 10, 5}}, models.ErrProtocol},
		{"no such model", `{"error":"model 'x' not found"}`, nil, models.ErrNoModel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, tt.body) }))
			defer server.Close()
			var got []PullProgress
			var last error
			for p, err := range newClient(t, server.URL, Limits{}).Pull(t.Context(), "x") {
				if last = err; err == nil {
					got = append(got, p)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(last, tt.err) {
				t.Errorf("error %v, want %v; progress (-want +got):\n%s", last, tt.err, diff)
			}
		})
	}
}

// FuzzLine reads arbitrary lines of a reply: every stream ends in exactly one
// finish or error, and no call may run whose arguments are not an object.
func FuzzLine(f *testing.F) {
	f.Add(`{"message":{"content":"Hi"},"done":true}`)
	f.Add(`{"message":{"tool_calls":[{"function":{"name":"files_read","arguments":"{}"}}]}}` + "\n" + `{"done":true}`)
	f.Add(`{"error":"x"}`)
	var body string
	server := fake(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
	client := newClient(f, server.URL, Limits{})
	f.Fuzz(func(t *testing.T, stream string) {
		body = stream
		ends := 0
		for d, err := range client.Stream(t.Context(), models.Request{Model: "m", Window: 4096}) {
			if err != nil || d.Kind == models.DeltaFinish {
				ends++
			}
			if d.Call != nil && d.Call.Malformed == "" && !strings.HasPrefix(string(d.Call.Arguments), "{") {
				t.Errorf("a call may run with %s", fmt.Sprint(d.Call.Arguments))
			}
		}
		if ends != 1 {
			t.Errorf("%d ends of the stream, want one", ends)
		}
	})
}
