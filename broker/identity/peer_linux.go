package identity

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func peerCredentials(fd int) (Credentials, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Credentials{}, os.NewSyscallError("getsockopt", err)
	}
	return Credentials{UID: int(c.Uid), PID: int(c.Pid)}, nil
}

// holdPeer opens the peer process itself, not its number, so that alive can
// tell whether the number still means it. From Linux 6.5 on the socket knows
// the process; before, a process that ended and whose number was taken again
// in the time since it connected is not noticed here, only its start time
// changing during the walk is.
func holdPeer(fd, pid int) (pidfd int, err error) {
	pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return -1, fmt.Errorf("holding process %d: %w", pid, err)
	}
	return pidfd, nil
}

// alive reports whether the process behind a pidfd still runs.
func alive(pidfd int) bool {
	return unix.PidfdSendSignal(pidfd, 0, nil, 0) == nil
}
