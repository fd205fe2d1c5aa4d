package terminal

import "golang.org/x/sys/unix"

// readsTerminal cannot look into a process here. Another program than the
// shell that drives the terminal itself and is silent is taken to wait; so is
// a hidden line entry.
func readsTerminal(_ int, tty *master) bool {
	canonical, echo := tty.lineMode()
	return !canonical || !echo
}

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
