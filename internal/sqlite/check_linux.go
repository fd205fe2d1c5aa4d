package sqlite

import "golang.org/x/sys/unix"

// unsuitable names the file system if it is a network or user-space one or is
// mounted read-only. Both lie about locks, shared memory or syncing often
// enough that a store on them has been lost before.
func unsuitable(stat *unix.Statfs_t) string {
	if stat.Flags&unix.ST_RDONLY != 0 {
		return "a read-only file system"
	}
	switch uint32(stat.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "a network file system (NFS)"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "a network file system (SMB)"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC:
		return "a network file system"
	case unix.V9FS_MAGIC:
		return "a file system shared by a host (9P)"
	case unix.FUSE_SUPER_MAGIC:
		return "a user-space file system (FUSE)"
	}
	return ""
}
