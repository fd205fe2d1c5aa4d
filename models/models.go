// Package models is the model port: the neutral vocabulary that a conversation
// and every engine share. It links nothing but the standard library; the
// engines (models/ollama, models/openai, models/demo) implement Model and know
// nothing of conversations, brokers or pages.
package models

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Role says who speaks a message.
type Role string

// The roles of a message. A RoleTool message carries the results of the calls
// of the assistant message before it, in the order of the calls.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of the prompt.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind names what a Part holds.
type PartKind string

// The kinds of a part.
const (
	PartText     PartKind = "text"
	PartThinking PartKind = "thinking"
	PartCall     PartKind = "call"
	PartResult   PartKind = "result"
	PartImage    PartKind = "image"
)

// Part is a piece of a message. Exactly the field that Kind names is set;
// Opaque is provider data that has to travel back with the part unread (an
// encrypted reasoning item, for one).
type Part struct {
	Kind   PartKind        `json:"kind"`
	Text   string          `json:"text,omitempty"`
	Call   *ToolCall       `json:"call,omitempty"`
	Result *ToolResult     `json:"result,omitempty"`
	Image  *Image          `json:"image,omitempty"`
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Image is a picture for a model that can see. Data is the file as it is.
type Image struct {
	MediaType string `json:"mediaType"`
	Data      []byte `json:"data"`
}

// ToolSpec offers a tool to the model. Parameters is a JSON Schema of type
// object, at most 64 KiB.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ToolCall is what a model asks for. ID is unique within one reply: an engine
// that is given none makes one. Arguments is what the model wrote, a JSON
// object when the engine could make one of it; when it could not, Malformed
// says why in words for the model, Arguments holds the raw text as a JSON
// string, and the call must not run.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Malformed string          `json:"malformed,omitempty"`
}

// ToolResult answers one call. IsError marks a failure that the model should
// read, not a fault of the machinery.
type ToolResult struct {
	CallID  string  `json:"callId"`
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Images  []Image `json:"images,omitempty"`
	IsError bool    `json:"isError,omitempty"`
}

// Thinking switches a model's reasoning where it can be switched.
type Thinking string

// The thinking modes. ThinkingAuto leaves the choice to the engine.
const (
	ThinkingAuto Thinking = ""
	ThinkingOn   Thinking = "on"
	ThinkingOff  Thinking = "off"
)

// Request asks for one reply.
type Request struct {
	Model           string // the name within its connection: "qwen3:4b", not "ollama/qwen3:4b"
	Messages        []Message
	Tools           []ToolSpec
	MaxOutputTokens int // 0: the engine's default
	Window          int // tokens; one fixed value per model, 0: the engine's choice
	Thinking        Thinking
}

// DeltaKind names what a Delta holds.
type DeltaKind string

// The kinds of a delta. A stream is any number of progress, text, thinking,
// call and usage deltas, then exactly one finish.
const (
	DeltaProgress DeltaKind = "progress" // Progress: the model is loading or reading the prompt
	DeltaText     DeltaKind = "text"     // Text: the next piece of the answer
	DeltaThinking DeltaKind = "thinking" // Text: the next piece of reasoning
	DeltaCall     DeltaKind = "call"     // Call: one whole tool call
	DeltaUsage    DeltaKind = "usage"    // Usage: replaces the figures before
	DeltaFinish   DeltaKind = "finish"   // Finish, and Opaque when the message has some
)

// Delta is one item of a reply's stream.
type Delta struct {
	Kind     DeltaKind
	Text     string
	Call     *ToolCall
	Usage    *Usage
	Progress string // "loading the model", "reading the prompt"
	Finish   FinishReason
	Opaque   json.RawMessage // of a thinking or call part that just ended
}

// FinishReason says how one reply ended.
type FinishReason string

// The finish reasons. FinishLength wins over calls: those of a reply that was
// cut off are there to be shown, and are all malformed. FinishThinkingOnly is a reply whose budget went
// into reasoning, with no answer.
const (
	FinishStop         FinishReason = "stop"
	FinishCalls        FinishReason = "calls"
	FinishLength       FinishReason = "length"
	FinishRefusal      FinishReason = "refusal"
	FinishThinkingOnly FinishReason = "thinking_only"
)

// Usage counts tokens. ContextWindow is the window that was really in force, 0
// when the engine does not tell.
type Usage struct {
	InputTokens   int `json:"inputTokens"`
	OutputTokens  int `json:"outputTokens"`
	ContextWindow int `json:"contextWindow"`
}

// Model produces replies. Stream does nothing before the first pull; an error
// is the last item; a stream that ends without a finish delta is an error of
// its own (ErrCutOff); a break releases everything, the request included.
type Model interface {
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Info describes one model of a connection.
type Info struct {
	Name     string `json:"name"`
	Window   int    `json:"window"` // the largest window in tokens, 0 unknown
	Tools    bool   `json:"tools"`
	Thinking bool   `json:"thinking"`
	Vision   bool   `json:"vision"`
	Size     int64  `json:"size,omitempty"` // bytes on disk, 0 unknown
	Loaded   bool   `json:"loaded,omitempty"`
	Remote   bool   `json:"remote,omitempty"` // what is said to it leaves this machine
	Note     string `json:"note,omitempty"`   // a warning a person should see
}

// Lister lists the models of an engine.
type Lister interface {
	List(ctx context.Context) ([]Info, error)
}

// Failures of an engine, as its caller has to tell them apart. Engines wrap
// them with what happened; the text of the wrapping error is written for a
// person and holds no key and no foreign error body beyond 300 characters.
var (
	ErrUnreachable = errors.New("the model engine cannot be reached")
	ErrAuth        = errors.New("the model engine refused the key")
	ErrNoModel     = errors.New("the model is not there")
	ErrOverflow    = errors.New("the prompt is larger than the model's window")
	ErrRateLimit   = errors.New("the model engine is busy or over its quota")
	ErrCutOff      = errors.New("the reply ended before it was complete")
	ErrTimeout     = errors.New("the model engine took too long")
	ErrProtocol    = errors.New("the model engine sent something that is no reply")
	ErrEmpty       = errors.New("the model gave an empty answer")
	ErrUnsupported = errors.New("the model does not support this request")
)

// BusyError is an ErrRateLimit whose engine said when to ask again.
type BusyError struct {
	Err   error         // wraps ErrRateLimit
	After time.Duration // from when the error came, more than 0
}

// Error implements error.
func (e *BusyError) Error() string { return e.Err.Error() }

// Unwrap gives the failure itself.
func (e *BusyError) Unwrap() error { return e.Err }
