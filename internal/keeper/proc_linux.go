package keeper

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts says that orphans of the tree become children of the keeper.
const adopts = true

// selfPath names this executable even after its file was replaced by an
// update.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// becomeKeeper makes this process the one that orphans of its tree fall to.
func becomeKeeper() {
	// Fails only before Linux 3.4.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	// What the daemon inherited from whoever started it is not the tree's.
	// Before Linux 5.11 those few descriptors stay.
	_ = unix.CloseRange(lifeFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	// Otherwise the process list shows "exe".
	_ = os.WriteFile("/proc/self/comm", []byte("lomi-keeper"), 0)
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return pairFiles(fds)
}

// processes reads the process table. An entry that vanishes while it is read
// is left out.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	all := make([]process, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := processOf(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// processOf reads one entry.
func processOf(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may hold anything, so fields count from the
	// last closing one: state is the 3rd field, the start time the 22nd.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	number := func(field int) uint64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return uint64(n)
	}
	return process{
		pid: pid, ppid: int(number(4)), group: int(number(5)),
		tty: number(7), start: number(22),
		zombie: fields[0] == "Z" || fields[0] == "X",
	}, true
}

// markerOf reads the marker from the environment that p was executed with.
func markerOf(p process) string {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(MarkerVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

func commandOf(p process) string {
	dir := "/proc/" + strconv.Itoa(p.pid)
	if raw, err := os.ReadFile(dir + "/cmdline"); err == nil && len(raw) > 0 {
		return readable(raw)
	}
	raw, _ := os.ReadFile(dir + "/comm")
	return readable(raw)
}

// signalProcess signals exactly p: a pid that was used again in between is
// left alone, because the descriptor is taken first and the start time
// compared after.
func signalProcess(p process, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if err != unix.ENOSYS {
		return
	}
	now, ok := processOf(p.pid)
	if !ok || now.start != p.start {
		return
	}
	if err == nil {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		return
	}
	_ = syscall.Kill(p.pid, sig)
}
