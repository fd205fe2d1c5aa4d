//go:build !linux && !darwin

package ollama

// machineMemory returns the bytes of memory of this machine, 0 when unknown.
func machineMemory() uint64 { return 0 }
