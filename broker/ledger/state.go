package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lomi/broker/control"
)

const (
	// maxResult bounds the result kept with a receipt (broker spec 6.2).
	maxResult = 64 << 10
	// maxMessage bounds the public text of a failure. A longer one is cut
	// with a mark: how an effect ended must not stay unrecorded over a text.
	maxMessage = 2 << 10
)

// allowed lists where each state may go (broker spec 6.2).
func allowed(from control.State) []control.State {
	switch from {
	case control.StateQueued:
		return []control.State{control.StateAwaitingUser, control.StateRunning, control.StateCancelled, control.StateFailed}
	case control.StateAwaitingUser:
		return []control.State{control.StateQueued, control.StateCancelled, control.StateFailed}
	case control.StateRunning:
		return []control.State{control.StateSucceeded, control.StateFailed, control.StateCancelling, control.StateOutcomeUnknown}
	case control.StateCancelling:
		return []control.State{control.StateCancelled, control.StateSucceeded, control.StateFailed, control.StateOutcomeUnknown}
	}
	return nil
}

// Change asks for one transition of a receipt.
type Change struct {
	// From are the states in which the change is meant; none means any from
	// which it is allowed.
	From []control.State
	To   control.State
	// Effect is what is known afterwards.
	Effect control.Effect
	// Result is a JSON value of at most 64 KiB, written once.
	Result json.RawMessage
	// Code and Message are the public reason of a failure, a cancellation or
	// an unknown outcome.
	Code    control.Code
	Message string
}

// check holds the rules of broker spec 6.2 against a receipt as it stands.
func (c Change) check(r Receipt) error {
	if len(c.From) > 0 && !slices.Contains(c.From, r.State) || !slices.Contains(allowed(r.State), c.To) {
		return refuse(&StateError{ID: r.ID, State: r.State, To: c.To})
	}
	waiting := r.State == control.StateQueued || r.State == control.StateAwaitingUser
	switch {
	case !validEffect(c.Effect):
		return invalid("no such effect")
	case waiting && c.Effect != control.EffectNone:
		return invalid("what was never dispatched has no effect")
	case c.To == control.StateOutcomeUnknown && c.Effect != control.EffectUnknown:
		return invalid("an unknown outcome has an unknown effect")
	case c.To == control.StateSucceeded && c.Effect != control.EffectComplete:
		return invalid("a success has a complete effect")
	case len(c.Result) > maxResult:
		return invalid(fmt.Sprintf("a result of more than %d bytes", maxResult))
	case c.Result != nil && !json.Valid(c.Result):
		return invalid("a result that is no JSON")
	case c.Result != nil && r.ResultHash != (Hash{}):
		return invalid("a second result")
	}
	return nil
}

func validEffect(e control.Effect) bool {
	switch e {
	case control.EffectNone, control.EffectPartial, control.EffectComplete, control.EffectUnknown:
		return true
	}
	return false
}

// cut shortens a text to at most limit bytes at a character and says so.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
