package identity

import "errors"

// Process is one process as it was read. PID and Start together name it; PID
// alone is used again after its end.
type Process struct {
	PID     int
	Parent  int
	Session int    // pid of the session leader
	Start   uint64 // clock ticks since boot
	Keeper  bool   // it carries the mark of a keeper, or of a keeper's child
}

// maxChain is far more than any chain of parents has; a longer one is a loop
// that was read while it changed.
const maxChain = 512

// ErrNoChain is a chain of processes that cannot be read or does not reach the
// first process.
var ErrNoChain = errors.New("the chain of processes cannot be read")
