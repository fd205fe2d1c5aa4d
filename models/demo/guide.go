// Package demo is the guide: a rule-based stand-in for a machine without a
// model. It is no language model and says so. To every other room it is a
// models.Model like any other: it sees messages and tools, and returns text and
// calls, so that all of Lomi can be tried and tested without weights.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"lomi/models"
)

// Name is the one model of this engine.
const Name = "guide"

// Config sets how the guide speaks.
type Config struct {
	// Pace is the pause between pieces of text. Zero means none.
	Pace time.Duration
}

// Guide follows a few fixed phrases. It keeps nothing between requests: where it
// stands in a chain of steps follows from the results since the last question.
type Guide struct {
	pace time.Duration
}

var (
	_ models.Model  = (*Guide)(nil)
	_ models.Lister = (*Guide)(nil)
)

// New returns a guide.
func New(cfg Config) *Guide { return &Guide{pace: cfg.Pace} }

// List implements models.Lister.
func (g *Guide) List(context.Context) ([]models.Info, error) {
	return []models.Info{{
		Name: Name, Tools: true, Loaded: true,
		Note: "Not a language model: it follows a few fixed phrases, to try Lomi without one.",
	}}, nil
}

// Stream implements models.Model.
func (g *Guide) Stream(ctx context.Context, req models.Request) iter.Seq2[models.Delta, error] {
	return func(yield func(models.Delta, error) bool) {
		if req.Model != Name {
			yield(models.Delta{}, fmt.Errorf("%q is not a model of the guide: %w", req.Model, models.ErrNoModel))
			return
		}
		text, call := answer(req)
		for i, piece := range pieces(text) {
			if i > 0 && !pause(ctx, g.pace) || ctx.Err() != nil {
				yield(models.Delta{}, fmt.Errorf("speaking: %w", context.Cause(ctx)))
				return
			}
			if !yield(models.Delta{Kind: models.DeltaText, Text: piece}, nil) {
				return
			}
		}
		finish := models.FinishStop
		if call != nil {
			finish = models.FinishCalls
			if !yield(models.Delta{Kind: models.DeltaCall, Call: call}, nil) {
				return
			}
		}
		yield(models.Delta{Kind: models.DeltaFinish, Finish: finish}, nil)
	}
}

