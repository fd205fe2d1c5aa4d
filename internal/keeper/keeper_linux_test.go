package keeper

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemonVariable makes the test binary a daemon that runs one tree and waits
// to be killed.
const daemonVariable = "KEEPER_TEST_DAEMON"

// treeVariable tags the processes of one test's tree, apart from the marker
// that the code under test uses.
const treeVariable = "KEEPER_TEST_TREE"

func TestMain(m *testing.M) {
	Hook()
	if script := os.Getenv(daemonVariable); script != "" {
		os.Exit(fakeDaemon(script))
	}
	os.Exit(m.Run())
}

// fakeDaemon starts a tree, prints the keeper's pid and waits for its end.
func fakeDaemon(script string) int {
	p, err := Start(context.Background(), Spec{
		Name: "tree", Path: "/bin/sh", Args: []string{"-c", script}, Instance: os.Getenv("KEEPER_TEST_INSTANCE"),
	})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println(p.keeper.Process.Pid)
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// stubborn starts everything that is known to outlive its parent, and only
// then says so in a file.
const stubborn = `
sleep 300 &
setsid sleep 300 &
nohup sleep 300 >/dev/null 2>&1 &
( ( sleep 300 & ) & )
( trap '' TERM HUP INT; while :; do sleep 300; done ) &
setsid sh -c "trap '' TERM HUP; while :; do sleep 300; done" &
setsid sh -c '( setsid nohup sleep 300 & ) & exit' 
: > "$READY"
wait
sleep 300
`

func newTag(t *testing.T) string {
	t.Helper()
	return "t" + strings.ToLower(rand.Text())
}

// tagged lists the live processes whose environment has the tag.
func tagged(t *testing.T, tag string) []process {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, p := range all {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && !p.zombie && strings.Contains(string(env), treeVariable+"="+tag) {
			found = append(found, p)
		}
	}
	return found
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("still not so after 30 s: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func startTree(t *testing.T, script, tag string) *Process {
	t.Helper()
	ready := t.TempDir() + "/ready"
	p, err := Start(t.Context(), Spec{
		Name: "tree", Path: "/bin/sh", Args: []string{"-c", script},
		Env: append(os.Environ(), treeVariable+"="+tag, "READY="+ready), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(context.Background()) })
	eventually(t, "tree is up", func() bool { return exists(ready) && len(tagged(t, tag)) >= 9 })
	return p
}

func TestStopEndsWholeTree(t *testing.T) { // bug 35, F-52
	tag := newTag(t)
	p := startTree(t, stubborn, tag)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := tagged(t, tag); len(left) > 0 {
		t.Fatalf("left after Stop: %v", left)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatalf("second Stop: %v", err)
	}
}

func TestForkBombEnds(t *testing.T) { // F-52
	tag := newTag(t)
	p := startTree(t, `i=0; while [ $i -lt 200 ]; do (trap '' TERM HUP; setsid sleep 300) & i=$((i+1)); done; : > "$READY"; wait`, tag)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := tagged(t, tag); len(left) > 0 {
		t.Fatalf("%d left after Stop", len(left))
	}
}

func startDaemon(t *testing.T, tag, instance string) (daemon *exec.Cmd, keeperPID int) {
	t.Helper()
	ready := t.TempDir() + "/ready"
	daemon = exec.Command("/proc/self/exe")
	daemon.Env = append(os.Environ(), daemonVariable+"="+stubborn, treeVariable+"="+tag, "READY="+ready, "KEEPER_TEST_INSTANCE="+instance)
	stdin, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); daemon.Process.Kill(); daemon.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &keeperPID); err != nil {
		t.Fatalf("daemon said %q", line)
	}
	eventually(t, "tree is up", func() bool { return exists(ready) && len(tagged(t, tag)) >= 10 })
	return daemon, keeperPID
}

func TestKilledDaemonLeavesNothing(t *testing.T) { // F-52, F-57
	tag := newTag(t)
	daemon, _ := startDaemon(t, tag, "a")
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	daemon.Wait()
	eventually(t, "nothing of the tree is left", func() bool { return len(tagged(t, tag)) == 0 })
}

