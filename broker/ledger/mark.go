package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	markMagic = "LOMIMARK"
	// slotStride puts the two slots on different pages: one write that a
	// power cut tears cannot reach both.
	slotStride = 4096
	storeBytes = 32 // a store id is 32 hex digits
)

// slot is one state of the mark: which store, and the last row that was
// acknowledged.
type slot struct {
	store      string
	generation uint64
	head       head
}

func (s slot) encode() []byte {
	b := make([]byte, 0, slotLength)
	b = append(b, markMagic...)
	b = binary.BigEndian.AppendUint64(b, s.generation)
	b = append(b, s.store...)
	b = binary.BigEndian.AppendUint64(b, s.head.seq)
	b = append(b, s.head.hash[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

const slotLength = len(markMagic) + 8 + storeBytes + 8 + sha256.Size + sha256.Size

func decodeSlot(b []byte) (slot, bool) {
	if len(b) < slotLength || string(b[:len(markMagic)]) != markMagic {
		return slot{}, false
	}
	body := b[:slotLength-sha256.Size]
	if sha256.Sum256(body) != [sha256.Size]byte(b[len(body):slotLength]) {
		return slot{}, false
	}
	b = body[len(markMagic):]
	s := slot{generation: binary.BigEndian.Uint64(b), store: string(b[8 : 8+storeBytes])}
	b = b[8+storeBytes:]
	s.head.seq = binary.BigEndian.Uint64(b)
	copy(s.head.hash[:], b[8:])
	return s, true
}

// readMark returns the newest whole slot. found says that there is a file with
// something in it, whole whether a slot could be read.
func readMark(path string) (newest slot, found, whole bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return slot{}, false, false, nil
	}
	if err != nil {
		return slot{}, false, false, fmt.Errorf("reading the mark: %w", err)
	}
	for _, at := range []int{0, slotStride} {
		if at >= len(data) {
			continue
		}
		if s, ok := decodeSlot(data[at:]); ok && (!whole || s.generation > newest.generation) {
			newest, whole = s, true
		}
	}
	return newest, len(data) > 0, whole, nil
}

// mark is the open ledger.mark. Only the writer goroutine uses it.
type mark struct {
	file  *os.File
	last  slot
	dirty bool
}

// openMark opens the mark of a store, or makes one. newest is what readMark
// found; the next write goes to the other slot.
func openMark(path, store string, newest slot) (*mark, error) {
	if len(store) != storeBytes {
		return nil, fmt.Errorf("opening the mark: store id of %d characters", len(store))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("opening the mark: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the mark: %w", err)
	}
	newest.store = store
	m := &mark{file: file, last: newest}
	if err := m.file.Chmod(0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the mark: %w", err), file.Close())
	}
	// The name is made durable once; later syncs are of the content alone.
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the mark: %w", err), file.Close())
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the mark: %w", err), file.Close())
	}
	return m, nil
}

// write puts the end of the journal into the slot that is not the newest.
func (m *mark) write(h head) error {
	next := slot{store: m.last.store, generation: m.last.generation + 1, head: h}
	at := int64(next.generation%2) * slotStride
	if _, err := m.file.WriteAt(next.encode(), at); err != nil {
		return fmt.Errorf("writing the mark: %w", err)
	}
	m.last, m.dirty = next, true
	return nil
}

func (m *mark) sync() error {
	if !m.dirty {
		return nil
	}
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("syncing the mark: %w", err)
	}
	m.dirty = false
	return nil
}

func (m *mark) close() error { return m.file.Close() }
