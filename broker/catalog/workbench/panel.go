package workbench

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// PanelFocusRequest is lomi_panel_focus. A terminal needs its session, a
// browser its generation.
type PanelFocusRequest struct {
	control.Mutation
	PanelID           string `json:"panelId" is:"id"`
	TerminalSessionID string `json:"terminalSessionId,omitempty" is:"id" doc:"For a terminal"`
	BrowserGeneration string `json:"browserGeneration,omitempty" is:"id" doc:"For a browser"`
}

// Validate implements control.Validator.
func (r *PanelFocusRequest) Validate() error { return rule.Check(r) }

// PanelCloseRequest is lomi_panel_close.
type PanelCloseRequest struct {
	control.Mutation
	PanelID           string `json:"panelId" is:"id"`
	TerminalSessionID string `json:"terminalSessionId,omitempty" is:"id" doc:"For a terminal"`
	BrowserGeneration string `json:"browserGeneration,omitempty" is:"id" doc:"For a browser"`
}

// Validate implements control.Validator.
func (r *PanelCloseRequest) Validate() error { return rule.Check(r) }

// NeedsScopes implements control.Scoper.
func (r *PanelCloseRequest) NeedsScopes() []control.Scope {
	if r.TerminalSessionID != "" {
		return []control.Scope{control.TerminalExecute}
	}
	return nil
}

// PanelMoveRequest is lomi_panel_move.
type PanelMoveRequest struct {
	control.Mutation
	Movement Movement `json:"movement"`
}

// Movement is one way to move tabs and panes.
type Movement struct {
	Type              string `json:"type" oneof:"reorder_tab,dock_tab,move_pane,transfer_tab"`
	TabID             string `json:"tabId,omitempty" in:"reorder_tab,dock_tab,transfer_tab" is:"id"`
	BeforeTabID       string `json:"beforeTabId,omitempty" in:"reorder_tab?,transfer_tab?" is:"id"`
	TargetTabID       string `json:"targetTabId,omitempty" in:"dock_tab" is:"id"`
	PanelID           string `json:"panelId,omitempty" in:"move_pane" is:"id"`
	TargetPanelID     string `json:"targetPanelId,omitempty" in:"move_pane" is:"id"`
	Side              string `json:"side,omitempty" in:"dock_tab,move_pane" enum:"left,right,top,bottom"`
	TargetWorkspaceID string `json:"targetWorkspaceId,omitempty" in:"transfer_tab" is:"id"`
}

// Validate implements control.Validator.
func (r *PanelMoveRequest) Validate() error { return rule.Check(r) }

// NeedsScopes implements control.Scoper.
func (r *PanelMoveRequest) NeedsScopes() []control.Scope {
	if r.Movement.Type == "reorder_tab" {
		return nil
	}
	return []control.Scope{control.PanelFocus}
}

// PanelControlRequest is lomi_panel_control: a terminal's form with
// terminalSessionId and no revision, or a device's form with deviceId,
// generation and expectedRevision.
type PanelControlRequest struct {
	control.Keyed
	PanelID           string `json:"panelId" is:"id"`
	Action            string `json:"action" enum:"claim,release"`
	TerminalSessionID string `json:"terminalSessionId,omitempty" is:"id" doc:"For a terminal"`
	DeviceID          string `json:"deviceId,omitempty" is:"uuid" doc:"For Android, with generation and expectedRevision"`
	Generation        string `json:"generation,omitempty" is:"id"`
	ExpectedRevision  string `json:"expectedRevision,omitempty" is:"decimal"`
}

// Validate implements control.Validator.
func (r *PanelControlRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	device := r.DeviceID != "" || r.Generation != "" || r.ExpectedRevision != ""
	switch {
	case r.TerminalSessionID != "" && device:
		return rule.Bad("terminalSessionId", "not together with deviceId, generation or expectedRevision")
	case r.TerminalSessionID != "":
		return nil
	case r.DeviceID == "":
		return rule.Bad("terminalSessionId", "is required, or deviceId, generation and expectedRevision")
	case r.Generation == "":
		return rule.Bad("generation", "is required with deviceId")
	case r.ExpectedRevision == "":
		return rule.Bad("expectedRevision", "is required with deviceId")
	}
	return nil
}

// Retry implements control.Retryable; a device's form expects a revision.
func (r PanelControlRequest) Retry() (epoch, key, revision string) {
	return r.RetryEpoch, r.RequestKey, r.ExpectedRevision
}

// NeedsScopes implements control.Scoper.
func (r *PanelControlRequest) NeedsScopes() []control.Scope {
	if r.DeviceID != "" {
		return []control.Scope{control.AndroidRead, control.AndroidControl, control.AndroidInteract}
	}
	return []control.Scope{control.TerminalExecute}
}

// Panel is the data kind "panel".
type Panel struct {
	Kind        string `json:"kind" enum:"panel"`
	WorkspaceID string `json:"workspaceId"`
	PanelID     string `json:"panelId"`
	Focused     bool   `json:"focused"`
	Closed      bool   `json:"closed"`
}

// PanelMoved is the data kind "panel_moved".
type PanelMoved struct {
	Kind        string                   `json:"kind" enum:"panel_moved"`
	WorkspaceID string                   `json:"workspaceId"`
	Movement    string                   `json:"movement"`
	Panels      control.List[MovedPanel] `json:"panels"`
	Destination *Destination             `json:"destination,omitempty"`
}

// MovedPanel is a panel after a move; its runtime is the one from before.
type MovedPanel struct {
	PanelID           string            `json:"panelId"`
	TabID             string            `json:"tabId"`
	Kind              control.PanelKind `json:"kind"`
	TerminalSessionID string            `json:"terminalSessionId,omitempty"`
	BrowserGeneration string            `json:"browserGeneration,omitempty"`
	AndroidDeviceID   string            `json:"androidDeviceId,omitempty"`
}

// Destination is the workspace that a tab was transferred to.
type Destination struct {
	WorkspaceID string                   `json:"workspaceId"`
	TabOrder    control.List[string]     `json:"tabOrder"`
	Panels      control.List[MovedPanel] `json:"panels"`
}

// TerminalControl is the data kind "terminal_control".
type TerminalControl struct {
	Kind              string `json:"kind" enum:"terminal_control"`
	WorkspaceID       string `json:"workspaceId"`
	PanelID           string `json:"panelId"`
	TerminalSessionID string `json:"terminalSessionId"`
	LeaseID           string `json:"leaseId,omitempty"`
	Controlled        bool   `json:"controlled"`
}

// AndroidControl is the data kind "android_control".
type AndroidControl struct {
	Kind        string `json:"kind" enum:"android_control"`
	WorkspaceID string `json:"workspaceId"`
	DeviceID    string `json:"deviceId"`
	Generation  string `json:"generation"`
	Controlled  bool   `json:"controlled"`
	LeaseID     string `json:"leaseId,omitempty"`
}
