package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The layout of a write-ahead log, from SQLite's file format.
const (
	walHeaderSize   = 32
	walFrameSize    = 24 // before each page
	walMagic        = 0x377f0682
	walMagicBig     = 0x377f0683 // checksums over big-endian words
	walMaxPage      = 65536
	walFormat       = 3007000
	walCommitOffset = 4
)

// checkWAL walks the log as SQLite will at recovery, and refuses what SQLite
// would drop without a word although it had been committed.
//
// SQLite uses the frames up to the last commit before the first bad checksum.
// The rest is normally an unfinished transaction or a leftover of an earlier
// round of the log, which bears another salt. With synchronous=FULL a
// transaction is on disk before the next one begins, so two commits of this
// round from the first bad frame on prove that a durable one was damaged. One
// such commit may be a power cut in the middle of a write and is let pass: a
// store that must not lose even that one keeps a mark outside, as the ledger
// does.
func checkWAL(path string, limit int64) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a write-ahead log: %w", Wrap(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading a write-ahead log: %w", err)
	}
	if info.Size() > limit {
		return fmt.Errorf("%w: its write-ahead log has %d bytes, at most %d are expected", ErrCorrupt, info.Size(), limit)
	}
	if info.Size() < walHeaderSize {
		return nil // SQLite begins such a log anew; nothing can be in it
	}
	walk := walWalk{in: bufio.NewReaderSize(file, 1<<20)}
	if err := walk.header(); err != nil {
		return err
	}
	return walk.frames()
}

type walWalk struct {
	in    *bufio.Reader
	order binary.ByteOrder
	page  int
	salts [8]byte
	sum   [2]uint32
}

func (w *walWalk) header() error {
	var header [walHeaderSize]byte
	if _, err := io.ReadFull(w.in, header[:]); err != nil {
		return fmt.Errorf("reading a write-ahead log: %w", err)
	}
	switch binary.BigEndian.Uint32(header[0:]) {
	case walMagic:
		w.order = binary.LittleEndian
	case walMagicBig:
		w.order = binary.BigEndian
	default:
		return fmt.Errorf("%w: its write-ahead log does not begin as one does", ErrCorrupt)
	}
	if format := binary.BigEndian.Uint32(header[4:]); format != walFormat {
		return fmt.Errorf("%w: its write-ahead log has format %d", ErrNewer, format)
	}
	w.page = int(binary.BigEndian.Uint32(header[8:]))
	if w.page < 512 || w.page > walMaxPage || w.page&(w.page-1) != 0 {
		return fmt.Errorf("%w: its write-ahead log has pages of %d bytes", ErrCorrupt, w.page)
	}
	copy(w.salts[:], header[16:24])
	w.sum = walChecksum(w.order, w.sum, header[:24])
	if w.sum != walSum(header[24:]) {
		return fmt.Errorf("%w: the first checksum of its write-ahead log is wrong", ErrCorrupt)
	}
	return nil
}

func (w *walWalk) frames() error {
	frame := make([]byte, walFrameSize+w.page)
	broken, commits := false, 0
	for {
		if _, err := io.ReadFull(w.in, frame); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // a frame cut short was never synced
			}
			return fmt.Errorf("reading a write-ahead log: %w", err)
		}
		stored := walSum(frame[16:24])
		sum := walChecksum(w.order, w.sum, frame[:8])
		sum = walChecksum(w.order, sum, frame[walFrameSize:])
		ours := string(frame[8:16]) == string(w.salts[:])
		first := !broken && (!ours || sum != stored)
		broken = broken || first
		// Behind a bad frame the sums go on from what that frame says, so a
		// later frame of this round still proves itself. The bad one counts by
		// what its head says.
		commit := ours && binary.BigEndian.Uint32(frame[walCommitOffset:]) != 0
		if broken && commit && (first || sum == stored) {
			if commits++; commits > 1 {
				return fmt.Errorf("%w: its write-ahead log is broken before its end", ErrCorrupt)
			}
		}
		w.sum = stored
	}
}

func walSum(b []byte) [2]uint32 {
	return [2]uint32{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func walChecksum(order binary.ByteOrder, sum [2]uint32, data []byte) [2]uint32 {
	for ; len(data) >= 8; data = data[8:] {
		sum[0] += order.Uint32(data) + sum[1]
		sum[1] += order.Uint32(data[4:]) + sum[0]
	}
	return sum
}
