package workbench

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

func define(tool control.Tool, results ...any) control.Tool {
	tool.Domain = "workbench"
	return rule.Define(tool, results...)
}

// Tools returns the ten tools of this domain.
func Tools() []control.Tool { return append(workspaces(), panels()...) }

func workspaces() []control.Tool {
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_workspace_list", Title: "List workspaces",
			Description: "List the workspaces that the grant allows, with their projects and revisions.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.WorkspaceRead},
			NewRequest:  rule.Request[WorkspaceListRequest](),
		}, Workspaces{}),
		define(control.Tool{
			Name: "lomi_workspace_create", Title: "New workspace",
			Description: "Make a workspace in the project of workspaceId. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.WorkspaceWrite, control.PanelCreate},
			NewRequest:  rule.Request[WorkspaceCreateRequest](),
		}, Workspace{}),
		define(control.Tool{
			Name: "lomi_workspace_update", Title: "Rename, select or close a workspace",
			Description: "Rename, select or close a workspace. A close waits up to 120 s for a person with unsaved work. Answers with an operation receipt.",
			Destructive: true, Operation: true,
			Scopes:     []control.Scope{control.WorkspaceWrite},
			NewRequest: rule.Request[WorkspaceUpdateRequest](),
		}, Workspace{}, Panel{}, WorkspaceClosure{}),
		define(control.Tool{
			Name: "lomi_project_open", Title: "Open a project",
			Description: "Open a folder as a project; a person is asked. workspaceId is any workspace of yours. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.ProjectOpen, control.WorkspaceWrite, control.PanelCreate},
			NewRequest:  rule.Request[ProjectOpenRequest](),
		}, ProjectOpened{}),
		define(control.Tool{
			Name: "lomi_project_close", Title: "Close a project",
			Description: "Close a project with all its workspaces; each must be granted. Answers with an operation receipt.",
			Destructive: true, Operation: true,
			Scopes: []control.Scope{control.ProjectClose, control.WorkspaceClose, control.WorkspaceWrite,
				control.PanelClose},
			NewRequest: rule.Request[ProjectCloseRequest](),
		}, ProjectClosure{}),
	}
}

func panels() []control.Tool {
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_panel_list", Title: "List panels",
			Description: "List the panels of a workspace: terminals, pages, files, and who controls them.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.WorkspaceRead},
			NewRequest:  rule.Request[PanelListRequest](),
		}, Panels{}),
		define(control.Tool{
			Name: "lomi_panel_focus", Title: "Show a panel",
			Description: "Bring a panel to the front. Starts nothing. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.PanelFocus},
			NewRequest:  rule.Request[PanelFocusRequest](),
		}, Panel{}),
		define(control.Tool{
			Name: "lomi_panel_close", Title: "Close a panel",
			Description: "Close a panel, and what runs in it. Answers with an operation receipt.",
			Destructive: true, Operation: true,
			Scopes:     []control.Scope{control.PanelClose, control.PanelCreate},
			NewRequest: rule.Request[PanelCloseRequest](),
		}, Panel{}),
		define(control.Tool{
			Name: "lomi_panel_move", Title: "Move a panel",
			Description: "Reorder, dock, move or transfer tabs and panes; what runs in them goes on. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.PanelMove, control.WorkspaceWrite},
			NewRequest:  rule.Request[PanelMoveRequest](),
		}, PanelMoved{}),
		define(control.Tool{
			Name: "lomi_panel_control", Title: "Claim or release a panel",
			Description: "Claim or release the input of a terminal or Android panel; a person is asked. Answers with an operation receipt that holds the leaseId.",
			Operation:   true,
			NewRequest:  rule.Request[PanelControlRequest](),
		}, TerminalControl{}, AndroidControl{}),
	}
}
