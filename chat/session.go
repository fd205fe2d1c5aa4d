package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"lomi/agent"
	"lomi/broker/catalog/link"
	"lomi/broker/client"
	"lomi/broker/control"
	"lomi/models"
)

// Waits of a session. Those for a person are the broker's 120 s and a little
// more, so that it is the broker that says "expired".
const (
	dialTimeout   = 10 * time.Second
	parkTimeout   = 120 * time.Second
	callTimeout   = 20 * time.Second       // the broker answers every call within it
	cancelTimeout = 5 * time.Second        // cancelling an operation after its turn ended
	pollWait      = time.Second            // of lomi_operation_get, so that progress is shown
	parkPoll      = 200 * time.Millisecond // the same while a person is asked: the answer is shown at once
	findPoll      = 100 * time.Millisecond // of lomi_operation_get for a request whose turn ended
	settleTimeout = 60 * time.Second       // for an operation that nothing else bounds
)

// Bounds of a session's label (chat spec 8.1).
const (
	labelPrefix = "Lomi Chat AI "
	labelID     = 32
)

// policyDetail comes before the policy wished for in the detail of a pairing,
// after the label; a door offers that policy first.
const policyDetail = "; policy "

// Dialer begins connections to the broker: it enrols under the label and
// returns before a person has decided.
type Dialer interface {
	Dial(ctx context.Context, label string) (Conn, error)
}

// Conn is an enrolled connection, *client.Conn but for tests. Await returns
// when it is approved, with client.ErrRejected or client.ErrExpired when it will
// not be. An error of Call with client.ErrNotSent in it had no effect. Done is
// closed when the connection has ended for good.
type Conn interface {
	PairingID() string
	Await(ctx context.Context) error
	Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error)
	Done() <-chan struct{}
	Close() error
}

// SessionConfig is what a Session works with.
type SessionConfig struct {
	// Broker connects; Conversation names the session to the person who pairs.
	Broker       Dialer
	Conversation string
	// WorkspaceID is where the session works; Project is its folder, for the
	// person who pairs.
	WorkspaceID string
	Project     string
	// Policy gives the policy that the conversation wishes for when it pairs,
	// "" for none. Nil means none.
	Policy func() string
	// Logger gets what a person need not see, nil for nothing.
	Logger *slog.Logger
}

// Session is the connection of one conversation to the broker, kept from turn
// to turn. It connects at the first call, translates the short forms that the
// model uses to the full ones, fills in the bookkeeping, and waits for
// operations to settle. A lost connection or CONTROL_REVOKED ends what it
// holds; the next call pairs anew, and nothing is replayed.
//
// Calls come one at a time, from the one running turn. Close and Specs may come
// from elsewhere.
type Session struct {
	cfg SessionConfig

	mu     sync.Mutex
	conn   Conn // nil before the first call and after the end of a connection
	closed bool
	scopes map[control.Scope]bool // nil until a grant is known

	// What the approved connection holds; the calling turn's alone.
	epoch     string
	project   string // in which the workspace is
	terminals named[*terminalState]
	pages     named[*pageState]
	elements  elementBook
}

// NewSession makes a session that is not connected yet.
func NewSession(cfg SessionConfig) (*Session, error) {
	switch {
	case cfg.Broker == nil:
		return nil, errors.New("making a session: no broker")
	case cfg.Conversation == "":
		return nil, errors.New("making a session: no conversation")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Session{cfg: cfg}, nil
}

// Label is what the session calls itself to the broker. It proves nothing.
func (s *Session) Label() string {
	id := s.cfg.Conversation
	return labelPrefix + id[:min(len(id), labelID)]
}

// Close ends the session's connection.
func (s *Session) Close() {
	s.mu.Lock()
	conn := s.conn
	s.conn, s.closed, s.scopes = nil, true, nil
	s.mu.Unlock()
	s.closeConn(conn)
}

// connected reports whether the session holds a connection.
func (s *Session) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

// release gives the connection up, as if it had been lost, and returns what
// ends it.
func (s *Session) release() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.conn
	s.conn, s.scopes = nil, nil
	return func() { s.closeConn(conn) }
}

func (s *Session) closeConn(conn Conn) {
	if conn == nil {
		return
	}
	if err := conn.Close(); err != nil {
		s.cfg.Logger.Debug("connection not closed in order", "conv", s.cfg.Conversation, "err", err)
	}
}

