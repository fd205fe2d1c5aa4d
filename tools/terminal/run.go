package terminal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"lomi/broker"
	"lomi/broker/control"
)

// Bounds of one run (broker spec 7.1).
const (
	maxCommand = 16 << 10
	// maxCanonical is what a terminal's own line buffer takes.
	maxCanonical = 4000
	// settleBound is how long a prompt that is just being drawn is waited for.
	settleBound = 5 * time.Second
	// startBound is how long a shell may take to accept a line.
	startBound = 30 * time.Second
	// runBound is how long one run is observed.
	runBound = 24 * time.Hour
	// interruptBound is how long a program may take to end after Ctrl+C
	// before its run counts as unknown.
	interruptBound = 10 * time.Second
	// ownBound is how long a shell that has the terminal itself may take to
	// start a program before Ctrl+C is pressed all the same; startingBound is
	// the same for one that is at it. handOverPoll is how often it is looked at.
	ownBound      = 250 * time.Millisecond
	startingBound = 2 * time.Second
	handOverPoll  = 5 * time.Millisecond
	// nudgeEvery is how long a line editor may take to notice Ctrl+C.
	nudgeEvery = 200 * time.Millisecond
	// idlePoll is how often a shell without start marks is looked at, and
	// idleLooks how many looks in a row must find it idle.
	idlePoll  = 4 * time.Millisecond
	idleLooks = 3
	// maxPresses bounds how many programs of one cancelled run get a Ctrl+C.
	maxPresses = 16
	// permitEvery is how often the right to observe is asked for again.
	permitEvery = 100 * time.Millisecond
	// silentLooks is how often in a row, at that pace, a shell must be seen to
	// wait in its line editor before a run that it does not end counts as lost.
	silentLooks = 50
)

