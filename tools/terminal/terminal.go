package terminal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"lomi/broker/control"
	"lomi/internal/keeper"
)

// Bounds of one terminal.
const (
	readBuffer = 64 << 10
	// In less than this, line editors stop drawing their prompts, and with
	// them the marks.
	minColumns = 20
	minRows    = 4
	// maxRuns is how many finished runs are remembered (broker spec 7.1).
	maxRuns = 64
	// maxReplies is how many answers to a program's queries may wait; a
	// program that asks without reading loses the rest.
	maxReplies = 16
	// drainBound is how long the output of an ended shell is waited for when
	// a child of it keeps the terminal open (F-53).
	drainBound = 500 * time.Millisecond
	// quietFor is how long a program must be silent before it can count as
	// waiting for input.
	quietFor = time.Second
)

// prompt says what the shell is doing (broker spec 7.1).
type prompt string

const (
	promptUnknown prompt = "unknown"
	promptReady   prompt = "ready"
	promptEditing prompt = "editing"
	promptRunning prompt = "running"
)

// errEnded says that the shell is gone.
var errEnded = errors.New("the shell has ended")

// spec is what a terminal is made from.
type spec struct {
	panel    control.Panel
	program  string // the shell that the user wants
	env      []string
	dir      string
	instance string
	log      *slog.Logger
	// changed is called, without locks held, when the runtime state of the
	// panel changed.
	changed func(t *terminal)
}

// terminal is one shell in one pseudo-terminal, with everything it printed as
// far as it is kept. It is safe for concurrent use.
type terminal struct {
	spec
	shell    *shell
	tty      *master
	proc     *keeper.Process
	patience time.Duration // interruptBound, unless a test is in a hurry
	replies  chan string
	ended    chan struct{} // closed when the shell's end is recorded
	readEnd  chan struct{} // closed when nothing more can be read
	workers  sync.WaitGroup

	mu         sync.Mutex
	out        *output
	cols, rows int
	prompt     prompt
	settled    bool          // a prompt was seen at least once
	startMarks bool          // the shell tells when a command starts
	change     chan struct{} // closed at the next change, nil when nobody waits
	lastOutput time.Time
	running    *run             // the observed one
	runs       []*run           // remembered, oldest first
	runSerial  uint64           // counts commands, a person's too
	known      map[int]struct{} // background processes that were told of
	exit       *keeper.Exit
	closing    bool
	touched    bool   // a person typed into it
	watchers   int    // tabs that show it
	inputLease string // whose input sequence inputLast counts
	inputLast  uint64
}

// newTerminal starts the shell; ctx bounds only the start.
func newTerminal(ctx context.Context, sp spec, cols, rows int) (*terminal, error) {
	secret := rand.Text()
	sh, err := newShell(sp.program, secret, sp.env)
	if err != nil {
		return nil, err
	}
	cols, rows = clampSize(cols, rows)
	t := &terminal{
		spec: sp, shell: sh, patience: interruptBound, cols: cols, rows: rows,
		prompt: promptUnknown, startMarks: !sh.canonical, lastOutput: time.Now(),
		replies: make(chan string, maxReplies), ended: make(chan struct{}), readEnd: make(chan struct{}),
	}
	t.out = newOutput(cols, rows, secret, t.queueReply, t.onMark)
	if err := t.start(ctx); err != nil {
		sh.cleanUp()
		return nil, err
	}
	t.workers.Go(t.readAll)    // ends when the terminal is closed
	t.workers.Go(t.answerAll)  // ends with readAll
	t.workers.Go(t.recordExit) // ends with the shell
	return t, nil
}

func (t *terminal) start(ctx context.Context) error {
	tty, slave, err := openPTY(t.cols, t.rows)
	if err != nil {
		return err
	}
	defer slave.Close()
	script, feed, err := os.Pipe()
	if err != nil {
		tty.close()
		return fmt.Errorf("preparing the shell's integration: %w", err)
	}
	defer script.Close()
	_, err = io.WriteString(feed, t.shell.script) // far below a pipe's size: never waits
	feed.Close()
	if err == nil {
		t.proc, err = keeper.Start(ctx, keeper.Spec{
			Name: "shell", Path: t.shell.path, Args: t.shell.args, Dir: t.dir,
			Env: shellEnv(t.env, t.shell.env), TTY: slave, Files: []*os.File{script},
			Instance: t.instance, Logger: t.log,
		})
	}
	if err != nil {
		tty.close()
		return fmt.Errorf("starting the shell: %w", err)
	}
	t.tty = tty
	return nil
}

// readAll takes everything the terminal prints, as fast as it comes: nobody
// who watches can hold a program up.
func (t *terminal) readAll() {
	defer close(t.readEnd)
	defer close(t.replies)
	buf := make([]byte, readBuffer)
	for {
		n, err := t.tty.read(buf)
		if n > 0 {
			t.mu.Lock()
			t.lastOutput = time.Now()
			t.out.write(buf[:n])
			t.wake()
			t.mu.Unlock()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.log.Warn("terminal unreadable", "panel", t.panel.ID, "err", err)
			}
			return
		}
	}
}

