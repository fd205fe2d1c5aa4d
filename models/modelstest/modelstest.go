// Package modelstest is the suite that every engine runs: recorded answers of a
// model server, one fault a file, played through a real HTTP server, each with
// the outcome that has to come of it.
//
// A data file begins with lines "# key: value" and ends its head with a lone
// "#"; the rest is the body. Keys: about, status, type, pieces (bytes in each
// write), end (reset: the connection breaks), crlf, pad (bytes put for @PAD@),
// and the outcome: text, thinking, call (repeated; ! before one that must not
// run), finish, error (the name of a models.Err variable). @HEX@ in a body
// stands for those bytes.
package modelstest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
)

// Reply is what a stream came to, in a form that compares.
type Reply struct {
	Text, Thinking string
	Calls          []string // name and arguments, with ! before what must not run
	IDs            []string
	Finish         models.FinishReason
	Usage          models.Usage
	Progress       []string
	Err            error
}

// Tools are the tools that every case offers.
func Tools() []models.ToolSpec {
	return []models.ToolSpec{
		{Name: "terminal_run", Description: "Run a command.", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"wait_s":{"type":"integer","minimum":1},"all":{"type":"boolean"}},"required":["command"]}`)},
		{Name: "files_read", Description: "Read a file.", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
	}
}

// Request asks the model named "m" one question.
func Request(question string) models.Request {
	return models.Request{
		Model: "m", Window: 4096, Tools: Tools(),
		Messages: []models.Message{{Role: models.RoleUser, Parts: []models.Part{{Kind: models.PartText, Text: question}}}},
	}
}

// Collect reads a stream to its end. It fails the test when the stream breaks
// the port's rules: an item after an error or a finish, or neither at the end.
func Collect(ctx context.Context, tb testing.TB, m models.Model, req models.Request) Reply {
	tb.Helper()
	var r Reply
	var text, thinking strings.Builder
	ended := false
	for d, err := range m.Stream(ctx, req) {
		if ended {
			tb.Errorf("an item after the end of the stream: %+v, %v", d, err)
		}
		if err != nil {
			r.Err, ended = err, true
			continue
		}
		switch d.Kind {
		case models.DeltaText:
			text.WriteString(d.Text)
		case models.DeltaThinking:
			thinking.WriteString(d.Text)
		case models.DeltaProgress:
			r.Progress = append(r.Progress, d.Progress)
		case models.DeltaUsage:
			r.Usage = *d.Usage
		case models.DeltaCall:
			mark := ""
			if d.Call.Malformed != "" {
				mark = "!"
			}
			r.Calls = append(r.Calls, mark+d.Call.Name+string(d.Call.Arguments))
			r.IDs = append(r.IDs, d.Call.ID)
		case models.DeltaFinish:
			r.Finish, ended = d.Finish, true
		}
	}
	r.Text, r.Thinking = text.String(), thinking.String()
	if !ended {
		tb.Error("the stream ended with neither a finish nor an error")
	}
	return r
}

// errorNames maps the names in data files.
var errorNames = map[string]error{
	"ErrUnreachable": models.ErrUnreachable, "ErrAuth": models.ErrAuth, "ErrNoModel": models.ErrNoModel,
	"ErrOverflow": models.ErrOverflow, "ErrRateLimit": models.ErrRateLimit, "ErrCutOff": models.ErrCutOff,
	"ErrTimeout": models.ErrTimeout, "ErrProtocol": models.ErrProtocol, "ErrEmpty": models.ErrEmpty,
	"ErrUnsupported": models.ErrUnsupported,
}

// Case is one data file.
type Case struct {
	Name   string
	status int
	kind   string
	pieces int
	reset  bool
	body   []byte
	want   Reply
	err    error
}

// Load reads the cases of a directory. A directory without any fails the test.
func Load(tb testing.TB, dir string) []Case {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.stream"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no cases in %s (%v)", dir, err)
	}
	var out []Case
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, parse(tb, strings.TrimSuffix(filepath.Base(path), ".stream"), string(data)))
	}
	return out
}

var hexToken = regexp.MustCompile(`@((?:[0-9A-F]{2})+)@`)

func parse(tb testing.TB, name, data string) Case {
	tb.Helper()
	c := Case{Name: name, status: http.StatusOK, pieces: 1 << 20}
	head, body, ok := strings.Cut(data, "\n#\n")
	if !ok {
		tb.Fatalf("%s: the head does not end with a lone #", name)
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		return n
	}
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimRight(line, "\n"), "# "), ": ")
		if !ok {
			tb.Fatalf("%s: bad line %q", name, line)
		}
		switch key {
		case "about":
		case "status":
			c.status = number(value)
		case "type":
			c.kind = value
		case "pieces":
			c.pieces = number(value)
		case "end":
			c.reset = value == "reset"
		case "crlf":
			body = strings.ReplaceAll(body, "\n", "\r\n")
		case "pad":
			body = strings.ReplaceAll(body, "@PAD@", strings.Repeat("x", number(value)))
			c.want.Text = strings.ReplaceAll(c.want.Text, "@PAD@", strings.Repeat("x", number(value)))
		case "text":
			if err := json.Unmarshal([]byte(value), &c.want.Text); err != nil {
				tb.Fatalf("%s: text: %v", name, err)
			}
		case "thinking":
			c.want.Thinking = value
		case "call":
			c.want.Calls = append(c.want.Calls, value)
		case "finish":
			c.want.Finish = models.FinishReason(value)
		case "error":
			if c.err = errorNames[value]; c.err == nil {
				tb.Fatalf("%s: unknown error %s", name, value)
			}
		default:
			tb.Fatalf("%s: unknown key %q", name, key)
		}
	}
	c.body = hexToken.ReplaceAllFunc([]byte(body), func(token []byte) []byte {
		raw, err := hex.DecodeString(string(token[1 : len(token)-1]))
		if err != nil {
			tb.Fatal(err)
		}
		return raw
	})
	return c
}

// ServeHTTP plays the recorded answer.
func (c Case) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.kind != "" {
		w.Header().Set("Content-Type", c.kind)
	}
	w.WriteHeader(c.status)
	flush := http.NewResponseController(w)
	for body := c.body; len(body) > 0; {
		n := min(c.pieces, len(body))
		if _, err := w.Write(body[:n]); err != nil {
			return // the client has heard enough
		}
		if flush.Flush() != nil {
			return
		}
		body = body[n:]
	}
	if c.reset {
		panic(http.ErrAbortHandler)
	}
}

// Run plays every case of a directory to a model. Open starts a server that
// answers a chat with the handler, and returns the model that talks to it.
// Without pieces in its file, a case is played whole and byte by byte.
func Run(t *testing.T, dir string, open func(t *testing.T, answer http.Handler) models.Model) {
	t.Helper()
	for _, c := range Load(t, dir) {
		sizes := []int{c.pieces}
		if len(c.body) < 8<<10 {
			sizes = append(sizes, 1)
		}
		for _, n := range sizes {
			c.pieces = n
			t.Run(c.Name+"/"+strconv.Itoa(n), func(t *testing.T) { c.check(t, open(t, c)) })
		}
	}
}

func (c Case) check(t *testing.T, m models.Model) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := Collect(ctx, t, m, Request("Hello"))
	if !errors.Is(got.Err, c.err) || (c.err == nil && got.Err != nil) {
		t.Errorf("got error %v, want %v", got.Err, c.err)
	}
	if got.Err != nil && len(got.Err.Error()) > 800 {
		t.Errorf("the error is %d bytes long, too much for a person", len(got.Err.Error()))
	}
	for _, id := range got.IDs {
		if id == "" {
			t.Error("a call has no id")
		}
	}
	want := c.want
	got.Err, got.IDs, got.Usage, got.Progress = nil, nil, models.Usage{}, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%.2000s", diff)
	}
}
