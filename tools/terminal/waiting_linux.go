package terminal

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readsTerminal reports whether a process of the group is blocked in a read
// of the terminal, or in a wait while it drives the terminal itself (pagers,
// editors, line editors). A program of another user (sudo) shows neither; then
// a terminal that edits lines without echo is a password prompt.
func readsTerminal(group int, tty *master) bool {
	canonical, echo := tty.lineMode()
	members, opaque := 0, false
	for _, pid := range groupMembers(group) {
		members++
		call, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
		if err != nil {
			opaque = true
			continue
		}
		fields := strings.Fields(string(call))
		if len(fields) < 2 {
			continue // "running"
		}
		number, _ := strconv.Atoi(fields[0])
		switch {
		case number == unix.SYS_READ:
			fd, err := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 31)
			if err != nil {
				continue
			}
			target, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.FormatUint(fd, 10))
			if target == tty.name || target == "/dev/tty" {
				return true
			}
		case !canonical && waits(number):
			return true
		}
	}
	return members > 0 && opaque && canonical && !echo
}

// groupMembers lists the processes of a process group.
func groupMembers(group int) []int {
	if group <= 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var members []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if of, err := unix.Getpgid(pid); err == nil && of == group {
				members = append(members, pid)
			}
		}
	}
	return members
}

// programName is what the leader of a process group is called.
func programName(group int) string {
	if group <= 0 {
		return ""
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(group) + "/comm")
	if err != nil {
		return ""
	}
	return cleanLine(strings.TrimSpace(string(name)))
}

// folderOf is the working folder of a process.
func folderOf(pid int) string {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(dir, "\uFFFD")
}
