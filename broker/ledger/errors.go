package ledger

import (
	"errors"
	"fmt"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

// ErrInvalid is a request that no state of the ledger could take: a fault of
// the caller, not of the agent behind it.
var ErrInvalid = errors.New("invalid ledger request")

// OwnedError says that another process has the store, and which.
type OwnedError = sqlite.OwnedError

// LossError says that the store is not the one that was last acknowledged. The
// store stays as it is until a person decides (SetAside).
type LossError struct {
	Reason   string // for a person
	MarkSeq  uint64 // the last acknowledged row, as far as the mark says
	StoreSeq uint64 // the last row of the store
	Err      error  // what stopped the check, if something did
}

// Error implements error.
func (e *LossError) Error() string {
	text := fmt.Sprintf("the record of effects has lost entries: %s (acknowledged %d, stored %d)", e.Reason, e.MarkSeq, e.StoreSeq)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the error that stopped the check.
func (e *LossError) Unwrap() error { return e.Err }

// StateError says that a receipt is not in a state from which the asked-for
// change is allowed. Another caller was faster, as a rule.
type StateError struct {
	ID    string
	State control.State // where the receipt stands
	To    control.State
}

// Error implements error.
func (e *StateError) Error() string {
	return fmt.Sprintf("receipt %s is %s and cannot become %s", e.ID, e.State, e.To)
}

// refusal marks an error that is the answer to one job of a batch. Whatever
// is not a refusal fails the whole batch, because nobody knows how far the
// transaction got.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refuse(err error) error { return refusal{err} }

func refusef(code control.Code, text string) error {
	return refusal{control.Errorf(code, "%s", text)}
}

func invalid(text string) error { return refusal{fmt.Errorf("%w: %s", ErrInvalid, text)} }

func isRefusal(err error) bool {
	_, ok := errors.AsType[refusal](err)
	return ok
}

// unavailable is what a caller learns of a store that cannot be used.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	text := "The record of effects cannot be used, so nothing that changes something is run."
	if errors.Is(err, sqlite.ErrFull) {
		text = "No space is left for the record of effects, so nothing that changes something is run."
	}
	return fmt.Errorf("%w: %w", control.Errorf(control.StorageUnavailable, "%s", text), err)
}
