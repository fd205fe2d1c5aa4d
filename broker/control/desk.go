package control

// Workspace is one workspace of an open project, as the workbench knows it.
type Workspace struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	ProjectID   string `json:"projectId"`
	ProjectName string `json:"projectName"`
	ProjectPath string `json:"projectPath"` // canonical, absolute
	Revision    string `json:"revision"`    // decimal; rises with every change of the workspace's panels
}

// PanelKind says what a panel shows.
type PanelKind string

// The kinds of a panel that exist now.
const (
	PanelTerminal PanelKind = "terminal"
	PanelBrowser  PanelKind = "browser"
)

// Panel is one terminal or browser page of a workspace. Runtime is one of
// unobserved, not_started, starting, running, ready, exited.
type Panel struct {
	ID                string    `json:"id"`
	WorkspaceID       string    `json:"workspaceId"`
	TabID             string    `json:"tabId"`
	Kind              PanelKind `json:"kind"`
	Title             string    `json:"title"`
	TerminalSessionID string    `json:"terminalSessionId,omitempty"`
	BrowserGeneration string    `json:"browserGeneration,omitempty"`
	Runtime           string    `json:"runtimeState"`
	Owner             string    `json:"-"` // the session that made it, "" for a person
}

// Resource is the key under which the broker keeps the lease of a panel.
func (p Panel) Resource() string { return string(p.Kind) + ":" + p.ID }
