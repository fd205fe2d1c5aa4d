package terminal

import "golang.org/x/sys/unix"

// waits reports whether a system call waits for one of several files.
func waits(number int) bool {
	switch number {
	case unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2:
		return true
	}
	return false
}
