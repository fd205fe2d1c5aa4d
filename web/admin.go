package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"lomi/broker/identity"
)

// listenAdmin opens the admin socket, 0600. The data folder's lock is held by
// now, so a socket that is there belongs to a daemon that is gone; it is tried
// all the same, because a live one must never be replaced.
func listenAdmin(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s is in the way: it is no socket; move it away", path)
		}
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("another process answers on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing a dead admin socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the admin socket to others: %w", err), l.Close())
	}
	return l, nil
}

// peerOf remembers who is at the other end of an admin connection. A process
// of another user gets no further, whatever the socket's mode says.
func (s *Server) peerOf(ctx context.Context, conn net.Conn) context.Context {
	credentials, err := identity.PeerOf(conn)
	if err != nil || credentials.UID != os.Getuid() {
		s.cfg.Logger.Warn("refused a peer at the admin socket", "err", err)
		conn.Close()
		return ctx
	}
	p := &peer{decide: func(subject int) error {
		if subject == os.Getpid() {
			subject = 0 // the built-in chat's helper is the daemon
		}
		if err := s.cfg.Decider.Check(conn, subject); err != nil {
			s.cfg.Logger.Warn("refused a decision at the admin socket", "err", err)
			return errPageOnly
		}
		return nil
	}}
	return context.WithValue(ctx, peerKey{}, p)
}
