package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lomi/models"
)

// recordTimeout bounds the recording of what must be told after a turn's
// context has ended. A store that is slower than this is broken.
const recordTimeout = 5 * time.Second

// Config is what a turn works with.
type Config struct {
	// Model produces the replies; Name is what to call it within its connection.
	Model models.Model
	Name  string
	// Thinking is passed on with each request.
	Thinking models.Thinking
	// Window holds the history, the message that this turn answers included.
	Window *Window
	// Tools carries out the calls, nil for none.
	Tools Tools
	// Recorder gets every event and delta.
	Recorder Recorder
	// NewID makes the ids of messages, and of calls whose own id is taken.
	NewID func() string
	// Limits bounds the turn.
	Limits Limits
	// Logger gets what a person need not see, nil for nothing.
	Logger *slog.Logger
}

// Ended says how a turn ended. Reason is for the person, empty when Stop says
// it all; Err is the failure behind it, for the log.
type Ended struct {
	Stop   StopReason
	Reason string
	Err    error
	Usage  models.Usage
}

// Turn carries one message of a person to its stop reason. It is used by one
// goroutine, once.
type Turn struct {
	cfg   Config
	clock *clock
	specs []models.ToolSpec
	loop  loop

	steps       int
	calls       int
	resultBytes int
	retried     retries
	thinking    models.Thinking

	reply reply // the one being read or acted on
	ended Ended
}

// retries counts what is tried again only so often.
type retries struct {
	empty     int
	thinking  int
	overflow  int
	rateLimit int
}

// state is what a turn does next.
type state int

const (
	think state = iota
	act
	stop
)

// New checks cfg and makes a turn.
func New(cfg Config) (*Turn, error) {
	switch {
	case cfg.Model == nil:
		return nil, errors.New("making a turn: no model")
	case cfg.Window == nil:
		return nil, errors.New("making a turn: no window")
	case cfg.Recorder == nil:
		return nil, errors.New("making a turn: no recorder")
	case cfg.NewID == nil:
		return nil, errors.New("making a turn: no ids")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.orDefault()
	return &Turn{cfg: cfg, thinking: cfg.Thinking}, nil
}

// Run carries the turn to its end. When it returns, each call of each reply has
// exactly one result on record, whatever happened, unless recording itself
// failed.
func (t *Turn) Run(ctx context.Context) Ended {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.clock = startClock(cancel, t.cfg.Limits.Clock)
	defer t.clock.stop()
	for next := t.begin(ctx); next != stop; {
		switch next {
		case think:
			next = t.think(ctx)
		case act:
			next = t.act(ctx)
		}
	}
	return t.ended
}

// begin asks for the tools, once, so that the prompt's head stays the same.
func (t *Turn) begin(ctx context.Context) state {
	if t.cfg.Tools == nil {
		return think
	}
	specs, err := t.cfg.Tools.Specs(ctx)
	if err != nil {
		return t.fail(ctx, "The tools could not be listed.", fmt.Errorf("listing tools: %w", err))
	}
	t.specs = specs
	return think
}

// finish ends the turn.
func (t *Turn) finish(reason StopReason, text string) state {
	t.ended.Stop, t.ended.Reason = reason, text
	return stop
}

// fail ends the turn for err, unless the context ended: then its cause is the
// reason, and err only its echo.
func (t *Turn) fail(ctx context.Context, text string, err error) state {
	if ctx.Err() != nil {
		return t.finish(t.stopped(ctx))
	}
	t.ended.Err = err
	return t.finish(StopFailed, text)
}

// stopped maps the cause of an ended context to the stop reason.
func (t *Turn) stopped(ctx context.Context) (StopReason, string) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrLimit):
		return StopBudget, fmt.Sprintf("The turn used up its %s.", t.cfg.Limits.Clock)
	case errors.Is(cause, ErrInterrupted):
		return StopInterrupted, "Lomi was stopped."
	}
	return StopCancelled, ""
}

// record tells the recorder, even after ctx has ended.
func (t *Turn) record(ctx context.Context, event Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := t.cfg.Recorder.Record(ctx, event); err != nil {
		return fmt.Errorf("recording %T: %w", event, err)
	}
	return nil
}

const textNotStored = "The conversation could not be stored. Nothing more was done."

// unstored ends a turn whose events cannot be kept: going on would act without
// a record.
func (t *Turn) unstored(err error) state {
	t.ended.Err = err
	return t.finish(StopFailed, textNotStored)
}
