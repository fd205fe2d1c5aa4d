package keeper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// The descriptors that keeperCommand passes.
const (
	lifeFD  = 3
	stdFD   = 4
	extraFD = 7
)

// pollEvery is how often a keeper looks at the tree while it ends it.
const pollEvery = 10 * time.Millisecond

// Hook turns this process into a keeper when its arguments say so and does
// not return then. cmd/lomi calls it before anything else, and so does the
// TestMain of every package that starts trees.
func Hook() {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(Main(os.Args[2:]))
	}
}

// Main is the whole life of a keeper process; it returns its exit code.
func Main([]string) int {
	life := os.NewFile(lifeFD, "life")
	if info, err := life.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
		fmt.Fprintln(os.Stderr, "lomi: a keeper is started by the daemon only")
		return 2
	}
	// A handler, not "ignore": ignored signals stay ignored through exec, and
	// the whole tree would be deaf to them. What the terminal or a shutdown
	// sends to everyone must not end a keeper before its tree.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	becomeKeeper()

	lines := bufio.NewReader(io.LimitReader(life, maxSpec+1))
	var spec wireSpec
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return 1 // the daemon died before it said what to run
	}
	if err := json.Unmarshal(line, &spec); err != nil {
		return 1
	}
	k := &keeper{spec: spec, life: life, empty: make(chan struct{})}
	if err := k.start(); err != nil {
		k.report(wireEvent{Event: "failed", Error: err.Error()})
		return 1
	}
	return k.keep(lines)
}

// keeper is the state of a keeper process.
type keeper struct {
	spec   wireSpec
	life   *os.File
	leader int
	tty    uint64        // the leader's terminal, where the platform tells
	empty  chan struct{} // closed when nothing is left to wait for

	mu sync.Mutex // one report at a time
}

// start executes the program and closes the keeper's copies of its files, so
// that the ends of pipes and of the terminal are seen.
func (k *keeper) start() error {
	files := []uintptr{stdFD, stdFD + 1, stdFD + 2}
	for i := range k.spec.Files {
		files = append(files, uintptr(extraFD+i))
	}
	syscall.CloseOnExec(lifeFD)
	for _, fd := range files {
		syscall.CloseOnExec(int(fd))
	}
	attr := &syscall.ProcAttr{
		Dir: k.spec.Dir, Env: k.spec.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: k.spec.TTY, Ctty: 0},
	}
	pid, err := syscall.ForkExec(k.spec.Path, k.spec.Argv, attr)
	if err != nil {
		return err
	}
	for _, fd := range files {
		syscall.Close(int(fd))
	}
	k.leader = pid
	if p, ok := processOf(pid); ok {
		k.tty = p.tty
	}
	k.report(wireEvent{Event: "started", PID: pid})
	return nil
}

// keep waits for the end of the tree or of the daemon's interest in it.
func (k *keeper) keep(life io.Reader) int {
	go k.reap() // ends when nothing is left; the process ends with it
	released := make(chan struct{})
	go func() { // ends at the end of the life socket, or with the process
		io.Copy(io.Discard, life)
		close(released)
	}()
	left := 0
	if !k.waitEmpty(released) {
		left = k.terminate(time.Duration(k.spec.GraceMS) * time.Millisecond)
	}
	k.report(wireEvent{Event: "empty", Left: left})
	return 0
}

// waitEmpty returns true when the tree ended by itself.
func (k *keeper) waitEmpty(released <-chan struct{}) bool {
	select {
	case <-released:
		return false
	case <-k.empty:
	}
	if adopts {
		return true
	}
	// Without adoption, having no child proves nothing: look for what
	// still belongs to the tree.
	ticker := time.NewTicker(20 * pollEvery)
	defer ticker.Stop()
	for len(k.live()) > 0 {
		select {
		case <-released:
			return false
		case <-ticker.C:
		}
	}
	return true
}

// reap is the only wait4(-1) of Lomi: here every child is the tree's.
func (k *keeper) reap() {
	defer close(k.empty)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		case pid == k.leader && (status.Exited() || status.Signaled()):
			event := wireEvent{Event: "exited", Code: status.ExitStatus()}
			if status.Signaled() {
				event.Code = 128 + int(status.Signal())
				event.Signal = status.Signal().String()
			}
			k.report(event)
		}
	}
}

// terminate ends the tree and returns how many processes survived even KILL.
func (k *keeper) terminate(grace time.Duration) int {
	for _, p := range k.live() {
		signalProcess(p, syscall.SIGTERM)
		if k.spec.TTY {
			// Interactive shells ignore TERM; a hangup is what the
			// closing of a terminal means to them.
			signalProcess(p, syscall.SIGHUP)
		}
		signalProcess(p, syscall.SIGCONT)
	}
	if k.emptyWithin(grace, func() {}) {
		return 0
	}
	k.emptyWithin(killBound, func() {
		for _, p := range k.live() {
			signalProcess(p, syscall.SIGKILL)
		}
	})
	return len(k.live())
}

// emptyWithin repeats step until the tree is empty or the time is over.
func (k *keeper) emptyWithin(bound time.Duration, step func()) bool {
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		step()
		select {
		case <-k.empty:
			if adopts || len(k.live()) == 0 {
				return true
			}
		default:
		}
		select {
		case <-deadline.C:
			return false
		case <-ticker.C:
		}
	}
}

// live lists the processes of the tree that still run.
func (k *keeper) live() []process {
	all, err := processes()
	if err != nil {
		return nil
	}
	self := os.Getpid()
	members := descendants(all, self)
	if !adopts {
		seen := map[int]bool{self: true}
		for _, p := range members {
			seen[p.pid] = true
		}
		for _, p := range all {
			mine := p.group == k.leader || k.tty != 0 && p.tty == k.tty
			if mine && !seen[p.pid] {
				members = append(members, p)
			}
		}
	}
	live := members[:0]
	for _, p := range members {
		if !p.zombie {
			live = append(live, p)
		}
	}
	return live
}

// report writes one line; a daemon that is gone is not told.
func (k *keeper) report(event wireEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line, err := json.Marshal(event)
	if err != nil {
		return
	}
	k.life.Write(append(line, '\n'))
}
