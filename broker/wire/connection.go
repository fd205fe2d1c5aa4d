package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"lomi/broker/control"
)

// Link is an authenticated connection to the broker. It is safe for concurrent
// use: up to 16 calls run at a time, further ones wait. It never reconnects
// and never repeats a request.
type Link struct {
	*link
	places chan struct{} // one for each request that the broker works on
	ended  chan struct{} // closed when every goroutine of the link has ended

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]chan control.Reply // 1 buffered; nobody may read any more
}

func startLink(conn net.Conn) *Link {
	l := &Link{
		// The life of a connection is its own: Close or a fault ends it.
		link:    newLink(context.Background(), conn, control.MaxFrame),
		places:  make(chan struct{}, maxInFlight),
		ended:   make(chan struct{}),
		waiting: make(map[uint64]chan control.Reply),
	}
	context.AfterFunc(l.ctx, l.hangUp)
	var parts sync.WaitGroup
	parts.Go(l.write)
	parts.Go(l.watch)
	parts.Go(func() { l.end(l.readAnswers()) })
	go func() { // ends with the three above, which end with l.ctx
		parts.Wait()
		close(l.ended)
	}()
	return l
}

// proof waits for the first sign of an open session.
func (l *Link) proof(ctx context.Context) error {
	if err := l.send(message{Signal: ping}, nil); err != nil {
		return l.lost()
	}
	select {
	case <-l.first:
	case <-l.ctx.Done():
		return l.lost()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// readAnswers hands answers to their callers until the connection ends. What
// the broker may not send ends it: after a frame out of place no later one can
// be trusted to belong to its request.
func (l *Link) readAnswers() error {
	for {
		m, tooLong, err := l.read()
		switch {
		case err != nil:
			return err
		case tooLong:
			return errors.New("an answer longer than a frame may be")
		case m.Result == nil || m.Request != nil:
			return errors.New("the broker sent something else than an answer")
		}
		l.mu.Lock()
		caller := l.waiting[m.RequestID]
		delete(l.waiting, m.RequestID)
		l.mu.Unlock()
		if caller == nil {
			return errors.New("an answer to no request")
		}
		caller <- *m.Result
		release(l.places)
	}
}

// Call sends one request and waits for its answer. When ctx ends first, the
// request may still have its effect: its receipt tells. An error that is
// ErrNotSent had none; ErrLost means that the connection has ended.
func (l *Link) Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error) {
	if err := checkArguments(args); err != nil {
		return control.Reply{}, errors.Join(ErrNotSent, err)
	}
	// A call that was given up keeps its place until the broker has answered,
	// so that both sides count the same requests.
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return control.Reply{}, errors.Join(ErrNotSent, context.Cause(ctx))
	case <-l.ctx.Done():
		return control.Reply{}, errors.Join(ErrNotSent, l.lost())
	}
	answer, err := l.request(ctx, tool, args)
	if err != nil {
		return control.Reply{}, err
	}
	select {
	case reply := <-answer:
		return reply, nil
	case <-ctx.Done():
		return control.Reply{}, context.Cause(ctx)
	case <-l.ctx.Done():
	}
	select {
	case reply := <-answer: // both were ready
		return reply, nil
	default:
		return control.Reply{}, l.lost()
	}
}

// request queues one request. Ids must rise in the order of the queue, so the
// id is taken and queued under one lock.
func (l *Link) request(ctx context.Context, tool string, args json.RawMessage) (<-chan control.Reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.lastID + 1
	body, err := encode(message{IPCVersion: IPCVersion, RequestID: id, Request: &request{Tool: tool, Arguments: args}})
	if err != nil {
		release(l.places)
		return nil, errors.Join(ErrNotSent, err)
	}
	if l.ctx.Err() != nil { // a select alone would choose by chance
		release(l.places)
		return nil, errors.Join(ErrNotSent, l.lost())
	}
	answer := make(chan control.Reply, 1)
	select {
	case l.out <- outgoing{frame: appendFrame(body)}:
		l.lastID = id
		l.waiting[id] = answer
		return answer, nil
	case <-ctx.Done():
		release(l.places)
		return nil, errors.Join(ErrNotSent, context.Cause(ctx))
	case <-l.ctx.Done():
		release(l.places)
		return nil, errors.Join(ErrNotSent, l.lost())
	}
}

// lost says that and why the connection ended.
func (l *Link) lost() error { return fmt.Errorf("%w: %w", ErrLost, context.Cause(l.ctx)) }

// Done is closed when the connection has ended.
func (l *Link) Done() <-chan struct{} { return l.ctx.Done() }

// Close ends the connection and waits for its goroutines.
func (l *Link) Close() error {
	l.end(errClosed)
	<-l.ended
	return nil
}
