package ollama

import "golang.org/x/sys/unix"

// machineMemory returns the bytes of memory of this machine, 0 when unknown.
func machineMemory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
