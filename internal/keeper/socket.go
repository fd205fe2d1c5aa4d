package keeper

import (
	"errors"
	"net"
	"os"
)

// pairFiles wraps a socket pair: the daemon's end waits with deadlines, the
// keeper's end is passed on as it is.
func pairFiles(fds [2]int) (*net.UnixConn, *os.File, error) {
	mine, theirs := os.NewFile(uintptr(fds[0]), "life"), os.NewFile(uintptr(fds[1]), "life")
	conn, err := net.FileConn(mine) // duplicates, close-on-exec
	mine.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		theirs.Close()
		return nil, nil, errors.New("socket pair is not of the Unix family")
	}
	return unixConn, theirs, nil
}
