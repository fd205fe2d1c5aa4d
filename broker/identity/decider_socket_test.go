//go:build linux

package identity

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lomi/internal/keeper"
)

// roleVariable makes a copy of the test binary a process of a tree: it says
// its role on the socket and stays until the socket closes.
const (
	roleVariable   = "IDENTITY_TEST_ROLE"
	socketVariable = "IDENTITY_TEST_SOCKET"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	os.Exit(m.Run())
}

func play(role string) {
	conn, err := net.Dial("unix", os.Getenv(socketVariable))
	if err != nil {
		os.Exit(1)
	}
	if _, err := io.WriteString(conn, role+"\n"); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, conn)
}

// grow runs script in a session of its own, where "role NAME" starts a process
// that connects, and returns the connections by role.
func grow(t *testing.T, script string, roles ...string) map[string]net.Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	cmd := exec.Command("sh", "-c", "role() { exec env "+roleVariable+`="$1" "$0"; }; `+script, os.Args[0])
	cmd.Env = append(os.Environ(), socketVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, cmd.Start())

	conns := make(map[string]net.Conn)
	t.Cleanup(func() {
		for _, conn := range conns {
			conn.Close()
		}
		_ = cmd.Wait()
	})
	listener.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second))
	for range roles {
		conn, err := listener.Accept()
		must(t, err)
		role, err := bufio.NewReader(conn).ReadString('\n')
		must(t, err)
		conns[strings.TrimSpace(role)] = conn
	}
	return conns
}

func pidOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	c, err := PeerOf(conn)
	must(t, err)
	if c.UID != os.Getuid() {
		t.Fatalf("uid of the peer: got %d, want %d", c.UID, os.Getuid())
	}
	return c.PID
}

func TestDeciderTellsPersonFromHost(t *testing.T) {
	conns := grow(t, `
		( role helper & role agent & wait ) &
		role person & LOMI_KEEPER=1 role kept &
		wait`, "helper", "agent", "person", "kept")
	helper := pidOf(t, conns["helper"])
	nobody := func() []int { return nil }
	helpers := func() []int { return []int{helper} }
	for name, row := range map[string]struct {
		decider Decider
		role    string
		subject int
		refused string
	}{
		"person":                              {Decider{Helpers: helpers, Keepers: nobody}, "person", helper, ""},
		"person, nothing connected":           {Decider{}, "person", 0, ""},
		"the host's own shell tool":           {Decider{Helpers: helpers}, "agent", helper, "belongs to an MCP host"},
		"the helper itself":                   {Decider{Helpers: helpers}, "helper", helper, "belongs to an MCP host"},
		"the same tool, nothing is connected": {Decider{}, "agent", 0, ""},
		"inside a keeper, by its mark":        {Decider{}, "kept", 0, "runs inside Lomi"},
		"inside a keeper, by its pid":         {Decider{Keepers: func() []int { return []int{os.Getpid()} }}, "person", 0, "runs inside Lomi"},
		"child of the daemon":                 {Decider{Daemon: os.Getpid()}, "person", 0, "started by Lomi"},
		"turned off":                          {Decider{PageOnly: true}, "person", 0, "turned off"},
		"a helper that cannot be read":        {Decider{Helpers: func() []int { return []int{1 << 30} }}, "person", 0, "cannot be read"},
		"the built-in chat is no host":        {Decider{Daemon: 1 << 30, Helpers: func() []int { return []int{1 << 30} }}, "person", 1 << 30, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.decider.Check(conns[row.role], row.subject)
			switch {
			case row.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case row.refused != "" && (!errors.Is(err, ErrPageOnly) || !strings.Contains(err.Error(), row.refused)):
				t.Errorf("got %v, want ErrPageOnly with %q", err, row.refused)
			}
		})
	}
}

// A helper that the person's own shell started has no host that could be told
// from the person.
func TestDeciderHelperWithoutHost(t *testing.T) {
	conns := grow(t, `role helper & role person & wait`, "helper", "person")
	helper := pidOf(t, conns["helper"])
	d := Decider{Helpers: func() []int { return []int{helper} }}
	if err := d.Check(conns["person"], helper); !errors.Is(err, ErrPageOnly) {
		t.Errorf("approving the helper: got %v, want ErrPageOnly", err)
	}
	if err := d.Check(conns["person"], 0); err != nil {
		t.Errorf("another decision: %v", err)
	}
}

func TestDeciderRefusesTheDead(t *testing.T) {
	conns := grow(t, `role person & wait`, "person")
	pid := pidOf(t, conns["person"])
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	// The kernel closes the socket while it ends the process.
	_, _ = io.Copy(io.Discard, conns["person"])
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var d Decider
	for ; ; <-tick.C {
		err := d.Check(conns["person"], 0)
		if errors.Is(err, ErrPageOnly) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v, want ErrPageOnly", err)
		}
	}
}

func TestChain(t *testing.T) {
	chain, err := Chain(os.Getpid())
	must(t, err)
	if chain[0].PID != os.Getpid() || chain[0].Parent != os.Getppid() {
		t.Errorf("starts with %+v", chain[0])
	}
	if last := chain[len(chain)-1]; last.PID != 1 && last.Parent != 0 {
		t.Errorf("ends with %+v", last)
	}
	if _, err := Chain(1 << 30); !errors.Is(err, ErrNoChain) {
		t.Errorf("of no process: got %v, want ErrNoChain", err)
	}
}

func TestKeeperMarkIsTheKeepers(t *testing.T) {
	if want := keeper.MarkerVariable + "="; keeperMark != want {
		t.Errorf("got %q, want %q", keeperMark, want)
	}
}

func TestPeerOfNeedsUnixSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := PeerOf(a); err == nil {
		t.Error("got credentials of a pipe in memory")
	}
}
