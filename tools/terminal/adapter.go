package terminal

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lomi/broker"
	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

// Bounds of the screen mode (broker spec 7.1).
const (
	maxScreenText = 64 << 10
	screenBound   = 2 * time.Second
)

// defaultProfile is the only terminal profile there is; naming another one
// than was approved is refused.
const defaultProfile = "default"

// Resolve implements broker.Adapter.
func (m *Manager) Resolve(_ context.Context, call broker.Call) (broker.Target, error) {
	switch r := call.Request.(type) {
	case *catalog.CreateRequest:
		workspace, ok := m.cfg.Desk.Workspace(r.WorkspaceID)
		if !ok {
			return broker.Target{}, notFound()
		}
		if r.ProfileID != "" && r.ProfileID != defaultProfile {
			return broker.Target{}, control.Errorf(control.ScopeDenied, "profileId: is not the approved profile")
		}
		// Opening a shell does what the person's own new terminal does; what
		// runs in it is asked about by itself.
		return broker.Target{WorkspaceID: r.WorkspaceID, Risk: "none", Summary: "Open a terminal in " + cleanLine(workspace.ProjectName)}, nil
	case *catalog.RunRequest:
		t, target, err := m.target(r.WorkspaceID, r.Session, r.LeaseID)
		if err != nil {
			return target, err
		}
		target.Command = r.Command
		target.Summary = "Run " + cleanLine(r.Command) + " in " + cleanLine(t.panel.Title)
		return target, nil
	case *catalog.InputRequest:
		t, target, err := m.target(r.WorkspaceID, r.Session, r.LeaseID)
		if err != nil {
			return target, err
		}
		t.describeInput(r, &target)
		return target, nil
	case *catalog.InterruptRequest:
		t, target, err := m.target(r.WorkspaceID, r.Session, r.LeaseID)
		if err != nil {
			return target, err
		}
		target.Risk, target.Run = "none", r.OperationID // Ctrl+C never asks
		target.Summary = "Press Ctrl+C in " + cleanLine(t.panel.Title)
		return target, nil
	case *catalog.ReadRequest:
		t, target, err := m.target(r.WorkspaceID, r.Session, "")
		if err != nil {
			return target, err
		}
		target.Summary = "Read " + cleanLine(t.panel.Title)
		return target, nil
	}
	return broker.Target{}, control.Errorf(control.UnsupportedCapability, "%s is not offered by terminals", call.Tool.Name)
}

func notFound() error {
	return control.Errorf(control.TargetNotFound, "no such terminal in this workspace")
}

// target finds the terminal that a request names. A foreign and a missing one
// look the same.
func (m *Manager) target(workspaceID string, session catalog.Session, lease string) (*terminal, broker.Target, error) {
	t, err := m.find(session.PanelID)
	if err != nil || t.panel.WorkspaceID != workspaceID {
		return nil, broker.Target{}, notFound()
	}
	if t.panel.TerminalSessionID != session.TerminalSessionID {
		return nil, broker.Target{}, control.Errorf(control.StaleGeneration, "the terminal has another session now")
	}
	return t, broker.Target{
		WorkspaceID: workspaceID, Resource: t.panel.Resource(),
		Generation: t.panel.TerminalSessionID, LeaseID: lease,
	}, nil
}

// describeInput says what input means at this moment, for the policies that
// ask: a line at the prompt is a command and belongs into lomi_terminal_run;
// input to a running program is asked about once for that run.
func (t *terminal) describeInput(r *catalog.InputRequest, target *broker.Target) {
	title := cleanLine(t.panel.Title)
	if r.Input.Type == "key" && r.Input.Key == "ctrl_c" {
		target.Risk, target.Summary = "none", "Press Ctrl+C in "+title
		return
	}
	what := "Type " + cleanLine(strconv.Quote(r.Input.Text))
	if r.Input.Type == "key" {
		what = "Press " + r.Input.Key
	}
	target.Summary = what + " in " + title
	t.mu.Lock()
	state, serial, r2 := t.prompt, t.runSerial, t.running
	t.mu.Unlock()
	if state != promptRunning {
		target.Refused = "The shell waits at its prompt; use lomi_terminal_run to run a command."
		return
	}
	program := programName(t.tty.foreground())
	if program == "" {
		program = "the running program"
	}
	target.Run = "run:" + strconv.FormatUint(serial, 10)
	if r2 != nil {
		target.Run = r2.operation
	}
	target.Risk = "types into " + program
	target.Summary = what + " into " + program + " in " + title
}

