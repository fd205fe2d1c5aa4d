package terminal

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lomi/broker"
	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
	"lomi/internal/keeper"
)

func wantCode(t *testing.T, err error, want control.Code) {
	t.Helper()
	if e, ok := control.AsError(err); !ok || e.Code != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBackgroundChild(t *testing.T) { // bug 33, F-54
	for _, shell := range shells() {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			output, exit := b.run(`sleep 300 & echo ok`)
			if !strings.Contains(output, "ok\n") || exit != 0 {
				t.Errorf("got %q, exit %d", output, exit)
			}
			var children []keeper.Child
			b.eventually("the child is listed", func() bool {
				var err error
				children, err = b.m.Children(t.Context(), b.t.panel.ID)
				return err == nil && len(children) == 1 && children[0].Command == "sleep 300"
			})
			if err := b.m.Close(t.Context(), b.t.panel.ID); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(children[0].PID, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the child outlived its terminal: %v", err)
			}
		})
	}
}

func TestCloseEndsStubbornChildren(t *testing.T) { // bugs 35 and 37, F-52
	b := startBench(t, "/bin/bash")
	b.run(`(trap '' TERM HUP; while :; do sleep 300; done) & setsid nohup sleep 300 >/dev/null 2>&1 & (setsid sleep 300 &)`)
	var pids []int
	b.eventually("children run", func() bool {
		children, err := b.m.Children(t.Context(), b.t.panel.ID)
		pids = pids[:0]
		for _, c := range children {
			pids = append(pids, c.PID)
		}
		return err == nil && len(pids) >= 4
	})
	if err := b.m.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d lives on: %v", pid, err)
		}
	}
	if _, err := b.m.Open(t.Context(), "w", ""); err == nil {
		t.Error("a terminal was opened after the shutdown")
	}
}

func TestShellSession(t *testing.T) { // bug 47
	b := startBench(t, "/bin/bash")
	theirs, err := syscall.Getpgid(b.t.proc.PID())
	if err != nil || theirs == syscall.Getpgrp() {
		t.Errorf("the shell is in our process group: %d, %v", theirs, err)
	}
}

func TestReadDeadlineHolds(t *testing.T) { // bug 39
	ours, theirs, err := openPTY(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.close()
	ours.file.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := ours.read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestWriteToSilentProgramEnds(t *testing.T) {
	ours, theirs, err := openPTY(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.close()
	failed := make(chan error, 1)
	started := make(chan struct{})
	go func() { // ends by abort below
		var once sync.Once
		_, err := ours.send(make([]byte, 1<<20), func() error { once.Do(func() { close(started) }); return nil }, true)
		failed <- err
	}()
	<-started
	for {
		ours.abort()
		select {
		case err := <-failed:
			if !errors.Is(err, errAborted) && !errors.Is(err, errWriteTimeout) {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestShellExit(t *testing.T) {
	for _, row := range []struct{ name, command string }{
		{"plain", `exit 3`},
		{"a child keeps the terminal (F-53)", `(trap '' HUP TERM; sleep 300) & exit 3`},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := startBench(t, "/bin/bash")
			r := b.runWith(row.command, freePermit())
			if r.err != nil || r.State != control.StateOutcomeUnknown || r.Effect != control.EffectUnknown {
				t.Errorf("got %+v, %v; want outcome unknown", r.Result, r.err)
			}
			out := b.output()
			if !out.Exited || out.ShellExitCode == nil || *out.ShellExitCode != 3 {
				t.Errorf("got %+v, want exited with 3", out)
			}
			b.eventually("the workbench knows", func() bool { return b.desk.panel(b.t.panel.ID).Runtime == "exited" })
			r = b.runWith("echo again", freePermit())
			wantCode(t, r.err, control.TargetNotFound)
		})
	}
}

func TestIncompleteLine(t *testing.T) {
	for _, shell := range shells() {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			for _, command := range []string{`echo "abc`, `if true; then`, `cat <<EOF`, `touch MARK; echo $(`} {
				r := b.runWith(command, freePermit())
				if r.err != nil || r.State != control.StateFailed || r.Effect != control.EffectNone {
					t.Errorf("%q: got %+v, %v", command, r.Result, r.err)
				}
			}
			if output, exit := b.run("ls MARK 2>/dev/null; echo fine"); output != "fine\n" || exit != 0 {
				t.Errorf("afterwards: %q, %d", output, exit)
			}
		})
	}
}

func TestPromptStates(t *testing.T) {
	for _, shell := range shells() {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			if err := b.m.Type(t.Context(), b.t.panel.ID, []byte("echo typ")); err != nil {
				t.Fatal(err)
			}
			r := b.runWith("echo no", freePermit())
			wantCode(t, r.err, control.PromptStateUnknown)
			if err := b.m.Type(t.Context(), b.t.panel.ID, []byte("ed; cat\r")); err != nil {
				t.Fatal(err)
			}
			b.eventually("the person's command runs", func() bool { return strings.Contains(b.output().Text, "\ntyped\n") })
			r = b.runWith("echo no", freePermit())
			if e, ok := control.AsError(r.err); !ok || e.Code != control.TargetBusy && e.Code != control.PromptStateUnknown {
				t.Errorf("got %v", r.err)
			}
			b.press("ctrl_d")
			b.ready()
			if output, _ := b.run("echo yes"); output != "yes\n" {
				t.Errorf("got %q", output)
			}
		})
	}
}

// startRun runs a command beside the test and waits until it prints.
func (b *bench) startRun(command, until string, permit *broker.Permit) <-chan ran {
	b.Helper()
	done := make(chan ran, 1)
	b.serial++
	call := broker.Call{Session: "s", PeerPID: os.Getpid(), Lease: "lease", Operation: b.operation(),
		Request: &catalog.RunRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), LeaseID: "lease", Command: command}}
	go func() { // ends with the run, which the test waits for or closes
		result, err := b.m.Do(b.Context(), permit, call, broker.Target{})
		done <- ran{Result: result, err: err}
	}()
	b.eventually("the command prints "+until, func() bool {
		data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation()})
		out, ok := data.(catalog.Output)
		return err == nil && ok && out.Command.StartedObserved && strings.Contains(out.Text, until)
	})
	return done
}

