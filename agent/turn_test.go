package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lomi/models"
)

// script is a model that gives one reply after the other, the last one again
// and again.
type script struct {
	replies  []func(models.Request) iter.Seq2[models.Delta, error]
	requests []models.Request
}

func (s *script) Stream(_ context.Context, req models.Request) iter.Seq2[models.Delta, error] {
	s.requests = append(s.requests, req)
	return s.replies[min(len(s.requests), len(s.replies))-1](req)
}

type replyFunc = func(models.Request) iter.Seq2[models.Delta, error]

func deltas(end error, all ...models.Delta) replyFunc {
	return func(models.Request) iter.Seq2[models.Delta, error] {
		return func(yield func(models.Delta, error) bool) {
			for _, d := range all {
				if !yield(d, nil) {
					return
				}
			}
			if end != nil {
				yield(models.Delta{}, end)
			}
		}
	}
}

func textDelta(s string) models.Delta { return models.Delta{Kind: models.DeltaText, Text: s} }
func thought(s string) models.Delta   { return models.Delta{Kind: models.DeltaThinking, Text: s} }
func finish(r models.FinishReason) models.Delta {
	return models.Delta{Kind: models.DeltaFinish, Finish: r}
}
func callDelta(id, name, args string) models.Delta {
	return models.Delta{Kind: models.DeltaCall, Call: &models.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}}
}
func endless(d models.Delta) replyFunc {
	return func(models.Request) iter.Seq2[models.Delta, error] {
		return func(yield func(models.Delta, error) bool) {
			for yield(d, nil) {
			}
		}
	}
}
func says(s string) replyFunc { return deltas(nil, textDelta(s), finish(models.FinishStop)) }
func callsOf(calls ...models.Delta) replyFunc {
	return deltas(nil, append(calls, finish(models.FinishCalls))...)
}

// recorder keeps the events; refuse makes the n-th fail.
type recorder struct {
	events []Event
	shown  []Delta
	refuse func(Event) error
}

func (r *recorder) Record(_ context.Context, e Event) error {
	if r.refuse != nil {
		if err := r.refuse(e); err != nil {
			return err
		}
	}
	r.events = append(r.events, e)
	return nil
}
func (r *recorder) Show(d Delta) { r.shown = append(r.shown, d) }

func (r *recorder) ended() []CallEnded {
	var out []CallEnded
	for _, e := range r.events {
		if c, ok := e.(CallEnded); ok {
			out = append(out, c)
		}
	}
	return out
}

// tools has one tool, "do", whose body is a function.
type tools struct {
	do  func(ctx context.Context, call models.ToolCall, yield func(Update, error) bool)
	ran []string
}

