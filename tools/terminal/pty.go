package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Bounds of a write to a terminal (broker spec 7.1).
const (
	writePiece  = 4096
	writeBudget = 5 * time.Second
)

// errWriteTimeout says that the program did not take its input in time. How
// much it took is unknown to it, not to us: see the count beside it.
var errWriteTimeout = errors.New("the program takes no input")

// errAborted says that a person pushed a write aside.
var errAborted = errors.New("a person took over")

// master is our side of a pseudo-terminal. Its descriptor is non-blocking, so
// that deadlines hold; the library's own never does them (bug 39).
type master struct {
	file *os.File
	name string // of the program's side, "/dev/pts/7"

	writing sync.Mutex // one writer at a time, whole pieces
	abortMu sync.Mutex
	aborted chan struct{} // of an agent's write that is under way
}

// openPTY returns our side, and the program's side for the keeper.
func openPTY(cols, rows int) (*master, *os.File, error) {
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	defer ours.Close() // only the duplicate is ever used
	fail := func(err error) (*master, *os.File, error) {
		theirs.Close()
		return nil, nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	fd, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fail(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fail(err)
	}
	m := &master{file: os.NewFile(uintptr(fd), "ptmx"), name: theirs.Name()}
	if err := m.resize(cols, rows); err != nil {
		m.file.Close()
		return fail(err)
	}
	return m, theirs, nil
}

// control runs f on the descriptor. Fd would make it blocking again.
func (m *master) control(f func(fd int) error) error {
	conn, err := m.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (m *master) resize(cols, rows int) error {
	return m.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// foreground is the process group that the terminal belongs to now, 0 when
// unknown.
func (m *master) foreground() int {
	group := 0
	_ = m.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

// lineMode says whether the terminal itself edits lines (canonical), and
// whether it echoes.
func (m *master) lineMode() (canonical, echo bool) {
	_ = m.control(func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil {
			canonical, echo = t.Lflag&unix.ICANON != 0, t.Lflag&unix.ECHO != 0
		}
		return err
	})
	return canonical, echo
}

// read is one read; the end of the terminal is io.EOF however the system says
// it.
func (m *master) read(p []byte) (int, error) {
	n, err := m.file.Read(p)
	if errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// write sends a person's or the terminal's own bytes.
func (m *master) write(data []byte) (int, error) {
	return m.send(data, func() error { return nil }, false)
}

// send sends data in pieces, asking check before each; it returns how much
// went out. A program that does not read makes it end after the budget. Only
// an agent's input may be pushed aside by a person.
func (m *master) send(data []byte, check func() error, agent bool) (int, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.file.SetWriteDeadline(time.Now().Add(writeBudget)); err != nil {
		return 0, err
	}
	aborted := m.arm(agent)
	defer m.arm(false)
	sent := 0
	for sent < len(data) {
		select {
		case <-aborted:
			return sent, errAborted
		default:
		}
		if err := check(); err != nil {
			return sent, err
		}
		n, err := m.file.Write(data[sent:min(len(data), sent+writePiece)])
		sent += n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			select {
			case <-aborted:
				return sent, errAborted
			default:
				return sent, errWriteTimeout
			}
		case err != nil:
			return sent, err
		}
	}
	return sent, nil
}

// arm makes the write that begins one that abort ends, or one that it spares.
func (m *master) arm(agent bool) <-chan struct{} {
	m.abortMu.Lock()
	defer m.abortMu.Unlock()
	m.aborted = nil
	if agent {
		m.aborted = make(chan struct{})
	}
	return m.aborted
}

// abort ends an agent's write that is under way, so that a person never waits behind
// an agent's input to a program that does not read.
func (m *master) abort() {
	m.abortMu.Lock()
	defer m.abortMu.Unlock()
	if m.aborted != nil {
		close(m.aborted)
		m.aborted = nil
		_ = m.file.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (m *master) close() { m.file.Close() }