// Do implements broker.Adapter.
func (m *Manager) Do(ctx context.Context, permit *broker.Permit, call broker.Call, target broker.Target) (broker.Result, error) {
	switch r := call.Request.(type) {
	case *catalog.CreateRequest:
		return m.doCreate(ctx, permit, call, r)
	case *catalog.RunRequest:
		t, _, err := m.target(r.WorkspaceID, r.Session, "")
		if err != nil {
			return broker.Result{}, err
		}
		return m.doRun(ctx, permit, call, t, r)
	case *catalog.InputRequest:
		t, _, err := m.target(r.WorkspaceID, r.Session, "")
		if err != nil {
			return broker.Result{}, err
		}
		return t.doInput(permit, call, r)
	case *catalog.InterruptRequest:
		t, _, err := m.target(r.WorkspaceID, r.Session, "")
		if err != nil {
			return broker.Result{}, err
		}
		return t.doInterrupt(ctx, permit, call, r)
	case *catalog.ReadRequest:
		t, _, err := m.target(r.WorkspaceID, r.Session, "")
		if err != nil {
			return broker.Result{}, err
		}
		return t.doRead(ctx, call, r)
	}
	return broker.Result{}, control.Errorf(control.UnsupportedCapability, "%s is not offered by terminals", call.Tool.Name)
}

func (m *Manager) doCreate(ctx context.Context, permit *broker.Permit, call broker.Call, r *catalog.CreateRequest) (broker.Result, error) {
	workspace, ok := m.cfg.Desk.Workspace(r.WorkspaceID)
	if !ok {
		return broker.Result{}, notFound()
	}
	dir, err := folderIn(workspace.ProjectPath, r.CWDRelative)
	if err != nil {
		return broker.Result{}, err
	}
	if err := permit.Start(); err != nil {
		return broker.Result{}, err
	}
	panel := control.Panel{WorkspaceID: r.WorkspaceID, Title: r.Title, Owner: call.Session}
	t, err := m.create(ctx, panel, dir, r.ExpectedRevision)
	if err != nil {
		if _, ok := control.AsError(err); ok {
			return broker.Result{}, err
		}
		m.cfg.Logger.Warn("terminal not created", "err", err)
		return broker.Result{}, control.Errorf(control.HostUnqualified, "the shell could not be started")
	}
	return broker.Result{
		Data:  catalog.Created{Kind: "terminal", Target: t.names(), Ready: t.runtime() == "ready"},
		Lease: t.panel.Resource(),
	}, nil
}

// folderIn is a folder inside the project, links followed.
func folderIn(project, relative string) (string, error) {
	root, err := filepath.EvalSymlinks(project)
	if err != nil {
		return "", control.Errorf(control.TargetNotFound, "the project's folder is gone")
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(relative)))
	if err != nil {
		return "", control.Errorf(control.TargetNotFound, "cwdRelative: no such folder in the project")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", control.Errorf(control.TargetNotFound, "cwdRelative: no such folder in the project")
	}
	if dir != root && !strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/") {
		return "", control.Errorf(control.ScopeDenied, "cwdRelative: leads out of the project")
	}
	return dir, nil
}

func (t *terminal) names() catalog.Target {
	return catalog.Target{WorkspaceID: t.panel.WorkspaceID, PanelID: t.panel.ID, TerminalSessionID: t.panel.TerminalSessionID}
}

func (m *Manager) doRun(ctx context.Context, permit *broker.Permit, call broker.Call, t *terminal, r *catalog.RunRequest) (broker.Result, error) {
	if err := t.protect(call.PeerPID); err != nil {
		return broker.Result{}, err
	}
	select {
	case m.runSlot <- struct{}{}:
		defer func() { <-m.runSlot }()
	default:
		return broker.Result{}, control.Errorf(control.ResourceExhausted, "there are %d commands running; wait for one", maxRunning)
	}
	done, result, err := t.execute(ctx, permit, call.Operation, call.Lease, r.Command)
	if err != nil {
		return broker.Result{}, err
	}
	t.mu.Lock()
	data := catalog.Command{Kind: "terminal_command", Target: t.names(), Observation: done.observation()}
	t.mu.Unlock()
	if data.Observation.Completed {
		data.Background = t.leftBehind(ctx)
	}
	result.Data = data
	return result, nil
}

