package workbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker"
	"lomi/broker/catalog/workbench"
	"lomi/broker/control"
)

// recorder keeps the names of the changes.
type recorder struct {
	mu    sync.Mutex
	kinds []string
}

func (r *recorder) changed(kind string, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds = append(r.kinds, kind)
}

func open(t *testing.T, path string) (*Workbench, *recorder) {
	t.Helper()
	r := &recorder{}
	w, err := Open(Config{Path: path, Changed: r.changed})
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func code(err error) control.Code {
	if e, ok := control.AsError(err); ok {
		return e.Code
	}
	return ""
}

func TestProjectsOutliveTheDaemonAndPanelsDoNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workbench.json")
	folder := t.TempDir()
	w, _ := open(t, path)
	ws, err := w.OpenProject(t.Context(), folder, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddPanel(t.Context(), control.Panel{ID: "p1", WorkspaceID: ws.ID, Kind: control.PanelTerminal, Runtime: "running"}, ws.Revision); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, path)
	got, ok := again.Workspace(ws.ID)
	if !ok || got.ProjectPath != ws.ProjectPath || got.Name != filepath.Base(folder) {
		t.Errorf("after a restart: %+v, %v", got, ok)
	}
	if panels := again.Panels(ws.ID); len(panels) != 0 {
		t.Errorf("panels of ended shells are shown: %+v", panels)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
}

func TestOneFolderIsOneProject(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	folder := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	first, err := w.OpenProject(t.Context(), folder, "mine")
	if err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{folder, folder + "/", folder + "/.", link, filepath.Dir(folder) + "/./" + filepath.Base(folder)} {
		got, err := w.OpenProject(t.Context(), spelling, "other")
		if err != nil || got.ID != first.ID {
			t.Errorf("OpenProject(%q) = %s, %v, want the open %s", spelling, got.ID, err, first.ID)
		}
	}
	if n := len(w.Workspaces()); n != 1 {
		t.Errorf("%d workspaces", n)
	}
}

func TestOpenProjectRefuses(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		path, name string
		want       control.Code
	}{
		{"relative", "", control.ResourceExhausted},
		{"/no/such/folder", "", control.TargetNotFound},
		{plain, "", control.TargetNotFound},
		{"/tmp\x00", "", control.ResourceExhausted},
		{"/tmp\n", "", control.ResourceExhausted},
		{t.TempDir(), "a\x1b[2J", control.ResourceExhausted},
		{t.TempDir(), strings.Repeat("a", 257), control.ResourceExhausted},
	} {
		if _, err := w.OpenProject(t.Context(), row.path, row.name); code(err) != row.want {
			t.Errorf("OpenProject(%q, %q) = %v, want %s", row.path, row.name, err, row.want)
		}
	}
}

func TestOpeningAtOnceMakesOneProject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workbench.json")
	w, _ := open(t, path)
	folders := []string{t.TempDir(), t.TempDir()}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if _, err := w.OpenProject(t.Context(), folders[i%2], ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	again, _ := open(t, path)
	if a, b := len(w.Workspaces()), len(again.Workspaces()); a != 2 || b != 2 {
		t.Errorf("%d workspaces, %d after a restart", a, b)
	}
}

func TestProjectThatCannotBeStoredIsNotOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	w, _ := open(t, filepath.Join(dir, "workbench.json")) // a folder that is not there
	if _, err := w.OpenProject(t.Context(), t.TempDir(), ""); code(err) != control.StorageUnavailable {
		t.Errorf("got %v", err)
	}
	if n := len(w.Workspaces()); n != 0 {
		t.Errorf("%d workspaces", n)
	}
}

func TestDamagedFileIsKeptAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "workbench.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"proj`), 0o600); err != nil {
		t.Fatal(err)
	}
	w, _ := open(t, path)
	if len(w.Workspaces()) != 0 {
		t.Error("a damaged file gave workspaces")
	}
	kept, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(kept) != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestNewerFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workbench.json")
	if err := os.WriteFile(path, []byte(`{"version":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}); err == nil {
		t.Error("a newer file was opened")
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != `{"version":2}` {
		t.Errorf("file is %s, %v", raw, err)
	}
}

