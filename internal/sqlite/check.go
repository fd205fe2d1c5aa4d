package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkFiles looks at a store before SQLite does: opening a damaged file may
// already change it, and SQLite drops a damaged log without a word.
func checkFiles(config Config) error {
	for _, path := range []string{config.Path, config.Path + "-wal", config.Path + "-shm"} {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at %s: %w", path, Wrap(err))
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is not a regular file", ErrUnsuitable, path)
		}
	}
	if err := checkHeader(config); err != nil {
		return err
	}
	return checkWAL(config.Path+"-wal", config.MaxWAL)
}

// Offsets in the first page, from SQLite's file format.
const (
	headerSize    = 100
	offsetVersion = 60
	offsetAppID   = 68
	headerMagic   = "SQLite format 3\x00"
)

func checkHeader(config Config) error {
	file, err := os.Open(config.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a store: %w", Wrap(err))
	}
	defer file.Close()
	var header [headerSize]byte
	n, err := io.ReadFull(file, header[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil // a file that nothing was written to yet
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, config.Path, n)
	case err != nil:
		return fmt.Errorf("reading a store: %w", Wrap(err))
	case string(header[:len(headerMagic)]) != headerMagic:
		return fmt.Errorf("%w: %s does not begin as a database does", ErrCorrupt, config.Path)
	}
	version := int(int32(binary.BigEndian.Uint32(header[offsetVersion:])))
	application := int32(binary.BigEndian.Uint32(header[offsetAppID:]))
	return checkVersion(config, version, application)
}

func checkVersion(config Config, version int, application int32) error {
	if version == 0 && application == 0 {
		return nil // new, or still in the log only
	}
	if application != config.Application {
		return fmt.Errorf("%w: %s has application id %#x", ErrForeign, config.Path, application)
	}
	if known := len(config.Migrations); version > known {
		return fmt.Errorf("%w: %s has version %d, this program knows %d", ErrNewer, config.Path, version, known)
	}
	return nil
}

// private creates the file for its owner alone, or takes the rights of others
// away. SQLite gives the log the mode of the file.
func private(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, Wrap(err))
	}
	err = file.Chmod(0o600)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("protecting %s: %w", path, Wrap(err))
	}
	// SQLite syncs what is in the file, not the names that lead to it.
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return err
	}
	err = syncFolder(filepath.Dir(filepath.Dir(path)))
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder that we may not read is not one that we made
	}
	return err
}

// checkFolder refuses a folder on which a committed row may vanish or a lock
// means nothing. The names come first because a network file system passes
// every probe on a good day.
func checkFolder(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("asking for the file system of %s: %w", dir, err)
	}
	if reason := unsuitable(&stat); reason != "" {
		return fmt.Errorf("%w: %s is on %s", ErrUnsuitable, dir, reason)
	}
	if err := probe(dir); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsuitable, dir, Wrap(err))
	}
	return nil
}

// probe does once what SQLite will do later, so that a sandbox without the
// right to truncate, lock or map a file fails now and not at the first
// checkpoint.
func probe(dir string) (err error) {
	file, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("creating a file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, os.Getpagesize())
	if _, err := file.Write(page); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("locking a file: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Len: 1}
	if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock); err != nil {
		return fmt.Errorf("locking a part of a file: %w", err)
	}
	shared, err := unix.Mmap(int(file.Fd()), 0, len(page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping a file: %w", err)
	}
	if err := unix.Munmap(shared); err != nil {
		return fmt.Errorf("unmapping a file: %w", err)
	}
	if err := file.Truncate(1); err != nil {
		return fmt.Errorf("truncating a file: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("syncing a file: %w", err)
	}
	return nil
}

func syncFolder(dir string) error {
	folder, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("opening a folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	return nil
}
