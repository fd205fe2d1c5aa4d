package identity

import "golang.org/x/sys/unix"

// renameNew puts a file in place only where there is none.
func renameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
