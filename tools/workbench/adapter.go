package workbench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"lomi/broker"
	"lomi/broker/catalog/workbench"
	"lomi/broker/control"
)

const (
	// maxPage bounds a page in bytes (catalog 1.2).
	maxPage = 48 << 10
	// maxCursors bounds the cursors of one session, maxCursorSessions the
	// sessions that have some. A full table is emptied: its cursors expire.
	maxCursors        = 64
	maxCursorSessions = 128
)

// Adapter answers lomi_workspace_list and lomi_panel_list.
type Adapter struct{ bench *Workbench }

var (
	_ broker.Adapter = Adapter{}
	_ broker.Offerer = Adapter{}
)

// NewAdapter makes the adapter of the domain "workbench".
func NewAdapter(w *Workbench) Adapter { return Adapter{bench: w} }

// Offers implements broker.Offerer.
func (Adapter) Offers(tool string) (bool, string) {
	return tool == "lomi_workspace_list" || tool == "lomi_panel_list", ""
}

// Resolve implements broker.Adapter. The broker has compared the workspace
// with the grant; the list of workspaces names none and is narrowed in Do.
func (a Adapter) Resolve(_ context.Context, call broker.Call) (broker.Target, error) {
	switch r := call.Request.(type) {
	case *workbench.WorkspaceListRequest:
		return broker.Target{}, nil
	case *workbench.PanelListRequest:
		return broker.Target{WorkspaceID: r.WorkspaceID}, nil
	}
	return broker.Target{}, control.Errorf(control.UnsupportedCapability, "this build of Lomi does not offer the tool")
}

// Do implements broker.Adapter.
func (a Adapter) Do(_ context.Context, _ *broker.Permit, call broker.Call, _ broker.Target) (broker.Result, error) {
	var data any
	var err error
	switch r := call.Request.(type) {
	case *workbench.WorkspaceListRequest:
		data, err = a.workspaces(call, r)
	case *workbench.PanelListRequest:
		data, err = a.panels(call, r)
	default:
		err = fmt.Errorf("the workbench does not know %T", r)
	}
	if err != nil {
		return broker.Result{}, err
	}
	return broker.Result{Data: data}, nil
}

func (a Adapter) workspaces(call broker.Call, r *workbench.WorkspaceListRequest) (any, error) {
	w := a.bench
	w.mu.RLock()
	revision := strconv.FormatUint(w.domain, 10)
	var granted []workbench.WorkspaceEntry
	for _, id := range w.order {
		ws := w.workspaces[id]
		p := w.public(ws)
		granted = append(granted, workbench.WorkspaceEntry{ID: p.ID, ActivePanelID: ws.active, ProjectID: p.ProjectID, Name: p.Name,
			ProjectName: p.ProjectName, ProjectPath: p.ProjectPath, Revision: p.Revision})
	}
	w.mu.RUnlock()
	// Asked without the lock: the broker reads the workbench to answer.
	kept := granted[:0]
	for _, e := range granted {
		if call.Authority.Workspace(e.ID) {
			kept = append(kept, e)
		}
	}
	place := cursorPlace{list: "workspaces", revision: revision}
	page, next, err := paged(&w.cursors, call.Session, place, kept, r.Limit, r.Cursor)
	if err != nil {
		return nil, err
	}
	return workbench.Workspaces{Kind: "workspaces", Items: page, NextCursor: next, DomainRevision: revision}, nil
}

func (a Adapter) panels(call broker.Call, r *workbench.PanelListRequest) (any, error) {
	w := a.bench
	w.mu.RLock()
	ws, ok := w.workspaces[r.WorkspaceID]
	if !ok {
		w.mu.RUnlock()
		return nil, control.Errorf(control.TargetNotFound, "workspaceId: is not open to this connection")
	}
	revision := strconv.FormatUint(ws.revision, 10)
	panels := append([]control.Panel(nil), ws.panels...)
	w.mu.RUnlock()
	items := make([]workbench.PanelEntry, 0, len(panels))
	for _, p := range panels {
		holder := call.Authority.Holder(p.Resource())
		items = append(items, workbench.PanelEntry{ID: p.ID, WorkspaceID: p.WorkspaceID, TabID: p.TabID, Kind: p.Kind, Title: p.Title,
			TerminalSessionID: p.TerminalSessionID, BrowserGeneration: p.BrowserGeneration, RuntimeState: p.Runtime,
			Ownership: ownership(holder), InputControlled: holder != ""})
	}
	place := cursorPlace{list: "panels:" + ws.id, revision: revision}
	page, next, err := paged(&w.cursors, call.Session, place, items, r.Limit, r.Cursor)
	if err != nil {
		return nil, err
	}
	return workbench.Panels{Kind: "panels", Items: page, NextCursor: next, DomainRevision: revision}, nil
}

// ownership says who controls a panel now. Who once made it matters to nobody:
// a panel that a person took over is the person's.
func ownership(holder string) string {
	if holder == "" {
		return "human_or_unassigned"
	}
	return holder
}

// cursorPlace is where a cursor continues. It belongs to one session, one list
// and one revision of it.
type cursorPlace struct {
	list, revision string
	at             int
}

// cursors are the open cursors of all sessions.
type cursors struct {
	mu   sync.Mutex
	open map[string]map[string]cursorPlace
}

func (c *cursors) put(session string, place cursorPlace) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil || (c.open[session] == nil && len(c.open) >= maxCursorSessions) {
		c.open = make(map[string]map[string]cursorPlace)
	}
	if len(c.open[session]) >= maxCursors || c.open[session] == nil {
		c.open[session] = make(map[string]cursorPlace)
	}
	id := control.NewID()
	c.open[session][id] = place
	return id
}

func (c *cursors) get(session, id string) (cursorPlace, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, ok := c.open[session][id]
	return place, ok
}

// paged cuts one page out of items, by number and by bytes.
func paged[T any](c *cursors, session string, place cursorPlace, items []T, limit int, cursor string) (page []T, next string, err error) {
	if cursor != "" {
		from, ok := c.get(session, cursor)
		if !ok || from.list != place.list || from.revision != place.revision || from.at > len(items) {
			return nil, "", control.Errorf(control.CursorExpired, "cursor: the list has changed, or the cursor is not of this connection")
		}
		place.at = from.at
	}
	size := 0
	for _, item := range items[place.at:] {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, "", fmt.Errorf("encoding a list: %w", err)
		}
		size += len(raw) + 1
		if len(page) == limit || (size > maxPage && len(page) > 0) {
			break
		}
		page = append(page, item)
	}
	place.at += len(page)
	if place.at < len(items) {
		next = c.put(session, place)
	}
	return page, next, nil
}
