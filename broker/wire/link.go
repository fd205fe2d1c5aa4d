package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"lomi/broker/control"
)

// Liveness: a side that has heard nothing for pingEvery asks; one that has
// asked maxMissed times without hearing anything ends the connection.
const (
	pingEvery = 15 * time.Second
	maxMissed = 2
)

// queuedFrames bounds the frames that wait for the writer; who adds one more
// waits. Bytes are bounded by the server's budget.
const queuedFrames = 32

// Why a connection ended.
var (
	errSilent = errors.New("the peer is silent")
	errEnded  = errors.New("the session ended")
	errClosed = errors.New("closed by its owner")
)

// link is what both sides do once TLS stands: one goroutine writes, one asks
// after the peer, and the owner reads. All end with ctx, and ctx ends with the
// first of them.
type link struct {
	conn  net.Conn
	limit int64 // of a received frame
	ctx   context.Context
	end   context.CancelCauseFunc
	out   chan outgoing
	heard chan struct{} // 1 buffered: something came since the pinger looked
	first chan struct{} // closed when anything came at all
	once  sync.Once
}

// outgoing is a frame and what to do when it has left. A nil frame ends the
// connection after all before it were written.
type outgoing struct {
	frame []byte
	sent  func()
}

func newLink(ctx context.Context, conn net.Conn, limit int64) *link {
	l := &link{conn: conn, limit: limit, out: make(chan outgoing, queuedFrames),
		heard: make(chan struct{}, 1), first: make(chan struct{})}
	l.ctx, l.end = context.WithCancelCause(ctx)
	return l
}

// hangUp closes the connection below TLS. The farewell of TLS would wait for a
// peer that does not read; the frames and the pings tell an end as well.
func (l *link) hangUp() {
	conn := l.conn
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	conn.Close()
}

// read returns the next message. Signals are answered here and not returned.
// tooLong is the frame that was longer than the limit and skipped.
func (l *link) read() (m message, tooLong bool, err error) {
	for {
		body, err := readFrame(l.conn, l.limit, func() { l.conn.SetReadDeadline(time.Now().Add(frameTime)) })
		if size, ok := errors.AsType[*frameSizeError](err); ok && size.size <= control.MaxFrame {
			if _, err := io.CopyN(io.Discard, l.conn, size.size); err != nil {
				return message{}, false, unexpected(err)
			}
			l.alive()
			return message{}, true, nil
		}
		if err != nil {
			return message{}, false, err
		}
		l.alive()
		var m message
		if err := decode(body, &m); err != nil {
			return message{RequestID: m.RequestID}, false, &messageError{reason: err}
		}
		if m.IPCVersion != IPCVersion {
			return message{}, false, errVersion
		}
		switch m.Signal {
		case "":
			return m, false, nil
		case ping:
			if err := l.send(message{Signal: pong}, nil); err != nil {
				return message{}, false, err
			}
		case pong:
		default:
			return message{}, false, &messageError{reason: errors.New("an unknown signal")}
		}
	}
}

// messageError is a whole frame with something else inside than a message.
// The frames stay in step, so the connection can live on.
type messageError struct{ reason error }

func (e *messageError) Error() string { return "a malformed message: " + e.reason.Error() }
func (e *messageError) Unwrap() error { return e.reason }

// alive stops the clock of the frame and tells the pinger.
func (l *link) alive() {
	l.conn.SetReadDeadline(time.Time{})
	l.once.Do(func() { close(l.first) })
	select {
	case l.heard <- struct{}{}:
	default:
	}
}

func (l *link) send(m message, sent func()) error {
	m.IPCVersion = IPCVersion
	body, err := encode(m)
	if err != nil {
		return err
	}
	return l.queue(outgoing{frame: appendFrame(body), sent: sent})
}

func (l *link) queue(o outgoing) error {
	select {
	case l.out <- o:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// write carries frames out until the link ends. It is the only writer.
func (l *link) write() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case o := <-l.out:
			if o.frame == nil {
				l.end(errEnded)
				return
			}
			l.conn.SetWriteDeadline(time.Now().Add(writeTime))
			_, err := l.conn.Write(o.frame)
			if o.sent != nil {
				o.sent()
			}
			if err != nil {
				l.end(fmt.Errorf("writing a frame: %w", err))
				return
			}
		}
	}
}

// watch asks a silent peer whether it lives.
func (l *link) watch() {
	timer := time.NewTimer(pingEvery)
	defer timer.Stop()
	missed := 0
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.heard:
			missed = 0
		case <-timer.C:
			if missed == maxMissed {
				l.end(errSilent)
				return
			}
			missed++
			if l.send(message{Signal: ping}, nil) != nil {
				return
			}
		}
		timer.Reset(pingEvery)
	}
}
