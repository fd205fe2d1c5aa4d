package chatshare

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Tools returns the seven tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "chatshare"
		tool.Scopes = append([]control.Scope{control.ChatRead}, tool.Scopes...)
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_chat_list", Title: "List conversations",
			Description: "List the conversations that the grant allows.",
			ReadOnly:    true, NewRequest: rule.Request[ListRequest](),
		}, List{}),
		define(control.Tool{
			Name: "lomi_chat_read", Title: "Read a conversation",
			Description: "Read a slice of the draft or of one message of a conversation.",
			ReadOnly:    true, NewRequest: rule.Request[ReadRequest](),
		}, Slice{}),
		define(control.Tool{
			Name: "lomi_chat_open", Title: "Open a conversation",
			Description: "Show a conversation in a panel, or begin a new one. Answers with an operation receipt.",
			Operation:   true, NewRequest: rule.Request[OpenRequest](),
			Scopes: []control.Scope{control.ChatOpen, control.PanelCreate, control.PanelFocus},
		}, Opened{}),
		define(control.Tool{
			Name: "lomi_chat_draft", Title: "Write a draft",
			Description: "Replace the saved draft of a conversation. Answers with an operation receipt.",
			Destructive: true, Operation: true, NewRequest: rule.Request[DraftRequest](),
			Scopes: []control.Scope{control.ChatDraft},
		}, DraftUpdated{}),
		define(control.Tool{
			Name: "lomi_chat_send", Title: "Send a draft",
			Description: "Send the saved draft of a conversation to its model. The person sees what will be sent and decides within 120 s. Answers with an operation receipt.",
			OpenWorld:   true, Operation: true, NewRequest: rule.Request[SendRequest](),
			Scopes: []control.Scope{control.ChatSend},
		}, Sent{}),
		define(control.Tool{
			Name: "lomi_chat_stop", Title: "Stop an answer",
			Description: "Stop one request of a conversation. Answers with an operation receipt.",
			Destructive: true, Operation: true, NewRequest: rule.Request[StopRequest](),
			Scopes: []control.Scope{control.ChatStop},
		}, Stopped{}),
		define(control.Tool{
			Name: "lomi_chat_export", Title: "Export a conversation",
			Description: "Read a slice of a conversation as Markdown or JSON. Writes no file.",
			ReadOnly:    true, NewRequest: rule.Request[ExportRequest](),
			Scopes: []control.Scope{control.ChatExport},
		}, Exported{}),
	}
}
