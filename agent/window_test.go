package agent

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
)

// TestRequestsArePrefixes plays random turns and checks that each prompt starts
// with the one before, except right after a compaction that was announced.
func TestRequestsArePrefixes(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		step := 0
		reply := func(models.Request) iter.Seq2[models.Delta, error] {
			step++
			if rng.IntN(6) == 0 {
				return says(strings.Repeat("word ", rng.IntN(50)+1))(models.Request{})
			}
			all := []models.Delta{thought("let me see")}
			for range rng.IntN(3) + 1 {
				all = append(all, callDelta(fmt.Sprint("call_", rng.IntN(2)), "do", fmt.Sprintf(`{"n":%d}`, step)))
			}
			return callsOf(all...)(models.Request{})
		}
		windowTokens := []int{2048, 4096, 8192, 65536}[rng.IntN(4)]
		b := newBench(t, Limits{Steps: 12}, WindowConfig{System: "You are Lomi.", Tokens: windowTokens}, reply)
		b.tools.do = answer(Result{Text: strings.Repeat("output line\n", rng.IntN(400)+1)})
		for range 4 {
			turn := *b.turn
			turn.steps = 0
			turn.Run(t.Context())
			b.window.Add(said(strings.Repeat("more ", rng.IntN(40)+1)))
		}
		checkPrefixes(t, seed, b)
		compactions := 0
		for _, e := range b.recorder.events {
			if _, ok := e.(Compacted); ok {
				compactions++
			}
		}
		if windowTokens == 65536 && compactions > 0 {
			t.Errorf("seed %d: compacted in a window that is large enough", seed)
		}
	}
}

func checkPrefixes(t *testing.T, seed uint64, b *bench) {
	t.Helper()
	compacted := map[int]bool{} // before request n
	n := 0
	for _, e := range b.recorder.events {
		switch e.(type) {
		case Compacted:
			compacted[n] = true
		case ReplyStarted:
			n++
		}
	}
	for i := 1; i < len(b.model.requests); i++ {
		before, now := b.model.requests[i-1], b.model.requests[i]
		if diff := cmp.Diff(before.Tools, now.Tools); diff != "" {
			t.Fatalf("seed %d: tools changed: %s", seed, diff)
		}
		if compacted[i] {
			continue
		}
		if len(now.Messages) < len(before.Messages) || !reflect.DeepEqual(before.Messages, now.Messages[:len(before.Messages)]) {
			t.Fatalf("seed %d: request %d does not start with the one before", seed, i)
		}
	}
}

// TestCompactionReplays does to a fresh copy of the history what the events say
// was done, and gets the same prompt: that is how a log is read again.
func TestCompactionReplays(t *testing.T) {
	cfg := WindowConfig{System: "s", Tokens: 4096}
	live := NewWindow(cfg, nil)
	var log []any
	for i := range 40 {
		m := said(fmt.Sprintf("question %d %s", i, strings.Repeat("x", 300)))
		id := fmt.Sprint("c", i)
		reply := models.Message{Role: models.RoleAssistant, Parts: []models.Part{{Kind: models.PartCall, Call: &models.ToolCall{ID: id, Name: "do", Arguments: json.RawMessage(`{}`)}}}}
		result := models.Message{Role: models.RoleTool, Parts: []models.Part{{Kind: models.PartResult, Result: &models.ToolResult{CallID: id, Name: "do", Text: strings.Repeat("out ", 200)}}}}
		for _, m := range []models.Message{m, reply, result} {
			live.Add(m)
			log = append(log, m)
		}
		for _, c := range live.fit(nil, false) {
			log = append(log, c)
		}
		if !live.fits(nil) {
			t.Fatalf("message %d does not fit after compaction", i)
		}
	}
	again := NewWindow(cfg, nil)
	compactions := 0
	for _, e := range log {
		switch e := e.(type) {
		case models.Message:
			again.Add(e)
		case Compaction:
			compactions++
			again.Apply(e)
		}
	}
	if compactions == 0 {
		t.Fatal("nothing was compacted")
	}
	if diff := cmp.Diff(live.Messages(), again.Messages()); diff != "" {
		t.Errorf("replayed prompt differs:\n%s", diff)
	}
	if text := messageText(live.messages[0]); !strings.HasPrefix(text, summaryHead) {
		t.Errorf("no summary at the head: %.80s", text)
	}
}