// foregroundSettled reports that a program other than the shell has the
// terminal and was executed: until then the shell may lose a signal.
func foregroundSettled(b *bench) bool {
	name := b.output().Foreground
	return name == "sleep" || name == "sh"
}

func TestCancel(t *testing.T) {
	for _, row := range []struct {
		name, command string
		state         control.State
		effect        control.Effect
	}{
		{"ends with 130", `echo up; sleep 300`, control.StateCancelled, control.EffectPartial},
		{"ends well", `sh -c 'trap "exit 0" INT; echo up; while :; do sleep 0.1; done'`, "", ""},
		{"ends in its own way", `sh -c 'trap "exit 9" INT; echo up; while :; do sleep 0.1; done'`, control.StateFailed, control.EffectComplete},
		{"does not end", `sh -c 'trap "" INT; echo up; sleep 300'`, control.StateOutcomeUnknown, control.EffectUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := startBench(t, "/bin/bash")
			b.t.patience = 500 * time.Millisecond
			if row.state == control.StateFailed || row.state == "" {
				b.t.patience = interruptBound
			}
			cancel := make(chan struct{})
			done := b.startRun(row.command, "up\n", broker.NewPermit(func() error { return nil }, cancel))
			// A shell that is just starting a program may lose the signal.
			b.eventually("the shell has handed the terminal over", func() bool { return foregroundSettled(b) })
			close(cancel)
			r := <-done
			if r.err != nil || r.State != row.state || r.Effect != row.effect {
				t.Errorf("got %+v, %v; want %s, %s", r.Result, r.err, row.state, row.effect)
			}
			if n := strings.Count(b.all(), "^C"); n != 1 {
				t.Errorf("%d times Ctrl+C, want exactly one", n)
			}
		})
	}
}

func TestRevokedWhileRunning(t *testing.T) {
	b := startBench(t, "/bin/bash")
	var revoked atomic.Bool
	permit := broker.NewPermit(func() error {
		if revoked.Load() {
			return control.Errorf(control.ControlRevoked, "a person took over")
		}
		return nil
	}, nil)
	b.takeOver = func(string) { revoked.Store(true) }
	done := b.startRun(`echo up; cat`, "up\n", permit)
	if err := b.m.Type(t.Context(), b.t.panel.ID, []byte("mine\r")); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || r.State != control.StateOutcomeUnknown {
		t.Errorf("got %+v, %v; want outcome unknown", r.Result, r.err)
	}
}

