// Package workbench defines the tools of workspaces, projects and panels.
package workbench

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// WorkspaceListRequest is lomi_workspace_list.
type WorkspaceListRequest struct {
	Limit  int    `json:"limit,omitempty" default:"100" min:"1" max:"500"`
	Cursor string `json:"cursor,omitempty" is:"id"`
}

// Validate implements control.Validator.
func (r *WorkspaceListRequest) Validate() error { return rule.Check(r) }

// Workspaces is the data kind "workspaces". DomainRevision ties the cursor to
// one state of the list; each item has the revision that a mutation expects.
type Workspaces struct {
	Kind           string                       `json:"kind" enum:"workspaces"`
	Items          control.List[WorkspaceEntry] `json:"items"`
	NextCursor     string                       `json:"nextCursor,omitempty"`
	DomainRevision string                       `json:"domainRevision"`
}

// WorkspaceEntry is one granted workspace.
type WorkspaceEntry struct {
	ID            string `json:"id"`
	ActivePanelID string `json:"activePanelId,omitempty"`
	ProjectID     string `json:"projectId"`
	Name          string `json:"name"`
	ProjectName   string `json:"projectName"`
	ProjectPath   string `json:"projectPath"`
	Revision      string `json:"revision,omitempty"`
}

// PanelListRequest is lomi_panel_list.
type PanelListRequest struct {
	control.Scoped
	Limit  int    `json:"limit,omitempty" default:"100" min:"1" max:"500"`
	Cursor string `json:"cursor,omitempty" is:"id"`
}

// Validate implements control.Validator.
func (r *PanelListRequest) Validate() error { return rule.Check(r) }

// Panels is the data kind "panels". DomainRevision is the revision of the
// workspace, which its next mutation expects.
type Panels struct {
	Kind           string                   `json:"kind" enum:"panels"`
	Items          control.List[PanelEntry] `json:"items"`
	NextCursor     string                   `json:"nextCursor,omitempty"`
	DomainRevision string                   `json:"domainRevision"`
}

// PanelEntry is one panel of a workspace, as the caller may know it.
type PanelEntry struct {
	ID                string            `json:"id"`
	WorkspaceID       string            `json:"workspaceId"`
	TabID             string            `json:"tabId"`
	Kind              control.PanelKind `json:"kind"`
	Title             string            `json:"title"`
	TerminalSessionID string            `json:"terminalSessionId,omitempty"`
	BrowserGeneration string            `json:"browserGeneration,omitempty"`
	AndroidDeviceID   string            `json:"androidDeviceId,omitempty"`
	Ownership         string            `json:"ownership" enum:"this_session,another_session,human_or_unassigned"`
	RuntimeState      string            `json:"runtimeState" enum:"unobserved,not_started,starting,running,ready,exited"`
	InputControlled   bool              `json:"inputControlled"`
}
