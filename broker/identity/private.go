package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Exact modes of what is ours alone.
const (
	privateDir  = 0o700
	privateFile = 0o600
)

// readPrivate reads a file of at most limit bytes that only we can have
// written: an absolute path, a folder of ours that nobody else enters, and in
// it a regular file of ours with one link. It follows no symbolic link in the
// last two steps and does not wait for the writer of a FIFO.
func readPrivate(path string, limit int64) ([]byte, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("%s: not a clean absolute path", path)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: filepath.Dir(path), Err: err}
	}
	if err := checkDir(&stat); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	fd, err := unix.Openat(dir, filepath.Base(path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := checkFile(&stat, limit); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, limit)
	}
	return data, nil
}

func checkDir(stat *unix.Stat_t) error {
	switch {
	case int(stat.Uid) != os.Getuid():
		return errors.New("the folder belongs to another user")
	case stat.Mode&0o7777 != privateDir:
		return fmt.Errorf("the folder's mode is %04o, not %04o", stat.Mode&0o7777, privateDir)
	}
	return nil
}

func checkFile(stat *unix.Stat_t, limit int64) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("not a regular file")
	case int(stat.Uid) != os.Getuid():
		return errors.New("it belongs to another user")
	case stat.Mode&0o7777 != privateFile:
		return fmt.Errorf("its mode is %04o, not %04o", stat.Mode&0o7777, privateFile)
	case stat.Nlink != 1:
		return fmt.Errorf("it has %d links, not 1", stat.Nlink)
	case stat.Size > limit:
		return fmt.Errorf("longer than %d bytes", limit)
	}
	return nil
}

// checkPrivateDir refuses a folder that others can enter, or that is a link.
func checkPrivateDir(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s: not a folder", dir)
	}
	if err := checkDir(&stat); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// writeAtomic writes a private file beside path, makes it durable, and puts it
// in place with place: os.Rename replaces, renameNew does not. A reader sees the
// old file or the new one, never a part.
func writeAtomic(path string, data []byte, place func(from, to string) error) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // after a rename there is nothing left to remove
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := place(temp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
