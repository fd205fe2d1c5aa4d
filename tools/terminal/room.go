package terminal

import (
	"context"
	"time"
)

// makeRoom closes one terminal that nobody needs any more when all places are
// taken: its shell has ended, or the session that made it is gone, nothing runs
// in it, no person typed into it and none looks at it. The one that was quiet
// longest goes first. Agents come and go by the hundred; their shells must not
// stay until no one can have another.
func (m *Manager) makeRoom(ctx context.Context) {
	m.mu.Lock()
	full := len(m.terminals)+m.starting >= maxTerminals
	candidates := make([]*terminal, 0, len(m.terminals))
	for _, t := range m.terminals {
		candidates = append(candidates, t)
	}
	m.mu.Unlock()
	if !full {
		return
	}
	var oldest *terminal
	var since time.Time
	for _, t := range candidates {
		if quiet, unneeded := m.unneeded(ctx, t); unneeded && (oldest == nil || quiet.Before(since)) {
			oldest, since = t, quiet
		}
	}
	if oldest == nil {
		return
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyBound)
	defer cancel()
	if err := m.Close(closing, oldest.panel.ID); err != nil {
		m.cfg.Logger.Warn("a terminal that nobody needs did not close", "panel", oldest.panel.ID, "err", err)
	}
	if err := m.cfg.Desk.RemovePanel(closing, oldest.panel.ID); err != nil {
		m.cfg.Logger.Debug("panel not removed", "panel", oldest.panel.ID, "err", err)
	}
}

// unneeded reports whether a terminal may make room, and since when it has
// been quiet.
func (m *Manager) unneeded(ctx context.Context, t *terminal) (quiet time.Time, ok bool) {
	t.mu.Lock()
	quiet = t.lastOutput
	ended := t.exit != nil
	idle := t.prompt == promptReady && t.running == nil && !t.touched
	watched := t.watchers > 0
	t.mu.Unlock()
	switch {
	case watched:
		return quiet, false
	case ended:
		return quiet, true
	case !idle || t.panel.Owner == "" || m.cfg.Alive(t.panel.Owner):
		return quiet, false
	}
	children, _ := t.background(ctx)
	return quiet, len(children) == 0
}
