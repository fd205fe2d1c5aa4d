package identity

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Credentials is what the kernel says about the process that connected. It
// may have handed the connection to another process since.
type Credentials struct {
	UID int
	PID int
}

// PeerOf asks the kernel who is at the other end of a Unix socket.
func PeerOf(conn net.Conn) (Credentials, error) {
	var c Credentials
	err := withSocket(conn, func(fd int) (err error) {
		c, err = peerCredentials(fd)
		return err
	})
	if err != nil {
		return Credentials{}, fmt.Errorf("asking who the peer is: %w", err)
	}
	return c, nil
}

// Identify is PeerOf in the form that the control socket's server takes.
func Identify(conn net.Conn) (uid, pid int, err error) {
	c, err := PeerOf(conn)
	return c.UID, c.PID, err
}

func withSocket(conn net.Conn, f func(fd int) error) error {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return err
	}
	return onDescriptor(raw, f)
}

func onDescriptor(raw syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