// countFrom makes element numbers go on above n: they never repeat within a
// conversation, even across a restart.
func (s *Session) countFrom(n int) { s.elements.last = max(s.elements.last, n) }

// view is how the model of a turn sees results.
type view struct {
	chars  int // of a result's text
	vision bool
}

// Call carries out one call in the short form: progress, people's decisions,
// and one result.
func (s *Session) Call(ctx context.Context, call models.ToolCall, v view) iter.Seq2[agent.Update, error] {
	return func(yield func(agent.Update, error) bool) {
		c := &sessionCall{session: s, ctx: ctx, call: call, view: v, start: time.Now(), yield: yield}
		result := c.carryOut()
		if ctx.Err() != nil {
			c.abandon()
		}
		if ctx.Err() != nil && (c.cancelled || result.Outcome != agent.OutcomeOK) {
			// The turn knows why its context ended; it only needs the receipt.
			result = agent.Result{Receipt: c.receipt}
		}
		if result.Receipt == "" {
			result.Receipt = c.receipt
		}
		if !c.stopped {
			yield(agent.Update{Result: &result}, nil)
		}
	}
}

// sessionCall is one call under way.
type sessionCall struct {
	session *Session
	ctx     context.Context // life of the call: the turn's
	call    models.ToolCall
	view    view
	start   time.Time
	yield   func(agent.Update, error) bool
	stopped bool   // nobody watches any more
	receipt string // of the last mutation

	open      operation // the last one, as far as it is known
	cancelled bool      // an operation was cancelled because the turn ended
}

func (c *sessionCall) tell(u agent.Update) {
	if !c.stopped && !c.yield(u, nil) {
		c.stopped = true
	}
}

func (c *sessionCall) progress(state, tail string) {
	c.tell(agent.Update{Progress: &agent.Progress{State: state, Elapsed: time.Since(c.start), Tail: tail}})
}

// carryOut checks the call, connects if need be, and runs it.
func (c *sessionCall) carryOut() agent.Result {
	handler := handlerOf(c.call.Name)
	if handler == nil {
		return notRun("There is no tool %s in this conversation.", clip(c.call.Name, 64))
	}
	run, bad := handler(c)
	if bad != "" {
		return notRun("%s", bad)
	}
	if r, ok := c.connect(); !ok {
		return r
	}
	result, err := run()
	if err != nil {
		return c.failure(err)
	}
	if result.Outcome == "" {
		result.Outcome = agent.OutcomeOK
	}
	return result
}

func notRun(format string, args ...any) agent.Result {
	r := failed(format, args...)
	r.Outcome = agent.OutcomeNotRun
	return r
}

// connect makes sure of an approved connection, asking the person through the
// log. The call waits; it is dispatched only after a yes.
func (c *sessionCall) connect() (agent.Result, bool) {
	s := c.session
	s.mu.Lock()
	conn, closed := s.conn, s.closed
	s.mu.Unlock()
	if closed {
		return notRun("The conversation is being closed."), false
	}
	if conn != nil {
		select {
		case <-conn.Done():
			s.lose(conn)
		default:
			return agent.Result{}, true
		}
	}
	dialing, cancel := context.WithTimeout(c.ctx, dialTimeout)
	conn, err := s.cfg.Broker.Dial(dialing, s.Label())
	cancel()
	if err != nil {
		s.cfg.Logger.WarnContext(c.ctx, "broker not reached", "conv", s.cfg.Conversation, "err", err)
		if e, ok := control.AsError(err); ok {
			return notRun("Lomi's broker takes no connection now (%s). Nothing was done. Tell the person.", clip(e.Message, 300)), false
		}
		return notRun("Lomi's broker cannot be reached, so no tool can run now. Nothing was done. Tell the person."), false
	}
	if r, ok := c.await(conn); !ok {
		s.closeConn(conn)
		return r, false
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.closeConn(conn)
		return notRun("The conversation is being closed."), false
	}
	s.conn = conn
	s.mu.Unlock()
	if err := c.bind(); err != nil {
		s.lose(conn)
		return c.failure(err), false
	}
	return agent.Result{}, true
}

