// Package keeper runs one process tree under a keeper: this very executable,
// started again, that adopts every orphan of the tree and ends all of it when
// the daemon says so or is gone.
//
// The daemon cannot do this itself. A process group misses what calls setsid,
// a parent-death signal reaches only the direct child, and a daemon that
// waits for any child (wait4(-1)) steals the exit statuses of everyone else's
// commands. A keeper does its own waiting in its own process, sees the whole
// tree because it is its subreaper, and learns of the daemon's death from the
// end of a socket that only the daemon holds, so that even kill -9 counts.
//
// On macOS there is no subreaper: what calls setsid and loses its parent is
// found by its terminal or process group only, which is weaker.
package keeper

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Arg is the first argument that makes this executable a keeper.
const Arg = "__keeper"

// MarkerVariable carries INSTANCE:ID in the environment of a keeper and its
// tree, so that Sweep finds what outlived both a daemon and its keepers.
const MarkerVariable = "LOMI_KEEPER"

const (
	// defaultGrace is how long a tree has between TERM and KILL.
	defaultGrace = 2 * time.Second
	// killBound is how long the walk with KILL may take; only a process in
	// an uninterruptible wait survives the first round.
	killBound = 5 * time.Second
	// startBound covers executing the keeper and handing over the spec on a
	// machine that is busy with something else.
	startBound = 15 * time.Second
	// maxSpec is far over the largest environment that Linux accepts.
	maxSpec = 8 << 20
	// maxFiles is how many extra descriptors a tree may be given.
	maxFiles = 8
)

// ErrStart says that the program could not be started; the text after it is
// the system's reason.
var ErrStart = errors.New("starting process")

// Spec describes one tree.
type Spec struct {
	// Name is what logs call the tree ("shell", "chromium").
	Name string
	// Path is the program; it is not looked up in PATH.
	Path string
	// Argv0 is the program's own name for itself, Path when empty; a login
	// shell has a leading "-".
	Argv0 string
	// Args are the arguments after Argv0.
	Args []string
	// Env is the whole environment; nil means CleanEnv(os.Environ()).
	Env []string
	// Dir is the working folder; empty means the daemon's.
	Dir string
	// TTY, when set, becomes standard input, output and error and the
	// controlling terminal of the program. Start closes nothing: the caller
	// closes its own copy afterwards, or the terminal never reports its end.
	TTY *os.File
	// Stdin, Stdout and Stderr are used without TTY; nil means /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Files become descriptors 3, 4, … of the program.
	Files []*os.File
	// Instance names the daemon's data folder, the same after a restart; it
	// holds neither ":" nor NUL. Empty means "none", which nobody sweeps.
	Instance string
	// Grace is the time between TERM and KILL; zero means 2 s.
	Grace time.Duration
	// Logger takes what the owner of the tree cannot be told; nil discards.
	Logger *slog.Logger
}

// Exit says how the program (not its tree) ended.
type Exit struct {
	// Code is the exit code, 128 + the signal's number when a signal ended
	// it, -1 when Lost.
	Code int
	// Signal is the name of the signal that ended it, or empty.
	Signal string
	// Lost is set when the keeper was killed before it could tell.
	Lost bool
}

// Process is a started tree. It is safe for concurrent use.
type Process struct {
	name   string
	marker string
	pid    int
	keeper *exec.Cmd
	life   *net.UnixConn
	log    *slog.Logger
	grace  time.Duration

	stopOnce sync.Once
	done     chan struct{} // closed when exit is known
	gone     chan struct{} // closed when the keeper has ended
	exit     Exit          // written before done is closed
	left     int           // processes that survived KILL; before gone
}

// wireSpec is what the daemon tells a keeper, in one line of JSON.
type wireSpec struct {
	Path    string   `json:"path"`
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	TTY     bool     `json:"tty"`
	Files   int      `json:"files"`
	GraceMS int64    `json:"graceMs"`
}

// wireEvent is what a keeper reports, one line of JSON each.
type wireEvent struct {
	Event  string `json:"event"` // started, failed, exited, empty
	PID    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal string `json:"signal,omitempty"`
	Left   int    `json:"left,omitempty"`
}

