package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lomi/models"
)

// How often a turn tries again. A busy engine is waited for as long as it asks,
// else a little longer each time; a wait that a person would not sit through is
// theirs to decide on. The other faults are worth exactly one more try.
const (
	maxRateLimitRetries = 3
	firstRateLimitWait  = 2 * time.Second
	rateLimitFactor     = 3
	longestBusyWait     = 30 * time.Second
)

// Bounds of one reply, for an engine that streams for ever.
const (
	maxReplyBytes = 2 << 20
	maxReplyParts = 1024
)

// reply is one assistant message being read.
type reply struct {
	message string
	parts   []models.Part
	bytes   int // of texts and arguments
	finish  models.FinishReason
	usage   models.Usage
	// duplicates are the calls whose id another call of this reply had.
	duplicates map[string]bool
}

// open reports whether the last part goes on with kind.
func (r *reply) open(kind models.PartKind) bool {
	return len(r.parts) > 0 && r.parts[len(r.parts)-1].Kind == kind && len(r.parts[len(r.parts)-1].Opaque) == 0
}

func (r *reply) calls() []models.ToolCall {
	var calls []models.ToolCall
	for _, p := range r.parts {
		if p.Kind == models.PartCall {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

func (r *reply) says() bool {
	for _, p := range r.parts {
		if p.Kind == models.PartText && p.Text != "" {
			return true
		}
	}
	return false
}

func (r *reply) thinks() bool {
	return slices.ContainsFunc(r.parts, func(p models.Part) bool { return p.Kind == models.PartThinking && p.Text != "" })
}

// think asks the model for one reply and decides what follows from it.
func (t *Turn) think(ctx context.Context) state {
	if ctx.Err() != nil {
		return t.finish(t.stopped(ctx))
	}
	if t.steps >= t.cfg.Limits.Steps {
		return t.finish(StopMaxSteps, fmt.Sprintf("The turn made %d steps. Say “go on” to continue.", t.steps))
	}
	if next, ok := t.compact(ctx, false); !ok {
		return next
	}
	t.steps++
	t.reply = reply{message: t.cfg.NewID()}
	if err := t.record(ctx, ReplyStarted{Message: t.reply.message, Step: t.steps}); err != nil {
		return t.unstored(err)
	}
	streamErr := t.read(ctx)
	t.nameCalls()
	if err := t.record(ctx, ReplyEnded{Message: t.reply.message, Parts: t.reply.parts, Finish: t.reply.finish, Usage: t.reply.usage}); err != nil {
		return t.unstored(err)
	}
	t.count()
	t.cfg.Window.Add(models.Message{Role: models.RoleAssistant, Parts: t.reply.parts})
	if streamErr != nil {
		return t.broken(ctx, streamErr)
	}
	if warning := t.cfg.Window.observe(t.reply.usage); warning != "" {
		if err := t.record(ctx, Noticed{Text: warning}); err != nil {
			return t.unstored(err)
		}
	}
	return t.after(ctx)
}

// compact makes the prompt fit; false means that the turn is over.
func (t *Turn) compact(ctx context.Context, force bool) (state, bool) {
	w := t.cfg.Window
	for _, c := range w.fit(t.specs, force) {
		if err := t.record(ctx, Compacted{Compaction: c, Note: c.Note()}); err != nil {
			return t.unstored(err), false
		}
	}
	if !force && !w.fits(t.specs) {
		err := fmt.Errorf("%w: about %d tokens of %d", models.ErrOverflow, w.Estimate(t.specs), w.cfg.Tokens)
		return t.fail(ctx, t.tooLarge(), err), false
	}
	return think, true
}

func (t *Turn) tooLarge() string {
	return fmt.Sprintf("The message does not fit into the model's window of %d tokens, even with everything before it shortened. Send less at once, switch tools off, or choose a model with a larger window.", t.cfg.Window.cfg.Tokens)
}

// read pulls the reply's stream to its end. An error leaves in t.reply what had
// come.
func (t *Turn) read(ctx context.Context) error {
	request := models.Request{
		Model:           t.cfg.Name,
		Messages:        t.cfg.Window.Messages(),
		Tools:           t.specs,
		MaxOutputTokens: t.cfg.Window.sending(t.specs),
		Window:          t.cfg.Window.asked,
		Thinking:        t.thinking,
	}
	for delta, err := range t.cfg.Model.Stream(ctx, request) {
		if err != nil {
			return err
		}
		t.take(delta)
		if t.reply.bytes > maxReplyBytes || len(t.reply.parts) > maxReplyParts {
			return fmt.Errorf("%w: a reply of more than %d MiB or %d parts", models.ErrProtocol, maxReplyBytes>>20, maxReplyParts)
		}
	}
	if t.reply.finish == "" {
		return models.ErrCutOff
	}
	return nil
}

func (t *Turn) take(d models.Delta) {
	r := &t.reply
	switch d.Kind {
	case models.DeltaProgress:
		t.cfg.Recorder.Show(Delta{Status: d.Progress})
	case models.DeltaText:
		t.append(models.PartText, d)
	case models.DeltaThinking:
		t.append(models.PartThinking, d)
	case models.DeltaCall:
		if d.Call != nil {
			call := *d.Call
			r.bytes += len(call.Arguments)
			r.parts = append(r.parts, models.Part{Kind: models.PartCall, Call: &call, Opaque: d.Opaque})
		}
	case models.DeltaUsage:
		if d.Usage != nil {
			r.usage = *d.Usage
		}
	case models.DeltaFinish:
		r.finish = d.Finish
		if d.Usage != nil {
			r.usage = *d.Usage
		}
		if len(d.Opaque) > 0 && len(r.parts) > 0 && len(r.parts[len(r.parts)-1].Opaque) == 0 {
			r.parts[len(r.parts)-1].Opaque = d.Opaque
		}
	}
}

func (t *Turn) append(kind models.PartKind, d models.Delta) {
	r := &t.reply
	if d.Text == "" && len(d.Opaque) == 0 {
		return
	}
	if !r.open(kind) {
		r.parts = append(r.parts, models.Part{Kind: kind})
	}
	last := len(r.parts) - 1
	offset := len(r.parts[last].Text)
	r.parts[last].Text += d.Text
	r.bytes += len(d.Text)
	r.parts[last].Opaque = d.Opaque
	if d.Text != "" {
		t.cfg.Recorder.Show(Delta{Message: r.message, Part: last, Kind: kind, Offset: offset, Text: d.Text})
	}
}

// nameCalls gives a call another id when its own is empty or taken, in this
// reply or in an earlier one: engines count from 0 in every reply, and a
// history with two results of one id is refused by most. Who had an id that was
// taken in the same reply is remembered: such a call must not run.
func (t *Turn) nameCalls() {
	own := map[string]bool{}
	t.reply.duplicates = map[string]bool{}
	for _, p := range t.reply.parts {
		if p.Kind != models.PartCall {
			continue
		}
		given := p.Call.ID
		if given == "" || own[given] || t.cfg.Window.ids[given] {
			p.Call.ID = t.cfg.NewID()
		}
		if given != "" && own[given] {
			t.reply.duplicates[p.Call.ID] = true
		}
		own[given] = true
	}
}

// count adds a reply's usage to the turn's.
func (t *Turn) count() {
	u := &t.ended.Usage
	u.OutputTokens += t.reply.usage.OutputTokens
	if t.reply.usage.InputTokens > 0 {
		u.InputTokens = t.reply.usage.InputTokens // the size of the conversation now
	}
	if t.reply.usage.ContextWindow > 0 {
		u.ContextWindow = t.reply.usage.ContextWindow
	}
}

// after decides by the finish reason of a whole reply.
func (t *Turn) after(ctx context.Context) state {
	r := &t.reply
	calls := r.calls()
	switch {
	case r.finish == models.FinishRefusal:
		return t.skipAll(ctx, textRefused, StopRefusal, "The model refused.")
	case r.finish == models.FinishLength && len(calls) > 0:
		return t.skipAll(ctx, textCutOff, StopMaxTokens, "The reply was cut off at the model's limit; its calls were not run.")
	case len(calls) > 0:
		return act
	case r.finish == models.FinishThinkingOnly || r.finish == models.FinishLength && !r.says() && r.thinks():
		return t.thoughtOnly()
	case r.finish == models.FinishLength:
		return t.finish(StopMaxTokens, "The reply was cut off at the model's limit.")
	case !r.says():
		return t.saidNothing()
	}
	return t.finish(StopEndTurn, "")
}

func (t *Turn) thoughtOnly() state {
	if t.retried.thinking++; t.retried.thinking > 1 {
		return t.finish(StopMaxTokens, "The model used up its reply for thinking, twice, and gave no answer.")
	}
	t.thinking = models.ThinkingOff
	return think
}

func (t *Turn) saidNothing() state {
	if t.retried.empty++; t.retried.empty > 1 {
		t.ended.Err = models.ErrEmpty
		return t.finish(StopFailed, "The model gave an empty answer, twice. Ask again, or choose another model.")
	}
	return think
}

// broken decides what follows a stream that failed. Its calls never ran.
func (t *Turn) broken(ctx context.Context, err error) state {
	switch {
	case ctx.Err() != nil:
		reason, text := t.stopped(ctx)
		return t.skipAll(ctx, skippedBecause(reason), reason, text)
	case len(t.reply.parts) > 0:
	case errors.Is(err, models.ErrOverflow):
		if t.retried.overflow++; t.retried.overflow > 1 {
			return t.fail(ctx, t.tooLarge(), err)
		}
		t.cfg.Window.overflowed(t.specs)
		next, _ := t.compact(ctx, true)
		return next
	case errors.Is(err, models.ErrRateLimit) && t.retried.rateLimit < maxRateLimitRetries:
		if after := askedToWait(err); after > longestBusyWait {
			return t.fail(ctx, tryAgainLater(err, after), fmt.Errorf("reading a reply: %w", err))
		}
		return t.waitForEngine(ctx, askedToWait(err))
	}
	t.ended.Err = fmt.Errorf("reading a reply: %w", err)
	return t.skipAll(ctx, textBroken, StopFailed, publicText(err))
}

// askedToWait is how long a busy engine wants to be left alone, 0 when it did
// not say.
func askedToWait(err error) time.Duration {
	if busy, ok := errors.AsType[*models.BusyError](err); ok {
		return busy.After
	}
	return 0
}

func tryAgainLater(err error, after time.Duration) string {
	wait := fmt.Sprintf("%d s", int(after.Seconds()))
	if after >= 2*time.Minute {
		wait = fmt.Sprintf("%d min", int(after.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%s. It asks to be left alone for %s: try again after %s, or choose another model.",
		publicText(err), wait, time.Now().Add(after).Format("2 Jan 15:04"))
}

func (t *Turn) waitForEngine(ctx context.Context, asked time.Duration) state {
	wait := firstRateLimitWait
	for range t.retried.rateLimit {
		wait *= rateLimitFactor
	}
	if asked > 0 {
		wait = asked
	}
	t.retried.rateLimit++
	t.cfg.Recorder.Show(Delta{Status: fmt.Sprintf("the model is busy, trying again in %d s", int(math.Ceil(wait.Seconds())))})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return think
	case <-ctx.Done():
		return t.finish(t.stopped(ctx))
	}
}

// publicText is what a person reads about a failure of an engine. The text of
// an error that wraps one of the port's is written for people.
func publicText(err error) string {
	for _, known := range []error{models.ErrUnreachable, models.ErrAuth, models.ErrNoModel, models.ErrOverflow,
		models.ErrRateLimit, models.ErrCutOff, models.ErrTimeout, models.ErrProtocol, models.ErrEmpty, models.ErrUnsupported} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	return "The model engine failed; see the daemon's log."
}
