// Package link defines the tools that hold a connection together: what stands,
// how to get connected, receipts and their history.
package link

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// StatusRequest is lomi_status. It has no arguments.
type StatusRequest struct{}

// DiagnosticsRequest is lomi_diagnostics. It has no arguments.
type DiagnosticsRequest struct{}

// ConnectRequest is lomi_connect.
type ConnectRequest struct {
	WorkspaceID string `json:"workspaceId" is:"id" doc:"From lomi_workspace_list"`
}

// Workspace implements control.Addressed.
func (r ConnectRequest) Workspace() string { return r.WorkspaceID }

// Validate implements control.Validator.
func (r *ConnectRequest) Validate() error { return rule.Check(r) }

// MaxWaitMillis is how long lomi_operation_get may wait: below the 20 s in
// which every call of an external host is answered.
const MaxWaitMillis = 15000

// OperationGetRequest is lomi_operation_get: a receipt by its id, or by the key
// of a request whose answer was lost.
type OperationGetRequest struct {
	OperationID string `json:"operationId,omitempty" is:"id" doc:"Or retryEpoch, requestKey and tool"`
	RetryEpoch  string `json:"retryEpoch,omitempty" is:"id"`
	RequestKey  string `json:"requestKey,omitempty" is:"id"`
	Tool        string `json:"tool,omitempty" is:"id" max:"64" doc:"Name of the tool that was called"`
	ProjectID   string `json:"projectId,omitempty" is:"id" doc:"Required when more than one project is approved"`
	WaitMS      int    `json:"waitMs,omitempty" min:"0" max:"15000" doc:"Wait for it to settle"`
}

// Validate implements control.Validator.
func (r *OperationGetRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	keyed := r.RetryEpoch != "" || r.RequestKey != "" || r.Tool != "" || r.ProjectID != ""
	switch {
	case r.OperationID != "" && keyed:
		return rule.Bad("operationId", "not together with retryEpoch, requestKey, tool or projectId")
	case r.OperationID != "":
		return nil
	case !keyed:
		return rule.Bad("operationId", "is required, or retryEpoch, requestKey and tool")
	case r.RetryEpoch == "":
		return rule.Bad("retryEpoch", "is required without operationId")
	case r.RequestKey == "":
		return rule.Bad("requestKey", "is required without operationId")
	case r.Tool == "":
		return rule.Bad("tool", "is required without operationId")
	}
	return nil
}

// OperationCancelRequest is lomi_operation_cancel.
type OperationCancelRequest struct {
	OperationID string `json:"operationId" is:"id"`
}

// Validate implements control.Validator.
func (r *OperationCancelRequest) Validate() error { return rule.Check(r) }

// EventsReadRequest is lomi_events_read.
type EventsReadRequest struct {
	control.Scoped
	Limit  int    `json:"limit,omitempty" default:"100" min:"1" max:"500"`
	Cursor string `json:"cursor,omitempty" is:"decimal"`
}

// Validate implements control.Validator.
func (r *EventsReadRequest) Validate() error { return rule.Check(r) }

// Status is the data kind "status".
type Status struct {
	Kind             string                   `json:"kind" enum:"status"`
	Connection       string                   `json:"connection" enum:"app_unavailable,connecting,pairing_required,connected,disconnected,host_unqualified"`
	PairingRequestID string                   `json:"pairingRequestId,omitempty"`
	InstanceID       string                   `json:"instanceId,omitempty"`
	UIReady          bool                     `json:"uiReady"`
	Platform         string                   `json:"platform"`
	Capabilities     control.List[Capability] `json:"capabilities"`
	Limitations      control.List[string]     `json:"limitations"`
}

// Capability is one thing that this host can or cannot do. Authorized says
// whether the session's grant allows it, Qualified whether it was probed here.
type Capability struct {
	Name       string `json:"name"`
	Available  bool   `json:"available"`
	Authorized bool   `json:"authorized"`
	Qualified  bool   `json:"qualified"`
}

// Diagnostics is the data kind "diagnostics".
type Diagnostics struct {
	Kind       string `json:"kind" enum:"diagnostics"`
	Connection string `json:"connection" enum:"app_unavailable,connecting,pairing_required,connected,disconnected,host_unqualified"`
	UIReady    bool   `json:"uiReady"`
	NextStep   string `json:"nextStep"`
}

// Connected is the data kind "connected". Revision is the workspace's own, for
// expectedRevision of the first mutation.
type Connected struct {
	Kind        string                      `json:"kind" enum:"connected"`
	InstanceID  string                      `json:"instanceId"`
	WorkspaceID string                      `json:"workspaceId"`
	ProjectID   string                      `json:"projectId"`
	RetryEpoch  string                      `json:"retryEpoch"`
	Scopes      control.List[control.Scope] `json:"scopes"`
	Revision    string                      `json:"revision,omitempty"`
}

// Events is the data kind "events".
type Events struct {
	Kind       string              `json:"kind" enum:"events"`
	Items      control.List[Event] `json:"items"`
	NextCursor string              `json:"nextCursor"`
	HasMore    bool                `json:"hasMore"`
	Gap        bool                `json:"gap"`
}

// Event is one change of an operation's state.
type Event struct {
	Sequence         string         `json:"sequence"`
	Kind             string         `json:"kind" enum:"operation_state"`
	OperationID      string         `json:"operationId"`
	WorkspaceID      string         `json:"workspaceId"`
	Tool             string         `json:"tool"`
	State            control.State  `json:"state"`
	EffectState      control.Effect `json:"effectState"`
	TimestampSeconds int64          `json:"timestampSeconds"`
}
