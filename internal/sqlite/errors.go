package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// The ways in which a store cannot be used. The file is left as it was found
// in every case.
var (
	ErrCorrupt    = errors.New("the store is damaged")
	ErrNewer      = errors.New("the store was written by a newer version")
	ErrForeign    = errors.New("the file is another program's database")
	ErrReadOnly   = errors.New("the store cannot be written")
	ErrUnsuitable = errors.New("the place of the store cannot keep it safe")
	ErrFull       = errors.New("no space is left for the store")
	ErrBusy       = errors.New("another process holds the store")
	ErrReplaced   = errors.New("the files of the store were replaced while it was open")
	ErrClosed     = errors.New("the store is closed")
)

// Wrap adds the sentinel that an error of the driver or of the file system
// belongs to. Any other error, nil included, comes back unchanged.
func Wrap(err error) error {
	if err == nil || wrapped(err) {
		return err
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		if kind := kindOf(e.Code()); kind != nil {
			return fmt.Errorf("%w: %w", kind, err)
		}
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}

func wrapped(err error) bool {
	for _, kind := range []error{ErrCorrupt, ErrNewer, ErrForeign, ErrReadOnly, ErrUnsuitable, ErrFull, ErrBusy, ErrReplaced, ErrClosed} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func kindOf(code int) error {
	switch code {
	case lib.SQLITE_IOERR_WRITE:
		// A file-size limit or a full quota arrives as a write error, not as
		// "full".
		return ErrFull
	}
	switch code & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return ErrCorrupt
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return ErrReadOnly
	case lib.SQLITE_FULL:
		return ErrFull
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return ErrBusy
	}
	return nil
}

// IsConstraint reports whether a statement was refused by a constraint of the
// schema. Such a statement changed nothing and the transaction goes on.
func IsConstraint(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == lib.SQLITE_CONSTRAINT
}

func fromSQLite(err error) bool {
	_, ok := errors.AsType[*driver.Error](err)
	return ok
}
