package workbench

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// WorkspaceCreateRequest is lomi_workspace_create. The workspace that it names
// is the anchor: the new one joins its project.
type WorkspaceCreateRequest struct {
	control.Mutation
	Name string `json:"name" is:"line" min:"1" max:"256"`
}

// Validate implements control.Validator.
func (r *WorkspaceCreateRequest) Validate() error { return rule.Check(r) }

// WorkspaceUpdateRequest is lomi_workspace_update: a new name, or an action.
type WorkspaceUpdateRequest struct {
	control.Mutation
	Name   string `json:"name,omitempty" is:"line" min:"1" max:"256" doc:"New name, or action"`
	Action string `json:"action,omitempty" enum:"select,close"`
}

// Validate implements control.Validator.
func (r *WorkspaceUpdateRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.Name == "" && r.Action == "":
		return rule.Bad("name", "is required, or action")
	case r.Name != "" && r.Action != "":
		return rule.Bad("action", "not together with name")
	}
	return nil
}

// NeedsScopes implements control.Scoper. What a close takes with it (terminals,
// conversations, devices) adds scopes that only the workbench knows.
func (r *WorkspaceUpdateRequest) NeedsScopes() []control.Scope {
	switch r.Action {
	case "select":
		return []control.Scope{control.PanelFocus}
	case "close":
		return []control.Scope{control.WorkspaceClose, control.PanelClose}
	}
	return nil
}

// ProjectOpenRequest is lomi_project_open.
type ProjectOpenRequest struct {
	control.Mutation
	ProjectPath string `json:"projectPath" is:"absolute" min:"1" max:"4096" doc:"Absolute"`
	Name        string `json:"name,omitempty" is:"line" min:"1" max:"256"`
}

// Validate implements control.Validator.
func (r *ProjectOpenRequest) Validate() error { return rule.Check(r) }

// ProjectCloseRequest is lomi_project_close.
type ProjectCloseRequest struct {
	control.Mutation
	ProjectID string `json:"projectId" is:"id"`
}

// Validate implements control.Validator.
func (r *ProjectCloseRequest) Validate() error { return rule.Check(r) }

// Workspace is the data kind "workspace".
type Workspace struct {
	Kind        string `json:"kind" enum:"workspace"`
	WorkspaceID string `json:"workspaceId"`
	Name        string `json:"name"`
}

// WorkspaceClosure is the data kind "workspace_closure". Closed is missing
// while a person decides on unsaved work.
type WorkspaceClosure struct {
	Kind               string               `json:"kind" enum:"workspace_closure"`
	WorkspaceID        string               `json:"workspaceId"`
	ProjectID          string               `json:"projectId"`
	PanelIDs           control.List[string] `json:"panelIds"`
	TerminalSessionIDs control.List[string] `json:"terminalSessionIds"`
	Closed             *bool                `json:"closed,omitempty"`
	ProjectClosed      *bool                `json:"projectClosed,omitempty"`
}

// ProjectOpened is the data kind "project_opened".
type ProjectOpened struct {
	Kind              string `json:"kind" enum:"project_opened"`
	AnchorWorkspaceID string `json:"anchorWorkspaceId"`
	ProjectID         string `json:"projectId"`
	ProjectPath       string `json:"projectPath"`
	WorkspaceID       string `json:"workspaceId"`
	PanelID           string `json:"panelId"`
	Name              string `json:"name"`
	Opened            *bool  `json:"opened,omitempty"`
}

// ProjectClosure is the data kind "project_closure".
type ProjectClosure struct {
	Kind               string               `json:"kind" enum:"project_closure"`
	WorkspaceID        string               `json:"workspaceId"`
	ProjectID          string               `json:"projectId"`
	WorkspaceIDs       control.List[string] `json:"workspaceIds"`
	PanelIDs           control.List[string] `json:"panelIds"`
	TerminalSessionIDs control.List[string] `json:"terminalSessionIds"`
	Closed             *bool                `json:"closed,omitempty"`
}