// TestBug13QuestionNeverVanishes fills a small window within one turn: what the
// person asked is still in every prompt.
func TestBug13QuestionNeverVanishes(t *testing.T) {
	n := 0
	b := newBench(t, Limits{Steps: 30}, WindowConfig{Tokens: 3000}, func(r models.Request) iter.Seq2[models.Delta, error] {
		n++
		return callsOf(callDelta("", "do", fmt.Sprintf(`{"n":%d}`, n)))(r)
	})
	b.window = NewWindow(WindowConfig{Tokens: 3000}, []models.Message{said("find the blue whale")})
	b.turn.cfg.Window = b.window
	b.tools.do = answer(Result{Text: strings.Repeat("some output ", 300)})
	if ended := b.turn.Run(t.Context()); ended.Stop != StopMaxSteps {
		t.Fatalf("stop %q: %s %v", ended.Stop, ended.Reason, ended.Err)
	}
	for i, r := range b.model.requests {
		all, err := json.Marshal(r.Messages)
		if err != nil || !strings.Contains(string(all), "find the blue whale") {
			t.Fatalf("request %d lost the question", i)
		}
	}
}

func TestTooLargeMessageIsRefusedWithWords(t *testing.T) {
	b := newBench(t, Limits{}, WindowConfig{}, says("never"))
	b.turn.cfg.Window = NewWindow(WindowConfig{Tokens: 2048}, []models.Message{said(strings.Repeat("x", 50000))})
	ended := b.turn.Run(t.Context())
	if ended.Stop != StopFailed || !strings.Contains(ended.Reason, "2048 tokens") || len(b.model.requests) != 0 {
		t.Errorf("stop %q: %s; %d requests", ended.Stop, ended.Reason, len(b.model.requests))
	}
}

// TestF67ReportedTokens warns when the engine reads less than before, and learns
// the ratio from what it reads.
func TestF67ReportedTokens(t *testing.T) {
	w := NewWindow(WindowConfig{Tokens: 8192}, []models.Message{said(strings.Repeat("y", 1000))})
	w.sending(nil)
	if got := w.observe(models.Usage{InputTokens: 1040}); got != "" {
		t.Errorf("warned: %s", got)
	}
	if got := w.Estimate(nil); got < 1000 || got > 1100 {
		t.Errorf("estimate %d after a report of 1040", got)
	}
	w.Add(said(strings.Repeat("z", 1000)))
	w.sending(nil)
	if got := w.observe(models.Usage{InputTokens: 900}); !strings.Contains(got, "drop earlier messages") {
		t.Errorf("no warning: %q", got)
	}
	small := NewWindow(WindowConfig{Tokens: 8192}, []models.Message{said("a")})
	small.sending(nil)
	if got := small.observe(models.Usage{InputTokens: 9, ContextWindow: 4096}); !strings.Contains(got, "4096") {
		t.Errorf("no warning about the smaller window: %q", got)
	}
}

