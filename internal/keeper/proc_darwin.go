package keeper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts is false: macOS has no subreaper. What loses its parent is found by
// the terminal and the process group of the leader.
const adopts = false

func selfPath() (string, error) { return os.Executable() }

func becomeKeeper() {}

func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return pairFiles(fds)
}

func processes() ([]process, error) {
	entries, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	all := make([]process, 0, len(entries))
	for i := range entries {
		all = append(all, fromKernel(&entries[i]))
	}
	return all, nil
}

func fromKernel(k *unix.KinfoProc) process {
	const zombieState = 5 // SZOMB
	p := process{
		pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		start:  uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
		zombie: k.Proc.P_stat == zombieState,
	}
	if k.Eproc.Tdev != -1 { // NODEV
		p.tty = uint64(uint32(k.Eproc.Tdev))
	}
	return p
}

func processOf(pid int) (process, bool) {
	entries, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil || len(entries) != 1 {
		return process{}, false
	}
	return fromKernel(&entries[0]), true
}

// arguments returns the argument and environment strings of p.
func arguments(p process) (argv, env [][]byte) {
	raw, err := unix.SysctlRaw("kern.procargs2", p.pid)
	if err != nil || len(raw) < 4 {
		return nil, nil
	}
	count := int(binary.LittleEndian.Uint32(raw))
	parts := bytes.Split(raw[4:], []byte{0})
	parts = parts[1:] // the executable's path, padded with NULs
	for len(parts) > 0 && len(parts[0]) == 0 {
		parts = parts[1:]
	}
	count = max(0, min(count, len(parts)))
	return parts[:count], parts[count:]
}

func markerOf(p process) string {
	_, env := arguments(p)
	for _, entry := range env {
		if value, ok := bytes.CutPrefix(entry, []byte(MarkerVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

func commandOf(p process) string {
	argv, _ := arguments(p)
	return readable(bytes.Join(argv, []byte{' '}))
}

// signalProcess compares start times first; between that and the signal the
// pid could in theory be used again.
func signalProcess(p process, sig syscall.Signal) {
	if now, ok := processOf(p.pid); ok && now.start == p.start {
		_ = syscall.Kill(p.pid, sig)
	}
}
