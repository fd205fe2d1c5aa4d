// Package chat keeps conversations. A Service owns them and their turns; a Log
// is the one place through which everything that happens in a conversation goes
// back to people; a Session is the connection to the broker that a conversation
// keeps, through which its model acts as any external host would.
package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lomi/agent"
	"lomi/models"
)

// Bounds of conversations (chat spec 8.2).
const (
	MaxMessage       = 128 << 10 // bytes of one message of a person
	maxTitle         = 120       // bytes
	maxActiveTurns   = 4         // at a time, in all conversations
	maxConversations = 64        // kept in memory with their sessions
	maxConnected     = 16        // of these, idle and connected: the broker has 64 connections for everybody
	maxDomains       = 16
)

// Failures that a door tells apart.
var (
	ErrNotFound   = errors.New("there is no such conversation")
	ErrNoQuestion = errors.New("the question is not open")
	ErrBusy       = errors.New("the conversation has a running turn")
	ErrTooMany    = errors.New("four turns are running; wait for one to end")
	ErrInvalid    = errors.New("invalid")
	ErrClosed     = errors.New("the chat is shutting down")
)

// Causes with which turns are cancelled.
var (
	ErrUserCancelled = fmt.Errorf("stopping a turn: %w", agent.ErrCancelled)
	ErrShutdown      = fmt.Errorf("stopping a turn: %w", agent.ErrInterrupted)
)

// Conversation is what a list of conversations shows. Turn is the id of the
// running turn, "" for none. Domains are the tool families switched on. Policy
// is what the person who pairs is offered first: it allows nothing by itself.
type Conversation struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	ProjectID   string    `json:"projectId,omitempty"`
	ProjectPath string    `json:"projectPath,omitempty"`
	WorkspaceID string    `json:"workspaceId,omitempty"`
	Model       string    `json:"model"`
	Domains     []string  `json:"domains"`
	Policy      string    `json:"policy,omitempty"`
	Turn        string    `json:"turn,omitempty"`
	LastSeq     int64     `json:"lastSeq"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// CreateRequest begins a conversation. The project and its workspace are open
// already.
type CreateRequest struct {
	Title       string   `json:"title,omitempty"`
	ProjectID   string   `json:"projectId,omitempty"`
	ProjectPath string   `json:"projectPath,omitempty"`
	WorkspaceID string   `json:"workspaceId,omitempty"`
	Model       string   `json:"model,omitempty"`
	Domains     []string `json:"domains,omitempty"` // terminal and browser when empty
	Policy      string   `json:"policy,omitempty"`
}

// SendRequest is a person's message. Model, when set, is the conversation's
// model from now on.
type SendRequest struct {
	Text  string `json:"text"`
	Model string `json:"model,omitempty"`
}

// Sent names the message and the turn that it started.
type Sent struct {
	Turn    string `json:"turn"`
	Message string `json:"message"`
}

// SettingsRequest changes what is set and leaves what is nil.
type SettingsRequest struct {
	Title   *string   `json:"title,omitempty"`
	Model   *string   `json:"model,omitempty"`
	Domains *[]string `json:"domains,omitempty"`
	Policy  *string   `json:"policy,omitempty"`
}

// Models finds the model of a name such as "ollama/qwen3:4b": the engine, what
// to call the model there, and what it can do. Errors wrap those of the models
// port, with a text for people.
type Models interface {
	Resolve(ctx context.Context, name string) (engine models.Model, info models.Info, err error)
}

// Store keeps the logs. Append stores the events, whose Seq goes on from the
// last stored one by one, all or none; the first makes the log. Read returns
// events after a sequence number, oldest first, at most limit. Save keeps what a
// list shows beside the log, so that a start need not read all logs; List gives
// it back, with LastSeq as it was saved.
type Store interface {
	Append(ctx context.Context, conversation string, events []Event) error
	Read(ctx context.Context, conversation string, after int64, limit int) ([]Event, error)
	Save(ctx context.Context, conversation Conversation) error
	List(ctx context.Context) ([]Saved, error)
	Delete(ctx context.Context, conversation string) error
}

// Saved is a conversation as Save kept it, and the number of the last event that
// its log really has. When they differ, the daemon stopped in between and the
// log is right.
type Saved struct {
	Conversation
	Logged int64
}

// Desk is told what changed in the list of conversations: "conversation.added",
// "conversation.changed", "conversation.removed". It must not call back.
type Desk interface {
	ConversationChanged(kind string, conversation Conversation)
}

// Presence knows whether anybody could answer a question: a page is open, or a
// terminal waits.
type Presence interface{ Present() bool }
