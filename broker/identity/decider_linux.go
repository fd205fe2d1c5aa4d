package identity

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

func (d *Decider) check(conn net.Conn, pid, subject int) error {
	var pidfd int
	err := withSocket(conn, func(fd int) (err error) {
		pidfd, err = holdPeer(fd, pid)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	chain, err := stableChain(pid)
	if err != nil {
		return err
	}
	if !alive(pidfd) {
		return errors.New("the process has ended")
	}
	return d.judge(chain, subject)
}

// stableChain is a chain that was the same twice. A parent that ends between
// hands its children on, which changes the chain.
func stableChain(pid int) ([]Process, error) {
	first, err := Chain(pid)
	if err != nil {
		return nil, err
	}
	second, err := Chain(pid)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(first, second) {
		return nil, fmt.Errorf("%w: it changed while it was read", ErrNoChain)
	}
	return first, nil
}

// judge looks for anything of ours, or of a host, among the person's processes.
func (d *Decider) judge(chain []Process, subject int) error {
	var keepers []int
	if d.Keepers != nil {
		keepers = d.Keepers()
	}
	for _, p := range chain {
		switch {
		case p.PID == d.Daemon:
			return errors.New("the process was started by Lomi")
		case p.Keeper || slices.Contains(keepers, p.PID):
			return errors.New("the process runs inside Lomi")
		}
	}
	if err := d.judgeHosts(chain); err != nil {
		return err
	}
	if subject == 0 || subject == d.Daemon {
		return nil
	}
	host, err := hostChain(subject)
	if err != nil {
		return err
	}
	if len(host) < 2 {
		return errors.New("the host of this helper cannot be told from a person's shell")
	}
	return nil
}

func (d *Decider) judgeHosts(chain []Process) error {
	if d.Helpers == nil {
		return nil
	}
	for _, pid := range d.Helpers() {
		if pid == d.Daemon {
			continue
		}
		host, err := hostChain(pid)
		if err != nil {
			// Its connection is open, so another process holds it now; whose that
			// is nobody can tell.
			return fmt.Errorf("the host of a connected helper: %w", err)
		}
		for _, p := range host {
			if slices.Contains(chain, p) {
				return errors.New("the process belongs to an MCP host that is connected or waits for approval")
			}
		}
	}
	return nil
}

// hostChain is a helper and its ancestors up to, without, its session leader:
// the MCP host and what started it. The leader is the shell that the person
// uses too. A helper that leads its own session has no such ancestors.
func hostChain(pid int) ([]Process, error) {
	chain, err := Chain(pid)
	if err != nil {
		return nil, err
	}
	leader := chain[0].Session
	if chain[0].PID == leader {
		return chain[:1], nil
	}
	end := slices.IndexFunc(chain, func(p Process) bool { return p.PID == leader })
	if end < 0 {
		// The leader has ended or is no ancestor. Processes of the session are
		// the host's; those above belong to nobody that we know.
		end = slices.IndexFunc(chain, func(p Process) bool { return p.Session != leader })
	}
	if end < 0 {
		end = len(chain)
	}
	return chain[:end], nil
}