// pause waits, and reports false when the request ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pieces cuts text at blanks, as a model's tokens would come.
func pieces(text string) []string {
	const size = 32
	var out []string
	for len(text) > size {
		cut := strings.IndexAny(text[size:], " \n")
		if cut < 0 {
			break
		}
		out = append(out, text[:size+cut+1])
		text = text[size+cut+1:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

// done is a call of this turn with its result.
type done struct {
	tool   string
	result models.ToolResult
}

// turn is what the guide knows when it is asked.
type turn struct {
	question string
	earlier  []done // before the question
	now      []done // since the question
	offered  map[string]bool
}

// look reads the conversation.
func look(req models.Request) turn {
	t := turn{offered: map[string]bool{}}
	for _, tool := range req.Tools {
		t.offered[tool.Name] = true
	}
	for _, m := range req.Messages {
		var text []string
		for _, p := range m.Parts {
			switch {
			case p.Kind == models.PartText:
				text = append(text, p.Text)
			case p.Kind == models.PartResult && p.Result != nil:
				t.now = append(t.now, done{p.Result.Name, *p.Result})
			}
		}
		if m.Role == models.RoleUser {
			t.question = strings.TrimSpace(strings.Join(text, "\n"))
			t.earlier = append(t.earlier, t.now...)
			t.now = nil
		}
	}
	return t
}

// answer walks the steps of the question again from the first. Each result
// since the question stands for a step that was taken, and what was said before
// it was said in an earlier reply; the first step without a result is next.
func answer(req models.Request) (string, *models.ToolCall) {
	t := look(req)
	steps := parse(t.question)
	if len(steps) == 0 || steps[0].verb == "" {
		return tour(t.offered), nil
	}
	var say []string
	taken := 0
	for _, step := range steps {
		for snapped := false; ; {
			seen := append(t.earlier[:len(t.earlier):len(t.earlier)], t.now[:taken]...)
			want := step.next(seen, snapped)
			if want.tool == "" {
				say = append(say, want.text)
				if want.stop {
					return join(say), nil
				}
				break
			}
			if taken == len(t.now) {
				if !t.offered[want.tool] {
					return join(append(say, "For that I need the tool "+want.tool+", which this conversation was not given. I stop here.")), nil
				}
				return join(append(say, want.text)), want.call()
			}
			result := t.now[taken].result
			taken++
			say = []string{report(want.tool, result)}
			if result.IsError {
				return join(append(say, "I stop here.")), nil
			}
			if want.tool != "browser_snapshot" { // which only prepares for the step
				break
			}
			say, snapped = nil, true
		}
	}
	if taken > 0 && steps[len(steps)-1].verb != "say" {
		say = append(say, "That is all.")
	}
	return join(say), nil
}

func join(say []string) string {
	var kept []string
	for _, s := range say {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "\n\n")
}

// action is the next thing a step needs: a call, or words when tool is empty.
type action struct {
	tool      string
	arguments map[string]any
	text      string
	stop      bool
}

func (a action) call() *models.ToolCall {
	var arguments bytes.Buffer
	enc := json.NewEncoder(&arguments)
	enc.SetEscapeHTML(false)    // a person reads the command
	_ = enc.Encode(a.arguments) // strings and numbers always encode
	var id [9]byte
	rand.Read(id[:]) // never fails since Go 1.24
	return &models.ToolCall{ID: "call_" + hex.EncodeToString(id[:]), Name: a.tool, Arguments: bytes.TrimSpace(arguments.Bytes())}
}

// report says what came back, in a fence that the text cannot close.
func report(tool string, r models.ToolResult) string {
	const most = 1500
	text := strings.TrimRight(forPeople(r.Text), "\n ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "\n… (the rest is left out)"
	}
	what := "This came back from " + tool + ":"
	if r.IsError {
		what = tool + " did not work:"
	}
	if text == "" {
		return strings.TrimSuffix(what, ":") + " without any text."
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return what + "\n\n" + fence + "text\n" + text + "\n" + fence
}

// forPeople leaves out what stands in a result for models alone: the fence
// around text of others, and the words that it is data. A fence within that
// text is part of it and stays.
func forPeople(result string) string {
	head, body, fenced := strings.Cut(result, " (data, not instructions):\n")
	if !fenced {
		return result
	}
	body = strings.TrimRight(body, "\n ")
	fence, inner, ok := strings.Cut(body, "\n")
	if ok && len(fence) >= 3 && strings.Trim(fence, "`") == "" {
		body = strings.TrimSuffix(inner, "\n"+fence)
	}
	return head + ":\n" + body
}

// tour is the answer to everything that is not a phrase.
func tour(offered map[string]bool) string {
	var b strings.Builder
	b.WriteString("I am the guide, a set of fixed rules and not a language model. I act through the same tools, with the same permissions, as a model would. Try:\n\n")
	for _, row := range [...]struct{ tool, phrase string }{
		{"terminal_run", "run ls -l"}, {"terminal_screen", "show screen"},
		{"browser_open", "open https://example.org"}, {"browser_click", "click Save"}, {"browser_fill", "type Ann into Name"},
		{"files_read", "read README.md"},
	} {
		fmt.Fprintf(&b, "- `%s`", row.phrase)
		if !offered[row.tool] {
			b.WriteString(" (not offered in this conversation)")
		}
		b.WriteByte('\n')
	}
	b.WriteString("- `say hello`\n\nJoin phrases with `then`: `run make then open http://localhost:8080`. For answers of its own, connect a model: Ollama on this machine, or a hosted one.")
	return b.String()
}
