package terminal

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What the system tells of the call in which a process is blocked.
const (
	callBlocked = iota
	callNone    // it runs
	callHidden  // another user's, or a system that does not tell
)

// systemCall is the call in which a process is blocked, with its first
// argument as a descriptor.
func systemCall(pid int) (number int, fd uint64, state int) {
	call, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	if err != nil {
		return 0, 0, callHidden
	}
	fields := strings.Fields(string(call))
	if len(fields) < 2 {
		return 0, 0, callNone // "running"
	}
	if number, err = strconv.Atoi(fields[0]); err != nil {
		return 0, 0, callNone
	}
	if fd, err = strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64); err != nil {
		return 0, 0, callNone
	}
	return number, fd, callBlocked
}

// readsTerminal reports whether a process of the group is blocked in a read
// of the terminal, or in a wait while it drives the terminal itself (pagers,
// editors, line editors). A program of another user (sudo) shows neither; then
// a terminal that edits lines without echo is a password prompt.
func readsTerminal(group int, tty *master) bool {
	canonical, echo := tty.lineMode()
	members, opaque := 0, false
	for _, pid := range groupMembers(group) {
		members++
		number, fd, state := systemCall(pid)
		switch {
		case state == callHidden:
			opaque = true
		case state == callNone:
		case number == unix.SYS_READ:
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

// idleShell reports whether a shell without an editor is blocked in the read of
// its next line, as far as the system lets us see.
func idleShell(pid int, tty *master) bool {
	number, fd, state := systemCall(pid)
	if state == callHidden {
		return true
	}
	return tty.foreground() == pid && state == callBlocked && number == unix.SYS_READ && fd == 0
}

// handedOver says who has the terminal. A program runs when the shell waits for
// it, with all programs of its pipeline, and each of them is what it will be: a
// process that still is a copy of the shell would lose Ctrl+C, unless it is a
// subshell that has a program of its own. That program may have been started
// after the processes were listed, so all must be so twice.
func handedOver(shell int, tty *master) holder {
	group := tty.foreground()
	if group <= 0 || group == shell {
		return shellItself
	}
	for range 2 {
		for _, pid := range groupMembers(group) {
			if copyOf(shell, pid) && !waitsForChild(pid) {
				return startsProgram
			}
		}
		if !waitsForChild(shell) {
			return startsProgram
		}
	}
	return programRuns
}

// commandLine is what a process was started with; a zombie has none.
func commandLine(pid int) string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(line)
}

// halfNamed reports whether a process is just becoming another program: it has
// the name already, but not the arguments.
func halfNamed(pid int) bool { return commandLine(pid) == "" }

// copyOf reports whether a child of a shell is still a copy of it.
func copyOf(shell, child int) bool {
	line := commandLine(child)
	return line != "" && line == commandLine(shell)
}

// waitsForChild reports whether a shell waits for its children, which zsh does
// by waiting for the signal. One that cannot be seen is taken to.
func waitsForChild(shell int) bool {
	number, _, state := systemCall(shell)
	switch state {
	case callHidden:
		return true
	case callNone:
		return false
	}
	return number == unix.SYS_WAIT4 || number == unix.SYS_WAITID || number == unix.SYS_RT_SIGSUSPEND
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
