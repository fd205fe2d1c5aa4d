package identity

import (
	"os"

	"golang.org/x/sys/unix"
)

func peerCredentials(fd int) (Credentials, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Credentials{}, os.NewSyscallError("getsockopt", err)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return Credentials{}, os.NewSyscallError("getsockopt", err)
	}
	return Credentials{UID: int(c.Uid), PID: pid}, nil
}
