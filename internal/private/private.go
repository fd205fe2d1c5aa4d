// Package private writes files that only their owner reads.
package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces a file whole or not at all, with mode 0600, and synced: after
// a crash the old text or the new one is there.
func Write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600 by itself
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