// Start runs spec under a new keeper and returns once the program executes.
// The tree ends with Stop, or with this process; ctx bounds only the start.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	marker, err := newMarker(spec.Instance)
	if err != nil {
		return nil, err
	}
	if len(spec.Files) > maxFiles {
		return nil, fmt.Errorf("%w: %d extra files, at most %d", ErrStart, len(spec.Files), maxFiles)
	}
	mine, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("making the life socket: %w", err)
	}
	cmd, null, err := keeperCommand(spec, marker, theirs)
	if err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if null != nil {
		null.Close()
	}
	if err != nil {
		mine.Close()
		return nil, fmt.Errorf("starting a keeper for %s: %w", spec.Name, err)
	}
	p := &Process{
		name: spec.Name, marker: marker, keeper: cmd, life: mine,
		log: spec.Logger, grace: spec.grace(),
		done: make(chan struct{}), gone: make(chan struct{}),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	lines := bufio.NewReader(mine)
	if err := p.handshake(ctx, spec, lines); err != nil {
		mine.Close() // the keeper ends whatever it may have started
		p.reapKeeper()
		return nil, err
	}
	go p.watch(lines) // ends with the keeper; Stop waits for it through gone
	return p, nil
}

func (s Spec) grace() time.Duration {
	if s.Grace > 0 {
		return s.Grace
	}
	return defaultGrace
}

func newMarker(instance string) (string, error) {
	if instance == "" {
		instance = "none"
	}
	if strings.ContainsAny(instance, ":\x00") {
		return "", fmt.Errorf("%w: instance %q holds a separator", ErrStart, instance)
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("naming a tree: %w", err)
	}
	return instance + ":" + hex.EncodeToString(id[:]), nil
}

// keeperCommand prepares the keeper. Its descriptors are 3 the life socket,
// 4 to 6 the program's standard ones, 7 and on its extra files.
func keeperCommand(spec Spec, marker string, life *os.File) (*exec.Cmd, *os.File, error) {
	self, err := selfPath()
	if err != nil {
		return nil, nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the null device: %w", err)
	}
	std := [3]*os.File{spec.Stdin, spec.Stdout, spec.Stderr}
	for i := range std {
		if spec.TTY != nil {
			std[i] = spec.TTY
		} else if std[i] == nil {
			std[i] = null
		}
	}
	cmd := &exec.Cmd{
		Path: self,
		Args: []string{"lomi", Arg, spec.Name},
		Dir:  "/",
		// One thread of Go code is plenty for waiting, and the tree's own
		// environment travels in the spec.
		Env:         []string{"GOMAXPROCS=1", MarkerVariable + "=" + marker},
		ExtraFiles:  append([]*os.File{life, std[0], std[1], std[2]}, spec.Files...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	return cmd, null, nil
}

// handshake hands the spec over and waits for the program to execute.
func (p *Process) handshake(ctx context.Context, spec Spec, lines *bufio.Reader) error {
	env := spec.Env
	if env == nil {
		env = CleanEnv(os.Environ())
	}
	argv0 := spec.Argv0
	if argv0 == "" {
		argv0 = spec.Path
	}
	line, err := json.Marshal(wireSpec{
		Path: spec.Path, Argv: append([]string{argv0}, spec.Args...),
		Env: append(CleanEnv(env), MarkerVariable+"="+p.marker),
		Dir: spec.Dir, TTY: spec.TTY != nil, Files: len(spec.Files),
		GraceMS: p.grace.Milliseconds(),
	})
	if err != nil {
		return fmt.Errorf("encoding the spec of %s: %w", spec.Name, err)
	}
	if len(line) > maxSpec {
		return fmt.Errorf("%w: arguments and environment of %d bytes", ErrStart, len(line))
	}
	stop := context.AfterFunc(ctx, func() { p.life.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := p.life.SetDeadline(time.Now().Add(startBound)); err != nil {
		return fmt.Errorf("bounding the start of %s: %w", spec.Name, err)
	}
	if _, err := p.life.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("telling the keeper of %s: %w", spec.Name, errors.Join(err, context.Cause(ctx)))
	}
	event, err := readEvent(lines)
	if err != nil {
		return fmt.Errorf("waiting for the start of %s: %w", spec.Name, errors.Join(err, context.Cause(ctx)))
	}
	if event.Event != "started" {
		return fmt.Errorf("%w %s: %s", ErrStart, spec.Path, event.Error)
	}
	p.pid = event.PID
	return p.life.SetDeadline(time.Time{})
}

func readEvent(lines *bufio.Reader) (wireEvent, error) {
	var event wireEvent
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return event, err
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return event, fmt.Errorf("reading a keeper's report: %w", err)
	}
	return event, nil
}

// watch follows the keeper's reports until it ends, then settles what it did
// not get to say.
func (p *Process) watch(lines *bufio.Reader) {
	defer close(p.gone)
	exited, empty := false, false
	for {
		event, err := readEvent(lines)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				p.log.Warn("keeper report unreadable", "process", p.name, "err", err)
			}
			break
		}
		switch event.Event {
		case "exited":
			p.exit = Exit{Code: event.Code, Signal: event.Signal}
			exited = true
			close(p.done)
		case "empty":
			empty, p.left = true, event.Left
		}
	}
	p.life.Close()
	p.reapKeeper()
	if !empty {
		p.sweepLost()
	}
	if !exited {
		p.exit = Exit{Code: -1, Lost: true}
		close(p.done)
	}
}

