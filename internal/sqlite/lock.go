package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OwnerLock says that this process alone uses a folder. The kernel drops it
// with the process, however that ends.
type OwnerLock struct{ file *os.File }

// OwnedError says who holds the lock. PID is 0 when the holder has not
// written it yet.
type OwnedError struct {
	Path string
	PID  int
}

// Error implements error.
func (e *OwnedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// Acquire takes the lock file at path or fails at once with an *OwnedError. A
// lock belongs to the inode, so the same folder by another name (a link, a
// bind mount) is found out too.
func Acquire(path string) (*OwnerLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of a lock: %w", Wrap(err))
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", Wrap(err))
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &OwnedError{Path: path, PID: holder(file)}
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("writing a lock: %w", Wrap(err)), file.Close())
	}
	if _, err := file.WriteAt([]byte(pid), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("writing a lock: %w", Wrap(err)), file.Close())
	}
	return &OwnerLock{file: file}, nil
}

func holder(file *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Release gives the lock back. The file stays: removing it would let two
// processes hold locks on two files of the same name.
func (l *OwnerLock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("releasing a lock: %w", err)
	}
	return nil
}
