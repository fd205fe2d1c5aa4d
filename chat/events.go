package chat

import (
	"encoding/json"
	"time"

	"lomi/agent"
	"lomi/models"
)

// Event is one line of a conversation's log. Data is one of the structs below,
// by Kind.
type Event struct {
	Seq  int64           `json:"seq"`
	Kind EventKind       `json:"kind"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data"`
}

// EventKind names what happened.
type EventKind string

// The kinds of an event.
const (
	ConversationCreated EventKind = "conversation.created"
	ConversationChanged EventKind = "conversation.changed"
	MessageAdded        EventKind = "message.added"
	TurnStarted         EventKind = "turn.started"
	TurnEnded           EventKind = "turn.ended"
	ReplyStarted        EventKind = "reply.started"
	TextAppended        EventKind = "text.appended"
	ReplyEnded          EventKind = "reply.ended"
	CallStarted         EventKind = "call.started"
	CallEnded           EventKind = "call.ended"
	ApprovalRequested   EventKind = "approval.requested"
	ApprovalSettled     EventKind = "approval.settled"
	QuestionAsked       EventKind = "question.asked"
	QuestionAnswered    EventKind = "question.answered"
	ContextCompacted    EventKind = "context.compacted"
	NoticeAdded         EventKind = "notice.added"
)

type conversationData struct {
	Title       *string   `json:"title,omitempty"`
	ProjectID   string    `json:"projectId,omitempty"`
	ProjectPath string    `json:"projectPath,omitempty"`
	WorkspaceID string    `json:"workspaceId,omitempty"`
	Model       *string   `json:"model,omitempty"`
	Domains     *[]string `json:"domains,omitempty"`
	Policy      *string   `json:"policy,omitempty"`
}

type messageData struct {
	Message string        `json:"message"`
	Role    models.Role   `json:"role"`
	Parts   []models.Part `json:"parts"`
}

type turnStartedData struct {
	Turn    string `json:"turn"`
	Model   string `json:"model"`
	Message string `json:"message"`
}

type turnEndedData struct {
	Turn       string           `json:"turn"`
	StopReason agent.StopReason `json:"stopReason"`
	Error      string           `json:"error,omitempty"`
	Usage      models.Usage     `json:"usage"`
}

type replyStartedData struct {
	Turn    string `json:"turn"`
	Message string `json:"message"`
	Step    int    `json:"step"`
}

// TextDelta is the next text of a part of a reply, as an event or as a delta.
// Offset counts the bytes of the part before Text.
type TextDelta struct {
	Message string          `json:"message"`
	Part    int             `json:"part"`
	Kind    models.PartKind `json:"kind"`
	Offset  int             `json:"offset"`
	Text    string          `json:"text"`
}

type replyEndedData struct {
	Message string              `json:"message"`
	Parts   []models.Part       `json:"parts"`
	Finish  models.FinishReason `json:"finish"`
	Usage   models.Usage        `json:"usage"`
}

type callStartedData struct {
	Turn      string          `json:"turn"`
	Message   string          `json:"message"`
	Call      string          `json:"call"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Title     string          `json:"title"`
}

type callEndedData struct {
	Call       string        `json:"call"`
	Name       string        `json:"name"`
	IsError    bool          `json:"isError"`
	Text       string        `json:"text"`
	Images     []imageData   `json:"images,omitempty"`
	Receipt    string        `json:"receipt,omitempty"`
	Outcome    agent.Outcome `json:"outcome"`
	DurationMS int64         `json:"durationMs"`
}

type imageData struct {
	MediaType string `json:"mediaType"`
	Artifact  string `json:"artifact"`
}

type approvalData struct {
	ID      string `json:"id"`
	Kind    string `json:"kind,omitempty"`
	Summary string `json:"summary,omitempty"`
	Call    string `json:"call,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

type questionData struct {
	ID       string   `json:"id"`
	Call     string   `json:"call,omitempty"`
	Question string   `json:"question,omitempty"`
	Options  []string `json:"options,omitempty"`
	Answer   *string  `json:"answer,omitempty"`
}

type compactedData struct {
	Turn string `json:"turn"`
	agent.Compaction
	Note string `json:"note"`
}

type noticeData struct {
	Turn string `json:"turn"`
	Text string `json:"text"`
}

// Item is one thing that a reader of a log gets. Exactly one field is set;
// Behind is the last one, for a reader that was too slow: it reads again from
// the last event it has.
type Item struct {
	Event    *Event     `json:"event,omitempty"`
	Snapshot *Snapshot  `json:"snapshot,omitempty"`
	Delta    *TextDelta `json:"delta,omitempty"`
	Progress *Progress  `json:"progress,omitempty"`
	Status   *Status    `json:"status,omitempty"`
	Behind   bool       `json:"behind,omitempty"`
}

// Snapshot is the text so far of the parts that are being written.
type Snapshot struct {
	Parts []TextDelta `json:"parts"`
}

// Progress says how a running call stands.
type Progress struct {
	Call      string `json:"call"`
	State     string `json:"state"`
	ElapsedMS int64  `json:"elapsedMs"`
	Tail      string `json:"tail,omitempty"`
}

// Status says what a turn waits for.
type Status struct {
	Turn  string `json:"turn"`
	State string `json:"state"`
}
