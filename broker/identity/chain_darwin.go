package identity

import "fmt"

// Chain is not read on this system: it has no pidfd, and a number can be taken
// again between two looks.
func Chain(pid int) ([]Process, error) {
	return nil, fmt.Errorf("%w: not on this system", ErrNoChain)
}