func (f *tools) Specs(context.Context) ([]models.ToolSpec, error) {
	return []models.ToolSpec{{Name: "do", Description: "does", Parameters: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (f *tools) Call(ctx context.Context, call models.ToolCall) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f.ran = append(f.ran, call.ID)
		if f.do == nil {
			yield(Update{Result: &Result{Text: fmt.Sprint("done ", len(f.ran))}}, nil)
			return
		}
		f.do(ctx, call, yield)
	}
}

func answer(r Result) func(context.Context, models.ToolCall, func(Update, error) bool) {
	return func(_ context.Context, _ models.ToolCall, yield func(Update, error) bool) {
		yield(Update{Result: &r}, nil)
	}
}

type bench struct {
	model    *script
	recorder *recorder
	tools    *tools
	window   *Window
	turn     *Turn
}

func newBench(t *testing.T, limits Limits, window WindowConfig, replies ...replyFunc) *bench {
	t.Helper()
	b := &bench{model: &script{replies: replies}, recorder: &recorder{}, tools: &tools{}}
	b.window = NewWindow(window, []models.Message{said("go")})
	n := 0
	turn, err := New(Config{Model: b.model, Name: "m", Window: b.window, Tools: b.tools, Recorder: b.recorder,
		NewID: func() string { n++; return fmt.Sprint("new", n) }, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	b.turn = turn
	return b
}

func said(text string) models.Message {
	return models.Message{Role: models.RoleUser, Parts: []models.Part{{Kind: models.PartText, Text: text}}}
}

// checkOneResultPerCall holds what must hold after every exit.
func checkOneResultPerCall(t *testing.T, r *recorder, w *Window) {
	t.Helper()
	started, ended, asked := map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range r.events {
		switch e := e.(type) {
		case ReplyEnded:
			for _, p := range e.Parts {
				if p.Kind == models.PartCall {
					asked[p.Call.ID]++
				}
			}
		case CallStarted:
			started[e.Call.ID]++
		case CallEnded:
			ended[e.Call]++
			if e.Result.Text == "" || e.Result.Outcome == "" {
				t.Errorf("call %s ended without text or outcome: %+v", e.Call, e.Result)
			}
		}
	}
	for id, n := range asked {
		if n != 1 || started[id] != 1 || ended[id] != 1 {
			t.Errorf("call %s: asked %d, started %d, ended %d times", id, n, started[id], ended[id])
		}
	}
	if len(ended) != len(asked) {
		t.Errorf("%d calls ended, %d asked", len(ended), len(asked))
	}
	history := w.Messages()
	if got, want := fmt.Sprint(len(Repair(history))), fmt.Sprint(len(history)); got != want {
		t.Errorf("the history needs repair: %s messages, repaired %s", want, got)
	}
}

// TestEveryExitOneResultPerCall ranges over the ways in which a turn with two
// calls can end.
func TestEveryExitOneResultPerCall(t *testing.T) {
	two := callsOf(callDelta("a", "do", `{"n":1}`), callDelta("b", "do", `{"n":2}`))
	rows := []struct {
		name     string
		limits   Limits
		replies  []replyFunc
		do       func(context.Context, models.ToolCall, func(Update, error) bool)
		cause    error // cancels during the first call
		stop     StopReason
		outcomes []Outcome
		says     []string // words in each result
	}{
		{name: "ok", replies: []replyFunc{two, says("done")}, stop: StopEndTurn,
			outcomes: []Outcome{OutcomeOK, OutcomeOK}},
		{name: "cancelled", replies: []replyFunc{two}, cause: ErrCancelled, stop: StopCancelled,
			outcomes: []Outcome{OutcomeCancelled, OutcomeNotRun}, says: []string{"pressed Stop while", "pressed Stop before"}},
		{name: "interrupted", replies: []replyFunc{two}, cause: ErrInterrupted, stop: StopInterrupted,
			outcomes: []Outcome{OutcomeInterrupted, OutcomeNotRun}, says: []string{"Interrupted", "being stopped"}},
		{name: "timed out", replies: []replyFunc{two}, cause: ErrLimit, stop: StopBudget,
			outcomes: []Outcome{OutcomeTimedOut, OutcomeNotRun}, says: []string{"Timed out", "used up its time"}},
		{name: "denied", replies: []replyFunc{two, says("ok")}, do: answer(Result{Text: "denied", IsError: true, Outcome: OutcomeDenied}),
			stop: StopEndTurn, outcomes: []Outcome{OutcomeDenied, OutcomeNotRun}, says: []string{"denied", "earlier call"}},
		{name: "expired", replies: []replyFunc{two, says("ok")}, do: answer(Result{Text: "expired", IsError: true, Outcome: OutcomeExpired}),
			stop: StopEndTurn, outcomes: []Outcome{OutcomeExpired, OutcomeNotRun}},
		{name: "revoked", replies: []replyFunc{two, says("ok")}, do: answer(Result{Text: "revoked", IsError: true, Outcome: OutcomeRevoked}),
			stop: StopEndTurn, outcomes: []Outcome{OutcomeRevoked, OutcomeNotRun}},
		{name: "gate failed", replies: []replyFunc{two, says("ok")},
			do: func(_ context.Context, _ models.ToolCall, yield func(Update, error) bool) {
				yield(Update{}, errors.New("broken pipe"))
			},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeUnknown, OutcomeNotRun}, says: []string{"Outcome unknown"}},
		{name: "no result", replies: []replyFunc{two, says("ok")},
			do:   func(context.Context, models.ToolCall, func(Update, error) bool) {},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeUnknown, OutcomeNotRun}},
		{name: "calls used up", limits: Limits{Calls: 1}, replies: []replyFunc{two}, stop: StopBudget,
			outcomes: []Outcome{OutcomeOK, OutcomeNotRun}, says: []string{"done", "1 tool calls"}},
		{name: "steps used up", limits: Limits{Steps: 1}, replies: []replyFunc{two}, stop: StopMaxSteps,
			outcomes: []Outcome{OutcomeOK, OutcomeOK}},
		{name: "result too large", limits: Limits{Result: 10}, replies: []replyFunc{two, says("ok")},
			do: answer(Result{Text: strings.Repeat("x", 11)}), stop: StopEndTurn, outcomes: []Outcome{OutcomeError, OutcomeNotRun}, says: []string{"too large"}},
		{name: "results too large together", limits: Limits{ResultsTotal: 15}, replies: []replyFunc{two},
			do: answer(Result{Text: strings.Repeat("x", 10)}), stop: StopBudget, outcomes: []Outcome{OutcomeOK, OutcomeError}},
		{name: "bug_9 cut off", replies: []replyFunc{deltas(nil, callDelta("a", "do", `{}`), callDelta("b", "do", `{}`), finish(models.FinishLength))},
			stop: StopMaxTokens, outcomes: []Outcome{OutcomeNotRun, OutcomeNotRun}, says: []string{"cut off", "cut off"}},
		{name: "stream broke", replies: []replyFunc{deltas(models.ErrCutOff, callDelta("a", "do", `{}`), callDelta("b", "do", `{}`))},
			stop: StopFailed, outcomes: []Outcome{OutcomeNotRun, OutcomeNotRun}, says: []string{"broke off"}},
		{name: "no finish", replies: []replyFunc{deltas(nil, callDelta("a", "do", `{}`), callDelta("b", "do", `{}`))},
			stop: StopFailed, outcomes: []Outcome{OutcomeNotRun, OutcomeNotRun}},
		{name: "refusal", replies: []replyFunc{deltas(nil, callDelta("a", "do", `{}`), callDelta("b", "do", `{}`), finish(models.FinishRefusal))},
			stop: StopRefusal, outcomes: []Outcome{OutcomeNotRun, OutcomeNotRun}},
		{name: "same id twice", replies: []replyFunc{callsOf(callDelta("a", "do", `{}`), callDelta("a", "do", `{}`), callDelta("c", "do", `{}`)), says("ok")},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeOK, OutcomeDuplicate, OutcomeOK}, says: []string{"", "same id"}},
		{name: "id of an earlier reply", replies: []replyFunc{callsOf(callDelta("a", "do", `{}`)), callsOf(callDelta("a", "do", `{}`)), says("ok")},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeOK, OutcomeOK}},
		{name: "unknown tool", replies: []replyFunc{callsOf(callDelta("a", "undo", `{}`), callDelta("b", "do", `{}`)), says("ok")},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeNotRun, OutcomeNotRun}, says: []string{"The tools are: do"}},
		{name: "arguments no object", replies: []replyFunc{callsOf(callDelta("a", "do", `[1]`)), says("ok")},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeNotRun}, says: []string{"one JSON object"}},
		{name: "arguments too long", limits: Limits{Arguments: 4}, replies: []replyFunc{callsOf(callDelta("a", "do", `{"a":1}`)), says("ok")},
			stop: StopEndTurn, outcomes: []Outcome{OutcomeNotRun}, says: []string{"the limit is 4"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, row.limits, WindowConfig{}, row.replies...)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b.tools.do = row.do
			if row.cause != nil {
				b.tools.do = func(ctx context.Context, _ models.ToolCall, yield func(Update, error) bool) {
					cancel(row.cause)
					<-ctx.Done()
					yield(Update{}, ctx.Err())
				}
			}
			ended := b.turn.Run(ctx)
			if ended.Stop != row.stop {
				t.Errorf("stop %q (%s, %v), want %q", ended.Stop, ended.Reason, ended.Err, row.stop)
			}
			checkOneResultPerCall(t, b.recorder, b.window)
			results := b.recorder.ended()
			if len(results) != len(row.outcomes) {
				t.Fatalf("%d results, want %d", len(results), len(row.outcomes))
			}
			for i, r := range results {
				if r.Result.Outcome != row.outcomes[i] {
					t.Errorf("call %d: outcome %s, want %s", i, r.Result.Outcome, row.outcomes[i])
				}
				if i < len(row.says) && !strings.Contains(r.Result.Text, row.says[i]) {
					t.Errorf("call %d says %q, want %q in it", i, r.Result.Text, row.says[i])
				}
			}
		})
	}
}

