package sqlite

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestBug93: network and user-space file systems go by their numbers, because
// they pass every probe on a good day.
func TestBug93(t *testing.T) {
	for _, row := range []struct {
		name    string
		kind    int64
		flags   int64
		refused bool
	}{
		{"ext4", unix.EXT4_SUPER_MAGIC, 0, false},
		{"btrfs", unix.BTRFS_SUPER_MAGIC, 0, false},
		{"tmpfs", unix.TMPFS_MAGIC, 0, false},
		{"overlay", unix.OVERLAYFS_SUPER_MAGIC, 0, false},
		{"ext4 read-only", unix.EXT4_SUPER_MAGIC, unix.ST_RDONLY, true},
		{"nfs", unix.NFS_SUPER_MAGIC, 0, true},
		{"cifs", unix.CIFS_SUPER_MAGIC, 0, true},
		{"smb2", unix.SMB2_SUPER_MAGIC, 0, true},
		{"9p", unix.V9FS_MAGIC, 0, true},
		{"fuse", unix.FUSE_SUPER_MAGIC, 0, true},
		{"ceph", unix.CEPH_SUPER_MAGIC, 0, true},
	} {
		got := unsuitable(&unix.Statfs_t{Type: row.kind, Flags: row.flags})
		if (got != "") != row.refused {
			t.Errorf("%s: got %q, want refused %v", row.name, got, row.refused)
		}
	}
}