// await parks the call until a person has decided on the pairing.
func (c *sessionCall) await(conn Conn) (agent.Result, bool) {
	s := c.session
	a := agent.Approval{ID: conn.PairingID(), Kind: "pairing",
		Summary: "The chat asks to work in " + orUnknown(clip(s.cfg.Project, 200)),
		Detail:  s.Label()}
	if s.cfg.Policy != nil {
		if wish := s.cfg.Policy(); wish != "" {
			a.Detail += policyDetail + wish
		}
	}
	c.tell(agent.Update{Approval: &a})
	parked, cancel := context.WithTimeout(c.ctx, parkTimeout)
	err := conn.Await(parked)
	cancel()
	settled := a
	switch {
	case err == nil:
		settled.Outcome = "approved"
	case errors.Is(err, client.ErrRejected):
		settled.Outcome = "denied"
	case c.ctx.Err() != nil:
		settled.Outcome = withdrawn
	default:
		settled.Outcome = "expired"
	}
	c.tell(agent.Update{Approval: &settled})
	switch {
	case err == nil:
		return agent.Result{}, true
	case c.ctx.Err() != nil:
		return agent.Result{}, false
	case settled.Outcome == "denied":
		return agent.Result{Text: "Denied: the person did not allow the chat to work here. Nothing was done. Do not try another way to the same end; ask what they want.",
			IsError: true, Outcome: agent.OutcomeDenied}, false
	case errors.Is(err, client.ErrExpired) || errors.Is(err, context.DeadlineExceeded):
		return agent.Result{Text: "Expired unanswered: nobody answered the request to work here within 120 s. They did not refuse. Nothing was done.",
			IsError: true, Outcome: agent.OutcomeExpired}, false
	}
	s.cfg.Logger.WarnContext(c.ctx, "pairing failed", "conv", s.cfg.Conversation, "err", err)
	return notRun("The connection to Lomi's broker was lost before it was approved. Nothing was done."), false
}

// bind learns the retry epoch and what the grant holds. Whatever an earlier
// connection held is gone.
func (c *sessionCall) bind() error {
	s := c.session
	s.terminals, s.pages = named[*terminalState]{}, named[*pageState]{}
	s.elements.forget()
	connected, err := c.connected()
	if err != nil {
		return err
	}
	scopes := map[control.Scope]bool{}
	for _, scope := range connected.Scopes {
		scopes[scope] = true
	}
	s.mu.Lock()
	s.scopes = scopes
	s.mu.Unlock()
	return nil
}

// connected asks how the workspace stands. Each answer may bring another retry
// epoch, which holds from then on.
func (c *sessionCall) connected() (link.Connected, error) {
	s := c.session
	now, err := read[link.Connected](c, "lomi_connect", link.ConnectRequest{WorkspaceID: s.cfg.WorkspaceID})
	if err == nil {
		s.epoch, s.project = now.RetryEpoch, now.ProjectID
	}
	return now, err
}

// lose forgets a connection that has ended.
func (s *Session) lose(conn Conn) {
	s.mu.Lock()
	if s.conn == conn {
		s.conn, s.scopes = nil, nil
	}
	s.mu.Unlock()
	s.closeConn(conn)
}

// lostError is a call of which no answer came. With mutation it may have had an
// effect.
type lostError struct {
	mutation bool
	err      error
}

func (e *lostError) Error() string { return fmt.Sprintf("losing the broker: %v", e.err) }
func (e *lostError) Unwrap() error { return e.err }

// request makes one call of the full form and returns its answer.
func (c *sessionCall) request(ctx context.Context, tool string, request any, mutation bool) (control.Reply, error) {
	s := c.session
	args, err := json.Marshal(request)
	if err != nil {
		return control.Reply{}, fmt.Errorf("encoding %s: %w", tool, err)
	}
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return control.Reply{}, &lostError{err: client.ErrUnavailable}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+2*time.Second)
	defer cancel()
	reply, err := conn.Call(ctx, tool, args)
	if err != nil {
		if c.ctx.Err() != nil {
			return control.Reply{}, context.Cause(c.ctx)
		}
		s.lose(conn)
		return control.Reply{}, &lostError{mutation: mutation && !errors.Is(err, client.ErrNotSent), err: err}
	}
	return reply, reply.Err()
}

// read makes a call that has no effect.
func read[T any](c *sessionCall, tool string, request any) (T, error) {
	value, _, err := readImage[T](c, tool, request)
	return value, err
}

func readImage[T any](c *sessionCall, tool string, request any) (T, *control.Image, error) {
	var value T
	reply, err := c.request(c.ctx, tool, request, false)
	if err != nil {
		return value, nil, err
	}
	if err := json.Unmarshal(reply.Data, &value); err != nil {
		return value, nil, fmt.Errorf("decoding the answer of %s: %w", tool, err)
	}
	return value, reply.Image, nil
}
