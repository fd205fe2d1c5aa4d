// Package control is the vocabulary of Control API 1.0, shared by the broker,
// its clients, the catalog and every tool: ids, error codes, scopes, receipts,
// the answer envelope and the bounds. It links nothing but the standard
// library and decides nothing.
package control

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// APIVersion stands in every answer.
const APIVersion = "1.0"

// Bounds of one call. A frame is larger than a result, so that a result of one
// byte too many is refused by its own bound, with its own error.
const (
	MaxArguments = 64 << 10
	MaxResult    = 8 << 20
	MaxFrame     = 12 << 20
	MaxDepth     = 64
)

// Effect says what a call has done to the world, as far as is known.
type Effect string

// The effects.
const (
	EffectNone     Effect = "none"
	EffectPartial  Effect = "partial"
	EffectComplete Effect = "complete"
	EffectUnknown  Effect = "unknown"
)

// State is where a receipt stands (broker spec 6.2).
type State string

// The states of a receipt.
const (
	StateQueued         State = "queued"
	StateAwaitingUser   State = "awaiting_user"
	StateRunning        State = "running"
	StateCancelling     State = "cancelling"
	StateSucceeded      State = "succeeded"
	StateFailed         State = "failed"
	StateCancelled      State = "cancelled"
	StateOutcomeUnknown State = "outcome_unknown"
)

// Settled reports whether a receipt in this state will never change again.
func (s State) Settled() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateOutcomeUnknown:
		return true
	}
	return false
}

// Code names a failure; the 25 names are stable (broker spec 3).
type Code string

// The error codes.
const (
	AppUnavailable          Code = "APP_UNAVAILABLE"
	PairingRequired         Code = "PAIRING_REQUIRED"
	ScopeDenied             Code = "SCOPE_DENIED"
	UINotReady              Code = "UI_NOT_READY"
	AppClosing              Code = "APP_CLOSING"
	TargetNotFound          Code = "TARGET_NOT_FOUND"
	StaleGeneration         Code = "STALE_GENERATION"
	RevisionConflict        Code = "REVISION_CONFLICT"
	StaleSnapshot           Code = "STALE_SNAPSHOT"
	TargetBusy              Code = "TARGET_BUSY"
	ControlRevoked          Code = "CONTROL_REVOKED"
	PromptStateUnknown      Code = "PROMPT_STATE_UNKNOWN"
	PanelNotRenderable      Code = "PANEL_NOT_RENDERABLE"
	ProtectedOriginTerminal Code = "PROTECTED_ORIGIN_TERMINAL"
	UnsupportedCapability   Code = "UNSUPPORTED_CAPABILITY"
	HostUnqualified         Code = "HOST_UNQUALIFIED"
	DeadlineExceeded        Code = "DEADLINE_EXCEEDED"
	CursorExpired           Code = "CURSOR_EXPIRED"
	ArtifactTooLarge        Code = "ARTIFACT_TOO_LARGE"
	ArtifactInvalid         Code = "ARTIFACT_INVALID"
	OutcomeUnknown          Code = "OUTCOME_UNKNOWN"
	IdempotencyConflict     Code = "IDEMPOTENCY_CONFLICT"
	RetryWindowExpired      Code = "RETRY_WINDOW_EXPIRED"
	ResourceExhausted       Code = "RESOURCE_EXHAUSTED"
	StorageUnavailable      Code = "STORAGE_UNAVAILABLE"
)

// Error is a failure that its caller may read: Message is written for a person
// or a model and never holds a value that the caller sent. Effect is what had
// already happened, EffectNone unless set. Current and MovedBy go with
// RevisionConflict: the revision now, and who moved it ("person",
// "this_session", "another_session").
type Error struct {
	Code    Code
	Message string
	Effect  Effect
	Current string
	MovedBy string
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an Error with no effect.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Effect: EffectNone}
}

// AsError finds the Error in err. Anything else is an internal fault, whose
// text stays with the daemon: AsError reports false.
func AsError(err error) (*Error, bool) {
	return errors.AsType[*Error](err)
}

// Reply answers one call. Data is an object with a "kind" when Status is "ok".
// Image travels beside Data and is never part of it.
type Reply struct {
	Status            string          `json:"status"` // "ok" or "error"
	ControlAPIVersion string          `json:"controlApiVersion"`
	Data              json.RawMessage `json:"data,omitempty"`
	Code              Code            `json:"code,omitempty"`
	Message           string          `json:"message,omitempty"`
	Current           string          `json:"current,omitempty"`
	MovedBy           string          `json:"movedBy,omitempty"`
	Image             *Image          `json:"image,omitempty"`
}

// Image is a picture that goes with a reply.
type Image struct {
	MediaType string `json:"mediaType"`
	Data      []byte `json:"data"` // base64 in JSON
}

// OK wraps a result, which must marshal to an object with a "kind".
func OK(data any, image *Image) (Reply, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return Reply{}, fmt.Errorf("encoding a result: %w", err)
	}
	return Reply{Status: "ok", ControlAPIVersion: APIVersion, Data: raw, Image: image}, nil
}

// Failure wraps an error. An error that is no *Error becomes internal: its
// text is not shown, and the code is OUTCOME_UNKNOWN only if effect says so.
func Failure(err error) Reply {
	e, ok := AsError(err)
	if !ok {
		e = &Error{Code: AppUnavailable, Message: "internal error in Lomi; see the daemon's log"}
	}
	return Reply{Status: "error", ControlAPIVersion: APIVersion, Code: e.Code, Message: e.Message,
		Current: e.Current, MovedBy: e.MovedBy}
}

// Err gives the failure of a reply back as an *Error, nil for an ok one.
func (r Reply) Err() error {
	if r.Status == "ok" {
		return nil
	}
	return &Error{Code: r.Code, Message: r.Message, Effect: EffectNone, Current: r.Current, MovedBy: r.MovedBy}
}

// Operation is the data kind "operation": what a caller may know of a receipt.
type Operation struct {
	Kind        string          `json:"kind" enum:"operation"`
	OperationID string          `json:"operationId"`
	Tool        string          `json:"tool"`
	State       State           `json:"state" enum:"queued,awaiting_user,running,cancelling,succeeded,failed,cancelled,outcome_unknown"`
	EffectState Effect          `json:"effectState" enum:"none,partial,complete,unknown"`
	WorkspaceID string          `json:"workspaceId,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Code        Code            `json:"code,omitempty"`    // of a failed or unknown one
	Message     string          `json:"message,omitempty"` // likewise
	Asks        *Ask            `json:"asks,omitempty"`    // of one that awaits a person
}

// Ask is what a person is asked before an operation may run.
type Ask struct {
	Kind    string `json:"kind"` // "origin" or "risk"
	Summary string `json:"summary"`
	Reason  string `json:"reason,omitempty"`
}

// Lengths of the random ids, in bytes before hex.
const (
	idBytes      = 16
	receiptBytes = 20
)

// NewID makes an id of 32 hex digits: sessions, leases, panels, workspaces.
func NewID() string { return randomHex(idBytes) }

// NewReceiptID makes an id of 40 hex digits: receipts and retry epochs.
func NewReceiptID() string { return randomHex(receiptBytes) }

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}

// ValidID reports whether s is an id as the catalog takes it: 1 to 128
// characters of A-Z a-z 0-9 - _ : and dot.
func ValidID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == ':', c == '.':
		default:
			return false
		}
	}
	return true
}
