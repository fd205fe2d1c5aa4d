package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lomi/models"
)

// What the model reads about calls that have no result of their own. The texts
// differ on purpose: a model that is told "refused" when the person only
// pressed Stop draws the wrong conclusion.
const (
	textCancelled   = "Cancelled: the person pressed Stop while this call was running. They did not refuse it. It may have had part of its effect."
	textStopped     = "Not run: the person pressed Stop before this call began. They did not refuse it."
	textShutdown    = "Not run: Lomi is being stopped."
	textClock       = "Not run: the turn has used up its time."
	textTimedOut    = "Timed out: the turn used up its time while this call was running. It may have had part of its effect; look before you repeat it."
	textEarlier     = "Not run: an earlier call of the same reply did not succeed. Read its result, then decide again."
	textDuplicate   = "Not run: another call of this reply has the same id. Give each call its own id."
	textCutOff      = "Not run: the reply was cut off at the model's limit, so the call may be incomplete. Make it again, shorter."
	textRefused     = "Not run: the reply was a refusal."
	textBroken      = "Not run: the reply broke off before it was complete."
	textTooMany     = "Not run: the turn has used up its %d tool calls. Say what is done and what is left."
	textLoop        = "Not run: the same call was made again and again with the same result."
	textFull        = "Not run: the results of this turn are too large together."
	textUnknown     = "Outcome unknown: the connection to the tool was lost while this call was running. It may have had its effect; look before you repeat it."
	textResultLarge = "The result was too large to keep (%d MiB; the limit is %d MiB). Ask for less."
	textResultsFull = "The results of this turn were too large together (over %d MiB), so this one was not kept."
)

// act carries out the calls of the reply, in order, one at a time. A call that
// does not succeed keeps those after it from running, because a model plans
// them on its success.
func (t *Turn) act(ctx context.Context) state {
	calls := t.reply.calls()
	message := models.Message{Role: models.RoleTool}
	defer func() { t.cfg.Window.Add(message) }()
	skip, next := "", think
	for _, call := range calls {
		result, err := t.one(ctx, call, skip)
		if err != nil {
			return t.unstored(err)
		}
		message.Parts = append(message.Parts, resultPart(call, result))
		if next == stop || skip != "" && ctx.Err() == nil {
			continue
		}
		switch reason, text, rest := t.endsTurn(ctx, call, result); {
		case reason != "":
			skip, next = rest, t.finish(reason, text)
		case result.IsError && result.Outcome != OutcomeDuplicate:
			skip = textEarlier
		}
	}
	return next
}

// one gives a call its one result: by running it, or by saying why not.
func (t *Turn) one(ctx context.Context, call models.ToolCall, skip string) (Result, error) {
	start := time.Now()
	if err := t.record(ctx, CallStarted{Message: t.reply.message, Call: call}); err != nil {
		return Result{}, err
	}
	result, refused := t.refuse(ctx, call, skip)
	if !refused {
		var err error
		if result, err = t.run(ctx, call); err != nil {
			return Result{}, err
		}
		result = t.bound(result)
	}
	ended := CallEnded{Call: call.ID, Name: call.Name, Result: result, Duration: time.Since(start)}
	return result, t.record(ctx, ended)
}

// refuse says why a call must not run, if it must not. Nothing has been
// dispatched then.
func (t *Turn) refuse(ctx context.Context, call models.ToolCall, skip string) (Result, bool) {
	no := func(format string, args ...any) (Result, bool) {
		return Result{Text: fmt.Sprintf(format, args...), IsError: true, Outcome: OutcomeNotRun}, true
	}
	if ctx.Err() != nil {
		reason, _ := t.stopped(ctx)
		return no("%s", skippedBecause(reason))
	}
	switch {
	case t.reply.duplicates[call.ID]:
		return Result{Text: textDuplicate, IsError: true, Outcome: OutcomeDuplicate}, true
	case skip != "":
		return no("%s", skip)
	case t.calls >= t.cfg.Limits.Calls:
		return no(textTooMany, t.cfg.Limits.Calls)
	case call.Malformed != "":
		return no("Not run: the arguments of %s are malformed: %s", call.Name, call.Malformed)
	case len(call.Arguments) > t.cfg.Limits.Arguments:
		return no("Not run: the arguments are %d bytes; the limit is %d. Do it in smaller pieces.", len(call.Arguments), t.cfg.Limits.Arguments)
	case len(call.Arguments) > 0 && !plainObject(call.Arguments):
		return no("Not run: the arguments of %s must be one JSON object.", call.Name)
	case !slices.ContainsFunc(t.specs, func(s models.ToolSpec) bool { return s.Name == call.Name }):
		return no("Not run: there is no tool of this name. The tools are: %s.", t.toolNames())
	}
	return Result{}, false
}

