// Package terminal runs people's and agents' shells: each in a pseudo-terminal
// under a keeper of its own, with a shell integration that printed text cannot
// forge, two bounded rings of what it printed, and a screen of its own that
// hostile bytes can neither hang nor swell. Manager is the broker's adapter of
// the terminal tools and the page's door to the same terminals.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"lomi/broker/control"
	"lomi/internal/keeper"
)

// Bounds over all terminals (broker spec 7.1).
const (
	maxTerminals = 32
	maxRunning   = 32
)

const (
	defaultColumns = 120
	defaultRows    = 32
	// readyBound is how long a new shell may take to its first prompt before
	// the terminal is handed over as not ready.
	readyBound = 10 * time.Second
	// updateBound is how long the workbench may take to note a change.
	updateBound = 5 * time.Second
)

// ErrNoTerminal says that a panel has no terminal.
var ErrNoTerminal = errors.New("no such terminal")

// Desk is what terminals need of the workbench, which owns the panels.
type Desk interface {
	Workspace(id string) (control.Workspace, bool)
	// AddPanel adds a panel if the workspace is at expectedRevision, or at
	// any revision when that is empty, and returns the new one.
	AddPanel(ctx context.Context, panel control.Panel, expectedRevision string) (string, error)
	// UpdatePanel replaces the panel of the same id.
	UpdatePanel(ctx context.Context, panel control.Panel) error
	// RemovePanel takes a panel back whose shell did not start.
	RemovePanel(ctx context.Context, id string) error
}

// Config is what a Manager needs.
type Config struct {
	// Desk owns the panels; required.
	Desk Desk
	// TakeOver is called before the bytes of a person are written to a
	// terminal; resource is "terminal:PANEL". Nil means nobody to tell.
	TakeOver func(resource string)
	// Alive reports whether a session is still connected. Nil means that every
	// one is.
	Alive func(session string) bool
	// Instance names the data folder to the keepers, for Sweep.
	Instance string
	// Shell is the program to run; empty means $SHELL of Env, then bash.
	Shell string
	// Env is the environment of the shells; nil means the daemon's.
	Env []string
	// Logger takes what no caller can be told; nil discards.
	Logger *slog.Logger
}

// Manager keeps all terminals of a daemon. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	runSlot chan struct{}

	mu        sync.Mutex
	closed    bool
	starting  int // terminals that are not in the map yet
	terminals map[string]*terminal
	made      int
}

// New returns a Manager without terminals.
func New(cfg Config) (*Manager, error) {
	if cfg.Desk == nil {
		return nil, errors.New("terminal: Desk is required")
	}
	if cfg.TakeOver == nil {
		cfg.TakeOver = func(string) {}
	}
	if cfg.Alive == nil {
		cfg.Alive = func(string) bool { return true }
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Shell == "" {
		cfg.Shell = lookup(cfg.Env, "SHELL")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, runSlot: make(chan struct{}, maxRunning), terminals: map[string]*terminal{}}, nil
}

// Open makes a terminal for a person, in the project's folder.
func (m *Manager) Open(ctx context.Context, workspaceID, title string) (control.Panel, error) {
	workspace, ok := m.cfg.Desk.Workspace(workspaceID)
	if !ok {
		return control.Panel{}, control.Errorf(control.TargetNotFound, "no such workspace")
	}
	t, err := m.create(ctx, control.Panel{WorkspaceID: workspaceID, Title: title}, workspace.ProjectPath, "")
	if err != nil {
		return control.Panel{}, err
	}
	return t.panelNow(), nil
}

// create adds a panel and starts its shell.
func (m *Manager) create(ctx context.Context, panel control.Panel, dir, revision string) (*terminal, error) {
	m.makeRoom(ctx)
	if err := m.reserve(&panel); err != nil {
		return nil, err
	}
	if _, err := m.cfg.Desk.AddPanel(ctx, panel, revision); err != nil {
		m.settle(nil)
		return nil, err
	}
	t, err := newTerminal(ctx, spec{
		panel: panel, program: m.cfg.Shell, env: m.cfg.Env, dir: dir,
		instance: m.cfg.Instance, log: m.cfg.Logger, changed: m.update,
	}, defaultColumns, defaultRows)
	if err != nil {
		m.settle(nil)
		cleanUp, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateBound)
		defer cancel()
		return nil, errors.Join(err, m.cfg.Desk.RemovePanel(cleanUp, panel.ID))
	}
	if !m.settle(t) { // shut down meanwhile
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyBound)
		defer cancel()
		return nil, errors.Join(control.Errorf(control.AppClosing, "Lomi is closing"), t.close(stop))
	}
	wait, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	if err := t.waitFor(wait, func() bool { return t.settled }); err == nil {
		t.leftBehind(wait) // by the user's own files: no run is told of it
		m.update(t)
	}
	return t, nil
}

