package chatshare

import "lomi/broker/control"

// List is the data kind "chat_list".
type List struct {
	Kind        string                     `json:"kind" enum:"chat_list"`
	WorkspaceID string                     `json:"workspaceId"`
	Revision    string                     `json:"revision"`
	Items       control.List[Conversation] `json:"items"`
	Total       int                        `json:"total"`
	Offset      int                        `json:"offset"`
	NextOffset  *int                       `json:"nextOffset,omitempty"`
}

// Conversation is one granted conversation.
type Conversation struct {
	ConversationID       string `json:"conversationId"`
	Title                string `json:"title"`
	ConversationRevision string `json:"conversationRevision"`
	LatestMessageID      string `json:"latestMessageId,omitempty"`
	UpdatedAtMillis      int64  `json:"updatedAtMillis"`
}

// Slice is the data kind "chat_read". Source is "persisted_checkpoint".
type Slice struct {
	Kind                string       `json:"kind" enum:"chat_read"`
	WorkspaceID         string       `json:"workspaceId"`
	Conversation        Conversation `json:"conversation"`
	Source              string       `json:"source"`
	Part                Part         `json:"part"`
	Revision            string       `json:"revision"`
	DraftRevision       string       `json:"draftRevision,omitempty"`
	ParentMessageID     string       `json:"parentMessageId,omitempty"`
	Role                string       `json:"role,omitempty"`
	Status              string       `json:"status,omitempty"`
	Content             string       `json:"content"`
	StartUTF16          int          `json:"startUtf16"`
	TotalUTF16          int          `json:"totalUtf16"`
	NextUTF16           *int         `json:"nextUtf16,omitempty"`
	AttachmentsOmitted  int          `json:"attachmentsOmitted"`
	NonTextPartsOmitted int          `json:"nonTextPartsOmitted"`
	SendTarget          *SendTarget  `json:"sendTarget,omitempty"`
	Request             *Request     `json:"request,omitempty"`
}

// SendTarget is where the next message would go.
type SendTarget struct {
	ConnectionID    string `json:"connectionId"`
	Model           string `json:"model"`
	MaxOutputTokens int    `json:"maxOutputTokens"`
}

// Request is one message on its way through a model.
type Request struct {
	RequestID   string `json:"requestId"`
	AssistantID string `json:"assistantId"`
	Status      string `json:"status" enum:"active,completed,cancelled,failed,interrupted"`
}

// Opened is the data kind "chat_opened".
type Opened struct {
	Kind           string `json:"kind" enum:"chat_opened"`
	WorkspaceID    string `json:"workspaceId"`
	PanelID        string `json:"panelId"`
	ConversationID string `json:"conversationId"`
	Created        bool   `json:"created"`
}

// DraftUpdated is the data kind "chat_draft_updated".
type DraftUpdated struct {
	Kind                 string `json:"kind" enum:"chat_draft_updated"`
	WorkspaceID          string `json:"workspaceId"`
	PanelID              string `json:"panelId"`
	ConversationID       string `json:"conversationId"`
	DraftRevision        string `json:"draftRevision"`
	ConversationRevision string `json:"conversationRevision"`
	TextSHA256           string `json:"textSha256"`
	TotalUTF16           int    `json:"totalUtf16"`
}

// Sent is the data kind "chat_sent". Without a DraftRevision the ids are only
// reserved.
type Sent struct {
	Kind           string `json:"kind" enum:"chat_sent"`
	WorkspaceID    string `json:"workspaceId"`
	PanelID        string `json:"panelId"`
	ConversationID string `json:"conversationId"`
	RequestID      string `json:"requestId"`
	UserID         string `json:"userId"`
	AssistantID    string `json:"assistantId"`
	ConnectionID   string `json:"connectionId"`
	Model          string `json:"model"`
	DraftRevision  string `json:"draftRevision,omitempty"`
	Rejection      string `json:"rejection,omitempty"`
}

// Stopped is the data kind "chat_stopped".
type Stopped struct {
	Kind            string  `json:"kind" enum:"chat_stopped"`
	WorkspaceID     string  `json:"workspaceId"`
	ConversationID  string  `json:"conversationId"`
	Request         Request `json:"request"`
	AlreadyFinished bool    `json:"alreadyFinished"`
}

// Exported is the data kind "chat_export".
type Exported struct {
	Kind                string `json:"kind" enum:"chat_export"`
	WorkspaceID         string `json:"workspaceId"`
	ConversationID      string `json:"conversationId"`
	Format              string `json:"format" enum:"markdown,json"`
	Revision            string `json:"revision"`
	TotalBytes          int64  `json:"totalBytes"`
	MessageCount        int    `json:"messageCount"`
	Content             string `json:"content"`
	StartUTF16          int    `json:"startUtf16"`
	TotalUTF16          int    `json:"totalUtf16"`
	NextUTF16           *int   `json:"nextUtf16,omitempty"`
	AttachmentsOmitted  int    `json:"attachmentsOmitted"`
	NonTextPartsOmitted int    `json:"nonTextPartsOmitted"`
}
