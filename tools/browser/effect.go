package browser

import (
	"context"
	"errors"

	"lomi/broker"
	"lomi/broker/control"
)

// proven marks an error of which it is certain that nothing reached the page
// or its server, although the permit was started: the guard held the request
// back, or walk.js looked before it touched anything.
type proven struct{ error }

// Unwrap lets errors.As find what it marks.
func (p proven) Unwrap() error { return p.error }

// untouched reports whether an error is so marked.
func untouched(err error) bool {
	_, ok := errors.AsType[proven](err)
	return ok
}

// spent states the effect of an error after the permit was started. Most
// errors are made where nobody knows about permits and say "none"; after a
// request has left that would invite a second one, so only a proven "none" is
// left alone.
func spent(permit *broker.Permit, err error) error {
	e, ok := control.AsError(err)
	if !ok || !permit.Started() || untouched(err) || e.Effect != control.EffectNone {
		return err // without a stated effect the broker counts it as unknown
	}
	return &control.Error{Code: control.OutcomeUnknown, Effect: control.EffectUnknown, Current: e.Current, MovedBy: e.MovedBy,
		Message: "it is not known whether it took place; look before trying again. " + e.Message}
}

// unknown marks a failure after which nobody knows what the page has taken.
func unknown(err error) error {
	text := "the page changed in the middle of it; look at the page before trying again"
	e, _ := control.AsError(err)
	switch {
	case errors.Is(err, errGone):
		text = "the browser has ended in the middle of it"
	case errors.Is(err, context.DeadlineExceeded):
		text = "the page did not answer in the middle of it; look at the page before trying again"
	case e != nil && e.Code == control.ControlRevoked:
		text = "the approval ended in the middle of it; look at the page before trying again"
	case errors.Is(err, errCancelled):
		text = "it was cancelled in the middle of it; look at the page before trying again"
	}
	return &control.Error{Code: control.OutcomeUnknown, Message: text, Effect: control.EffectUnknown}
}

// partial marks a failure after the click and before the text.
func partial(err error) error {
	if e, ok := control.AsError(err); ok {
		c := *e
		c.Effect = control.EffectPartial
		return &c
	}
	return unknown(err)
}

// withdrawn is why the right to act ended in the middle of an operation: a
// revocation, a wish to cancel, the end of the daemon. Mere lateness is not
// that: what was asked for may still arrive.
func withdrawn(ctx context.Context) error {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return nil
	}
	return context.Cause(ctx)
}
