package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lomi/models"
)

// Pace and bounds of a log.
const (
	deltaEvery      = 50 * time.Millisecond // merged deltas: about 20 a second
	checkpointEvery = 500 * time.Millisecond
	checkpointBytes = 32 << 10
	checkpointTime  = 5 * time.Second // a store slower than this is broken

	readPage       = 500     // events read from the store at once
	queueItems     = 4096    // what a reader may be behind before it is cut off
	queueBytes     = 4 << 20 // likewise
	queueForDeltas = 256     // beyond this a reader gets events only
)

// Log is the log of one conversation: the events, which are stored before
// anybody sees them and never drop, and the text in the making, which may. It
// is safe for concurrent use. Appending is serialised by write, held over the
// store's work; mu guards the rest and is held for moments only. Who holds both
// took write first.
type Log struct {
	id     string
	store  Store
	now    func() time.Time
	logger *slog.Logger

	write sync.Mutex

	mu         sync.Mutex
	seq        int64
	parts      []*openPart // in the order in which they began
	readers    map[*reader]struct{}
	lastFlush  time.Time
	flush      *time.Timer // nil: nothing to flush
	checkpoint *time.Timer // nil: nothing to keep
	closed     bool
}

// openPart is a part of a reply that is being written.
type openPart struct {
	message string
	part    int
	kind    models.PartKind
	text    strings.Builder
	shown   int // bytes given to readers
	kept    int // bytes in checkpoints
}

func newLog(id string, store Store, seq int64, now func() time.Time, logger *slog.Logger) *Log {
	return &Log{id: id, store: store, seq: seq, now: now, logger: logger, readers: map[*reader]struct{}{}}
}

// fact is an event to be.
type fact struct {
	kind EventKind
	data any
}

// append stores facts as the next events, then shows them.
func (l *Log) append(ctx context.Context, facts ...fact) error {
	l.write.Lock()
	defer l.write.Unlock()
	return l.appendLocked(ctx, facts...)
}

func (l *Log) appendLocked(ctx context.Context, facts ...fact) error {
	events := make([]Event, 0, len(facts))
	for i, f := range facts {
		data, err := json.Marshal(f.data)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", f.kind, err)
		}
		// Only the holder of write changes seq.
		events = append(events, Event{Seq: l.seq + int64(i) + 1, Kind: f.kind, Time: l.now().UTC(), Data: data})
	}
	if err := l.store.Append(ctx, l.id, events); err != nil {
		return fmt.Errorf("appending to conversation %s: %w", l.id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked() // text before what follows it
	for i, f := range facts {
		l.seq = events[i].Seq
		if ended, ok := f.data.(replyEndedData); ok {
			l.closeParts(ended.Message)
		}
		l.publish(Item{Event: &events[i]}, len(events[i].Data), false)
	}
	return nil
}

// lastSeq returns the number of the last event.
func (l *Log) lastSeq() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

func (l *Log) closeParts(message string) {
	kept := l.parts[:0]
	for _, p := range l.parts {
		if p.message != message {
			kept = append(kept, p)
		}
	}
	clear(l.parts[len(kept):])
	l.parts = kept
}

// showText takes the next text of a part. It never waits for the store, except
// when so much is not kept yet that a checkpoint is due at once.
func (l *Log) showText(d TextDelta) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	p := l.part(d)
	p.text.WriteString(d.Text)
	if l.lastFlush.IsZero() || l.now().Sub(l.lastFlush) >= deltaEvery {
		l.flushLocked()
	} else if l.flush == nil {
		l.flush = time.AfterFunc(deltaEvery, l.flushNow)
	}
	due := p.text.Len()-p.kept >= checkpointBytes
	if l.checkpoint == nil {
		l.checkpoint = time.AfterFunc(checkpointEvery, l.checkpointNow)
	}
	l.mu.Unlock()
	if due {
		l.checkpointNow()
	}
}

func (l *Log) part(d TextDelta) *openPart {
	for _, p := range l.parts {
		if p.message == d.Message && p.part == d.Part {
			return p
		}
	}
	p := &openPart{message: d.Message, part: d.Part, kind: d.Kind}
	l.parts = append(l.parts, p)
	return p
}

// show publishes an item that may drop.
func (l *Log) show(item Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publish(item, 256, true)
}

func (l *Log) flushNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked()
}

func (l *Log) flushLocked() {
	if l.flush != nil {
		l.flush.Stop()
		l.flush = nil
	}
	l.lastFlush = l.now()
	for _, p := range l.parts {
		if text := p.text.String(); p.shown < len(text) {
			l.publish(Item{Delta: p.slice(p.shown)}, len(text)-p.shown, true)
			p.shown = len(text)
		}
	}
}

