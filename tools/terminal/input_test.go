package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lomi/broker"
	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

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

func TestOtherAgentIsProtected(t *testing.T) {
	b := startBench(t, "/bin/bash")
	if err := os.Symlink("/bin/cat", filepath.Join(b.desk.project, "claude")); err != nil {
		t.Fatal(err)
	}
	done := b.startRun("./claude", "", freePermit())
	b.eventually("the agent runs", func() bool { return b.output().Foreground == "claude" })
	_, err := b.input(catalog.Input{Type: "text", Text: "yes\n"})
	wantCode(t, err, control.ProtectedOriginTerminal)
	if err := b.m.Type(t.Context(), b.t.panel.ID, []byte("\x04")); err != nil { // a person may
		t.Fatal(err)
	}
	<-done
}
