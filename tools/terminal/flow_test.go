package terminal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			r := b.runWith(`sleep 300 & echo ok`, freePermit())
			output := b.outputOf(r.operation)
			if r.err != nil || r.State != "" || !strings.Contains(output.Text, "ok\n") {
				t.Errorf("got %+v, %v, %q", r.Result, r.err, output.Text)
			}
			left := r.Data.(catalog.Command).Background
			if len(left) != 1 || left[0].Command != "sleep 300" || syscall.Kill(left[0].PID, 0) != nil {
				t.Fatalf("left behind: %+v", left)
			}
			b.ready()
			if now := b.output().Background; !slices.Equal(now, left) {
				t.Errorf("running now: %+v, want %+v", now, left)
			}
			r = b.runWith(`true`, freePermit())
			if again := r.Data.(catalog.Command).Background; again != nil {
				t.Errorf("a later command is told of it again: %+v", again)
			}
			b.run(`(sleep 301; true) & (sleep 302 &)`)
			b.eventually("a subshell and what a subshell left are listed", func() bool {
				names := map[string]bool{}
				for _, p := range b.output().Background {
					names[p.Command] = true
				}
				return len(names) == 4 && names[filepath.Base(shell)+" (subshell)"] && names["sleep 301"] && names["sleep 302"]
			})
			var children []keeper.Child
			b.eventually("the child is listed", func() bool {
				var err error
				children, err = b.m.Children(t.Context(), b.t.panel.ID)
				return err == nil && len(children) == 4 && slices.ContainsFunc(children, func(c keeper.Child) bool { return c.Command == "sleep 300" })
			})
			if err := b.m.Close(t.Context(), b.t.panel.ID); err != nil {
				t.Fatal(err)
			}
			for _, c := range children {
				if err := syscall.Kill(c.PID, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("%s outlived its terminal: %v", c.Command, err)
				}
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
	for _, shell := range shells(t) {
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
	for _, shell := range shells(t) {
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

func TestCancelledBeforeItRan(t *testing.T) {
	b := startBench(t, "/bin/bash")
	cancelled := make(chan struct{})
	close(cancelled)
	r := b.runWith("touch MARK", broker.NewPermit(func() error { return nil }, cancelled))
	if r.err != nil || r.State != control.StateCancelled || r.Effect != control.EffectNone {
		t.Errorf("got %+v, %v", r.Result, r.err)
	}
	if output, _ := b.run("ls MARK 2>/dev/null; echo fine"); output != "fine\n" {
		t.Errorf("got %q", output)
	}
}