func (p *openPart) slice(from int) *TextDelta {
	return &TextDelta{Message: p.message, Part: p.part, Kind: p.kind, Offset: from, Text: p.text.String()[from:]}
}

// checkpointNow stores what is not kept yet. It runs on a timer of its own.
func (l *Log) checkpointNow() {
	ctx, cancel := context.WithTimeout(context.Background(), checkpointTime)
	defer cancel()
	l.write.Lock()
	defer l.write.Unlock()
	l.mu.Lock()
	if l.checkpoint != nil {
		l.checkpoint.Stop()
		l.checkpoint = nil
	}
	var facts []fact
	if !l.closed {
		for _, p := range l.parts {
			if p.kept < p.text.Len() {
				facts = append(facts, fact{TextAppended, *p.slice(p.kept)})
			}
		}
	}
	l.mu.Unlock()
	if len(facts) == 0 {
		return
	}
	if err := l.appendLocked(ctx, facts...); err != nil {
		l.logger.WarnContext(ctx, "checkpoint not stored", "conv", l.id, "err", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range facts {
		if d, ok := f.data.(TextDelta); ok {
			l.part(d).kept = d.Offset + len(d.Text)
		}
	}
}

// close ends all readers and timers.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, timer := range []*time.Timer{l.flush, l.checkpoint} {
		if timer != nil {
			timer.Stop()
		}
	}
	for r := range l.readers {
		r.end()
	}
}

// idle reports whether nobody reads the log.
func (l *Log) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers) == 0
}

// reader is one who follows the log. Its fields are guarded by the log's mu.
type reader struct {
	items  []Item
	bytes  int
	behind bool
	ended  bool
	ready  chan struct{} // holds one token when there is something to take
}

func (r *reader) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

func (r *reader) end() {
	r.ended = true
	r.wake()
}

func (l *Log) publish(item Item, size int, mayDrop bool) {
	for r := range l.readers {
		switch {
		case r.behind || r.ended:
		case mayDrop && len(r.items) >= queueForDeltas:
		case len(r.items) >= queueItems || r.bytes+size > queueBytes && len(r.items) > 0:
			r.behind, r.items, r.bytes = true, nil, 0
			r.wake()
		default:
			r.items = append(r.items, item)
			r.bytes += size
			r.wake()
		}
	}
}

// Read yields the events after a sequence number, then the text so far of each
// part that is being written, then events and deltas as they come. It ends with
// an Item that says Behind when its reader is too slow or after names an event
// that is not there, with an error when the store fails or ctx ends, and
// without one when the conversation is closed.
func (l *Log) Read(ctx context.Context, after int64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		r, head, snapshot := l.join()
		defer l.leave(r)
		if after > head {
			yield(Item{Behind: true}, nil)
			return
		}
		if !l.yieldStored(ctx, after, head, yield) {
			return
		}
		if len(snapshot.Parts) > 0 && !yield(Item{Snapshot: snapshot}, nil) {
			return
		}
		for {
			select {
			case <-r.ready:
			case <-ctx.Done():
				yield(Item{}, context.Cause(ctx))
				return
			}
			items, behind, ended := l.take(r)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if behind {
				yield(Item{Behind: true}, nil)
			}
			if behind || ended {
				return
			}
		}
	}
}

// join makes a reader, and in the same moment says which event is the last that
// it will not get live, and what text is on its way.
func (l *Log) join() (*reader, int64, *Snapshot) {
	r := &reader{ready: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked()
	l.readers[r] = struct{}{}
	if l.closed {
		r.end()
	}
	snapshot := &Snapshot{}
	for _, p := range l.parts {
		snapshot.Parts = append(snapshot.Parts, *p.slice(0))
	}
	return r, l.seq, snapshot
}

func (l *Log) leave(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
}

func (l *Log) take(r *reader) (items []Item, behind, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	items, r.items, r.bytes = r.items, nil, 0
	return items, r.behind, r.ended
}

func (l *Log) yieldStored(ctx context.Context, after, head int64, yield func(Item, error) bool) bool {
	for after < head {
		events, err := l.store.Read(ctx, l.id, after, readPage)
		if err == nil && len(events) == 0 {
			err = fmt.Errorf("event %d is missing", after+1)
		}
		if err != nil {
			yield(Item{}, fmt.Errorf("reading conversation %s: %w", l.id, err))
			return false
		}
		for i := range events {
			if events[i].Seq > head {
				break // comes live
			}
			after = events[i].Seq
			if !yield(Item{Event: &events[i]}, nil) {
				return false
			}
		}
	}
	return true
}