func TestTakeOverComesFirst(t *testing.T) {
	b := startBench(t, "/bin/bash")
	told := ""
	b.takeOver = func(resource string) {
		told = resource
		if strings.Contains(b.all(), "person") {
			t.Error("bytes were written before the take-over")
		}
	}
	if err := b.m.Type(t.Context(), b.t.panel.ID, []byte("person")); err != nil {
		t.Fatal(err)
	}
	if want := "terminal:" + b.t.panel.ID; told != want {
		t.Errorf("took over %q, want %q", told, want)
	}
	b.eventually("the bytes arrive", func() bool { return strings.Contains(b.all(), "person") })
}

func TestPermitIsAskedAtEachPiece(t *testing.T) {
	b := startBench(t, "/bin/bash")
	checks := 0
	permit := broker.NewPermit(func() error {
		if checks++; checks > 2 { // Start, and the first piece
			return control.Errorf(control.ControlRevoked, "over")
		}
		return nil
	}, nil)
	marker := filepath.Join(b.desk.project, "MARK")
	r := b.runWith("touch "+marker+" #"+strings.Repeat("x", 3*writePiece), permit)
	if r.err != nil || r.State != control.StateFailed || r.Effect != control.EffectNone || checks != 3 {
		t.Errorf("got %+v, %v after %d checks; want failed without effect after 3", r.Result, r.err, checks)
	}
	// The paste is closed again: a person's Ctrl+C and Enter work.
	b.eventually("Ctrl+C brings the prompt back", func() bool {
		if err := b.m.Type(t.Context(), b.t.panel.ID, []byte(ctrlC)); err != nil {
			t.Fatal(err)
		}
		return b.output().Prompt == "ready"
	})
	b.ready()
	if output, _ := b.run("ls " + marker + " 2>/dev/null; echo fine"); output != "fine\n" {
		t.Errorf("got %q", output)
	}
}

func TestLongCommand(t *testing.T) {
	b := startBench(t, "/bin/bash")
	word := strings.Repeat("漢x", 4000)
	command := "echo " + word + " | wc -c"
	if len(command) > maxCommand {
		t.Fatal("too long for the test")
	}
	if output, exit := b.run(command); output != "16001\n" || exit != 0 {
		t.Errorf("got %q, %d", output, exit)
	}
	r := b.runWith(strings.Repeat("x", maxCommand+1), freePermit())
	wantCode(t, r.err, control.ResourceExhausted)
	r = b.runWith("echo a\nrm b", freePermit())
	wantCode(t, r.err, control.ResourceExhausted)
}

func TestInput(t *testing.T) {
	b := startBench(t, "/bin/bash")
	done := b.startRun(`read -p 'Name? ' x; echo "got <$x>"`, "Name? ", freePermit())
	b.eventually("it waits for input (F-55)", func() bool { return b.output().WaitingForInput })
	b.typeText("Ada")
	b.press("enter")
	if r := <-done; r.err != nil || r.State != "" {
		t.Fatalf("got %+v, %v", r.Result, r.err)
	}
	if text := b.outputOf(b.operation()).Text; !strings.Contains(text, "got <Ada>\n") {
		t.Errorf("got %q", text)
	}
	if b.output().WaitingForInput {
		t.Error("an idle prompt counts as a program that waits")
	}
	request := func(sequence string) error {
		_, err := b.do(&catalog.InputRequest{Scoped: control.Scoped{WorkspaceID: "w"}, Session: b.session(), LeaseID: "lease",
			InputSequence: sequence, Input: catalog.Input{Type: "key", Key: "escape"}}, freePermit())
		return err
	}
	wantCode(t, request("9"), control.RevisionConflict)
	wantCode(t, request("1"), control.CursorExpired)
	if got := b.output().NextInputSequence; got != "3" {
		t.Errorf("next input sequence %s, want 3", got)
	}
}

