// Package agent carries one turn of a conversation from a person's message to
// its stop reason. A Turn is a small state machine: think (one reply of the
// model), act (its calls, in order), stop. It knows models and two ports: a
// Recorder, to which everything is told before it happens, and Tools, through
// which everything is done. Who stores events, who asks a person, and what a
// tool is, are the business of its caller.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"lomi/models"
)

// Recorder is where a turn's events and deltas go. Record returns when the
// event is stored: what it announces has not happened yet. Show never blocks
// for long and may drop what it is given. Record is also called after the
// turn's context has ended, on a context of its own.
type Recorder interface {
	Record(ctx context.Context, event Event) error
	Show(delta Delta)
}

// Tools is what a turn may do. Specs is asked once a turn, so that the tool
// list does not change within it. Call does nothing before the first pull and
// yields any number of updates, the last with a Result; an error is the last
// item, and its text is for the log, not for the model. A break stops
// watching; only ctx cancels the operation. A Result without text and outcome,
// after ctx has ended, leaves it to the turn to say why.
type Tools interface {
	Specs(ctx context.Context) ([]models.ToolSpec, error)
	Call(ctx context.Context, call models.ToolCall) iter.Seq2[Update, error]
}

// Update is one thing that a running call has to say. Exactly one field is
// set.
type Update struct {
	Progress *Progress
	Approval *Approval
	Question *Question
	Result   *Result
}

// Progress says how a running call stands. It is shown and not recorded.
type Progress struct {
	State   string // "running", "waiting for approval", …
	Elapsed time.Duration
	Tail    string // the last lines of output
}

// Approval is a person being asked, with Outcome empty, or having decided:
// "approved", "denied", "expired", or "withdrawn" when it is not asked any
// more. The clock of the turn stands still between
// the two.
type Approval struct {
	ID      string
	Kind    string // "pairing", "origin", "risk"
	Summary string // one plain line
	Detail  string
	Outcome string
}

// Question is the model asking a person, with Answered false, or the answer.
type Question struct {
	ID       string
	Text     string
	Options  []string
	Answered bool
	Answer   string
}

// Result ends a call.
type Result struct {
	Text     string
	IsError  bool
	Pictures []Picture
	Outcome  Outcome
	Receipt  string
}

// Picture is an image of a result. Artifact names where it is kept; Image.Data
// is empty when the model cannot see.
type Picture struct {
	Image    models.Image
	Artifact string
}

// Outcome says how a call ended.
type Outcome string

// The outcomes. NotRun is a call that was never dispatched; Interrupted is one
// whose end nobody saw because the daemon stopped.
const (
	OutcomeOK          Outcome = "ok"
	OutcomeError       Outcome = "error"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeDenied      Outcome = "denied"
	OutcomeExpired     Outcome = "expired"
	OutcomeNotRun      Outcome = "not_run"
	OutcomeDuplicate   Outcome = "duplicate"
	OutcomeTimedOut    Outcome = "timed_out"
	OutcomeUnknown     Outcome = "outcome_unknown"
	OutcomeRevoked     Outcome = "revoked"
	OutcomeInterrupted Outcome = "interrupted"
)

// StopReason says how a turn ended.
type StopReason string

// The stop reasons.
const (
	StopEndTurn     StopReason = "end_turn"
	StopMaxTokens   StopReason = "max_tokens"
	StopMaxSteps    StopReason = "max_steps"
	StopBudget      StopReason = "budget"
	StopRefusal     StopReason = "refusal"
	StopCancelled   StopReason = "cancelled"
	StopInterrupted StopReason = "interrupted"
	StopFailed      StopReason = "failed"
)

// Causes with which a turn's context is cancelled. Any other cause counts as
// the person's wish.
var (
	ErrCancelled   = errors.New("the person stopped the turn")
	ErrInterrupted = errors.New("the daemon is stopping")
	ErrLimit       = errors.New("the turn used up its time")
)

// Event is something that a turn records: one of the structs below.
type Event interface{ event() }

// ReplyStarted opens an assistant message.
type ReplyStarted struct {
	Message string
	Step    int
}

// ReplyEnded closes it with its whole parts. Finish is empty when the reply
// did not come to an end.
type ReplyEnded struct {
	Message string
	Parts   []models.Part
	Finish  models.FinishReason
	Usage   models.Usage
}

// CallStarted is recorded before a call is dispatched, and also for a call
// that never will be, so that each CallEnded has its beginning.
type CallStarted struct {
	Message string
	Call    models.ToolCall
}

// CallEnded is the one result of a call.
type CallEnded struct {
	Call     string
	Name     string
	Result   Result
	Duration time.Duration
}

// ApprovalChanged tells of a person being asked or having decided.
type ApprovalChanged struct {
	Call     string
	Approval Approval
}

// QuestionChanged tells of a question or its answer.
type QuestionChanged struct {
	Call     string
	Question Question
}

// Compacted tells that earlier messages were shortened. Applying Compaction to
// the history so far gives what the model sees from now on.
type Compacted struct {
	Compaction Compaction
	Note       string // for the person
}

// Noticed is something a person should know and the model need not.
type Noticed struct{ Text string }

func (ReplyStarted) event()    {}
func (ReplyEnded) event()      {}
func (CallStarted) event()     {}
func (CallEnded) event()       {}
func (ApprovalChanged) event() {}
func (QuestionChanged) event() {}
func (Compacted) event()       {}
func (Noticed) event()         {}

// Delta is shown and not recorded: the next text of an open part, the progress
// of a call, or what the turn is waiting for.
type Delta struct {
	Message string // of Text
	Part    int
	Kind    models.PartKind
	Offset  int // bytes of the part before Text
	Text    string

	Call     string // of Progress
	Progress *Progress

	Status string
}

// plainObject reports whether raw is a JSON object.
func plainObject(raw json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(raw, &fields) == nil && fields != nil
}