// TestRepair holds bugs 19 and 21 and F-68.
func TestRepair(t *testing.T) {
	call := func(ids ...string) models.Message {
		m := models.Message{Role: models.RoleAssistant}
		for _, id := range ids {
			m.Parts = append(m.Parts, models.Part{Kind: models.PartCall, Call: &models.ToolCall{ID: id, Name: "do"}})
		}
		return m
	}
	result := func(ids ...string) models.Message {
		m := models.Message{Role: models.RoleTool}
		for _, id := range ids {
			m.Parts = append(m.Parts, models.Part{Kind: models.PartResult, Result: &models.ToolResult{CallID: id, Name: "do", Text: "r" + id}})
		}
		return m
	}
	rows := []struct {
		name string
		in   []models.Message
		want string
	}{
		{"whole", []models.Message{said("q"), call("a", "b"), result("a", "b")}, "user assistant tool[ra rb]"},
		{"bug_19 no result", []models.Message{said("q"), call("a"), said("next")}, "user assistant tool[interrupted] user"},
		{"one missing", []models.Message{said("q"), call("a", "b"), result("b")}, "user assistant tool[interrupted rb]"},
		{"bug_21 stray result", []models.Message{said("q"), result("x"), call("a"), result("a"), result("a", "x")}, "user assistant tool[ra]"},
		{"order of the calls", []models.Message{call("a", "b"), result("b"), result("a")}, "assistant tool[ra rb]"},
		{"stray at the end", []models.Message{said("q"), said("r"), result("z")}, "user user"},
	}
	for _, row := range rows {
		once := Repair(row.in)
		if got := describe(once); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if diff := cmp.Diff(once, Repair(once)); diff != "" {
			t.Errorf("%s: repairing twice differs: %s", row.name, diff)
		}
	}
}

func describe(history []models.Message) string {
	var out []string
	for _, m := range history {
		s := string(m.Role)
		if m.Role == models.RoleTool {
			var rs []string
			for _, p := range m.Parts {
				if p.Result.Text == textInterrupted {
					rs = append(rs, "interrupted")
				} else {
					rs = append(rs, p.Result.Text)
				}
			}
			s += "[" + strings.Join(rs, " ") + "]"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// TestBug31PictureForABlindModel replaces the picture by a note.
func TestBug31PictureForABlindModel(t *testing.T) {
	m := models.Message{Role: models.RoleTool, Parts: []models.Part{{Kind: models.PartResult, Result: &models.ToolResult{
		CallID: "a", Text: "A screenshot.", Images: []models.Image{{MediaType: "image/png", Data: []byte("png")}}}}}}
	blind, seeing := NewWindow(WindowConfig{}, nil), NewWindow(WindowConfig{Vision: true}, nil)
	blind.Add(m)
	seeing.Add(m)
	if r := blind.messages[0].Parts[0].Result; len(r.Images) != 0 || !strings.Contains(r.Text, "cannot see") {
		t.Errorf("blind: %+v", r)
	}
	if r := seeing.messages[0].Parts[0].Result; len(r.Images) != 1 {
		t.Errorf("seeing: %+v", r)
	}
}

// TestWindowAskedForIsFixed asks for one value in every request, because another
// one makes the engine load the model anew; an unknown window is left to it.
func TestWindowAskedForIsFixed(t *testing.T) {
	for _, tokens := range []int{0, 8192, defaultWindow} {
		b := newBench(t, Limits{}, WindowConfig{Tokens: tokens},
			deltas(nil, callDelta("a", "do", `{}`), models.Delta{Kind: models.DeltaUsage, Usage: &models.Usage{InputTokens: 50, ContextWindow: 4096}}, finish(models.FinishCalls)),
			says("done"))
		b.turn.Run(t.Context())
		for i, r := range b.model.requests {
			if r.Window != tokens {
				t.Errorf("request %d asks for a window of %d, want %d", i, r.Window, tokens)
			}
		}
	}
}

func TestShorten(t *testing.T) {
	text := strings.Repeat("äöü€", 5000)
	for _, limit := range []int{500, 3000, 6001, 60000} {
		short := Shorten(text, limit, `read it with terminal_read{"from":"start"}`)
		if len(text) > limit && len(short) > limit || !utf8.ValidString(short) {
			t.Errorf("limit %d: %d bytes, valid %v", limit, len(short), utf8.ValidString(short))
		}
		if len(text) > limit && !strings.Contains(short, "left out here; read it with") {
			t.Errorf("limit %d: nothing says what is missing", limit)
		}
	}
	for tokens, want := range map[int]int{0: 60000, 4096: 3000, 4097: 6000, 8192: 6000, 32768: 30000, 40000: 60000} {
		if got := ResultLimit(tokens); got != want {
			t.Errorf("a window of %d gives %d, want %d", tokens, got, want)
		}
	}
}