func TestWaitingPrograms(t *testing.T) { // F-55
	for name, command := range map[string]string{
		"line":     `cat`,
		"password": `sh -c 'stty -echo; read x; stty echo'`,
		"raw":      `sh -c 'stty raw -echo; dd bs=1 count=1 2>/dev/null; stty sane'`,
	} {
		t.Run(name, func(t *testing.T) {
			b := startBench(t, "/bin/bash")
			done := b.startRun(command, "", freePermit())
			b.eventually("it waits", func() bool { return b.output().WaitingForInput })
			if out := b.output(); out.Foreground == "" || out.Foreground == "bash" {
				t.Errorf("foreground %q", out.Foreground)
			}
			b.typeText("q\n")
			b.press("ctrl_d")
			<-done
		})
	}
	b := startBench(t, "/bin/bash")
	cancel := make(chan struct{})
	done := b.startRun(`echo up; sleep 300`, "up\n", broker.NewPermit(func() error { return nil }, cancel))
	b.eventually("it has been silent", func() bool {
		b.t.mu.Lock()
		defer b.t.mu.Unlock()
		return time.Since(b.t.lastOutput) > quietFor
	})
	if b.output().WaitingForInput {
		t.Error("a silent program counts as one that waits for input")
	}
	close(cancel)
	<-done
}

func TestInterrupt(t *testing.T) {
	b := startBench(t, "/bin/bash")
	interrupt := func(operation string) error {
		_, err := b.do(&catalog.InterruptRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), LeaseID: "lease", OperationID: operation}, freePermit())
		return err
	}
	done := b.startRun(`echo up; sleep 300`, "up\n", freePermit())
	b.eventually("the shell has handed the terminal over", func() bool { return b.output().Foreground == "sleep" })
	wantCode(t, interrupt("another"), control.TargetNotFound)
	if err := interrupt(b.operation()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.State != control.StateFailed || r.Effect != control.EffectComplete {
		t.Errorf("got %+v, want failed with exit code 130", r.Result)
	}
	wantCode(t, interrupt(b.operation()), control.TargetNotFound)
}

func TestPasteCannotBeEscaped(t *testing.T) { // S-94
	for name, texts := range map[string][]string{
		"whole":     {"#a \x1b[201~; touch MARK \r"},
		"in pieces": {"#a \x1b", "[201~; touch MARK ", "\r"},
		"C1":        {"#a \u009b201~; touch MARK \r"},
		"lines":     {"echo '\x1b[201~\rtouch MARK\r'\r"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBench(t, "/bin/bash")
			for _, text := range texts {
				b.typeText(text)
			}
			b.press("ctrl_c")
			b.ready()
			if strings.Contains(b.all(), "\x1b[201~") {
				t.Error("an end of paste reached the shell")
			}
			if _, err := os.Stat(filepath.Join(b.desk.project, "MARK")); err == nil {
				t.Error("the payload ran")
			}
		})
	}
}

func TestPrintedQueriesDoNotType(t *testing.T) { // S-93
	b := startBench(t, "/bin/bash")
	b.run(`printf '\033[6n\033[c\033[5n\033]11;?\007'`)
	if output, _ := b.run(`echo clean`); output != "clean\n" {
		t.Errorf("got %q", output)
	}
	if strings.Contains(b.all(), "62;22") {
		t.Errorf("an answer was typed into the shell: %q", b.all())
	}
	// A program that drives the terminal itself does get its answer.
	output, _ := b.run(`sh -c 'stty raw -echo; printf "\033[5n"; dd bs=1 count=4 2>/dev/null | od -An -c; stty sane'`)
	if !strings.Contains(output, "033   [   0   n") {
		t.Errorf("got %q", output)
	}
}

func TestResize(t *testing.T) { // F-58
	b := startBench(t, "/bin/bash")
	for _, row := range []struct {
		cols, rows int
		want       string
	}{{80, 25, "25 80\n"}, {1, 1, "4 20\n"}, {0, 0, "4 20\n"}, {65535, 65535, "1024 1024\n"}} {
		if err := b.m.Resize(b.t.panel.ID, row.cols, row.rows); err != nil {
			t.Fatal(err)
		}
		b.ready()
		if output, _ := b.run("stty size"); output != row.want {
			t.Errorf("%d x %d: got %q, want %q", row.cols, row.rows, output, row.want)
		}
	}
	if err := b.m.Resize("none", 80, 25); !errors.Is(err, ErrNoTerminal) {
		t.Errorf("got %v", err)
	}
}

