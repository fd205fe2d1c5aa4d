package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the control socket in its folder.
const SocketName = "control.sock"

const (
	freshPattern = "lomi-control-*"
	probeTime    = time.Second
	// staleAge protects the socket of a daemon that is between binding it and
	// listening on it: it refuses connections like a dead one.
	staleAge = time.Minute
)

// ErrInUse is a socket on which somebody answers.
var ErrInUse = errors.New("somebody answers on this socket already")

// maxSocketPath is what fits into a socket address, without the final NUL.
func maxSocketPath() int {
	if runtime.GOOS == "darwin" {
		return 103
	}
	return 107
}

// Listen opens a Unix socket at path, of mode 0600, in a folder of ours that
// nobody else enters. A socket that is there already is replaced only when it
// is ours and nobody listens on it; anything else in its place is refused.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath() {
		return nil, fmt.Errorf("the path has %d bytes, %d fit", len(path), maxSocketPath())
	}
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the folder alone keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func checkFolder(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no folder", dir)
	case int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case stat.Mode&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %04o)", dir, stat.Mode&0o7777)
	}
	return nil
}

// clearSocket removes a dead socket of ours.
func clearSocket(path string) error {
	var stat unix.Stat_t
	err := unix.Lstat(path, &stat)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	case stat.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return errors.New("something else than a socket is there")
	case int(stat.Uid) != os.Getuid():
		return errors.New("a socket of another user is there")
	}
	dead, err := isDead(path)
	if err != nil {
		return err
	}
	if !dead {
		return ErrInUse
	}
	return os.Remove(path)
}

func isDead(path string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return false, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return true, nil
	}
	return false, fmt.Errorf("trying the socket that is there: %w", err)
}

// ListenFresh opens the control socket in a new folder below parent (the
// user's runtime folder), or below /tmp when parent is empty or does not suit.
// The folders that dead daemons left there are removed. Closing the listener
// removes its own.
func ListenFresh(parent string) (net.Listener, error) {
	suits := parent != "" && checkFolder(parent) == nil &&
		len(parent)+len("/lomi-control-0123456789/"+SocketName) <= maxSocketPath()
	if !suits {
		parent = "/tmp"
	}
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, fmt.Errorf("finding a folder for the control socket: %w", err)
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, freshPattern) // 0700
	if err != nil {
		return nil, fmt.Errorf("making a folder for the control socket: %w", err)
	}
	l, err := Listen(filepath.Join(dir, SocketName))
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &freshListener{Listener: l, dir: dir}, nil
}

// freshListener takes its folder along when it closes.
type freshListener struct {
	net.Listener
	dir string
}

func (l *freshListener) Close() error {
	err := l.Listener.Close() // removes the socket
	if removed := os.Remove(l.dir); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// sweep removes folders of ours with nothing but a dead socket in them. What
// it cannot remove it leaves: the new socket does not depend on it.
func sweep(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, freshPattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, SocketName)
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < staleAge || checkFolder(dir) != nil {
			continue
		}
		if clearSocket(path) == nil {
			_ = os.Remove(dir)
		}
	}
}
