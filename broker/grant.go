package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lomi/broker/control"
)

// Bounds of one grant (broker spec 2.2 and 2.3).
const (
	maxScopes     = 64
	maxWorkspaces = 500
	maxProjects   = 16
	maxOrigins    = 16
)

// Policy says which admitted calls a person is asked about.
type Policy string

// The policies. The zero value of a GrantSpec's policy means ask for risk.
const (
	PolicyGrant      Policy = "grant"
	PolicyAskForRisk Policy = "ask_for_risk"
	PolicyAskAlways  Policy = "ask_always"
)

func (p Policy) valid() bool {
	return p == PolicyGrant || p == PolicyAskForRisk || p == PolicyAskAlways
}

// GrantSpec is what a person allows when approving a pairing.
type GrantSpec struct {
	Scopes     []control.Scope `json:"scopes"`
	Workspaces []string        `json:"workspaces"`
	Origins    []string        `json:"origins,omitempty"`
	Policy     Policy          `json:"policy,omitempty"`
}

// place pins the project of a granted workspace: a workspace is allowed only
// while its id, its project and the project's path are all what they were when
// the person looked.
type place struct {
	projectID, projectPath string
}

// grant is the checked form of a GrantSpec. Its owner's mutex guards it.
type grant struct {
	scopes     map[control.Scope]bool
	workspaces map[string]place
	origins    map[string]bool
	anyOrigin  bool // YOLO
	everything bool // YOLO: every workspace, also later ones
	policy     Policy
	rules      []string        // command rules that a person's answer left behind
	runs       map[string]bool // runs for which one answer was given
}

// DomainScopes is the preset of a domain: what a person allows by switching it
// on. A domain without a preset gives nil.
func DomainScopes(domain string) []control.Scope {
	switch domain {
	case "terminal":
		return []control.Scope{control.WorkspaceRead, control.PanelCreate, control.TerminalRead, control.TerminalExecute}
	case "browser":
		return []control.Scope{control.WorkspaceRead, control.PanelCreate, control.BrowserNavigate, control.BrowserRead,
			control.BrowserInteract, control.BrowserCaptureComposite}
	case "workbench":
		return []control.Scope{control.WorkspaceRead}
	}
	return nil
}

// CheckScopes refuses a set of scopes that is unknown, too long, or incomplete
// by the dependency rules. The error names the first scope that is missing and
// the one that needs it.
func CheckScopes(scopes []control.Scope) error {
	if len(scopes) > maxScopes {
		return control.Errorf(control.ResourceExhausted, "scopes: at most %d", maxScopes)
	}
	known := make(map[control.Scope]bool, 54)
	for _, s := range control.Scopes() {
		known[s] = true
	}
	have := make(map[control.Scope]bool, len(scopes))
	for i, s := range scopes {
		if !known[s] && !serverScope(s) {
			return control.Errorf(control.ResourceExhausted, "scopes[%d]: is no scope", i)
		}
		have[s] = true
	}
	if !have[control.WorkspaceRead] {
		return control.Errorf(control.ScopeDenied, "scopes: workspace.read is needed in every grant")
	}
	for _, s := range slices.Sorted(maps.Keys(have)) {
		for _, need := range scopeNeeds(s) {
			if !have[need] {
				return control.Errorf(control.ScopeDenied, "scopes: %s needs %s", s, need)
			}
		}
	}
	return nil
}

