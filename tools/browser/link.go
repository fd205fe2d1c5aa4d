package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// sendQueue bounds the commands that wait for Chromium to read its pipe. A
// browser that leaves this many unread is stuck and is ended.
const sendQueue = 4096

// errGone says that the browser process ended or had to be given up.
var errGone = errors.New("the browser has ended")

// link is the connection to one Chromium over its pipe. chromedp's own target
// layer mirrors the whole DOM of every page and queues events without bound,
// which a page of a million nodes turns against us; so this uses chromedp's
// pipe and the typed protocol, and keeps the sessions itself.
//
// One goroutine reads: events reach their handler in order, and before the
// answer of a command that came after them. A handler must not wait.
type link struct {
	conn chromedp.Transport
	out  chan *cdproto.Message
	done chan struct{} // closed when the connection is over
	log  *slog.Logger
	once sync.Once
	wg   sync.WaitGroup

	mu       sync.Mutex
	next     int64
	pending  map[int64]func(*cdproto.Message) // called on the reading goroutine
	handlers map[target.SessionID]handler
}

// handler takes the events of one session, on the reading goroutine.
type handler func(method string, params jsonv2.Value)

func newLink(conn chromedp.Transport, log *slog.Logger) *link {
	l := &link{
		conn: conn, log: log,
		out: make(chan *cdproto.Message, sendQueue), done: make(chan struct{}),
		pending: map[int64]func(*cdproto.Message){}, handlers: map[target.SessionID]handler{},
	}
	l.wg.Go(l.read) // both end when the pipe closes; close waits for them
	l.wg.Go(l.write)
	return l
}

// close ends the connection; Chromium exits when its pipe does.
func (l *link) close() {
	l.drop()
	l.wg.Wait()
}

// drop is close without waiting, for the reading goroutine itself.
func (l *link) drop() {
	l.once.Do(func() {
		close(l.done)
		if err := l.conn.Close(); err != nil {
			l.log.Debug("closing browser pipe", "err", err)
		}
	})
}

func (l *link) read() {
	defer l.drop()
	ctx := context.Background() // the pipe's end is what ends a read
	for {
		msg := new(cdproto.Message)
		if err := l.conn.Read(ctx, msg); err != nil {
			return
		}
		if msg.ID == 0 {
			l.mu.Lock()
			h := l.handlers[msg.SessionID]
			l.mu.Unlock()
			if h != nil {
				h(string(msg.Method), msg.Params)
			}
			continue
		}
		l.mu.Lock()
		take := l.pending[msg.ID]
		delete(l.pending, msg.ID)
		l.mu.Unlock()
		if take != nil {
			take(msg)
		}
	}
}

func (l *link) write() {
	for {
		select {
		case <-l.done:
			return
		case msg := <-l.out:
			if err := l.conn.Write(context.Background(), msg); err != nil {
				l.drop()
				return
			}
		}
	}
}

// handle sets who takes the events of a session; nil takes them away.
func (l *link) handle(id target.SessionID, h handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h == nil {
		delete(l.handlers, id)
		return
	}
	l.handlers[id] = h
}

// session is one attached target, or the browser itself when id is empty. It
// implements cdp.Session.
type session struct {
	link *link
	id   target.SessionID
	// dead is closed when the page of the session has crashed or was closed,
	// since Chromium answers no commands to a page that is gone. It is nil for
	// the browser itself.
	dead chan struct{}
}

// Call implements cdp.Session.
func (s session) Call(ctx context.Context, method string, params, result any) error {
	answer := make(chan *cdproto.Message, 1) // room for the one that comes
	msg, err := s.message(method, params, func(m *cdproto.Message) { answer <- m })
	if err != nil {
		return err
	}
	defer func() {
		s.link.mu.Lock()
		delete(s.link.pending, msg.ID)
		s.link.mu.Unlock()
	}()
	select {
	case s.link.out <- msg:
	case <-s.link.done:
		return errGone
	case <-s.dead:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case reply := <-answer:
		return readReply(method, reply, result)
	case <-s.link.done:
		return errGone
	case <-s.dead:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func readReply(method string, reply *cdproto.Message, result any) error {
	if reply.Error != nil {
		return fmt.Errorf("%s: %w", method, reply.Error)
	}
	if result == nil {
		return nil
	}
	if err := jsonv2.Unmarshal(reply.Result, result, chromedp.DefaultUnmarshalOptions); err != nil {
		return fmt.Errorf("decoding the answer to %s: %w", method, err)
	}
	return nil
}

// Subscribe implements cdp.Session. Events go to handlers here.
func (s session) Subscribe(string) (<-chan jsonv2.Value, func()) {
	none := make(chan jsonv2.Value)
	close(none)
	return none, func() {}
}

func (s session) message(method string, params any, take func(*cdproto.Message)) (*cdproto.Message, error) {
	raw, err := jsonv2.Marshal(params, chromedp.DefaultMarshalOptions)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", method, err)
	}
	s.link.mu.Lock()
	s.link.next++
	id := s.link.next
	if take != nil {
		s.link.pending[id] = take
	}
	s.link.mu.Unlock()
	return &cdproto.Message{ID: id, SessionID: s.id, Method: cdproto.MethodType(method), Params: raw}, nil
}

// post sends a command whose answer nobody needs. It never waits, so handlers
// may use it; commands of one session are carried out in order.
func post[P, R any](s session, c cdp.Command[P, R], params P) { s.postThen(c.Method, params, nil) }

// ask is post for a handler that wants the answer; then runs on the reading
// goroutine and gets nothing when the command failed.
func ask[P, R any](s session, c cdp.Command[P, R], params P, then func(R)) {
	s.postThen(c.Method, params, func(m *cdproto.Message) {
		var result R
		if readReply(c.Method, m, &result) == nil {
			then(result)
		}
	})
}

func (s session) postThen(method string, params any, take func(*cdproto.Message)) {
	msg, err := s.message(method, params, take)
	if err != nil {
		s.link.log.Error("encoding browser command", "err", err)
		return
	}
	select {
	case s.link.out <- msg:
	case <-s.link.done:
	default:
		s.link.log.Warn("browser reads nothing and is given up")
		s.link.drop()
	}
}

// decode reads an event's parameters; a broken one is dropped with a line in
// the log, since nothing can be done about it.
func decode[E any](l *link, params jsonv2.Value) (E, bool) {
	var ev E
	if err := jsonv2.Unmarshal(params, &ev, chromedp.DefaultUnmarshalOptions); err != nil {
		l.log.Debug("browser event unreadable", "err", err)
		return ev, false
	}
	return ev, true
}
