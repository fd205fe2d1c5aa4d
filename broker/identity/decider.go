package identity

import (
	"errors"
	"fmt"
	"net"
)

// ErrPageOnly is a decision that a person can take in the page only, because
// the process at the other end may be an agent's. Its text says why.
var ErrPageOnly = errors.New("decide this in the page")

// Decider judges where a decision comes from. What an agent can run must not
// be able to approve what the agent asks for.
type Decider struct {
	// Daemon is the pid of the daemon itself.
	Daemon int
	// Keepers lists the pids of the running keepers; nil for none. The mark in
	// their environment is looked for as well.
	Keepers func() []int
	// Helpers lists the peers of all connections that are open or wait for
	// approval; nil for none. The built-in chat's, the daemon, is left out.
	Helpers func() []int
	// PageOnly turns decisions on the terminal off.
	PageOnly bool
}

// Check reports whether the process at the other end of conn may take a
// decision. subject is the peer that the decision is about (the helper of a
// pairing), 0 for none: a helper whose host cannot be told from the person's
// shell is approved in the page only. A refusal is ErrPageOnly.
func (d *Decider) Check(conn net.Conn, subject int) error {
	if d.PageOnly {
		return fmt.Errorf("%w: decisions on the terminal are turned off", ErrPageOnly)
	}
	peer, err := PeerOf(conn)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPageOnly, err)
	}
	if err := d.check(conn, peer.PID, subject); err != nil {
		return fmt.Errorf("%w: %w", ErrPageOnly, err)
	}
	return nil
}
