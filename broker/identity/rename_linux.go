package identity

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew puts a file in place only where there is none.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// The file system cannot; a link does not replace either.
		return os.Link(from, to)
	}
	return err
}
