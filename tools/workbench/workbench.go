// Package workbench keeps what is open: projects, their workspaces and the
// panels in them. The daemon owns it, so tools work with no page open and a
// reload of the page ends nothing. It also answers the tools that list it.
package workbench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"lomi/broker"
	"lomi/broker/control"
)

// Bounds of the workbench (broker spec 2.3 and 4.1).
const (
	maxWorkspaces = 500
	maxPanels     = 128 // of one workspace
	maxName       = 256 // bytes
	maxTitle      = 1024
)

// Who moved a revision, as REVISION_CONFLICT tells it.
const (
	byPerson  = "person"
	byCaller  = "this_session"
	byAnother = "another_session"
)

// Config is what a Workbench needs.
type Config struct {
	// Path is workbench.json. Required; its folder must exist.
	Path string
	// Changed is told of every change, in order, with "workspace.added",
	// "workspace.changed", "panel.added", "panel.changed" or "panel.removed" and
	// the thing itself. It must not wait, nor call the Workbench. Nil tells
	// nobody.
	Changed func(kind string, data any)
	// Logger gets what people debug with. Nil discards it.
	Logger *slog.Logger
}

// Workbench is what is open. It is safe for concurrent use and answers reads
// from memory at once.
//
// Projects and workspaces outlive the daemon in workbench.json. Panels do not:
// their shells and pages end with the daemon, and a panel in which nothing can
// be shown any more would only be in the way; what ran in it is told by its
// receipts. A workspace's revision rises when a panel comes, goes, or gets
// another runtime; not for titles, which shells and pages change by themselves.
type Workbench struct {
	cfg     Config
	log     *slog.Logger
	cursors cursors
	opening sync.Mutex // held while a project is opened and stored

	mu         sync.RWMutex
	projects   map[string]project
	workspaces map[string]*workspace
	order      []string // of workspaces, as they were opened
	domain     uint64   // revision of the list of workspaces
}

type project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Path string `json:"path"`
}

type workspace struct {
	id, name, project string
	revision          uint64
	mover             string // session that moved the revision, "" for a person
	panels            []control.Panel
	active            string
}

var _ broker.Desk = (*Workbench)(nil)

