package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// feedQueue is how many events a reader may be behind before it is cut off. A
// burst of a whole turn (128 calls, four events each) fits.
const feedQueue = 512

// ErrBehind ends a subscription whose reader was too slow: it reads the state
// again and subscribes anew.
var ErrBehind = errors.New("the reader fell behind")

// ErrClosed ends the subscriptions of a broker that was closed.
var ErrClosed = errors.New("the broker is closed")

// Event is one line for the desk log. Data is one of this package's types with
// JSON tags, whole: an event never refers to state that a reader must fetch.
type Event struct {
	Kind string    `json:"kind"`
	Time time.Time `json:"time"`
	Data any       `json:"data"`
}

// Subscription is one reader of the events. Events do not drop: a reader that
// falls behind is cut off instead.
type Subscription struct {
	events chan Event
	mu     sync.Mutex
	err    error
}

// Events gives the events from the moment of Subscribe on. It is closed at the
// end of the subscription; Err says why.
func (s *Subscription) Events() <-chan Event { return s.events }

// Err is nil while the subscription lives, then ErrBehind, ErrClosed or the
// cause of the end of its context.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// feed hands events to subscribers without ever waiting for one.
type feed struct {
	mu     sync.Mutex
	subs   []*Subscription
	closed bool
}

func (f *feed) subscribe(ctx context.Context) *Subscription {
	s := &Subscription{events: make(chan Event, feedQueue)}
	f.mu.Lock()
	if f.closed {
		s.err = ErrClosed
		close(s.events)
		f.mu.Unlock()
		return s
	}
	f.subs = append(f.subs, s)
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(s, context.Cause(ctx))
	})
	return s
}

func (f *feed) publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range slices.Clone(f.subs) {
		select {
		case s.events <- e:
		default:
			f.drop(s, ErrBehind)
		}
	}
}

// drop ends a subscription once. The feed's mutex is held.
func (f *feed) drop(s *Subscription, why error) {
	i := slices.Index(f.subs, s)
	if i < 0 {
		return
	}
	f.subs = slices.Delete(f.subs, i, i+1)
	s.mu.Lock()
	s.err = why
	s.mu.Unlock()
	close(s.events)
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, s := range slices.Clone(f.subs) {
		f.drop(s, ErrClosed)
	}
}