const (
	ctrlC      = "\x03"
	killLine   = "\x15"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// interrupted is the exit code of what Ctrl+C ended.
const interrupted = 130

// holder says who has the terminal while a command runs.
type holder int

const (
	shellItself   holder = iota
	startsProgram        // the shell is giving it to a program
	programRuns
)

// run is one observed command. Its fields belong to its terminal's mutex.
type run struct {
	operation  string
	lease      string
	command    string
	started    bool // a start mark, or without such marks the echo, was seen
	ended      bool
	incomplete bool // the shell asks for more lines
	passed     bool // the shell came back to its prompt without running anything
	pressed    bool // Ctrl+C was typed meanwhile
	blind      bool // and no program had the terminal then
	group      int  // process group that had the terminal at the last press
	presses    int  // how often Ctrl+C was typed
	exit       *int // nil when no mark told it
	start, end uint64
	head       []byte
}

// begun reports whether an end mark belongs to this run and not to a prompt
// that was drawn before it. Without start marks the echo of the line tells;
// where echo is off nothing does.
func (t *terminal) begun(r *run) bool {
	if r.started || t.startMarks {
		return r.started
	}
	_, echo := t.tty.lineMode()
	return !echo
}

// execute runs one command line and observes it to its end. It writes only
// when the prompt is proven to be ready.
func (t *terminal) execute(ctx context.Context, permit *broker.Permit, operation, lease, command string) (*run, broker.Result, error) {
	if err := t.checkCommand(command); err != nil {
		return nil, broker.Result{}, err
	}
	r, err := t.admit(ctx, permit, operation, lease, command)
	if err != nil {
		return nil, broker.Result{}, err
	}
	select {
	case <-permit.Cancelled():
		t.forget(r)
		return r, broker.Result{State: control.StateCancelled, Effect: control.EffectNone, Message: "It was cancelled before it ran."}, nil
	default:
	}
	if err := permit.Start(); err != nil {
		t.forget(r)
		return nil, broker.Result{}, err
	}
	sent, err := t.tty.send(t.commandBytes(command), permit.Check, true)
	if err != nil {
		return r, t.brokenOff(r, sent, err), nil
	}
	return r, t.follow(ctx, permit, r), nil
}

func (t *terminal) checkCommand(command string) error {
	limit := maxCommand
	if t.shell.canonical {
		limit = maxCanonical
	}
	switch {
	case command == "" || strings.IndexFunc(command, unicode.IsControl) >= 0:
		return control.Errorf(control.ResourceExhausted, "command: must be one line without control characters")
	case len(command) > limit:
		return control.Errorf(control.ResourceExhausted, "command: must have at most %d bytes for this shell", limit)
	}
	return nil
}

// admit reserves the prompt for one run.
func (t *terminal) admit(ctx context.Context, permit *broker.Permit, operation, lease, command string) (*run, error) {
	wait, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	err := t.waitReady(wait)
	if err == nil {
		err = t.waitIdle(wait)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case t.exit != nil:
		return nil, control.Errorf(control.TargetNotFound, "the shell of this terminal has ended")
	case t.running != nil || t.prompt == promptRunning:
		return nil, control.Errorf(control.TargetBusy, "a command is still running in this terminal")
	case t.prompt != promptReady || err != nil:
		return nil, control.Errorf(control.PromptStateUnknown, "the shell does not wait at an empty prompt")
	}
	r := &run{operation: operation, lease: lease, command: command}
	t.running, t.prompt = r, promptRunning
	if !t.startMarks {
		// The line feed that echoes our Enter is the only sign of a start.
		t.beginCommand()
		t.out.onLine = func() {
			if t.running == r {
				t.observe(r)
			}
		}
	}
	t.runs = append(t.runs, r)
	if len(t.runs) > maxRuns {
		t.runs = slices.Delete(t.runs, 0, len(t.runs)-maxRuns)
	}
	return r, nil
}

// waitIdle waits, where no mark tells that a command starts, until the shell
// itself reads and all that it printed has arrived: of pasted lines it may just
// have taken the next one, whose end would pass for that of ours.
func (t *terminal) waitIdle(ctx context.Context) error {
	if !t.shell.canonical {
		return nil
	}
	ticker := time.NewTicker(idlePoll)
	defer ticker.Stop()
	printed := uint64(0)
	for looks := 0; looks < idleLooks; {
		t.mu.Lock()
		end, prompt := t.out.raw.end, t.prompt
		t.mu.Unlock()
		if prompt != promptReady {
			return nil // for the caller to refuse
		}
		if looks++; end != printed || !idleShell(t.proc.PID(), t.tty) {
			printed, looks = end, 0
		}
		select {
		case <-ticker.C:
		case <-t.ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return t.waitReady(ctx)
}

// forget takes a run back that wrote nothing.
func (t *terminal) forget(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == r {
		t.running, t.prompt = nil, promptReady
	}
	t.runs = slices.DeleteFunc(t.runs, func(o *run) bool { return o == r })
}

// commandBytes is the line as it is typed. In a paste the shell's line editor
// takes every character for itself; the command holds no control character
// that could end the paste.
func (t *terminal) commandBytes(command string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out.screen.paste {
		return []byte(pasteBegin + command + pasteEnd + "\r")
	}
	return []byte(command + "\r")
}

// brokenOff settles a run whose line did not go out in full. Only the last
// byte runs a line, so an incomplete one has run nothing, but it stands at the
// prompt.
func (t *terminal) brokenOff(r *run, sent int, err error) broker.Result {
	state := promptEditing
	if sent == 0 {
		state = promptReady
	}
	t.mu.Lock()
	t.finish(r, nil)
	t.prompt = state
	paste := t.out.screen.paste
	t.mu.Unlock()
	if sent > 0 && paste {
		// An open paste would swallow the person's next Enter.
		if _, err := t.tty.write([]byte(pasteEnd)); err != nil {
			t.log.Debug("paste left open", "panel", t.panel.ID, "err", err)
		}
	}
	result := broker.Result{State: control.StateFailed, Effect: control.EffectNone, Message: "The line could not be typed in full and did not run."}
	if errors.Is(err, errAborted) || errors.Is(err, errWriteTimeout) {
		result.Message = "The line did not run: " + err.Error() + "."
	}
	return result
}

// follow observes a run that was typed until something settles it.
func (t *terminal) follow(ctx context.Context, permit *broker.Permit, r *run) broker.Result {
	observed, stop := context.WithTimeout(ctx, runBound)
	defer stop()
	starting := time.NewTimer(startBound)
	defer starting.Stop()
	ticker := time.NewTicker(permitEvery)
	defer ticker.Stop()
	cancelled := permit.Cancelled()
	cancelling := false
	var giveUp <-chan time.Time
	silent := 0 // looks in a row at a prompt that says nothing
	for {
		t.mu.Lock()
		done, incomplete, started, changed := r.ended, r.incomplete, r.started, t.changes()
		t.mu.Unlock()
		switch {
		case done:
			return t.outcome(r, cancelling)
		case incomplete:
			return t.abandonLine(ctx, permit, r)
		}
		select {
		case <-changed:
		case <-cancelled:
			// Exactly one for each program: a second Ctrl+C means something
			// else to many.
			cancelled, cancelling = nil, true
			if err := t.interrupt(ctx, permit, r); err != nil {
				return t.unknown(r, "It was cancelled, but Ctrl+C could not be typed; the command may still run.")
			}
			giveUp = time.After(t.patience)
		case <-giveUp:
			return t.unknown(r, "It was cancelled with Ctrl+C, but the command still runs.")
		case <-starting.C:
			if !started && t.startMarks {
				return t.unknown(r, "The shell took the line but did not say that it runs.")
			}
		case <-ticker.C:
			if permit.Check() != nil {
				return t.unknown(r, "A person took over or the lease ended while it ran.")
			}
			t.interruptAgain(permit, r, cancelling)
			if silent++; !t.atSilentPrompt() {
				silent = 0
			}
			if silent >= silentLooks {
				t.mu.Lock()
				t.prompt = promptUnknown
				t.mu.Unlock()
				return t.unknown(r, "The shell waits for a line again but did not say how the command ended: it lost its integration. Use another terminal.")
			}
		case <-observed.Done():
			return t.unknown(r, "Lomi stopped watching before the command ended.")
		}
	}
}

// interrupt presses Ctrl+C for a run, unless it ends before. A shell that is
// just starting a program may lose the signal, so it first waits until the
// program has the terminal. For what the shell does itself that never comes;
// then the bound is all that it costs, and the press is a blind one.
func (t *terminal) interrupt(ctx context.Context, permit *broker.Permit, r *run) error {
	began := time.Now()
	ticker := time.NewTicker(handOverPoll)
	defer ticker.Stop()
	for {
		over := handedOver(t.proc.PID(), t.tty)
		bound := ownBound
		if over == startsProgram {
			bound = startingBound
		}
		blind, group := over != programRuns, t.tty.foreground()
		t.mu.Lock()
		ended := r.ended
		press := !ended && (!blind || time.Since(began) >= bound)
		if press {
			r.pressed, r.blind, r.group = true, blind, group
			r.presses++
		}
		t.mu.Unlock()
		if press {
			_, err := t.tty.send([]byte(ctrlC), permit.Check, true)
			return err
		}
		if ended {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// interruptAgain presses Ctrl+C for a program that came to the terminal after
// a blind press went to its shell and was lost there. It does the same, when
// the whole run is being cancelled, for every program that comes after one
// which ended by itself in the moment of the press: a loop of short programs
// goes on then. A program that saw one never gets a second.
func (t *terminal) interruptAgain(permit *broker.Permit, r *run, cancelling bool) {
	t.mu.Lock()
	again := !r.ended && r.pressed && (r.blind || cancelling) && r.presses < maxPresses
	last := r.group
	t.mu.Unlock()
	if !again || handedOver(t.proc.PID(), t.tty) != programRuns {
		return
	}
	group := t.tty.foreground()
	if group == last {
		return
	}
	t.mu.Lock()
	r.blind, r.group = false, group
	r.presses++
	t.mu.Unlock()
	if _, err := t.tty.send([]byte(ctrlC), permit.Check, true); err != nil {
		t.log.Debug("Ctrl+C not pressed again", "panel", t.panel.ID, "err", err)
	}
}

// atSilentPrompt reports whether the shell itself waits in its line editor. A
// command may have removed the hooks that tell of its end, and a run must not
// be waited for until the bound of a day. Where the shell has no editor, a
// prompt looks like the builtin read, and nothing is concluded.
func (t *terminal) atSilentPrompt() bool {
	if t.shell.canonical {
		return false
	}
	canonical, _ := t.tty.lineMode()
	shell := t.proc.PID()
	return !canonical && t.tty.foreground() == shell && readsTerminal(shell, t.tty)
}

// outcome is the result of a run that ended.
func (t *terminal) outcome(r *run, cancelling bool) broker.Result {
	t.mu.Lock()
	exit, pressed, passed, shell := r.exit, r.pressed, r.passed, t.exit
	t.mu.Unlock()
	switch {
	case passed:
		return broker.Result{State: control.StateFailed, Effect: control.EffectNone,
			Message: "The line held nothing to run: a comment, or only blanks."}
	case exit == nil && shell != nil && shell.Signal == "" && !shell.Lost:
		return broker.Result{State: control.StateOutcomeUnknown, Effect: control.EffectUnknown,
			Message: fmt.Sprintf("The shell itself ended, with exit code %d, before the command's end was seen.", shell.Code)}
	case exit == nil:
		return broker.Result{State: control.StateOutcomeUnknown, Effect: control.EffectUnknown,
			Message: "The shell ended before the command's end was seen."}
	case cancelling && *exit == interrupted:
		return broker.Result{State: control.StateCancelled, Effect: control.EffectPartial, Message: "Ctrl+C ended the command."}
	case *exit == 0 && pressed && t.shell.silent:
		result := broker.Result{State: control.StateFailed, Effect: control.EffectPartial,
			Message: "Ctrl+C was pressed while it ran. This shell reports 0 also for what Ctrl+C ended."}
		if cancelling {
			result.State = control.StateCancelled
		}
		return result
	case *exit != 0:
		return broker.Result{State: control.StateFailed, Effect: control.EffectComplete,
			Message: fmt.Sprintf("The command ended with exit code %d.", *exit)}
	}
	return broker.Result{}
}

// unknown ends the observation of a run that may go on, unless it ended in
// the same moment.
func (t *terminal) unknown(r *run, message string) broker.Result {
	t.mu.Lock()
	ended := r.ended
	if !ended {
		t.finish(r, nil)
	}
	t.mu.Unlock()
	if ended {
		return t.outcome(r, false)
	}
	return broker.Result{State: control.StateOutcomeUnknown, Effect: control.EffectUnknown, Message: message}
}

// abandonLine takes back a line to which the shell asks for more: a quote or a
// bracket is open. Nothing of it has run.
func (t *terminal) abandonLine(ctx context.Context, permit *broker.Permit, r *run) broker.Result {
	const message = "The command line is not complete: a quote, bracket or here-document is open. Nothing ran."
	t.mu.Lock()
	t.finish(r, nil)
	t.prompt = promptUnknown
	t.mu.Unlock()
	if _, err := t.tty.send([]byte(ctrlC), permit.Check, true); err == nil {
		if err := t.backToPrompt(ctx, permit); err != nil {
			t.log.Debug("prompt not back after an incomplete line", "panel", t.panel.ID, "err", err)
		}
	}
	return broker.Result{State: control.StateFailed, Effect: control.EffectNone, Message: message}
}

// backToPrompt waits for the prompt after Ctrl+C. A line editor that is just
// about to read notices the signal with the next byte only, so it gets one
// that does nothing but clear a line; and one that lost the signal gets another.
func (t *terminal) backToPrompt(ctx context.Context, permit *broker.Permit) error {
	bound, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	for nudge := killLine; ; {
		wait, stop := context.WithTimeout(bound, nudgeEvery)
		err := t.waitReady(wait)
		stop()
		if err == nil || bound.Err() != nil || errors.Is(err, errEnded) {
			return err
		}
		if _, err := t.tty.send([]byte(nudge), permit.Check, true); err != nil {
			return err
		}
		if nudge == killLine {
			nudge = ctrlC
		} else {
			nudge = killLine
		}
	}
}