// reserve takes one of the places and names the panel.
func (m *Manager) reserve(panel *control.Panel) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return control.Errorf(control.AppClosing, "Lomi is closing")
	case len(m.terminals)+m.starting >= maxTerminals:
		return control.Errorf(control.ResourceExhausted, "there are %d terminals in use; use one of them again, or ask the person to close one in the page", maxTerminals)
	}
	m.starting++
	m.made++
	panel.ID = control.NewID()
	panel.Kind = control.PanelTerminal
	panel.TerminalSessionID = control.NewID()
	panel.Runtime = "starting"
	if panel.Title == "" {
		panel.Title = "Terminal " + strconv.Itoa(m.made)
	}
	return nil
}

// settle ends a reservation with its terminal, or without one.
func (m *Manager) settle(t *terminal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starting--
	if t == nil || m.closed {
		return false
	}
	m.terminals[t.panel.ID] = t
	return true
}

// panelNow is the panel as it stands.
func (t *terminal) panelNow() control.Panel {
	panel := t.panel
	panel.Runtime = t.runtime()
	return panel
}

// update tells the workbench what became of a panel.
func (m *Manager) update(t *terminal) {
	ctx, cancel := context.WithTimeout(context.Background(), updateBound)
	defer cancel()
	if err := m.cfg.Desk.UpdatePanel(ctx, t.panelNow()); err != nil {
		m.cfg.Logger.Debug("panel not updated", "panel", t.panel.ID, "err", err)
	}
}

func (m *Manager) find(panelID string) (*terminal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.terminals[panelID]
	if !ok {
		return nil, ErrNoTerminal
	}
	return t, nil
}

// Panels lists the terminals there are.
func (m *Manager) Panels() []control.Panel {
	m.mu.Lock()
	defer m.mu.Unlock()
	panels := make([]control.Panel, 0, len(m.terminals))
	for _, t := range m.terminals {
		panels = append(panels, t.panelNow())
	}
	return panels
}

// Attach yields what the terminal printed so far, as far as it is kept, and
// then its output as it comes. A reader that falls behind is told so on its
// screen and gets the kept output again, after the bytes that reset it. It
// ends when the shell does.
func (m *Manager) Attach(ctx context.Context, panelID string) iter.Seq2[[]byte, error] {
	t, err := m.find(panelID)
	if err != nil {
		return func(yield func([]byte, error) bool) { yield(nil, err) }
	}
	return t.attach(ctx)
}

// Type writes what a person typed, after taking the terminal over from
// whoever holds it.
func (m *Manager) Type(ctx context.Context, panelID string, data []byte) error {
	t, err := m.find(panelID)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	t.touched = true
	t.mu.Unlock()
	m.cfg.TakeOver(t.panel.Resource())
	t.tty.abort()
	if err := t.typing(); err != nil {
		return fmt.Errorf("typing into a terminal: %w", err)
	}
	if _, err := t.tty.write(data); err != nil {
		return fmt.Errorf("typing into a terminal: %w", err)
	}
	return nil
}

// Resize sets the size of a terminal; sizes out of bounds are clamped.
func (m *Manager) Resize(panelID string, columns, rows int) error {
	t, err := m.find(panelID)
	if err != nil {
		return err
	}
	return t.resize(columns, rows)
}

// Children lists what runs in a terminal besides its shell.
func (m *Manager) Children(ctx context.Context, panelID string) ([]keeper.Child, error) {
	t, err := m.find(panelID)
	if err != nil {
		return nil, err
	}
	return t.proc.Children(ctx)
}

// Close ends a terminal with everything that runs in it.
func (m *Manager) Close(ctx context.Context, panelID string) error {
	m.mu.Lock()
	t, ok := m.terminals[panelID]
	delete(m.terminals, panelID)
	m.mu.Unlock()
	if !ok {
		return ErrNoTerminal
	}
	return t.close(ctx)
}

// Shutdown ends all terminals, side by side.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	open := m.terminals
	m.terminals = map[string]*terminal{}
	m.mu.Unlock()
	var group sync.WaitGroup
	errs := make(chan error, len(open))
	for _, t := range open {
		group.Go(func() { errs <- t.close(ctx) })
	}
	group.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}
