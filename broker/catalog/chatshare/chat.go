// Package chatshare defines the tools that share conversations with an agent.
package chatshare

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// ListRequest is lomi_chat_list.
type ListRequest struct {
	control.Scoped
	Offset           int    `json:"offset,omitempty" min:"0" max:"64"`
	Limit            int    `json:"limit,omitempty" default:"20" min:"1" max:"64"`
	ExpectedRevision string `json:"expectedRevision,omitempty" is:"sha256" doc:"Required when offset > 0"`
}

// Validate implements control.Validator.
func (r *ListRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.Offset > 0 && r.ExpectedRevision == "" {
		return rule.Bad("expectedRevision", "is required when offset is more than 0")
	}
	return nil
}

// ReadRequest is lomi_chat_read.
type ReadRequest struct {
	control.Scoped
	ConversationID    string `json:"conversationId" is:"chat"`
	Part              Part   `json:"part"`
	StartUTF16        int    `json:"startUtf16,omitempty" min:"0" max:"4194304"`
	MaxChars          int    `json:"maxChars,omitempty" default:"8192" min:"2" max:"8192"`
	ExpectedRevision  string `json:"expectedRevision,omitempty" is:"id"`
	IncludeSendTarget bool   `json:"includeSendTarget,omitempty" doc:"Needs chat.send"`
}

// Part is what of a conversation is read. A missing MessageID means the last
// message of the branch that is shown.
type Part struct {
	Type      string  `json:"type" oneof:"draft,message"`
	MessageID *string `json:"messageId,omitempty" in:"message?" is:"chat" null:"yes" doc:"null: the last"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error { return rule.Check(r) }

// NeedsScopes implements control.Scoper.
func (r *ReadRequest) NeedsScopes() []control.Scope {
	if r.IncludeSendTarget {
		return []control.Scope{control.ChatSend}
	}
	return nil
}

// OpenRequest is lomi_chat_open.
type OpenRequest struct {
	control.Mutation
	Target Target `json:"target"`
}

// Target is the conversation to show: one that exists, or a new one.
type Target struct {
	Type           string `json:"type" oneof:"existing,new"`
	ConversationID string `json:"conversationId,omitempty" in:"existing" is:"chat"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error { return rule.Check(r) }

// NeedsScopes implements control.Scoper.
func (r *OpenRequest) NeedsScopes() []control.Scope {
	if r.Target.Type == "new" {
		return []control.Scope{control.ChatCreate}
	}
	return nil
}

// DraftRequest is lomi_chat_draft.
type DraftRequest struct {
	control.Mutation
	PanelID                      string `json:"panelId" is:"id"`
	ConversationID               string `json:"conversationId" is:"chat"`
	Text                         string `json:"text" is:"text" max:"32768"`
	ExpectedDraftRevision        string `json:"expectedDraftRevision" is:"id"`
	ExpectedConversationRevision string `json:"expectedConversationRevision" is:"id"`
}

// Validate implements control.Validator.
func (r *DraftRequest) Validate() error { return rule.Check(r) }

// SendRequest is lomi_chat_send.
type SendRequest struct {
	control.Mutation
	PanelID                      string `json:"panelId" is:"id"`
	ConversationID               string `json:"conversationId" is:"chat"`
	ConnectionID                 string `json:"connectionId" is:"id" doc:"From sendTarget of lomi_chat_read"`
	Model                        string `json:"model" is:"line" min:"1" max:"200"`
	ExpectedDraftRevision        string `json:"expectedDraftRevision" is:"id"`
	ExpectedConversationRevision string `json:"expectedConversationRevision" is:"id"`
}

// Validate implements control.Validator.
func (r *SendRequest) Validate() error { return rule.Check(r) }

// StopRequest is lomi_chat_stop.
type StopRequest struct {
	control.Keyed
	ConversationID string `json:"conversationId" is:"chat"`
	RequestID      string `json:"requestId" is:"id"`
}

// Validate implements control.Validator.
func (r *StopRequest) Validate() error { return rule.Check(r) }

// ExportRequest is lomi_chat_export.
type ExportRequest struct {
	control.Scoped
	ConversationID   string `json:"conversationId" is:"chat"`
	Format           string `json:"format" enum:"markdown,json"`
	StartUTF16       int    `json:"startUtf16,omitempty" min:"0" max:"4194304"`
	MaxChars         int    `json:"maxChars,omitempty" default:"8192" min:"2" max:"8192"`
	ExpectedRevision string `json:"expectedRevision,omitempty" is:"sha256"`
}

// Validate implements control.Validator.
func (r *ExportRequest) Validate() error { return rule.Check(r) }
