package terminal

import "unicode/utf8"

// ringBytes is how much of each stream is kept (broker spec 7.1).
const ringBytes = 512 << 10

// ring keeps the last ringBytes of a stream. Cursors are byte offsets from the
// stream's start and never repeat. It grows to its size as it fills, because
// most terminals never print that much.
type ring struct {
	buf []byte
	end uint64
}

func (r *ring) from() uint64 {
	if r.end < uint64(len(r.buf)) {
		return 0
	}
	return r.end - uint64(len(r.buf))
}

func (r *ring) write(p []byte) {
	if len(p) > ringBytes {
		r.end += uint64(len(p) - ringBytes)
		p = p[len(p)-ringBytes:]
	}
	r.grow(len(p))
	for len(p) > 0 {
		n := copy(r.buf[r.end%uint64(len(r.buf)):], p)
		p = p[n:]
		r.end += uint64(n)
	}
}

// grow makes room for n more bytes while the ring is below its size. Until
// then nothing has wrapped around, so the content moves as it is.
func (r *ring) grow(n int) {
	if len(r.buf) == ringBytes || r.end+uint64(n) <= uint64(len(r.buf)) {
		return
	}
	size := max(len(r.buf), 4<<10)
	for size < ringBytes && r.end+uint64(n) > uint64(size) {
		size *= 2
	}
	grown := make([]byte, size)
	copy(grown, r.buf)
	r.buf = grown
}

// overwrite changes bytes that are still kept; p lies within the ring.
func (r *ring) overwrite(cursor uint64, p []byte) {
	for i, b := range p {
		if at := cursor + uint64(i); at >= r.from() && at < r.end {
			r.buf[at%uint64(len(r.buf))] = b
		}
	}
}

// read copies at most limit bytes from cursor on, which lies within the ring.
func (r *ring) read(cursor uint64, limit int) []byte {
	n := min(uint64(limit), r.end-cursor)
	out := make([]byte, 0, n)
	for n > 0 {
		at := cursor % uint64(len(r.buf))
		part := r.buf[at:min(uint64(len(r.buf)), at+n)]
		out = append(out, part...)
		cursor += uint64(len(part))
		n -= uint64(len(part))
	}
	return out
}

// text reads like read, from the first whole character on and up to the last
// one. It returns the cursor of the first byte of text and the one after it.
// The stream must be valid UTF-8.
func (r *ring) text(cursor uint64, limit int) (text []byte, start, next uint64) {
	raw := r.read(cursor, max(limit, utf8.UTFMax))
	skipped := 0
	for skipped < len(raw) && !utf8.RuneStart(raw[skipped]) {
		skipped++
	}
	raw = raw[skipped:]
	if len(raw) > limit {
		raw = raw[:limit]
	}
	raw = wholeRunes(raw)
	start = cursor + uint64(skipped)
	return raw, start, start + uint64(len(raw))
}

// wholeRunes cuts an unfinished character off the end of valid text.
func wholeRunes(p []byte) []byte {
	for back := 1; back <= min(utf8.UTFMax-1, len(p)); back++ {
		if b := p[len(p)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-back:]) {
				return p[:len(p)-back]
			}
			break
		}
	}
	return p
}