func TestReadModes(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run(`printf '\033[31mred\033[0m\n'`)
	data, err := b.read(catalog.ReadRequest{Mode: "raw"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(data.(catalog.Raw).Base64)
	if err != nil || !strings.Contains(string(raw), "\x1b[31mred\x1b[0m\r\n") {
		t.Errorf("raw %q, %v", raw, err)
	}
	b.ready()
	screen := b.screen()
	if !strings.Contains(screen.Text, "\nred\n") || screen.Columns != defaultColumns || screen.Buffer != "normal" || !screen.CursorVisible {
		t.Errorf("screen %+v", screen)
	}
	out := b.output()
	if !strings.Contains(out.Text, "\nred\n") || out.Folder != b.desk.project {
		t.Errorf("output %+v", out)
	}
	for _, mode := range []string{"output", "raw"} {
		_, err = b.read(catalog.ReadRequest{Mode: mode, Cursor: "99999999"})
		wantCode(t, err, control.CursorExpired)
	}
	_, err = b.read(catalog.ReadRequest{Mode: "command", OperationID: "none"})
	wantCode(t, err, control.TargetNotFound)
	_, err = b.read(catalog.ReadRequest{Mode: "screen", MinimumParsedSequence: "99999999"})
	wantCode(t, err, control.DeadlineExceeded)
}

func TestReadNeverCutsCharacters(t *testing.T) { // bug 41, F-56
	b := startBench(t, "/bin/bash")
	b.run(`for i in $(seq 2000); do printf '漢🙂'; done`)
	want := strings.Repeat("漢🙂", 2000)
	for _, size := range []int{4, 5, 7, 1000, 16384, 65536} {
		var got strings.Builder
		cursor := ""
		for {
			data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: cursor, MaxBytes: size})
			if err != nil {
				t.Fatal(err)
			}
			out := data.(catalog.Output)
			if out.Gap {
				t.Fatalf("gap at %s", cursor)
			}
			got.WriteString(out.Text)
			if out.NextCursor == out.Command.EndCursor {
				break
			}
			cursor = out.NextCursor
		}
		if got.String() != want {
			t.Errorf("pieces of %d: got %d bytes, want %d", size, got.Len(), len(want))
		}
	}
	out := b.outputOf(b.operation())
	data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: out.Command.StartCursor + "", MaxBytes: 3})
	if err != nil {
		t.Fatal(err)
	}
	inside := decimal(uint64(len("x")) + mustParse(t, data.(catalog.Output).Command.StartCursor))
	data, err = b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: inside, MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if out := data.(catalog.Output); !out.Gap || !strings.HasPrefix(out.Text, "🙂") {
		t.Errorf("inside a character: %+v", out)
	}
}

func TestFloodIsBounded(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo first; yes 漢 | head -c 20000000")
	out := b.outputOf(b.operation())
	if !strings.HasPrefix(out.Text, "first\n漢\n") || len(out.Text) < pinnedBytes-4 || len(out.Text) > pinnedBytes {
		t.Errorf("the head of the run is %d bytes, begins %.20q", len(out.Text), out.Text)
	}
	data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: out.NextCursor})
	if err != nil {
		t.Fatal(err)
	}
	if rest := data.(catalog.Output); !rest.Gap || !strings.Contains(rest.Text, "漢\n漢\n") {
		t.Errorf("after the head: gap %v, %.20q", rest.Gap, rest.Text)
	}
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if len(b.t.out.raw.buf) != ringBytes || len(b.t.out.clean.buf) != ringBytes || b.t.out.raw.end < 20_000_000 {
		t.Errorf("rings of %d and %d bytes after %d", len(b.t.out.raw.buf), len(b.t.out.clean.buf), b.t.out.raw.end)
	}
}

func TestRunsAreForgotten(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo 0")
	first := b.operation()
	for range maxRuns {
		b.run("true")
	}
	_, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: first})
	wantCode(t, err, control.TargetNotFound)
}

