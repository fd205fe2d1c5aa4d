package terminal

import (
	"bytes"
	"context"
	"iter"
)

const (
	// chunkBytes is the most that a tab gets at once.
	chunkBytes = 64 << 10
	resetTab   = "\x1bc"
	behindNote = "\x1b[2m[output was skipped: this tab fell behind]\x1b[0m\r\n"
	enterAlt   = "\x1b[?1049h"
)

// attach yields the kept output and then what comes. The reader pulls from the
// ring by a cursor of its own, so a slow one costs nothing and delays nobody;
// one that the ring has overtaken starts over.
func (t *terminal) attach(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t.watch(1)
		defer t.watch(-1)
		chunk, cursor := t.snapshot()
		for {
			if len(chunk) > 0 && !yield(chunk, nil) {
				return
			}
			var changed <-chan struct{}
			var over bool
			chunk, changed, over = t.after(&cursor)
			switch {
			case len(chunk) > 0:
				continue
			case over:
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// watch counts the tabs.
func (t *terminal) watch(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers += n
}

// snapshot is the kept output, made fit to be the first thing a tab sees.
func (t *terminal) snapshot() ([]byte, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept()
}

// kept is snapshot with t.mu held.
func (t *terminal) kept() ([]byte, uint64) {
	r := &t.out.raw
	data := r.read(r.from(), ringBytes)
	if r.from() > 0 {
		// The ring begins anywhere; the first line break is the first place
		// that is surely outside of a sequence and of a character.
		if i := bytes.IndexByte(data[:min(len(data), chunkBytes)], '\n'); i >= 0 {
			data = data[i+1:]
		}
		if t.out.screen.alt == 1 && !bytes.Contains(data, []byte(enterAlt)) {
			data = append([]byte(enterAlt), data...)
		}
		data = append(data, t.out.restore()...)
	}
	return data, r.end
}

// after returns what came after cursor and moves it, or a channel to wait on,
// or that nothing will come any more.
func (t *terminal) after(cursor *uint64) (chunk []byte, changed <-chan struct{}, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.out.raw
	switch {
	case *cursor < r.from():
		chunk, *cursor = t.kept()
		return append([]byte(resetTab+behindNote), chunk...), nil, false
	case *cursor < r.end:
		chunk = r.read(*cursor, chunkBytes)
		*cursor += uint64(len(chunk))
		return chunk, nil, false
	case t.exit != nil:
		return nil, nil, true
	}
	return nil, t.changes(), false
}
