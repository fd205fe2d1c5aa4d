package workbench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lomi/broker/control"
)

// fileVersion is that of workbench.json. A newer file is left as it is: an
// older Lomi must not throw away what it does not know.
const (
	fileVersion = 1
	maxFile     = 4 << 20
)

type file struct {
	Version    int             `json:"version"`
	Projects   []project       `json:"projects"`
	Workspaces []fileWorkspace `json:"workspaces"`
}

type fileWorkspace struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"projectId"`
}

func (w *Workbench) load() error {
	f, err := os.Open(w.cfg.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the workbench: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reading the workbench: %w", err)
	}
	var stored file
	if err := json.Unmarshal(raw, &stored); err != nil {
		return w.setAside(err)
	}
	if stored.Version > fileVersion {
		return fmt.Errorf("reading %s: it was written by a newer Lomi", w.cfg.Path)
	}
	for _, p := range stored.Projects {
		if control.ValidID(p.ID) && filepath.IsAbs(p.Path) {
			w.projects[p.ID] = p
		}
	}
	for _, one := range stored.Workspaces {
		p, known := w.projects[one.Project]
		if _, twice := w.workspaces[one.ID]; !known || twice || !control.ValidID(one.ID) || len(w.order) >= maxWorkspaces {
			w.log.Warn("workspace in the workbench file cannot be opened", "workspace", one.ID)
			continue
		}
		if info, err := os.Stat(p.Path); err != nil || !info.IsDir() {
			w.log.Warn("folder of a project is not there now", "path", p.Path)
		}
		w.workspaces[one.ID] = &workspace{id: one.ID, name: one.Name, project: one.Project, revision: w.domain}
		w.order = append(w.order, one.ID)
	}
	return nil
}

// setAside keeps a damaged file for the person and goes on without it.
func (w *Workbench) setAside(why error) error {
	aside := fmt.Sprintf("%s.damaged-%d", w.cfg.Path, time.Now().Unix())
	if err := os.Rename(w.cfg.Path, aside); err != nil {
		return fmt.Errorf("keeping a damaged workbench: %w", errors.Join(why, err))
	}
	w.log.Error("workbench file is damaged and was kept aside", "path", aside, "err", why)
	return nil
}

// file is what is stored. The mutex is held.
func (w *Workbench) file() file {
	stored := file{Version: fileVersion}
	for _, id := range w.order {
		ws := w.workspaces[id]
		stored.Workspaces = append(stored.Workspaces, fileWorkspace{ID: ws.id, Name: ws.name, Project: ws.project})
		if p := w.projects[ws.project]; !slices.Contains(stored.Projects, p) {
			stored.Projects = append(stored.Projects, p)
		}
	}
	return stored
}

// save replaces the file in one step.
func (w *Workbench) save(stored file) error {
	raw, err := json.MarshalIndent(stored, "", "\t")
	if err != nil {
		return fmt.Errorf("encoding the workbench: %w", err)
	}
	temporary := w.cfg.Path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing the workbench: %w", err)
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the workbench: %w", err)
	}
	if err := os.Rename(temporary, w.cfg.Path); err != nil {
		return fmt.Errorf("replacing the workbench: %w", err)
	}
	dir, err := os.Open(filepath.Dir(w.cfg.Path))
	if err != nil {
		return fmt.Errorf("syncing the workbench: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
