package link

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Tools returns the six tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "link"
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_status", Title: "Connection status",
			Description: "Report the state of the connection to Lomi, and what this host can do. Answers before approval.",
			ReadOnly:    true, Unpaired: true,
			NewRequest: rule.Request[StatusRequest](),
		}, Status{}),
		define(control.Tool{
			Name: "lomi_diagnostics", Title: "Next step to connect",
			Description: "Tell the next step to get connected. Answers before approval.",
			ReadOnly:    true, Unpaired: true,
			NewRequest: rule.Request[DiagnosticsRequest](),
		}, Diagnostics{}),
		define(control.Tool{
			Name: "lomi_connect", Title: "Bind to a workspace",
			Description: "Bind to an approved workspace. Answers with the retryEpoch that every change needs, and the scopes.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.WorkspaceRead},
			NewRequest:  rule.Request[ConnectRequest](),
		}, Connected{}),
		define(control.Tool{
			Name: "lomi_operation_get", Title: "Read a receipt",
			Description: "Read one operation receipt, by its id or, when the answer was lost, by retryEpoch, requestKey and tool. waitMs waits for it to settle.",
			ReadOnly:    true,
			NewRequest:  rule.Request[OperationGetRequest](),
		}, control.Operation{}),
		define(control.Tool{
			Name: "lomi_operation_cancel", Title: "Cancel an operation",
			Description: "Ask to cancel an operation of yours. A waiting one ends without effect; a running command gets one Ctrl+C. Never undoes anything.",
			NewRequest:  rule.Request[OperationCancelRequest](),
		}, control.Operation{}),
		define(control.Tool{
			Name: "lomi_events_read", Title: "History of operations",
			Description: "Read how your operations in a workspace changed state, oldest first.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.WorkspaceRead},
			NewRequest:  rule.Request[EventsReadRequest](),
		}, Events{}),
	}
}
