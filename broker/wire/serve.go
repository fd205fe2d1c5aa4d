package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/control"
)

// maxInFlight is how many requests of one connection may run at a time.
const maxInFlight = 16

// maxUnsent bounds the answers of one connection that wait to be written.
const maxUnsent = 16 << 20

// drainTime is how long calls may take to answer once their session ended.
const drainTime = time.Second

// maxRequestID is 2^53 - 1: every JSON implementation carries it exactly.
const maxRequestID = 1<<53 - 1

// serving is one open session.
type serving struct {
	*link
	server  *server
	session Session
	calls   sync.WaitGroup
	running atomic.Int32
	unsent  atomic.Int64
	lastID  uint64 // of the reading goroutine
}

// serve answers requests until the connection or the session ends, and says
// why it ended.
func (s *server) serve(ctx context.Context, conn net.Conn, session Session) error {
	v := &serving{link: newLink(ctx, conn, maxRequest), server: s, session: session}
	// A read that waits for the peer must end with the link.
	stop := context.AfterFunc(v.ctx, v.hangUp)
	defer stop()
	var helpers sync.WaitGroup
	helpers.Go(v.write)
	helpers.Go(v.watch)
	helpers.Go(v.watchSession)

	err := v.readRequests()
	v.end(err) // the first cause stays
	s.Handler.Closed(session.ID)
	v.hangUp()
	helpers.Wait()
	v.calls.Wait()
	v.giveBack()
	return context.Cause(v.ctx)
}

// watchSession ends the connection when the engine ended the session, after
// the answers that are due.
func (v *serving) watchSession() {
	select {
	case <-v.ctx.Done():
		return
	case <-v.session.Ended:
	}
	deadline, cancel := context.WithTimeout(v.ctx, drainTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for v.running.Load() > 0 && deadline.Err() == nil {
		select {
		case <-tick.C:
		case <-deadline.Done():
		}
	}
	v.queue(outgoing{}) // the end, behind what waits
}

// readRequests reads until the connection ends.
func (v *serving) readRequests() error {
	for {
		m, tooLong, err := v.read()
		bad, malformed := errors.AsType[*messageError](err)
		switch {
		case malformed:
			v.server.Logger.WarnContext(v.ctx, "malformed message on a control connection", "session", v.session.ID, "err", bad)
			err = v.answer(m.RequestID, control.Failure(control.Errorf(control.ResourceExhausted, "the message is malformed")))
		case err != nil:
		case tooLong:
			err = v.answer(0, control.Failure(control.Errorf(control.ResourceExhausted,
				"the message is longer than %d bytes", maxRequest)))
		default:
			err = v.request(m)
		}
		if err != nil {
			return err
		}
	}
}

// request starts a call, or answers why it does not.
func (v *serving) request(m message) error {
	if refused := v.vet(m); refused != nil {
		return v.answer(m.RequestID, control.Failure(refused))
	}
	v.lastID = m.RequestID
	if v.running.Load() >= maxInFlight {
		return v.answer(m.RequestID, control.Failure(control.Errorf(control.ResourceExhausted,
			"%d requests of this connection run already", maxInFlight)))
	}
	args := m.Request.Arguments
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	v.running.Add(1)
	v.calls.Go(func() {
		reply := v.server.Handler.Handle(v.ctx, v.session.ID, m.Request.Tool, args)
		v.finish(m.RequestID, reply)
	})
	return nil
}

// vet checks the envelope of a request. Ids must rise: then one number is all
// that is needed to know a repeated id, in flight or long done.
func (v *serving) vet(m message) *control.Error {
	switch {
	case m.Request == nil || m.Result != nil:
		return control.Errorf(control.ResourceExhausted, "request: exactly one is needed")
	case m.RequestID == 0 || m.RequestID > maxRequestID:
		return control.Errorf(control.ResourceExhausted, "requestId: must be 1 to 2^53-1")
	case m.RequestID <= v.lastID:
		return control.Errorf(control.IdempotencyConflict, "requestId: was used before on this connection")
	case !control.ValidID(m.Request.Tool):
		return control.Errorf(control.ResourceExhausted, "tool: must be a name of 1 to 128 characters")
	case len(m.Request.Arguments) > control.MaxArguments:
		return control.Errorf(control.ResourceExhausted, "arguments: at most %d bytes", control.MaxArguments)
	}
	return nil
}

// finish answers a call that has run.
func (v *serving) finish(id uint64, reply control.Reply) {
	if len(reply.Data) > control.MaxResult {
		reply = control.Failure(control.Errorf(control.ResourceExhausted,
			"the result is longer than %d bytes; ask for less", control.MaxResult))
	}
	// An error here means that the link has ended; its owner knows.
	_ = v.reply(id, reply, func() { v.running.Add(-1) })
}

func (v *serving) answer(id uint64, reply control.Reply) error { return v.reply(id, reply, func() {}) }

// reply queues an answer. The place of the call is free when the answer is
// queued: a client that has read it may send the next request.
func (v *serving) reply(id uint64, reply control.Reply, queued func()) error {
	body, err := encode(message{IPCVersion: IPCVersion, RequestID: id, Result: &reply})
	if err != nil {
		v.server.Logger.ErrorContext(v.ctx, "cannot encode an answer", "session", v.session.ID, "err", err)
		return v.fallback(id, control.Failure(err), queued)
	}
	if len(body) > control.MaxFrame {
		return v.fallback(id, control.Failure(control.Errorf(control.ResourceExhausted,
			"the answer is longer than %d bytes; ask for less", control.MaxFrame)), queued)
	}
	size := int64(len(body))
	if !v.reserve(size) {
		return v.fallback(id, control.Failure(control.Errorf(control.ResourceExhausted,
			"too many answers wait to be read; this one was dropped, its receipt stays")), queued)
	}
	queued()
	return v.queue(outgoing{frame: appendFrame(body), sent: func() { v.unreserve(size) }})
}

// fallback answers with a failure that is small enough to need no budget.
func (v *serving) fallback(id uint64, failure control.Reply, queued func()) error {
	queued()
	return v.send(message{RequestID: id, Result: &failure}, nil)
}

// reserve takes size bytes of the budgets for unsent answers.
func (v *serving) reserve(size int64) bool {
	if v.unsent.Add(size) > maxUnsent {
		v.unsent.Add(-size)
		return false
	}
	if v.server.unsent.Add(size) > maxUnsentAll {
		v.server.unsent.Add(-size)
		v.unsent.Add(-size)
		return false
	}
	return true
}

func (v *serving) unreserve(size int64) {
	v.unsent.Add(-size)
	v.server.unsent.Add(-size)
}

// giveBack returns what answers that were never written still hold.
func (v *serving) giveBack() { v.server.unsent.Add(-v.unsent.Swap(0)) }