// TestBug23SameCallForEver also holds F-66, the pair of calls that take turns.
func TestBug23SameCallForEver(t *testing.T) {
	n := 0
	for name, next := range map[string]replyFunc{
		"bug_23 one call": func(r models.Request) iter.Seq2[models.Delta, error] {
			return callsOf(callDelta("", "do", `{"list":"."}`))(r)
		},
		"F-66 alternating": func(r models.Request) iter.Seq2[models.Delta, error] {
			n++
			return callsOf(callDelta("", "do", fmt.Sprintf(`{"list":%d}`, n%2)))(r)
		},
		"unknown tool": func(r models.Request) iter.Seq2[models.Delta, error] {
			return callsOf(callDelta("", "undo", `{}`))(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Limits{}, WindowConfig{}, next)
			b.tools.do = answer(Result{Text: "a b c"})
			ended := b.turn.Run(t.Context())
			if ended.Stop != StopBudget || !strings.Contains(ended.Reason, "same call") {
				t.Errorf("stop %q: %s", ended.Stop, ended.Reason)
			}
			if got := len(b.recorder.ended()); got > loopSpan {
				t.Errorf("%d calls before the stop", got)
			}
			checkOneResultPerCall(t, b.recorder, b.window)
		})
	}
}

func TestModelFaults(t *testing.T) {
	busy := fmt.Errorf("429: %w", models.ErrRateLimit)
	rows := []struct {
		name    string
		replies []replyFunc
		stop    StopReason
		asked   int
		says    string
	}{
		{"empty answer once", []replyFunc{deltas(nil, finish(models.FinishStop)), says("here")}, StopEndTurn, 2, ""},
		{"empty answer twice", []replyFunc{deltas(nil, finish(models.FinishStop))}, StopFailed, 2, "empty answer"},
		{"thinking only once", []replyFunc{deltas(nil, thought("hm"), finish(models.FinishThinkingOnly)), says("here")}, StopEndTurn, 2, ""},
		{"thinking only twice", []replyFunc{deltas(nil, thought("hm"), finish(models.FinishLength))}, StopMaxTokens, 2, "thinking"},
		{"cut off text", []replyFunc{deltas(nil, textDelta("half"), finish(models.FinishLength))}, StopMaxTokens, 1, "cut off"},
		{"cut off before anything", []replyFunc{deltas(nil, finish(models.FinishLength))}, StopMaxTokens, 1, "cut off at the model's limit"},
		{"cut off after a call", []replyFunc{deltas(nil, callDelta("a", "do", `{}`), finish(models.FinishLength))}, StopMaxTokens, 1, "cut off at the model's limit; its calls were not run"},
		{"cut off after thinking and a call", []replyFunc{deltas(nil, thought("hm"), callDelta("a", "do", `{}`), finish(models.FinishLength))}, StopMaxTokens, 1, "its calls were not run"},
		{"busy then fine", []replyFunc{deltas(busy), deltas(busy), says("here")}, StopEndTurn, 3, ""},
		{"busy for ever", []replyFunc{deltas(busy)}, StopFailed, 1 + maxRateLimitRetries, "429"},
		{"overflow then fine", []replyFunc{deltas(models.ErrOverflow), says("here")}, StopEndTurn, 2, ""},
		{"overflow twice", []replyFunc{deltas(models.ErrOverflow)}, StopFailed, 2, "does not fit"},
		{"text for ever", []replyFunc{endless(textDelta(strings.Repeat("x", 1<<16)))}, StopFailed, 1, "more than 2 MiB"},
		{"calls for ever", []replyFunc{endless(callDelta("a", "do", `{}`))}, StopFailed, 1, "1024 parts"},
		{"unreachable", []replyFunc{deltas(fmt.Errorf("no answer from 127.0.0.1: %w", models.ErrUnreachable))}, StopFailed, 1, "no answer from"},
		{"foreign error stays inside", []replyFunc{deltas(errors.New("secret"))}, StopFailed, 1, "see the daemon's log"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Limits{}, WindowConfig{}, row.replies...)
				ended := b.turn.Run(t.Context())
				if ended.Stop != row.stop || len(b.model.requests) != row.asked {
					t.Errorf("stop %q after %d requests, want %q after %d", ended.Stop, len(b.model.requests), row.stop, row.asked)
				}
				if !strings.Contains(ended.Reason, row.says) || strings.Contains(ended.Reason, "secret") {
					t.Errorf("reason %q, want %q in it", ended.Reason, row.says)
				}
			})
		})
	}
}