func TestAttach(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got strings.Builder
	sent := false
	for chunk, err := range b.m.Attach(ctx, b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(chunk)
		if !sent {
			sent = true
			if !strings.Contains(got.String(), "\r\nbefore\r\n") && !strings.Contains(got.String(), "before\r\n") {
				t.Errorf("snapshot %q", got.String())
			}
			if err := b.m.Type(ctx, b.t.panel.ID, []byte("echo af''ter\r")); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(got.String(), "after\r\n") {
			break
		}
	}
	if strings.Contains(got.String(), b.t.out.secret) {
		t.Error("a tab sees the secret of the marks")
	}
	cancel()
	for _, err := range b.m.Attach(ctx, b.t.panel.ID) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, err := range b.m.Attach(ctx, "none") {
		if !errors.Is(err, ErrNoTerminal) {
			t.Errorf("got %v", err)
		}
	}
}

// A tab that does not read holds nobody up, and starts over when it does.
func TestSlowTab(t *testing.T) {
	b := startBench(t, "/bin/bash")
	chunks := 0
	for chunk, err := range b.m.Attach(t.Context(), b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		chunks++
		if chunks == 1 {
			b.run("seq 300000") // four times the ring, while the tab sleeps
			b.ready()
			continue
		}
		if !strings.HasPrefix(string(chunk), resetTab+behindNote) || !strings.Contains(string(chunk), "\n300000\r\n") {
			t.Errorf("got %.80q, %d bytes", chunk, len(chunk))
		}
		break
	}
}

func TestAttachEndsWithShell(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.runWith("echo bye; exit 0", freePermit())
	var got strings.Builder
	for chunk, err := range b.m.Attach(t.Context(), b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(chunk)
	}
	if !strings.Contains(got.String(), "bye\r\n") {
		t.Errorf("got %q", got.String())
	}
}

func TestProtectedOrigin(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("sleep 300 &")
	children, err := b.m.Children(t.Context(), b.t.panel.ID)
	if err != nil || len(children) == 0 {
		t.Fatalf("%v, %v", children, err)
	}
	for name, peer := range map[string]int{"the shell": b.t.proc.PID(), "its child": children[0].PID, "unknown": 0, "gone": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []any{
				&catalog.RunRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), Command: "echo no"},
				&catalog.InputRequest{Scoped: control.Scoped{WorkspaceID: "w"}, Session: b.session(), InputSequence: "1", Input: catalog.Input{Type: "key", Key: "enter"}},
				&catalog.InterruptRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), OperationID: b.operation()},
			} {
				_, err := b.m.Do(t.Context(), freePermit(), broker.Call{Request: request, PeerPID: peer, Operation: "x"}, broker.Target{})
				wantCode(t, err, control.ProtectedOriginTerminal)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	b := newBench(t, "/bin/bash")
	inside := filepath.Join(b.desk.project, "web", "src")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": t.TempDir(), "in": inside} {
		if err := os.Symlink(target, filepath.Join(b.desk.project, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		name    string
		request catalog.CreateRequest
		code    control.Code
	}{
		{"another workspace", catalog.CreateRequest{Mutation: control.Mutation{WorkspaceID: "x"}}, control.TargetNotFound},
		{"missing folder", catalog.CreateRequest{CWDRelative: "none"}, control.TargetNotFound},
		{"link that leads out", catalog.CreateRequest{CWDRelative: "out"}, control.ScopeDenied},
		{"another profile", catalog.CreateRequest{ProfileID: "ssh"}, control.ScopeDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.request.WorkspaceID == "" {
				row.request.WorkspaceID = "w"
			}
			_, err := b.do(&row.request, freePermit())
			wantCode(t, err, row.code)
		})
	}
	result, err := b.do(&catalog.CreateRequest{Mutation: control.Mutation{WorkspaceID: "w"}, CWDRelative: "in", Title: "build"}, freePermit())
	if err != nil {
		t.Fatal(err)
	}
	created := result.Data.(catalog.Created)
	panel := b.desk.panel(created.PanelID)
	if panel.Title != "build" || panel.Owner != "s" || panel.Runtime != "ready" || result.Lease != panel.Resource() {
		t.Errorf("panel %+v, result %+v", panel, result)
	}
	b.t, _ = b.m.find(created.PanelID)
	if output, _ := b.run("pwd"); output != inside+"\n" {
		t.Errorf("folder %q, want %q", output, inside)
	}
	b.desk.refuse = control.Errorf(control.RevisionConflict, "moved")
	_, err = b.do(&catalog.CreateRequest{Mutation: control.Mutation{WorkspaceID: "w"}}, freePermit())
	wantCode(t, err, control.RevisionConflict)
	if n := len(b.m.Panels()); n != 1 {
		t.Errorf("%d terminals, want 1", n)
	}
}