func TestSweepAfterDaemonAndKeeperKilled(t *testing.T) { // F-57
	tag, other := newTag(t), newTag(t)
	instance := newTag(t)
	daemon, keeperPID := startDaemon(t, tag, instance)
	bystander, _ := startDaemon(t, other, instance+"x")
	// Stopped first, so that neither can react to the other's death.
	syscall.Kill(keeperPID, syscall.SIGSTOP)
	syscall.Kill(daemon.Process.Pid, syscall.SIGKILL)
	syscall.Kill(keeperPID, syscall.SIGKILL)
	daemon.Wait()
	if len(tagged(t, tag)) == 0 {
		t.Fatal("nothing to sweep: the test proves nothing")
	}
	killed, err := Sweep(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	if left := tagged(t, tag); len(left) > 0 || killed == 0 {
		t.Fatalf("killed %d, left %v", killed, left)
	}
	if len(tagged(t, other)) == 0 {
		t.Fatal("the sweep ended another instance's tree")
	}
	bystander.Process.Kill()
	eventually(t, "the bystander's tree ends", func() bool { return len(tagged(t, other)) == 0 })
	if killed, err := Sweep(t.Context(), instance); killed != 0 || err != nil {
		t.Fatalf("second sweep: %d, %v", killed, err)
	}
}

func TestKilledKeeperLeavesNothing(t *testing.T) {
	tag := newTag(t)
	p := startTree(t, stubborn, tag)
	syscall.Kill(p.keeper.Process.Pid, syscall.SIGKILL)
	exit, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !exit.Lost {
		t.Errorf("exit %+v, want lost", exit)
	}
	<-p.Gone()
	if left := tagged(t, tag); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
}

func TestKeeperSurvivesSignals(t *testing.T) { // bug 47
	tag := newTag(t)
	p := startTree(t, stubborn, tag)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		if err := syscall.Kill(p.keeper.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	children, err := p.Children(t.Context())
	if err != nil || len(children) < 8 {
		t.Fatalf("children %v, %v", children, err)
	}
	session, err := syscall.Getpgid(p.PID())
	if err != nil || session != p.PID() {
		t.Fatalf("program in group %d, %v; want its own %d", session, err, p.PID())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestExit(t *testing.T) {
	for _, row := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{}},
		{"exit 7", Exit{Code: 7}},
		{"kill -KILL $$", Exit{Code: 137, Signal: "killed"}},
		// F-53: the end of the program is told while its child lives on.
		{"setsid sleep 300 & exit 3", Exit{Code: 3}},
		// Signals ignored by the daemon's own parent are not inherited.
		{`kill -HUP $$; exit 0`, Exit{Code: 129, Signal: "hangup"}},
	} {
		t.Run(row.script, func(t *testing.T) {
			p, err := Start(t.Context(), Spec{Name: "exit", Path: "/bin/sh", Args: []string{"-c", row.script}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stop(context.Background())
			if got, err := p.Wait(t.Context()); err != nil || got != row.want {
				t.Errorf("got %+v, %v; want %+v", got, err, row.want)
			}
		})
	}
}

func TestStartRefused(t *testing.T) {
	for name, spec := range map[string]Spec{
		"missing program": {Path: "/nonexistent"},
		"missing folder":  {Path: "/bin/true", Dir: "/nonexistent"},
		"bad instance":    {Path: "/bin/true", Instance: "a:b"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Start(t.Context(), spec); !errors.Is(err, ErrStart) {
				t.Errorf("got %v, want %v", err, ErrStart)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Spec{Path: "/bin/sh"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled start: %v", err)
	}
}

func TestFilesAndEnvironment(t *testing.T) {
	fromUs, us, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	them, toThem, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOMI_SECRET", "hidden")
	p, err := Start(t.Context(), Spec{
		Name: "pipes", Path: "/bin/sh",
		Args:  []string{"-c", `read line <&3; echo "$line" >&4; env >&4; ls /proc/self/fd >&4`},
		Files: []*os.File{fromUs, toThem},
	})
	if err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toThem.Close()
	fmt.Fprintln(us, "over the pipe")
	us.Close()
	text, err := io.ReadAll(them) // ends only if the keeper closed its copy
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "over the pipe\n") || !strings.Contains(string(text), MarkerVariable+"=none:") {
		t.Errorf("got %q", text)
	}
	if strings.Contains(string(text), "LOMI_SECRET") {
		t.Errorf("a LOMI_ variable reached the program")
	}
	if fds := string(text[len(text)-12:]); fds != "0\n1\n2\n3\n4\n5\n" { // 5 is ls reading its folder
		t.Errorf("descriptors %q: something of the keeper leaked", fds)
	}
	<-p.Gone()
}

// A wait for any child in the daemon would steal these statuses.
func TestCommandsBesideKeepers(t *testing.T) {
	var group sync.WaitGroup
	failures := make(chan error, 2000)
	for range 8 {
		group.Go(func() {
			for range 50 {
				if err := exec.Command("/bin/true").Run(); err != nil {
					failures <- err
				}
			}
		})
		group.Go(func() {
			for i := range 5 {
				p, err := Start(t.Context(), Spec{Path: "/bin/sh", Args: []string{"-c", fmt.Sprintf("sleep 300 & exit %d", i)}})
				if err != nil {
					failures <- err
					continue
				}
				if exit, err := p.Wait(t.Context()); err != nil || exit.Code != i {
					failures <- fmt.Errorf("exit %+v, %v", exit, err)
				}
				if err := p.Stop(t.Context()); err != nil {
					failures <- err
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}

func TestSignalSparesReusedPID(t *testing.T) { // F-58
	cmd := exec.Command("/bin/sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	p, ok := processOf(cmd.Process.Pid)
	if !ok {
		t.Fatal("no such process")
	}
	p.start--
	signalProcess(p, syscall.SIGKILL)
	if now, ok := processOf(p.pid); !ok || now.zombie {
		t.Error("a process with another start time was killed")
	}
}

func TestMainRefusesWithoutDaemon(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", Arg)
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("got %v, want exit code 2", err)
	}
}