// TestBusyEngineIsWaitedForAsItAsks waits no longer than a person would, and
// says what it waits for.
func TestBusyEngineIsWaitedForAsItAsks(t *testing.T) {
	busy := fmt.Errorf("the quota is used up (HTTP 429): %w", models.ErrRateLimit)
	for _, row := range []struct {
		after  time.Duration
		asked  int
		took   time.Duration
		status []string
		says   string
	}{
		{0, 4, 26 * time.Second, []string{"2 s", "6 s", "18 s"}, "HTTP 429"},
		{time.Second, 4, 3 * time.Second, []string{"1 s", "1 s", "1 s"}, "HTTP 429"},
		{30 * time.Second, 4, 90 * time.Second, []string{"30 s", "30 s", "30 s"}, "HTTP 429"},
		{31 * time.Second, 1, 0, nil, "left alone for 31 s"},
		{time.Hour, 1, 0, nil, "left alone for 60 min: try again after 1 Jan 01:00"},
	} {
		t.Run(row.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fault := error(busy)
				if row.after > 0 {
					fault = fmt.Errorf("asking m: %w", &models.BusyError{Err: busy, After: row.after})
				}
				b := newBench(t, Limits{}, WindowConfig{}, deltas(fault))
				start := time.Now()
				ended := b.turn.Run(t.Context())
				if ended.Stop != StopFailed || len(b.model.requests) != row.asked || time.Since(start) != row.took {
					t.Errorf("stop %q after %d requests and %s, want %d and %s", ended.Stop, len(b.model.requests), time.Since(start), row.asked, row.took)
				}
				says := strings.ReplaceAll(row.says, "1 Jan 01:00", start.Add(row.after).Format("2 Jan 15:04"))
				if !strings.Contains(ended.Reason, says) || !errors.Is(ended.Err, models.ErrRateLimit) {
					t.Errorf("reason %q (%v), want %q in it", ended.Reason, ended.Err, says)
				}
				var got []string
				for _, d := range b.recorder.shown {
					got = append(got, strings.TrimPrefix(d.Status, "the model is busy, trying again in "))
				}
				if fmt.Sprint(got) != fmt.Sprint(row.status) {
					t.Errorf("shown %q, want %q", got, row.status)
				}
			})
		})
	}
}