// serverScope reports whether a scope is of the open family mcp.<server>.
func serverScope(s control.Scope) bool {
	name, ok := strings.CutPrefix(string(s), "mcp.")
	if !ok || name == "" || len(name) > 64 {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

// scopeNeeds is broker spec 2.2: what must be granted beside a scope. Needs of
// needs are found by asking again for each.
func scopeNeeds(s control.Scope) []control.Scope {
	type set = []control.Scope
	switch s {
	case control.ChatOpen:
		return set{control.ChatRead, control.PanelCreate, control.PanelFocus}
	case control.ChatCreate:
		return set{control.ChatOpen}
	case control.ChatDraft, control.ChatSend, control.ChatStop, control.ChatExport:
		return set{control.ChatRead}
	case control.SettingsWrite:
		return set{control.SettingsRead}
	case control.FilesMutate, control.EditorRead, control.GitRead,
		control.ArtifactImport, control.ArtifactImportFile:
		return set{control.FilesRead}
	case control.FilesCreate, control.FilesRename, control.FilesTrash:
		return set{control.FilesMutate}
	case control.EditorWrite:
		return set{control.EditorRead}
	case control.GitWrite, control.GitExecute, control.GitNetwork, control.GitDiscard:
		return set{control.GitRead, control.GitWrite, control.GitExecute}
	case control.GitPush, control.GitPull:
		return set{control.GitRead, control.GitWrite, control.GitExecute, control.GitNetwork}
	case control.ArtifactExport:
		return set{control.FilesRead, control.FilesMutate, control.FilesCreate}
	case control.AndroidControl, control.AndroidSetup, control.AndroidManage:
		return set{control.AndroidRead}
	case control.AndroidLaunch, control.AndroidLogs, control.AndroidInteract, control.AndroidObserve, control.AndroidCapture:
		return set{control.AndroidControl}
	case control.AndroidInstall:
		return set{control.AndroidControl, control.FilesRead}
	case control.PanelMove:
		return set{control.WorkspaceWrite}
	case control.WorkspaceClose:
		return set{control.WorkspaceWrite, control.PanelClose}
	case control.ProjectClose:
		return set{control.WorkspaceClose}
	case control.ProjectOpen:
		return set{control.WorkspaceWrite, control.PanelCreate}
	case control.BrowserUpload:
		return set{control.BrowserRead, control.BrowserInteract}
	case control.BrowserDownload:
		return set{control.BrowserRead}
	}
	return nil
}

// newGrant checks a person's choice against the rules and the workspaces that
// stand now, and pins the workspaces to their projects.
func newGrant(spec GrantSpec, desk []control.Workspace, internal func(host, port string) bool) (*grant, error) {
	if err := CheckScopes(spec.Scopes); err != nil {
		return nil, err
	}
	g := &grant{
		scopes:     make(map[control.Scope]bool, len(spec.Scopes)),
		workspaces: make(map[string]place, len(spec.Workspaces)),
		origins:    make(map[string]bool, len(spec.Origins)),
		policy:     spec.Policy,
		runs:       make(map[string]bool),
	}
	for _, s := range spec.Scopes {
		g.scopes[s] = true
	}
	switch {
	case g.policy == "":
		g.policy = PolicyAskForRisk
	case !g.policy.valid():
		return nil, control.Errorf(control.ResourceExhausted, "policy: one of grant, ask_for_risk, ask_always")
	}
	if err := g.addWorkspaces(spec.Workspaces, desk); err != nil {
		return nil, err
	}
	if len(spec.Origins) > maxOrigins {
		return nil, control.Errorf(control.ResourceExhausted, "origins: at most %d", maxOrigins)
	}
	if len(spec.Origins) > 0 && !g.browses() {
		return nil, control.Errorf(control.ScopeDenied, "origins: need a browser scope")
	}
	for i, raw := range spec.Origins {
		o, err := exactOrigin(raw, internal)
		if err != nil {
			return nil, fieldError(fmt.Sprintf("origins[%d]", i), err)
		}
		g.origins[o] = true
	}
	return g, nil
}

func (g *grant) addWorkspaces(ids []string, desk []control.Workspace) error {
	if len(ids) > maxWorkspaces {
		return control.Errorf(control.ResourceExhausted, "workspaces: at most %d", maxWorkspaces)
	}
	projects := make(map[string]bool)
	for i, id := range ids {
		at := slices.IndexFunc(desk, func(w control.Workspace) bool { return w.ID == id })
		if at < 0 {
			return control.Errorf(control.TargetNotFound, "workspaces[%d]: is not open", i)
		}
		w := desk[at]
		g.workspaces[id] = place{projectID: w.ProjectID, projectPath: w.ProjectPath}
		projects[w.ProjectID] = true
	}
	if len(projects) > maxProjects {
		return control.Errorf(control.ResourceExhausted, "workspaces: of at most %d projects", maxProjects)
	}
	return nil
}

// yoloGrant allows everything that Lomi can allow.
func yoloGrant() *grant {
	g := &grant{
		scopes:     make(map[control.Scope]bool),
		workspaces: make(map[string]place),
		origins:    make(map[string]bool),
		runs:       make(map[string]bool),
		policy:     PolicyGrant,
		anyOrigin:  true,
		everything: true,
	}
	for _, s := range control.Scopes() {
		g.scopes[s] = true
	}
	return g
}

func (g *grant) browses() bool {
	for s := range g.scopes {
		if strings.HasPrefix(string(s), "browser.") {
			return true
		}
	}
	return false
}

// workspace reports whether w is granted and still where it was.
func (g *grant) workspace(w control.Workspace) bool {
	if g.everything {
		return true
	}
	p, ok := g.workspaces[w.ID]
	return ok && p == place{projectID: w.ProjectID, projectPath: w.ProjectPath}
}

func (g *grant) missing(scopes []control.Scope) (control.Scope, bool) {
	for _, s := range scopes {
		if !g.scopes[s] {
			return s, true
		}
	}
	return "", false
}

// fieldError puts the field's path before the message of a control error.
func fieldError(path string, err error) error {
	e, ok := control.AsError(err)
	if !ok {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	return control.Errorf(e.Code, "%s: %s", path, e.Message)
}
