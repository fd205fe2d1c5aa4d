package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog/browser"
	"lomi/models"
)

var update = flag.Bool("update", false, "write the fixtures of testdata anew")

// scenario plays one story; what its conversation's log has in the end becomes
// a fixture, which the page's tests replay as well.
type scenario struct {
	name string
	play func(t *testing.T, b *bench)
	cut  EventKind // the log ends after the last event of this kind, as after a kill
}

func scenarios() []scenario {
	return []scenario{
		{name: "answer", play: func(_ *testing.T, b *bench) {
			b.model.replies = []replyFunc{says("# Hello\n\n", "I am **Lomi**.")}
			b.turn("hello there")
		}},
		{name: "terminal", play: func(_ *testing.T, b *bench) {
			b.broker.runs["npm test"] = &fakeRun{output: "3 passed\n1 failed\n", exit: 1, after: 4 * time.Second}
			b.model.replies = []replyFunc{
				func(ctx context.Context, req models.Request, yield func(models.Delta, error) bool) {
					if !yield(models.Delta{Kind: models.DeltaThinking, Text: "The tests first."}, nil) {
						return
					}
					<-time.After(time.Second) // a checkpoint
					if !yield(models.Delta{Kind: models.DeltaText, Text: "I run the tests."}, nil) {
						return
					}
					calls("terminal_run", `{"command":"npm test","wait_s":60}`, "terminal_run", `{"command":"git status"}`)(ctx, req, yield)
				},
				says("One test fails."),
			}
			b.turn("run the tests")
		}},
		{name: "approvals", play: func(_ *testing.T, b *bench) {
			ask := make(chan bool)
			b.broker.ask["lomi_terminal_run"] = ask
			go func() { <-time.After(3 * time.Second); ask <- false }()
			b.model.replies = []replyFunc{calls("terminal_run", `{"command":"rm -rf build"}`), says("I did not delete anything.")}
			b.turn("clean up")
		}},
		{name: "browser", play: func(_ *testing.T, b *bench) {
			b.broker.page = []browser.Node{{Role: "main"}, {Role: "heading", Name: "Order", Level: 1}, button("Save")}
			b.broker.onClick = func(f *fakeBroker, _ string) { f.page = append(f.page, text("Order saved")) }
			b.model.replies = []replyFunc{calls("browser_open", `{"url":"http://localhost:3000/"}`), calls("browser_click", `{"element":1}`),
				calls("browser_screenshot", `{}`), says("Saved.")}
			b.turn("save the order")
		}},
		{name: "question", cut: QuestionAsked, play: func(t *testing.T, b *bench) {
			b.model.replies = []replyFunc{calls("ask_user", `{"question":"Which port?","options":["3000","8080"]}`), says("8080 it is.")}
			b.send("start the server")
			b.wait(time.Second)
			if err := b.service.Answer(b.conv, last[questionData](t, b.store, b.conv, QuestionAsked).ID, "8080"); err != nil {
				t.Fatal(err)
			}
			b.service.turns.Wait()
		}},
		{name: "stopped", play: func(t *testing.T, b *bench) {
			b.broker.runs["sleep 99"] = &fakeRun{after: -1}
			b.model.replies = []replyFunc{calls("terminal_run", `{"command":"sleep 99"}`, "terminal_run", `{"command":"next"}`)}
			b.send("wait a while")
			b.wait(2 * time.Second)
			if _, err := b.service.Stop(b.conv, ""); err != nil {
				t.Fatal(err)
			}
			b.service.turns.Wait()
		}},
		{name: "killed", cut: TextAppended, play: func(_ *testing.T, b *bench) {
			b.model.replies = []replyFunc{func(ctx context.Context, req models.Request, yield func(models.Delta, error) bool) {
				if !yield(models.Delta{Kind: models.DeltaText, Text: "This answer will not "}, nil) {
					return
				}
				<-time.After(time.Second)
				says("be finished.")(ctx, req, yield)
			}}
			b.turn("tell me")
		}},
		{name: "failed", play: func(_ *testing.T, b *bench) {
			b.model.err = fmt.Errorf("no answer from 127.0.0.1:11434: %w", models.ErrUnreachable)
			b.turn("hello")
		}},
		{name: "compacted", play: func(_ *testing.T, b *bench) {
			b.model.info = models.Info{Name: "m", Tools: true, Window: 3500}
			for i := range 5 {
				b.broker.runs[fmt.Sprint("cat ", i)] = &fakeRun{output: strings.Repeat("line of a file\n", 190)}
				b.model.replies = append(b.model.replies, calls("terminal_run", fmt.Sprintf(`{"command":"cat %d"}`, i)), says("Read."))
			}
			for i := range 5 {
				b.turn(fmt.Sprint("read file ", i))
			}
		}},
	}
}

var anyID = regexp.MustCompile(`[0-9a-f]{32}`)

// lines plays a scenario and gives its log as JSON lines, ids named in order.
func (s scenario) lines(t *testing.T) []byte {
	t.Helper()
	var raw bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s.play(t, b)
		events := b.store.all(b.conv)
		b.stop()
		if s.cut != "" {
			for events[len(events)-1].Kind != s.cut {
				events = events[:len(events)-1]
			}
		}
		for _, e := range events {
			raw.WriteString(mustJSON(t, e) + "\n")
		}
	})
	names := map[string]string{}
	return anyID.ReplaceAllFunc(raw.Bytes(), func(id []byte) []byte {
		name, ok := names[string(id)]
		if !ok {
			name = fmt.Sprintf("id%d", len(names)+1)
			names[string(id)] = name
		}
		return []byte(name)
	})
}

// folded is what every reader of a fixture must make of it.
type folded struct {
	Title     string           `json:"title"`
	Model     string           `json:"model"`
	Turn      string           `json:"turn"`
	Reply     string           `json:"reply"` // being written
	Text      []string         `json:"text"`  // of its parts so far
	Calls     []string         `json:"calls"` // without a result yet
	Approvals []string         `json:"approvals"`
	Questions []string         `json:"questions"`
	Messages  []models.Message `json:"messages"`
}

func foldLines(t *testing.T, lines []byte) folded {
	t.Helper()
	f := &fold{}
	scan := bufio.NewScanner(bytes.NewReader(lines))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var e Event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if err := f.add(e); err != nil {
			t.Fatal(err)
		}
	}
	out := folded{Title: f.info.Title, Model: f.info.Model, Turn: f.info.Turn, Reply: f.reply, Approvals: f.approvals, Questions: f.questions}
	for _, p := range f.parts {
		out.Text = append(out.Text, p.Text)
	}
	for _, c := range f.calls {
		out.Calls = append(out.Calls, c.call.ID)
	}
	f.flushResults()
	for _, item := range f.history {
		if item.compaction == nil {
			out.Messages = append(out.Messages, item.message)
		}
	}
	return out
}

// TestFixtures holds the log's format, and the fold over it, to the files in
// testdata. The page's tests replay the same files.
func TestFixtures(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			lines := s.lines(t)
			golden(t, filepath.Join("testdata", s.name+".events.jsonl"), lines)
			state, err := json.MarshalIndent(foldLines(t, lines), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", s.name+".folded.json"), append(state, '\n'))
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (run with -update after looking): %s", path, diff)
	}
}