func TestThinkingIsSwitchedOffForTheRetry(t *testing.T) {
	b := newBench(t, Limits{}, WindowConfig{}, deltas(nil, thought("hm"), finish(models.FinishThinkingOnly)), says("here"))
	b.turn.Run(t.Context())
	if got := b.model.requests[1].Thinking; got != models.ThinkingOff {
		t.Errorf("second request thinks %q", got)
	}
}

// TestClockStandsStillForAPerson lets an approval take longer than the turn may.
func TestClockStandsStillForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Limits{Clock: time.Hour}, WindowConfig{}, callsOf(callDelta("a", "do", `{}`)), says("done"))
		b.tools.do = func(_ context.Context, _ models.ToolCall, yield func(Update, error) bool) {
			yield(Update{Approval: &Approval{ID: "p", Kind: "pairing"}}, nil)
			<-time.After(3 * time.Hour)
			yield(Update{Approval: &Approval{ID: "p", Kind: "pairing", Outcome: "approved"}}, nil)
			yield(Update{Result: &Result{Text: "fine"}}, nil)
		}
		if ended := b.turn.Run(t.Context()); ended.Stop != StopEndTurn {
			t.Errorf("stop %q: %s", ended.Stop, ended.Reason)
		}
	})
}

func TestClockEndsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Limits{Clock: time.Hour}, WindowConfig{}, callsOf(callDelta("a", "do", `{}`)), says("done"))
		b.tools.do = func(ctx context.Context, _ models.ToolCall, yield func(Update, error) bool) {
			<-ctx.Done()
			yield(Update{}, context.Cause(ctx))
		}
		if ended := b.turn.Run(t.Context()); ended.Stop != StopBudget {
			t.Errorf("stop %q", ended.Stop)
		}
		checkOneResultPerCall(t, b.recorder, b.window)
	})
}

// TestRecordedBeforeRun lets the store refuse the start of a call: it must not
// run then.
func TestRecordedBeforeRun(t *testing.T) {
	b := newBench(t, Limits{}, WindowConfig{}, callsOf(callDelta("a", "do", `{}`)), says("done"))
	b.recorder.refuse = func(e Event) error {
		if _, ok := e.(CallStarted); ok {
			return errors.New("disk full")
		}
		return nil
	}
	ended := b.turn.Run(t.Context())
	if len(b.tools.ran) != 0 {
		t.Error("the call ran without a record")
	}
	if ended.Stop != StopFailed || ended.Reason != textNotStored {
		t.Errorf("stop %q: %s", ended.Stop, ended.Reason)
	}
}