// protect refuses to type into the terminal in which the caller itself lives:
// it would answer its own questions. Who cannot be placed is refused too.
func (t *terminal) protect(peer int) error {
	inside, err := t.proc.Contains(peer)
	if err != nil || inside {
		return control.Errorf(control.ProtectedOriginTerminal, "the caller lives in this terminal, or its processes cannot be told")
	}
	return nil
}

// observation is what is known of a run. The terminal's mutex is held.
func (r *run) observation() catalog.Observation {
	o := catalog.Observation{
		OperationID: r.operation, StartedObserved: r.started, Completed: r.exit != nil, ExitCode: r.exit,
		Source: "unknown", StartCursor: decimal(r.start),
	}
	if r.started || r.exit != nil {
		o.Source = "shell_integration"
	}
	if r.ended {
		o.EndCursor = decimal(r.end)
	}
	return o
}

// guardAgents refuses to type into another agent that runs in the terminal:
// what looks like a person's answer there would be ours.
func (t *terminal) guardAgents() error {
	agents := []string{"lomi", "claude", "codex", "cursor-agent", "gemini", "aider", "goose", "opencode", "crush"}
	if slices.Contains(agents, programName(t.tty.foreground())) {
		return control.Errorf(control.ProtectedOriginTerminal, "another agent runs in this terminal; only a person may type into it")
	}
	return nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func (t *terminal) doInput(permit *broker.Permit, call broker.Call, r *catalog.InputRequest) (broker.Result, error) {
	if err := t.protect(call.PeerPID); err != nil {
		return broker.Result{}, err
	}
	if err := t.guardAgents(); err != nil {
		return broker.Result{}, err
	}
	sequence, err := strconv.ParseUint(r.InputSequence, 10, 64)
	if err != nil {
		return broker.Result{}, control.Errorf(control.ResourceExhausted, "inputSequence: must be a decimal number")
	}
	data, err := t.takeSequence(r.LeaseID, sequence, r.Input, permit)
	if err != nil {
		return broker.Result{}, err
	}
	ack := catalog.InputAck{Kind: "terminal_input_ack", Target: t.names(), InputSequence: r.InputSequence, Dispatch: "dispatched"}
	sent, err := t.tty.send(data, permit.Check, true)
	if err == nil {
		return broker.Result{Data: ack}, nil
	}
	if e, ok := control.AsError(err); ok && sent == 0 {
		return broker.Result{}, e
	}
	ack.Dispatch = "outcome_unknown"
	return broker.Result{Data: ack, State: control.StateOutcomeUnknown, Effect: control.EffectUnknown,
		Message: fmt.Sprintf("Only %d of %d bytes were taken.", sent, len(data))}, nil
}

// takeSequence checks and uses up one number of the lease's input sequence,
// and gives the bytes to write. The permit starts under the same lock, so
// that numbers go out in order.
func (t *terminal) takeSequence(lease string, sequence uint64, input catalog.Input, permit *broker.Permit) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := uint64(0)
	if t.inputLease == lease {
		last = t.inputLast
	}
	switch {
	case t.exit != nil:
		return nil, control.Errorf(control.TargetNotFound, "the shell of this terminal has ended")
	case sequence <= last:
		return nil, control.Errorf(control.CursorExpired, "inputSequence: was used, and its acknowledgement is no longer kept")
	case sequence != last+1:
		return nil, &control.Error{Code: control.RevisionConflict, Effect: control.EffectNone, Current: decimal(last + 1),
			Message: "inputSequence: must be the next one, see nextInputSequence of lomi_terminal_read"}
	}
	data := textBytes(input.Text, t.out.screen.paste)
	if input.Type == "key" {
		data = keyBytes(input.Key, t.out.screen.appCursor)
	}
	if err := permit.Start(); err != nil {
		return nil, err
	}
	t.inputLease, t.inputLast = lease, sequence
	if t.prompt == promptReady {
		t.prompt = promptEditing
	}
	return data, nil
}

func (t *terminal) doInterrupt(ctx context.Context, permit *broker.Permit, call broker.Call, r *catalog.InterruptRequest) (broker.Result, error) {
	if err := t.protect(call.PeerPID); err != nil {
		return broker.Result{}, err
	}
	t.mu.Lock()
	target := t.find(r.OperationID)
	running := target != nil && !target.ended
	t.mu.Unlock()
	if !running {
		return broker.Result{}, control.Errorf(control.TargetNotFound, "operationId: no such run is running in this terminal")
	}
	if err := permit.Start(); err != nil {
		return broker.Result{}, err
	}
	data := catalog.Interrupted{Kind: "terminal_interrupt", Target: t.names(), TargetOperationID: r.OperationID, Dispatched: true}
	if err := t.interrupt(ctx, permit, target); err != nil {
		if e, ok := control.AsError(err); ok {
			return broker.Result{}, e
		}
		return broker.Result{}, control.Errorf(control.TargetBusy, "Ctrl+C could not be typed")
	}
	return broker.Result{Data: data}, nil
}

