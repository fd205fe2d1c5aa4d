package web

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"
)

// deskEvents is how many events of the desk are kept for pages that come back.
// An older page reads /api/state again, which costs one request.
const deskEvents = 4096

// deskEvent is a line of the desk log.
type deskEvent struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data"`
}

// deskLog is the log of everything that is not a conversation: panels,
// pairings, approvals, sessions, receipts. It lives as long as the daemon; its
// truth is in the rooms that report to it, which is why it may forget. Safe
// for concurrent use.
type deskLog struct {
	now func() time.Time

	mu      sync.Mutex
	events  []deskEvent
	last    int64
	changed chan struct{} // closed and replaced at each append
}

// newDeskLog begins above every number that an earlier run of the daemon can
// have given out, so that a page from before a restart is told to read again
// rather than to go on in the middle.
func newDeskLog(now func() time.Time) *deskLog {
	return &deskLog{now: now, last: now().UnixMilli(), changed: make(chan struct{})}
}

// append adds an event. Data that does not marshal is a fault of ours; the
// event goes out without it, so that readers still look again.
func (l *deskLog) append(kind string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		raw = []byte("{}")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.events = append(l.events, deskEvent{Seq: l.last, Kind: kind, Time: l.now(), Data: raw})
	if len(l.events) > 2*deskEvents {
		l.events = append([]deskEvent(nil), l.events[len(l.events)-deskEvents:]...)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// seq is the number of the last event.
func (l *deskLog) seq() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// read yields the events after a number, in order and each once, until ctx
// ends. It yields false with the first item when events in between are gone:
// the reader has fallen behind and must read the state again.
func (l *deskLog) read(ctx context.Context, after int64) iter.Seq2[deskEvent, bool] {
	return func(yield func(deskEvent, bool) bool) {
		for {
			l.mu.Lock()
			first := l.last - int64(len(l.events)) + 1
			// A number from before a restart of the daemon is as good as none.
			if after > l.last || after < first-1 {
				l.mu.Unlock()
				yield(deskEvent{}, false)
				return
			}
			batch := append([]deskEvent(nil), l.events[after-first+1:]...)
			changed := l.changed
			l.mu.Unlock()
			for _, e := range batch {
				if !yield(e, true) {
					return
				}
				after = e.Seq
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
