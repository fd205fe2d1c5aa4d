package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"lomi/broker/identity"
)

// shortDir is a private folder whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lomi-wire-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestListenFresh(t *testing.T) {
	parent := shortDir(t)
	l, err := ListenFresh(parent)
	if err != nil {
		t.Fatal(err)
	}
	path := l.Addr().String()
	if filepath.Dir(filepath.Dir(path)) != parent || filepath.Base(path) != SocketName {
		t.Errorf("the socket is %s, want it below %s", path, parent)
	}
	for file, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("mode of %s: got %v, want %v", file, info.Mode(), want)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("%v is left after closing", left)
	}
}

func TestListenFreshFallsBack(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("x", 90))
	open := filepath.Join(shortDir(t), "open")
	if err := errors.Join(os.Mkdir(long, 0o700), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"", "/nowhere", long, open} {
		l, err := ListenFresh(parent)
		if err != nil {
			t.Fatalf("%q: %v", parent, err)
		}
		if got := l.Addr().String(); !strings.HasPrefix(got, "/tmp/lomi-control-") && !strings.HasPrefix(got, "/private/tmp/lomi-control-") {
			t.Errorf("%q: the socket is %s", parent, got)
		}
		l.Close()
	}
}

// abandon leaves a socket as a killed daemon does.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

// F-33: a socket is replaced only when it is dead and ours.
func TestListenOverWhatIsThere(t *testing.T) {
	for name, row := range map[string]struct {
		prepare func(t *testing.T, path string)
		refused bool
	}{
		"nothing":     {func(*testing.T, string) {}, false},
		"dead socket": {abandon, false},
		"live socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, true},
		"symbolic link to a dead socket": {func(t *testing.T, path string) {
			abandon(t, path+"2")
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, true},
		"file": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		"folder open to others": {func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s.sock")
			row.prepare(t, path)
			before, _ := os.Lstat(path)
			l, err := Listen(path)
			if err == nil {
				defer l.Close()
			}
			if refused := err != nil; refused != row.refused {
				t.Errorf("refused: got %v (%v), want %v", refused, err, row.refused)
			}
			if after, _ := os.Lstat(path); row.refused && before != nil && !os.SameFile(before, after) {
				t.Error("what was there is gone")
			}
		})
	}
	t.Run("path of 108 bytes", func(t *testing.T) {
		dir := shortDir(t)
		if _, err := Listen(filepath.Join(dir, strings.Repeat("x", 107-len(dir)))); err == nil {
			t.Error("108 bytes were taken")
		}
	})
	// Only root can give a socket to somebody else, so the owner is checked
	// where the test runs as root, and the rule itself everywhere else.
	t.Run("foreign owner", func(t *testing.T) {
		path := filepath.Join(shortDir(t), "s.sock")
		abandon(t, path)
		if err := os.Lchown(path, 65534, 65534); err != nil {
			if !errors.Is(err, syscall.EPERM) {
				t.Fatal(err)
			}
			return
		}
		if _, err := Listen(path); err == nil {
			t.Error("another user's socket was replaced")
		}
	})
}

func TestSweepKeepsTheLiving(t *testing.T) {
	parent := shortDir(t)
	living, err := ListenFresh(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	age := func(path string) {
		t.Helper()
		old := living.Addr().String()
		info, err := os.Lstat(old)
		if err != nil {
			t.Fatal(err)
		}
		when := info.ModTime().Add(-2 * staleAge)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	dead, young := filepath.Join(parent, "lomi-control-dead"), filepath.Join(parent, "lomi-control-young")
	for _, dir := range []string{dead, young} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		abandon(t, filepath.Join(dir, SocketName))
	}
	age(filepath.Join(dead, SocketName))
	age(living.Addr().String())
	next, err := ListenFresh(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := os.Lstat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Error("the dead daemon's folder is left")
	}
	for _, path := range []string{young, living.Addr().String()} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it was removed: %v", err)
		}
	}
}

// The whole way over a real socket: the kernel names the peer, 16 clients with
// 16 calls each get their own answers.
func TestServeOnSocket(t *testing.T) {
	e := &engine{auto: Approved}
	broker := certificate(t, instance+brokerSuffix)
	l, err := ListenFresh(shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	path := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, Config{InstanceID: instance, Certificate: broker, UID: os.Getuid(),
			Identify: identity.Identify, Handler: e})
	}()
	var clients sync.WaitGroup
	for c := range 16 {
		clients.Go(func() {
			if err := talk(t.Context(), path, certificate(t, helperName), broker.Certificate[0], c); err != nil {
				t.Errorf("client %d: %v", c, err)
			}
		})
	}
	clients.Wait()
	for _, peer := range e.peers {
		if peer.PID != os.Getpid() || peer.UID != os.Getuid() {
			t.Errorf("peer %+v, want pid %d", peer, os.Getpid())
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket's folder is left")
	}
	if opened, closed := e.opened.Load(), e.closed.Load(); opened != 16 || closed != 16 {
		t.Errorf("%d sessions opened, %d closed, want 16", opened, closed)
	}
}

// Real clients enrol in waves of at most maxPending, so one waits for a place.
func talk(ctx context.Context, path string, own tls.Certificate, broker []byte, client int) error {
	var w *Enrolled
	for {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		w, err = Enroll(ctx, conn, Enrollment{InstanceID: instance, Label: "test", Certificate: own, BrokerSHA256: pin(broker)})
		if failed(err, "RESOURCE_EXHAUSTED") {
			continue // too many pairings wait at this moment
		}
		if err != nil {
			return err
		}
		break
	}
	link, err := w.Open(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	errs := make(chan error, 16)
	for i := range cap(errs) {
		go func() {
			want := fmt.Sprintf(`"client %d call %d"`, client, i)
			reply, err := link.Call(ctx, "lomi_status", json.RawMessage(want))
			if err == nil && !bytes.Contains(reply.Data, []byte(want)) {
				err = fmt.Errorf("got %s, want %s", reply.Data, want)
			}
			errs <- err
		}()
	}
	var all []error
	for range cap(errs) {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// F-21, F-60: a client that dies without a word is noticed by the kernel.
func TestSocketEndsWithItsProcess(t *testing.T) {
	e := &engine{}
	broker := certificate(t, instance+brokerSuffix)
	l, err := ListenFresh(shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	path := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() {
		_ = Serve(ctx, l, Config{InstanceID: instance, Certificate: broker, UID: os.Getuid(), Identify: identity.Identify, Handler: e})
	})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Enroll(t.Context(), conn, Enrollment{InstanceID: instance, Label: "test",
		Certificate: certificate(t, helperName), BrokerSHA256: pin(broker.Certificate[0])}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "\x16")
	conn.Close()
	<-e.context(0).Done() // the test's own deadline bounds this wait
}

// A refusal reaches a client that begins its handshake only after the server
// has closed the connection.
func TestRefusalLeftBehind(t *testing.T) {
	for alert, want := range map[byte]error{alertRejected: ErrRejected, alertExpired: ErrExpired} {
		path := filepath.Join(shortDir(t), "s.sock")
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.Write(alertRecord(alert))
		if err := errors.Join(err, server.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		w := &Enrolled{conn: client, e: Enrollment{Certificate: certificate(t, helperName)}}
		if _, err := w.Open(t.Context()); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