func (t *Turn) toolNames() string {
	names := make([]string, len(t.specs))
	for i, s := range t.specs {
		names[i] = s.Name
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// run dispatches a call and watches it to its result. The error is that of
// recording; a failure of the tool is in the result.
func (t *Turn) run(ctx context.Context, call models.ToolCall) (Result, error) {
	t.calls++
	if len(call.Arguments) == 0 {
		call.Arguments = []byte("{}")
	}
	defer t.clock.resume()
	var result *Result
	for update, err := range t.cfg.Tools.Call(ctx, call) {
		if err != nil {
			t.cfg.Logger.WarnContext(ctx, "tool call failed", "tool", call.Name, "call", call.ID, "err", err)
			r := t.lost(ctx)
			return r, nil
		}
		if err := t.update(ctx, call, update); err != nil {
			return Result{}, err
		}
		if update.Result != nil {
			result = update.Result
			break
		}
	}
	switch {
	case result == nil:
		return t.lost(ctx), nil
	case ctx.Err() != nil && result.Text == "" && result.Outcome == "":
		// The tool leaves it to the turn to say why the context ended.
		lost := t.lost(ctx)
		lost.Receipt = result.Receipt
		return lost, nil
	}
	if result.Outcome == "" {
		result.Outcome = OutcomeOK
		if result.IsError {
			result.Outcome = OutcomeError
		}
	}
	return *result, nil
}

func (t *Turn) update(ctx context.Context, call models.ToolCall, u Update) error {
	switch {
	case u.Progress != nil:
		t.cfg.Recorder.Show(Delta{Call: call.ID, Progress: u.Progress})
	case u.Approval != nil:
		t.waiting(u.Approval.Outcome == "")
		return t.record(ctx, ApprovalChanged{Call: call.ID, Approval: *u.Approval})
	case u.Question != nil:
		t.waiting(!u.Question.Answered)
		return t.record(ctx, QuestionChanged{Call: call.ID, Question: *u.Question})
	}
	return nil
}

func (t *Turn) waiting(forPerson bool) {
	if forPerson {
		t.clock.pause()
	} else {
		t.clock.resume()
	}
}

// lost is the result of a call that ended without one.
func (t *Turn) lost(ctx context.Context) Result {
	if ctx.Err() == nil {
		return Result{Text: textUnknown, IsError: true, Outcome: OutcomeUnknown}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrLimit):
		return Result{Text: textTimedOut, IsError: true, Outcome: OutcomeTimedOut}
	case errors.Is(cause, ErrInterrupted):
		return Result{Text: textInterrupted, IsError: true, Outcome: OutcomeInterrupted}
	}
	return Result{Text: textCancelled, IsError: true, Outcome: OutcomeCancelled}
}

// bound keeps a result within the budgets.
func (t *Turn) bound(r Result) Result {
	size := len(r.Text)
	for _, p := range r.Pictures {
		size += len(p.Image.Data)
	}
	const mib = 1 << 20
	switch limits := t.cfg.Limits; {
	case size > limits.Result:
		r.Text, r.IsError, r.Outcome, r.Pictures = fmt.Sprintf(textResultLarge, size/mib, limits.Result/mib), true, OutcomeError, nil
	case t.resultBytes+size > limits.ResultsTotal:
		t.resultBytes += size // stays over: the turn ends
		r.Text, r.IsError, r.Outcome, r.Pictures = fmt.Sprintf(textResultsFull, limits.ResultsTotal/mib), true, OutcomeError, nil
	default:
		t.resultBytes += size
	}
	return r
}

// endsTurn says why a turn is over after a call, "" if it goes on, and what the
// model reads about the calls that are left.
func (t *Turn) endsTurn(ctx context.Context, call models.ToolCall, r Result) (reason StopReason, text, rest string) {
	switch {
	case ctx.Err() != nil:
		reason, text = t.stopped(ctx)
		return reason, text, skippedBecause(reason)
	case t.resultBytes > t.cfg.Limits.ResultsTotal:
		return StopBudget, fmt.Sprintf("The results of this turn's tool calls passed %d MiB together.", t.cfg.Limits.ResultsTotal>>20), textFull
	case r.Outcome == OutcomeNotRun && t.calls >= t.cfg.Limits.Calls:
		text = fmt.Sprintf(textTooMany, t.cfg.Limits.Calls)
		return StopBudget, fmt.Sprintf("The turn used up its %d tool calls. Say “go on” to continue.", t.cfg.Limits.Calls), text
	case r.Outcome != OutcomeDuplicate && t.loop.seen(call, r.Text):
		return StopBudget, fmt.Sprintf("The model kept making the same call (%s) with the same result, so Lomi stopped the turn.", call.Name), textLoop
	}
	return "", "", ""
}

// skipAll gives every call of the reply a result that says why it was not run,
// then ends the turn.
func (t *Turn) skipAll(ctx context.Context, why string, reason StopReason, text string) state {
	message := models.Message{Role: models.RoleTool}
	defer func() {
		if len(message.Parts) > 0 {
			t.cfg.Window.Add(message)
		}
	}()
	for _, call := range t.reply.calls() {
		result := Result{Text: why, IsError: true, Outcome: OutcomeNotRun}
		for _, event := range []Event{
			CallStarted{Message: t.reply.message, Call: call},
			CallEnded{Call: call.ID, Name: call.Name, Result: result},
		} {
			if err := t.record(ctx, event); err != nil {
				return t.unstored(err)
			}
		}
		message.Parts = append(message.Parts, resultPart(call, result))
	}
	return t.finish(reason, text)
}

func skippedBecause(reason StopReason) string {
	switch reason {
	case StopInterrupted:
		return textShutdown
	case StopBudget:
		return textClock
	}
	return textStopped
}

func resultPart(call models.ToolCall, r Result) models.Part {
	result := ResultMessage(call.ID, call.Name, r)
	return models.Part{Kind: models.PartResult, Result: &result}
}

// ResultMessage is what the model sees of a result.
func ResultMessage(callID, name string, r Result) models.ToolResult {
	result := models.ToolResult{CallID: callID, Name: name, Text: r.Text, IsError: r.IsError}
	for _, p := range r.Pictures {
		if len(p.Image.Data) > 0 {
			result.Images = append(result.Images, p.Image)
		}
	}
	return result
}