func TestRevisionSaysWhoMovedIt(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	ws, err := w.OpenProject(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, owner, revision string) (string, error) {
		return w.AddPanel(t.Context(), control.Panel{ID: id, WorkspaceID: ws.ID, Kind: control.PanelTerminal, Owner: owner, Runtime: "running"}, revision)
	}
	second, err := add("a", "s1", ws.Revision)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ caller, want string }{{"s1", "this_session"}, {"s2", "another_session"}, {"", "another_session"}} {
		_, err := add("b", row.caller, ws.Revision)
		e, ok := errors.AsType[*control.Error](err)
		if !ok || e.Code != control.RevisionConflict || e.Current != second || e.MovedBy != row.want || e.Effect != control.EffectNone {
			t.Errorf("a stale revision of %q gave %+v, want moved by %s", row.caller, err, row.want)
		}
	}
	if err := w.RemovePanel(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	_, err = add("b", "s1", second)
	if e, ok := errors.AsType[*control.Error](err); !ok || e.MovedBy != "person" {
		t.Errorf("after a person closed a panel: %+v", err)
	}
	if _, err := add("b", "", ""); err != nil {
		t.Errorf("a person's panel needs no revision: %v", err)
	}
}

func TestTitlesDoNotMoveTheRevision(t *testing.T) {
	w, seen := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	ws, err := w.OpenProject(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := control.Panel{ID: "a", WorkspaceID: ws.ID, Kind: control.PanelBrowser, Runtime: "starting", Owner: "s1"}
	revision, err := w.AddPanel(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	p.Title, p.Runtime = "evil\x1b]52;c;x\x07"+strings.Repeat("é", 1024), "running"
	if err := w.UpdatePanel(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got, _ := w.Panel("a")
	if len(got.Title) > maxTitle || strings.ContainsRune(got.Title, 0x1b) || got.Owner != "s1" || got.TabID == "" {
		t.Errorf("panel %+v", got)
	}
	if now, _ := w.Workspace(ws.ID); now.Revision != revision {
		t.Errorf("a title moved the revision from %s to %s", revision, now.Revision)
	}
	p.BrowserGeneration = "2"
	if err := w.UpdatePanel(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if now, _ := w.Workspace(ws.ID); now.Revision == revision {
		t.Error("another page did not move the revision")
	}
	want := []string{"workspace.added", "workspace.changed", "panel.added", "panel.changed", "workspace.changed", "panel.changed"}
	if diff := cmp.Diff(want, seen.kinds); diff != "" {
		t.Error(diff)
	}
}

func TestPanelBounds(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	ws, err := w.OpenProject(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxPanels {
		if _, err := w.AddPanel(t.Context(), control.Panel{ID: fmt.Sprint("p", i), WorkspaceID: ws.ID, Kind: control.PanelTerminal}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		panel control.Panel
		want  control.Code
	}{
		{control.Panel{ID: "more", WorkspaceID: ws.ID, Kind: control.PanelTerminal}, control.ResourceExhausted},
		{control.Panel{ID: "x", WorkspaceID: "gone", Kind: control.PanelTerminal}, control.TargetNotFound},
		{control.Panel{ID: "../x", WorkspaceID: ws.ID, Kind: control.PanelTerminal}, control.ResourceExhausted},
		{control.Panel{ID: "x", WorkspaceID: ws.ID, Kind: "other"}, control.ResourceExhausted},
	} {
		if _, err := w.AddPanel(t.Context(), row.panel, ""); code(err) != row.want {
			t.Errorf("AddPanel(%+v) = %v, want %s", row.panel, err, row.want)
		}
	}
}

// grant is an Authority over some workspaces, with holders of resources.
type grant struct {
	workspaces map[string]bool
	holders    map[string]string
}

func (g grant) Scope(control.Scope) bool      { return true }
func (g grant) Workspace(id string) bool      { return g.workspaces[id] }
func (g grant) Origin(string) bool            { return false }
func (g grant) Holder(resource string) string { return g.holders[resource] }

func list[T any](t *testing.T, a Adapter, session string, g grant, request any) (T, error) {
	t.Helper()
	call := broker.Call{Request: request, Session: session, Authority: g}
	target, err := a.Resolve(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	permit := broker.NewPermit(func() error { return nil }, nil)
	result, err := a.Do(context.Background(), permit, call, target)
	data, _ := result.Data.(T)
	return data, err
}

func TestListsShowTheGrantAndPage(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	g := grant{workspaces: map[string]bool{}, holders: map[string]string{"terminal:mine": "this_session", "browser:other": "another_session"}}
	var ids []string
	for range 5 {
		ws, err := w.OpenProject(t.Context(), t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ws.ID)
	}
	for _, id := range ids[:4] {
		g.workspaces[id] = true
	}
	a := NewAdapter(w)
	first, err := list[workbench.Workspaces](t, a, "s1", g, &workbench.WorkspaceListRequest{Limit: 3})
	if err != nil || len(first.Items) != 3 || first.NextCursor == "" {
		t.Fatalf("first page %+v, %v", first, err)
	}
	rest, err := list[workbench.Workspaces](t, a, "s1", g, &workbench.WorkspaceListRequest{Limit: 3, Cursor: first.NextCursor})
	if err != nil || len(rest.Items) != 1 || rest.NextCursor != "" || rest.Items[0].ID != ids[3] {
		t.Fatalf("second page %+v, %v", rest, err)
	}
	if _, err := list[workbench.Workspaces](t, a, "s2", g, &workbench.WorkspaceListRequest{Limit: 3, Cursor: first.NextCursor}); code(err) != control.CursorExpired {
		t.Errorf("a cursor of another session gave %v", err)
	}
	if _, err := w.OpenProject(t.Context(), t.TempDir(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := list[workbench.Workspaces](t, a, "s1", g, &workbench.WorkspaceListRequest{Limit: 3, Cursor: first.NextCursor}); code(err) != control.CursorExpired {
		t.Errorf("a cursor of another revision gave %v", err)
	}

	for _, p := range []control.Panel{
		{ID: "mine", Kind: control.PanelTerminal, Runtime: "running", Owner: "s1"},
		{ID: "other", Kind: control.PanelBrowser, Runtime: "ready", Owner: "s2"},
		{ID: "taken", Kind: control.PanelTerminal, Runtime: "running", Owner: "s1"},
	} {
		p.WorkspaceID = ids[0]
		if _, err := w.AddPanel(t.Context(), p, ""); err != nil {
			t.Fatal(err)
		}
	}
	panels, err := list[workbench.Panels](t, a, "s1", g, &workbench.PanelListRequest{Scoped: control.Scoped{WorkspaceID: ids[0]}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range panels.Items {
		got = append(got, fmt.Sprint(p.ID, " ", p.Ownership, " ", p.InputControlled))
	}
	want := []string{"mine this_session true", "other another_session true", "taken human_or_unassigned false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if now, _ := w.Workspace(ids[0]); panels.DomainRevision != now.Revision {
		t.Errorf("revision %s, want %s", panels.DomainRevision, now.Revision)
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	w, _ := open(t, filepath.Join(t.TempDir(), "workbench.json"))
	ws, err := w.OpenProject(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		p := control.Panel{ID: fmt.Sprint("p", i), WorkspaceID: ws.ID, Kind: control.PanelTerminal, Title: strings.Repeat("t", maxTitle)}
		if _, err := w.AddPanel(t.Context(), p, ""); err != nil {
			t.Fatal(err)
		}
	}
	a, cursor, seen := NewAdapter(w), "", 0
	for {
		page, err := list[workbench.Panels](t, a, "s", grant{}, &workbench.PanelListRequest{Scoped: control.Scoped{WorkspaceID: ws.ID}, Limit: 500, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Items); n == 0 || n > 48 {
			t.Fatalf("a page of %d panels of 1 KiB", n)
		}
		seen += len(page.Items)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if seen != 100 {
		t.Errorf("paged through %d of 100", seen)
	}
}