// Open reads workbench.json. A damaged file is kept aside and reported, and
// the workbench begins empty.
func Open(cfg Config) (*Workbench, error) {
	if cfg.Path == "" {
		return nil, fmt.Errorf("opening the workbench: no path given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Changed == nil {
		cfg.Changed = func(string, any) {}
	}
	w := &Workbench{cfg: cfg, log: cfg.Logger, projects: make(map[string]project), workspaces: make(map[string]*workspace)}
	// Revisions of another run never match this one's by accident.
	w.domain = uint64(time.Now().UnixMilli())
	if err := w.load(); err != nil {
		return nil, err
	}
	return w, nil
}

// OpenProject opens a folder as a project with one workspace, or gives back
// the first workspace of one that is open. The path is made canonical, so that
// one folder is one project however it is spelt.
func (w *Workbench) OpenProject(_ context.Context, path, name string) (control.Workspace, error) {
	path, err := canonical(path)
	if err != nil {
		return control.Workspace{}, err
	}
	if name == "" {
		name = filepath.Base(path)
	}
	if err := checkText("name", name, maxName); err != nil {
		return control.Workspace{}, err
	}
	// Only this method changes projects, and only under opening, so what is
	// read and stored here stays true while the disk is waited for; mu is not
	// held then, because every admission of the broker reads the workbench.
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.RLock()
	open, is := w.openAt(path)
	stored, revision := w.file(), w.domain
	w.mu.RUnlock()
	switch {
	case is:
		return open, nil
	case len(stored.Workspaces) >= maxWorkspaces:
		return control.Workspace{}, control.Errorf(control.ResourceExhausted, "at most %d workspaces are open", maxWorkspaces)
	}
	p := project{ID: control.NewID(), Name: name, Path: path}
	ws := &workspace{id: control.NewID(), name: name, project: p.ID, revision: revision}
	stored.Projects = append(stored.Projects, p)
	stored.Workspaces = append(stored.Workspaces, fileWorkspace{ID: ws.id, Name: name, Project: p.ID})
	if err := w.save(stored); err != nil {
		return control.Workspace{}, fmt.Errorf("%w: %w", control.Errorf(control.StorageUnavailable, "the project could not be stored"), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.projects[p.ID], w.workspaces[ws.id] = p, ws
	w.order = append(w.order, ws.id)
	w.domain++
	public := w.public(ws)
	w.cfg.Changed("workspace.added", public)
	return public, nil
}

// openAt finds the first workspace of the project at a path.
func (w *Workbench) openAt(path string) (control.Workspace, bool) {
	for _, id := range w.order {
		if w.projects[w.workspaces[id].project].Path == path {
			return w.public(w.workspaces[id]), true
		}
	}
	return control.Workspace{}, false
}

// canonical gives the one path of a folder that exists.
func canonical(path string) (string, error) {
	if !filepath.IsAbs(path) || len(path) > 4096 || !utf8.ValidString(path) || strings.IndexFunc(path, unicode.IsControl) >= 0 {
		return "", control.Errorf(control.ResourceExhausted, "path: must be absolute, at most 4096 bytes, without control characters")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", control.Errorf(control.TargetNotFound, "path: there is no such folder")
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", control.Errorf(control.TargetNotFound, "path: there is no such folder")
	}
	return real, nil
}

func checkText(field, text string, limit int) error {
	if text == "" || len(text) > limit || !utf8.ValidString(text) || strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return control.Errorf(control.ResourceExhausted, "%s: 1 to %d bytes without control characters", field, limit)
	}
	return nil
}

func (w *Workbench) public(ws *workspace) control.Workspace {
	p := w.projects[ws.project]
	return control.Workspace{ID: ws.id, Name: ws.name, ProjectID: p.ID, ProjectName: p.Name, ProjectPath: p.Path,
		Revision: strconv.FormatUint(ws.revision, 10)}
}

// Workspaces lists what is open, in the order in which it was opened.
func (w *Workbench) Workspaces() []control.Workspace {
	w.mu.RLock()
	defer w.mu.RUnlock()
	all := make([]control.Workspace, 0, len(w.order))
	for _, id := range w.order {
		all = append(all, w.public(w.workspaces[id]))
	}
	return all
}

// Workspace finds one workspace.
func (w *Workbench) Workspace(id string) (control.Workspace, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	ws, ok := w.workspaces[id]
	if !ok {
		return control.Workspace{}, false
	}
	return w.public(ws), true
}

// Panels lists the panels of a workspace, none for an unknown one.
func (w *Workbench) Panels(workspaceID string) []control.Panel {
	w.mu.RLock()
	defer w.mu.RUnlock()
	ws, ok := w.workspaces[workspaceID]
	if !ok {
		return []control.Panel{}
	}
	return append([]control.Panel{}, ws.panels...)
}

// Panel finds a panel of any workspace.
func (w *Workbench) Panel(id string) (control.Panel, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if ws, i := w.find(id); ws != nil {
		return ws.panels[i], true
	}
	return control.Panel{}, false
}

func (w *Workbench) find(panelID string) (*workspace, int) {
	for _, ws := range w.workspaces {
		if i := slices.IndexFunc(ws.panels, func(p control.Panel) bool { return p.ID == panelID }); i >= 0 {
			return ws, i
		}
	}
	return nil, -1
}

// AddPanel adds a panel if its workspace is at expectedRevision (any, if that
// is empty) and returns the new revision. Panel.Owner is the session that asks,
// "" for a person. An empty tab id makes a tab of its own.
func (w *Workbench) AddPanel(_ context.Context, p control.Panel, expectedRevision string) (string, error) {
	if err := checkPanel(p); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ws, ok := w.workspaces[p.WorkspaceID]
	if !ok {
		return "", control.Errorf(control.TargetNotFound, "workspaceId: is not open")
	}
	if err := ws.expect(expectedRevision, p.Owner); err != nil {
		return "", err
	}
	if len(ws.panels) >= maxPanels {
		return "", control.Errorf(control.ResourceExhausted, "a workspace has at most %d panels", maxPanels)
	}
	if other, _ := w.find(p.ID); other != nil {
		return "", control.Errorf(control.ResourceExhausted, "panelId: is taken")
	}
	if p.TabID == "" {
		p.TabID = control.NewID()
	}
	ws.panels = append(ws.panels, p)
	ws.active = p.ID
	w.moved(ws, p.Owner)
	w.cfg.Changed("panel.added", p)
	return strconv.FormatUint(ws.revision, 10), nil
}

func checkPanel(p control.Panel) error {
	switch {
	case !control.ValidID(p.ID):
		return control.Errorf(control.ResourceExhausted, "panelId: is no id")
	case p.Kind != control.PanelTerminal && p.Kind != control.PanelBrowser:
		return control.Errorf(control.ResourceExhausted, "kind: is none that exists")
	case len(p.Title) > maxTitle || !utf8.ValidString(p.Title):
		return control.Errorf(control.ResourceExhausted, "title: at most %d bytes", maxTitle)
	}
	return nil
}

// expect compares a revision, and says who moved it.
func (ws *workspace) expect(revision, caller string) error {
	current := strconv.FormatUint(ws.revision, 10)
	if revision == "" || revision == current {
		return nil
	}
	mover := byAnother
	switch {
	case ws.mover == "":
		mover = byPerson
	case ws.mover == caller:
		mover = byCaller
	}
	e := control.Errorf(control.RevisionConflict, "expectedRevision: the workspace has changed meanwhile; look again")
	e.Current, e.MovedBy = current, mover
	return e
}

// moved raises the revision of a workspace. The mutex is held.
func (w *Workbench) moved(ws *workspace, by string) {
	ws.revision++
	ws.mover = by
	w.cfg.Changed("workspace.changed", w.public(ws))
}

// UpdatePanel replaces the panel of the same id in the same workspace. A title
// that is too long is cut: shells and pages choose it.
func (w *Workbench) UpdatePanel(_ context.Context, p control.Panel) error {
	p.Title = cutTitle(p.Title)
	if err := checkPanel(p); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ws, i := w.find(p.ID)
	if ws == nil || ws.id != p.WorkspaceID {
		return control.Errorf(control.TargetNotFound, "panelId: is not open")
	}
	old := ws.panels[i]
	if p.TabID == "" {
		p.TabID = old.TabID
	}
	p.Owner = old.Owner
	if p == old {
		return nil
	}
	ws.panels[i] = p
	if p.Kind != old.Kind || p.TabID != old.TabID || p.TerminalSessionID != old.TerminalSessionID || p.BrowserGeneration != old.BrowserGeneration {
		w.moved(ws, old.Owner)
	}
	w.cfg.Changed("panel.changed", p)
	return nil
}

func cutTitle(title string) string {
	title = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(title, "\uFFFD"))
	for len(title) > maxTitle {
		_, size := utf8.DecodeLastRuneInString(title)
		title = title[:len(title)-size]
	}
	return title
}

// RemovePanel takes a panel away. One that never came to life was taken back
// by its maker; any other was closed by a person, because no tool closes
// panels yet.
func (w *Workbench) RemovePanel(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ws, i := w.find(id)
	if ws == nil {
		return control.Errorf(control.TargetNotFound, "panelId: is not open")
	}
	p := ws.panels[i]
	ws.panels = slices.Delete(ws.panels, i, i+1)
	if ws.active == id {
		ws.active = ""
		if n := len(ws.panels); n > 0 {
			ws.active = ws.panels[n-1].ID
		}
	}
	by := ""
	if p.Runtime == "not_started" || p.Runtime == "starting" {
		by = p.Owner
	}
	w.moved(ws, by)
	w.cfg.Changed("panel.removed", p)
	return nil
}
