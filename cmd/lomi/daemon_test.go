package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readyFile is what scripts rely on in --ready-file.
type readyFile struct {
	URL           string `json:"url"`
	LoginURL      string `json:"loginURL"`
	Socket        string `json:"socket"`
	AdminSocket   string `json:"adminSocket"`
	DiscoveryFile string `json:"discoveryFile"`
	DiscoveryKey  string `json:"discoveryKey"`
	InstanceID    string `json:"instanceId"`
	PID           int    `json:"pid"`
}

// daemon is a running `lomi serve` on folders of its own.
type daemon struct {
	t       testing.TB
	binary  string
	data    string
	config  string
	project string
	env     []string // beside the test's own
	args    []string // beside the folders
	ready   readyFile

	cmd    *exec.Cmd
	log    *output
	exited chan struct{}
	seen   map[int]process // every process of its tree that was ever looked at
}

// startDaemon starts a daemon that ends with the test, at the latest. Whatever
// way it ends, nothing that it started may be left.
func startDaemon(t testing.TB, change ...func(*daemon)) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{
		t: t, binary: build(t), data: filepath.Join(dir, "data"), config: filepath.Join(dir, "config"),
		project: filepath.Join(dir, "project"), seen: map[int]process{},
		// A machine with an Ollama of its own must not change what a test sees.
		env: []string{"OLLAMA_HOST=127.0.0.1:9", "SHELL=/bin/bash", "HOME=" + dir},
	}
	if err := os.Mkdir(d.project, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(d)
	}
	d.start()
	t.Cleanup(d.stop)
	return d
}

// start runs the daemon and waits until it serves.
func (d *daemon) start() {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "ready.json")
	args := append([]string{"serve", "--data", d.data, "--config", d.config, "--listen", "127.0.0.1:0", "--no-open", "--ready-file", file}, d.args...)
	d.log = &output{}
	d.cmd = exec.Command(d.binary, args...)
	d.cmd.Dir = d.project
	d.cmd.Env = append(os.Environ(), d.env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.WaitDelay = patience
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, exited := d.cmd, make(chan struct{})
	d.exited = exited
	go func() { // ends with the daemon, which stop ends
		cmd.Wait()
		close(exited)
	}()
	until(d.t, "the daemon serves", func() bool {
		select {
		case <-exited:
			d.t.Fatalf("the daemon ended before it served:\n%s", d.log)
		default:
		}
		raw, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(raw, &d.ready) == nil
	})
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		d.t.Errorf("the ready file has mode %v (%v), want 0600", info.Mode(), err)
	}
}

// stop ends the daemon as a service manager does.
func (d *daemon) stop() {
	d.t.Helper()
	d.look()
	select {
	case <-d.exited: // a test stopped or killed it
	default:
		d.cmd.Process.Signal(syscall.SIGTERM)
		if !within(patience, d.ended) {
			d.cmd.Process.Kill()
			d.t.Errorf("the daemon did not end within %v of SIGTERM", patience)
		} else if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			d.t.Errorf("the daemon ended with %d", code)
		}
	}
	d.childless(patience)
	if d.t.Failed() {
		d.t.Logf("the daemon said:\n%s", d.log)
	}
}

// kill ends the daemon as nothing can prepare for.
func (d *daemon) kill() {
	d.t.Helper()
	d.look()
	d.cmd.Process.Kill()
	<-d.exited
}

func (d *daemon) ended() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

// childless fails the test if any process of the tree outlives the limit.
func (d *daemon) childless(limit time.Duration) {
	d.t.Helper()
	var left []process
	if !within(limit, func() bool { left = d.left(); return len(left) == 0 }) {
		for _, p := range left {
			d.t.Errorf("still alive %v after the daemon: %v", limit, p)
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// lomi runs the command line on this daemon's folders.
func (d *daemon) lomi(args ...string) ran {
	d.t.Helper()
	return runIn(d.t, d.project, append(os.Environ(), d.env...), nil, d.binary, append(args, "--data", d.data, "--config", d.config)...)
}

// lomiJSON is lomi for a command that must succeed and print JSON.
func (d *daemon) lomiJSON(into any, args ...string) {
	d.t.Helper()
	r := d.lomi(append(args, "--json")...)
	if r.code != 0 {
		d.t.Fatalf("lomi %s ended with %d: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		d.t.Fatalf("lomi %s: %v in %s", strings.Join(args, " "), err, r.stdout)
	}
}

// process is one process, told from a later one of the same number by when it
// began.
type process struct {
	pid, parent int
	start       string
	state       string
	command     string
	marked      bool // carries the mark of this daemon's keepers
}

func (p process) String() string {
	return fmt.Sprintf("pid %d (parent %d, %s) %s", p.pid, p.parent, p.state, p.command)
}

// look remembers the processes below the daemon. Chromium's children write
// over their environment, so the tree is the only sign of them.
func (d *daemon) look() {
	all := processes(d.mark())
	tree := map[int]bool{d.cmd.Process.Pid: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !tree[p.pid] && (tree[p.parent] || p.marked) {
				tree[p.pid], grown = true, true
				d.seen[p.pid] = p
			}
		}
	}
}

// left lists what is still there of the daemon's tree.
func (d *daemon) left() []process {
	var left []process
	for _, p := range processes(d.mark()) {
		known, ok := d.seen[p.pid]
		if p.state != "Z" && (p.marked || ok && known.start == p.start) {
			left = append(left, p)
		}
	}
	return left
}

// mark is what the keepers of a data folder carry in their environment, before
// and after a restart.
func (d *daemon) mark() string {
	sum := sha256.Sum256([]byte(d.data))
	return "LOMI_KEEPER=" + hex.EncodeToString(sum[:8]) + ":"
}

// processes reads /proc. What ends meanwhile is left out.
func processes(mark string) []process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []process
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		end := bytes.LastIndexByte(raw, ')')
		fields := strings.Fields(string(raw[end+1:]))
		dir := filepath.Dir(path)
		p := process{state: fields[0], start: fields[19]}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.parent, _ = strconv.Atoi(fields[1])
		if command, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			p.command = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		}
		if environ, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil {
			p.marked = slices.ContainsFunc(strings.Split(string(environ), "\x00"), func(v string) bool { return strings.HasPrefix(v, mark) })
		}
		all = append(all, p)
	}
	return all
}

// resident is the resident memory of a process in bytes.
func resident(t testing.TB, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("the process has no resident memory: it has ended")
	return 0
}