func (t *terminal) doRead(ctx context.Context, call broker.Call, r *catalog.ReadRequest) (broker.Result, error) {
	var cursor *uint64
	if r.Cursor != "" {
		n, err := strconv.ParseUint(r.Cursor, 10, 64)
		if err != nil {
			return broker.Result{}, control.Errorf(control.ResourceExhausted, "cursor: must be a decimal number")
		}
		cursor = &n
	}
	switch r.Mode {
	case "raw":
		e, err := t.readRaw(cursor, r.MaxBytes)
		if err != nil {
			return broker.Result{}, err
		}
		return broker.Result{Data: catalog.Raw{
			Kind: "terminal_raw", Base64: base64.StdEncoding.EncodeToString(e.text), NextCursor: decimal(e.next),
			AvailableFrom: decimal(e.available), Gap: e.gap, StreamSequence: decimal(e.sequence),
		}}, nil
	case "screen":
		return t.doScreen(ctx, r)
	}
	return t.doOutput(ctx, call, r, cursor)
}

func (t *terminal) doOutput(ctx context.Context, call broker.Call, r *catalog.ReadRequest, cursor *uint64) (broker.Result, error) {
	out := catalog.Output{Kind: "terminal_output", Mode: "output", LeaseID: call.Lease}
	var e excerpt
	var err error
	if r.Mode == "command" {
		var found run
		e, found, err = t.readRun(r.OperationID, cursor, r.MaxBytes)
		observation := found.observation()
		out.Mode, out.Command = "command", &observation
	} else {
		e, err = t.readText(cursor, r.MaxBytes)
	}
	if err != nil {
		return broker.Result{}, err
	}
	st := t.state()
	out.Text, out.NextCursor, out.AvailableFrom, out.Gap = string(e.text), decimal(e.next), decimal(e.available), e.gap
	out.Prompt, out.Exited, out.ShellExitCode = string(st.prompt), st.exited, st.exit
	out.StreamSequence, out.ParsedSequence = decimal(e.sequence), decimal(e.sequence)
	out.NextInputSequence = "1"
	if call.Lease != "" && call.Lease == st.lease {
		out.NextInputSequence = decimal(st.nextInput)
	}
	out.WaitingForInput, out.Foreground = t.waiting()
	if !st.exited {
		out.Folder = folderOf(t.proc.PID())
	}
	if r.Mode == "output" && (st.prompt == promptReady || st.prompt == promptEditing) {
		children, _ := t.background(ctx)
		out.Background = listed(children)
	}
	return broker.Result{Data: out}, nil
}

func (t *terminal) doScreen(ctx context.Context, r *catalog.ReadRequest) (broker.Result, error) {
	if r.MinimumParsedSequence != "" {
		least, err := strconv.ParseUint(r.MinimumParsedSequence, 10, 64)
		if err != nil {
			return broker.Result{}, control.Errorf(control.ResourceExhausted, "minimumParsedSequence: must be a decimal number")
		}
		wait, cancel := context.WithTimeout(ctx, screenBound)
		defer cancel()
		err = t.waitFor(wait, func() bool { return t.out.raw.end >= least })
		if errors.Is(err, context.DeadlineExceeded) {
			return broker.Result{}, control.Errorf(control.DeadlineExceeded, "the terminal has not printed that much yet")
		}
	}
	p := t.picture()
	s := catalog.Screen{
		Kind: "terminal_screen", Columns: p.cols, Rows: p.rows, CursorColumn: p.x, CursorRow: p.y,
		CursorVisible: p.visible, Buffer: "normal", Text: p.text, ParserPending: p.pending,
		ParsedSequence: decimal(p.sequence), StreamSequence: decimal(p.sequence),
	}
	if p.alt {
		s.Buffer = "alternate"
	}
	if len(s.Text) > maxScreenText {
		s.Text, s.Truncated = string(wholeRunes([]byte(s.Text[:maxScreenText]))), true
	}
	return broker.Result{Data: s}, nil
}
