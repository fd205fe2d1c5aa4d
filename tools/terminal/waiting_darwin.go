package terminal

import "golang.org/x/sys/unix"

// readsTerminal cannot look into a process here. Another program than the
// shell that drives the terminal itself and is silent is taken to wait; so is
// a hidden line entry.
func readsTerminal(_ int, tty *master) bool {
	canonical, echo := tty.lineMode()
	return !canonical || !echo
}

// idleShell cannot look into a process here; that the shell has the terminal
// is all there is to see.
func idleShell(pid int, tty *master) bool { return tty.foreground() == pid }

// handedOver says who has the terminal. It sees the name of the group's leader at most: a process that still
// is called like the shell may be a copy of it.
func handedOver(shell int, tty *master) holder {
	switch group := tty.foreground(); {
	case group <= 0 || group == shell:
		return shellItself
	case copyOf(shell, group):
		return startsProgram
	}
	return programRuns
}

// copyOf reports whether a child of a shell may still be a copy of it.
func copyOf(shell, child int) bool { return programName(child) == programName(shell) }

// halfNamed cannot be seen here.
func halfNamed(int) bool { return false }

// waitsForChild cannot be seen here.
func waitsForChild(int) bool { return false }

func programName(group int) string {
	if group <= 0 {
		return ""
	}
	entries, err := unix.SysctlKinfoProcSlice("kern.proc.pid", group)
	if err != nil || len(entries) != 1 {
		return ""
	}
	return cleanLine(unix.ByteSliceToString(entries[0].Proc.P_comm[:]))
}

func folderOf(int) string { return "" }
