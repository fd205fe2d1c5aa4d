package sqlite

import "golang.org/x/sys/unix"

// unsuitable names the file system if it is not a local one or is mounted
// read-only. macFUSE volumes are local by their flag, so they go by name.
func unsuitable(stat *unix.Statfs_t) string {
	name := unix.ByteSliceToString(stat.Fstypename[:])
	switch {
	case stat.Flags&unix.MNT_RDONLY != 0:
		return "a read-only file system"
	case stat.Flags&unix.MNT_LOCAL == 0:
		return "a network file system (" + name + ")"
	case name == "macfuse" || name == "osxfuse" || name == "fuse-t":
		return "a user-space file system (" + name + ")"
	}
	return ""
}
