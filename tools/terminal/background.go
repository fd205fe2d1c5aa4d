package terminal

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	catalog "lomi/broker/catalog/terminal"
	"lomi/internal/keeper"
)

const (
	// maxBackground is how many processes a result lists: with their names
	// cut they stay below the size up to which receipts keep their bodies.
	maxBackground = 16
	// becomeBound is how long a process that was just started may take to
	// become the program that it is for, and becomePoll how often it is
	// looked at.
	becomeBound = 500 * time.Millisecond
	becomePoll  = 5 * time.Millisecond
)

// background lists what runs in the terminal besides its shell and what the
// shell waits for. young says that one of them is becoming a program, or is a copy
// of the shell that may be about to; a subshell with programs of its own stays one.
func (t *terminal) background(ctx context.Context) (children []keeper.Child, young bool) {
	shell := t.proc.PID()
	before := t.tty.foreground()
	children, err := t.proc.Children(ctx)
	if err != nil {
		t.log.Debug("background processes unknown", "panel", t.panel.ID, "err", err)
		return nil, false
	}
	after := t.tty.foreground()
	children = slices.DeleteFunc(children, func(c keeper.Child) bool {
		// A prompt's own helpers share the shell's group or have the terminal.
		return c.Group == shell || c.Group == before || c.Group == after
	})
	own := strings.Join(append([]string{t.shell.path}, t.shell.args...), " ")
	for i, c := range children {
		young = young || halfNamed(c.PID)
		if c.Command == own {
			young = young || !waitsForChild(c.PID)
			children[i].Command = filepath.Base(t.shell.path) + " (subshell)"
		}
	}
	return children, young
}

// leftBehind lists the background processes that no earlier run was told of.
func (t *terminal) leftBehind(ctx context.Context) []catalog.BackgroundProcess {
	bound, cancel := context.WithTimeout(ctx, becomeBound)
	defer cancel()
	ticker := time.NewTicker(becomePoll)
	defer ticker.Stop()
	// In the middle of becoming another program a process has half its name,
	// so what is listed must have been so twice.
	now, young := t.background(ctx)
	for same := len(now) == 0; (young || !same) && bound.Err() == nil; {
		select {
		case <-ticker.C:
			last := now
			now, young = t.background(ctx)
			same = slices.Equal(now, last)
		case <-bound.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known
	t.known = make(map[int]struct{}, len(now))
	for _, c := range now {
		t.known[c.PID] = struct{}{}
	}
	return listed(slices.DeleteFunc(now, func(c keeper.Child) bool {
		_, ok := known[c.PID]
		return ok
	}))
}

func listed(children []keeper.Child) []catalog.BackgroundProcess {
	var out []catalog.BackgroundProcess
	for _, c := range children[:min(len(children), maxBackground)] {
		out = append(out, catalog.BackgroundProcess{PID: c.PID, Command: cleanLine(c.Command)})
	}
	return out
}