// sweepLost ends the tree of a keeper that was killed.
func (p *Process) sweepLost() {
	ctx, cancel := context.WithTimeout(context.Background(), p.grace+killBound)
	defer cancel()
	killed, err := sweep(ctx, func(marker string) bool { return marker == p.marker }, p.grace)
	p.log.Warn("keeper lost", "process", p.name, "killed", killed, "err", err)
}

// reapKeeper waits for the keeper process, which ends by itself when its life
// socket is closed; it is killed when it does not.
func (p *Process) reapKeeper() {
	timer := time.AfterFunc(p.grace+2*killBound, func() { p.keeper.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := p.keeper.Wait(); err != nil && !errors.As(err, &exit) {
		p.log.Warn("keeper not reaped", "process", p.name, "err", err)
	}
}

// PID is the process id of the program, valid while Done is open.
func (p *Process) PID() int { return p.pid }

// Done is closed when the program has ended; others of its tree may live on
// until Stop.
func (p *Process) Done() <-chan struct{} { return p.done }

// Gone is closed when the whole tree has ended and the keeper with it.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Wait returns how the program ended.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// Stop ends the whole tree (TERM, after the grace KILL) and waits until
// nothing of it is left. It may be called more than once.
func (p *Process) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() { p.life.CloseWrite() })
	bound := time.NewTimer(p.grace + 2*killBound)
	defer bound.Stop()
	select {
	case <-p.gone:
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", p.name, context.Cause(ctx))
	case <-bound.C:
		// A keeper that is stopped or stuck cannot do its work; without it
		// watch finds the tree by its marker.
		p.keeper.Process.Kill()
		select {
		case <-p.gone:
		case <-ctx.Done():
			return fmt.Errorf("stopping %s: %w", p.name, context.Cause(ctx))
		}
	}
	if p.left > 0 {
		return fmt.Errorf("stopping %s: %d processes survived KILL", p.name, p.left)
	}
	return nil
}

// Child is a live process of a tree.
type Child struct {
	PID     int
	Parent  int
	Group   int
	Command string
}

// Children lists the live processes of the tree besides the program itself.
func (p *Process) Children(ctx context.Context) ([]Child, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("listing children of %s: %w", p.name, err)
	}
	var children []Child
	for _, c := range descendants(all, p.keeper.Process.Pid) {
		if c.pid != p.pid && !c.zombie {
			children = append(children, Child{PID: c.pid, Parent: c.ppid, Group: c.group, Command: commandOf(c)})
		}
	}
	return children, nil
}

// CleanEnv is env without what belongs to Lomi or to the service manager that
// started it: LOMI_ variables may hold secrets, and a program that finds the
// manager's socket would speak in the daemon's name.
func CleanEnv(env []string) []string {
	clean := make([]string, 0, len(env)+1)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "LOMI_"):
		case name == "NOTIFY_SOCKET", name == "LISTEN_FDS", name == "LISTEN_PID", name == "LISTEN_FDNAMES", name == "WATCHDOG_PID", name == "WATCHDOG_USEC":
		default:
			clean = append(clean, entry)
		}
	}
	return clean
}

// Contains reports whether a process lives in the tree. A process that cannot
// be found is an error, so that a caller who guards something fails closed.
func (p *Process) Contains(pid int) (bool, error) {
	all, err := processes()
	if err != nil {
		return false, fmt.Errorf("placing a process: %w", err)
	}
	above := ancestors(all, pid)
	for _, known := range all {
		if known.pid == pid {
			return above[p.keeper.Process.Pid], nil
		}
	}
	return false, fmt.Errorf("placing a process: no process %d", pid)
}
