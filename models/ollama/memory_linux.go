package ollama

import "golang.org/x/sys/unix"

// machineMemory returns the bytes of memory of this machine, 0 when unknown.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