// wake tells everyone who waits. t.mu is held.
func (t *terminal) wake() {
	if t.change != nil {
		close(t.change)
		t.change = nil
	}
}

// changes returns a channel that is closed at the next change. t.mu is held.
func (t *terminal) changes() <-chan struct{} {
	if t.change == nil {
		t.change = make(chan struct{})
	}
	return t.change
}

// queueReply takes the screen's answer to a query. Printed text must not type
// into a shell, so only a program that has taken the terminal into its own
// hands gets one: it has switched the line mode off before it asks, and it is
// not the shell. t.mu is held.
func (t *terminal) queueReply(reply string) {
	if canonical, _ := t.tty.lineMode(); canonical || t.tty.foreground() == t.proc.PID() {
		return
	}
	select {
	case t.replies <- reply:
	default:
	}
}

func (t *terminal) answerAll() {
	for reply := range t.replies {
		if _, err := t.tty.write([]byte(reply)); err != nil {
			t.log.Debug("terminal query unanswered", "panel", t.panel.ID, "err", err)
		}
	}
}

// onMark follows the shell's integration. t.mu is held.
func (t *terminal) onMark(m mark) {
	r := t.running
	switch m.kind {
	case 'I':
		t.startMarks = m.value == 1
	case 'D':
		if r != nil && t.begun(r) {
			code := m.value
			t.finish(r, &code)
		} else if r != nil && t.startMarks {
			// The shell took the line and is about to ask for the next one,
			// and never said that a command starts.
			r.passed = true
		}
		t.prompt = promptUnknown // until the prompt waits
	case 'B':
		if r != nil && r.passed && !r.started {
			t.finish(r, nil)
		}
		t.prompt, t.settled = promptReady, true
	case 'C':
		t.beginCommand()
		if r != nil && !r.started {
			t.observe(r)
		}
	case 'P':
		if r != nil && (!r.started || !t.startMarks) {
			r.incomplete = true
		}
	}
	t.wake()
}

func (t *terminal) beginCommand() {
	t.prompt = promptRunning
	t.runSerial++
}

// observe begins to record the output of r.
func (t *terminal) observe(r *run) {
	r.started = true
	r.start = t.out.clean.end
	t.out.pinned = &r.head
}

// finish ends the observation of r. code is nil when no mark told it.
func (t *terminal) finish(r *run, code *int) {
	r.exit, r.ended = code, true
	r.end = t.out.clean.end
	if !r.started {
		r.start = r.end
	}
	if t.out.pinned == &r.head {
		t.out.pinned = nil
	}
	if t.running == r {
		t.running = nil
	}
}

// recordExit records the shell's end: when its last output was read, or at the
// latest after drainBound, because a child may keep the terminal for ever.
func (t *terminal) recordExit() {
	defer close(t.ended)
	<-t.proc.Done()
	exit, _ := t.proc.Wait(context.Background()) // known already
	drained := time.NewTimer(drainBound)
	defer drained.Stop()
	select {
	case <-t.readEnd:
	case <-drained.C:
	}
	t.mu.Lock()
	t.exit = &exit
	t.prompt = promptUnknown
	if t.running != nil {
		t.finish(t.running, nil)
	}
	closing := t.closing
	t.wake()
	t.mu.Unlock()
	t.shell.cleanUp()
	if !closing { // who closes a terminal knows, and may hold a lock
		t.changed(t)
	}
}

// waitFor waits until ok, which is called with t.mu held, says so, or the
// shell has ended.
func (t *terminal) waitFor(ctx context.Context, ok func() bool) error {
	for {
		t.mu.Lock()
		done, exited, changed := ok(), t.exit != nil, t.changes()
		t.mu.Unlock()
		switch {
		case done:
			return nil
		case exited:
			return errEnded
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitReady waits for the first prompt, or for one that is being drawn.
func (t *terminal) waitReady(ctx context.Context) error {
	return t.waitFor(ctx, func() bool { return t.prompt != promptUnknown })
}

// typing notes that bytes are about to be typed: what stands at the prompt is
// no longer known.
func (t *terminal) typing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit != nil {
		return errEnded
	}
	if t.prompt == promptReady {
		t.prompt = promptEditing
	}
	return nil
}

func (t *terminal) resize(cols, rows int) error {
	cols, rows = clampSize(max(cols, minColumns), max(rows, minRows))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit != nil {
		return errEnded
	}
	if cols == t.cols && rows == t.rows {
		return nil
	}
	if err := t.tty.resize(cols, rows); err != nil {
		return fmt.Errorf("resizing a terminal: %w", err)
	}
	t.cols, t.rows = cols, rows
	t.out.screen.resize(cols, rows)
	return nil
}

// close ends the shell and everything it started.
func (t *terminal) close(ctx context.Context) error {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	err := t.proc.Stop(ctx)
	t.tty.abort()
	t.tty.close()
	t.workers.Wait()
	return err
}

// runtime is the panel's runtime state.
func (t *terminal) runtime() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.exit != nil:
		return "exited"
	case !t.settled:
		return "starting"
	}
	return "ready"
}