func TestTargets(t *testing.T) {
	b := startBench(t, "/bin/bash")
	resolve := func(request any) (broker.Target, error) {
		return b.m.Resolve(t.Context(), broker.Call{Request: request})
	}
	foreign := b.session()
	foreign.TerminalSessionID = "old"
	_, err := resolve(&catalog.ReadRequest{Scoped: control.Scoped{WorkspaceID: "w"}, Session: foreign})
	wantCode(t, err, control.StaleGeneration)
	_, err = resolve(&catalog.ReadRequest{Scoped: control.Scoped{WorkspaceID: "other"}, Session: b.session()})
	wantCode(t, err, control.TargetNotFound)

	target, err := resolve(&catalog.RunRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), LeaseID: "l", Command: "npm test\u202e"})
	if err != nil || target.Resource != "terminal:"+b.t.panel.ID || target.LeaseID != "l" || target.Command != "npm test\u202e" || strings.Contains(target.Summary, "\u202e") {
		t.Errorf("target %+v, %v", target, err)
	}
	input := func(in catalog.Input) broker.Target {
		target, err := resolve(&catalog.InputRequest{Scoped: control.Scoped{WorkspaceID: "w"}, Session: b.session(), LeaseID: "l", Input: in})
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	if target := input(catalog.Input{Type: "text", Text: "rm -rf x\n"}); target.Refused == "" {
		t.Errorf("input at the prompt is not refused to asking policies: %+v", target)
	}
	if target := input(catalog.Input{Type: "key", Key: "ctrl_c"}); target.Refused != "" || target.Risk != "none" {
		t.Errorf("Ctrl+C asks: %+v", target)
	}
	done := b.startRun("cat", "", freePermit())
	b.eventually("cat runs", func() bool { return b.output().Foreground == "cat" })
	target = input(catalog.Input{Type: "text", Text: "y"})
	if target.Refused != "" || target.Risk != "types into cat" || target.Run != b.operation() {
		t.Errorf("input to a program: %+v", target)
	}
	b.press("ctrl_d")
	<-done
}

func TestUserFiles(t *testing.T) {
	b := newBench(t, "/bin/bash")
	rc := `PS1='custom\$ '; export PS1; set -a; PROMPT_COMMAND='PS1="again> "'; alias hi='echo hello'; set -u; export PS1` + "\n"
	if err := os.WriteFile(filepath.Join(b.home, ".bashrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open()
	if output, exit := b.run("hi; false"); output != "hello\n" || exit != 1 {
		t.Errorf("got %q, %d", output, exit)
	}
	b.ready()
	if !strings.HasSuffix(b.screen().Text, "again>") && !strings.Contains(b.screen().Text, "again> ") {
		t.Errorf("the user's prompt is gone: %q", b.screen().Text)
	}
	output, _ := b.run("env")
	if strings.Contains(output, b.t.out.secret) || strings.Contains(output, "*****") {
		t.Errorf("the secret is exported: %q", output)
	}
	if got, err := os.ReadFile(filepath.Join(b.home, ".bashrc")); err != nil || string(got) != rc {
		t.Errorf("the user's file was changed: %q, %v", got, err)
	}
}

func TestFullScreenProgram(t *testing.T) {
	b := startBench(t, "/bin/bash")
	done := b.startRun(`sh -c 'printf "\033[?1049h\033[2J\033[3;5Hmenu\033[?25l"; read x; printf "\033[?1049l\033[?25h"'`, "", freePermit())
	b.eventually("the menu shows", func() bool { return b.screen().Buffer == "alternate" })
	b.eventually("the cursor is hidden", func() bool { return !b.screen().CursorVisible })
	if text := b.screen().Text; text != "\n\n    menu" {
		t.Errorf("screen %q", text)
	}
	b.press("enter")
	<-done
	b.ready()
	if s := b.screen(); s.Buffer != "normal" || !s.CursorVisible {
		t.Errorf("afterwards %+v", s)
	}
}

func TestTwoTerminalsDoNotMix(t *testing.T) {
	a, b := startBench(t, "/bin/bash"), startBench(t, "/bin/sh")
	var group sync.WaitGroup
	for _, x := range []*bench{a, b} {
		group.Go(func() {
			for range 20 {
				r := x.runWith("echo "+x.t.panel.ID, freePermit())
				if r.err != nil || x.outputOf(r.operation).Text != x.t.panel.ID+"\n" {
					t.Errorf("got %+v, %v", r.Result, r.err)
				}
			}
		})
	}
	group.Wait()
}
