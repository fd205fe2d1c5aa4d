package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxRequests bounds the requests that run; the SDK has no bound.
	maxRequests = 128
	// lastAnswers is how long requests may still answer when the input ended,
	// so that a script can pipe one in.
	lastAnswers = 500 * time.Millisecond
	// codeTooMany is the first of the codes that JSON-RPC leaves to servers.
	codeTooMany = -32000
)

// stdio is the transport and the connection of one session. It stands between
// the host and the SDK: what the SDK would choke on is answered here, an answer
// to a cancelled request is held back, and nothing but messages is written.
type stdio struct {
	in  *lines
	out io.Writer
	log *slog.Logger

	messages chan jsonrpc.Message
	ended    chan struct{} // closed when the input has ended
	closed   chan struct{} // closed by Close
	closing  sync.Once

	writing sync.Mutex // for one line at a time

	mu         sync.Mutex
	running    map[jsonrpc.ID]bool // requests without an answer; true: cancelled
	unanswered int                 // requests whose answer is not written yet
	idle       chan struct{}       // closed when draining and unanswered is 0
	draining   bool
}

func newStdio(in io.Reader, out io.Writer, log *slog.Logger) *stdio {
	return &stdio{in: newLines(in), out: out, log: log,
		messages: make(chan jsonrpc.Message), ended: make(chan struct{}), closed: make(chan struct{}),
		running: make(map[jsonrpc.ID]bool), idle: make(chan struct{})}
}

// Connect implements mcp.Transport.
func (s *stdio) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements mcp.Connection; there is one session on stdio.
func (s *stdio) SessionID() string { return "" }

// Close implements mcp.Connection.
func (s *stdio) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

// Read implements mcp.Connection.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.ended:
		return nil, io.EOF
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pump reads lines until the input or the session ends. It is the only reader;
// a host that does not read what we write stops it, and so itself.
func (s *stdio) pump() {
	defer close(s.ended)
	for {
		line, err := s.in.next()
		switch {
		case errors.Is(err, errLongLine):
			err = s.refuse(refuse(nil, jsonrpc.CodeInvalidRequest, "the message is longer than 8 MiB"))
		case err != nil:
			if !errors.Is(err, io.EOF) {
				s.log.Warn("cannot read from the host", "err", err)
			}
			s.drain()
			return
		default:
			err = s.take(line)
		}
		if err != nil {
			s.log.Warn("cannot answer the host", "err", err)
			return
		}
	}
}

// drain waits a moment for the requests that run.
func (s *stdio) drain() {
	s.mu.Lock()
	s.draining = true
	if s.unanswered == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	select {
	case <-s.idle:
	case <-timer.C:
	case <-s.closed:
	}
}

// take handles one line: to the SDK, or answered, or dropped.
func (s *stdio) take(line []byte) error {
	e, bad := vet(line)
	if bad != nil {
		return s.refuse(bad)
	}
	if e.response {
		return nil // we ask nothing, so it answers nothing
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return s.refuse(refuse(e.id, jsonrpc.CodeInvalidRequest, "the message is not valid JSON-RPC"))
	}
	request, ok := message.(*jsonrpc.Request)
	if !ok {
		return s.refuse(refuse(e.id, jsonrpc.CodeInvalidRequest, "the message is not a request"))
	}
	if bad := s.admit(e, request); bad != nil {
		return s.refuse(bad)
	}
	select {
	case s.messages <- message:
	case <-s.closed:
	}
	return nil
}

// admit keeps account of what runs.
func (s *stdio) admit(e envelope, request *jsonrpc.Request) *refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !request.IsCall() {
		if request.Method == "notifications/cancelled" {
			s.cancel(e.param("requestId"))
		}
		return nil
	}
	if _, taken := s.running[request.ID]; taken {
		// With that id, the host would take this for the answer to the other.
		return refuse(nil, jsonrpc.CodeInvalidRequest, "id is in use by a request that still runs")
	}
	if s.unanswered >= maxRequests {
		return refuse(e.id, codeTooMany, "%d requests run already", maxRequests)
	}
	s.running[request.ID] = false
	s.unanswered++
	return nil
}

// cancel marks a request, whose answer is then held back: after a cancel, MCP
// allows no further message about a request, and the SDK sends one.
func (s *stdio) cancel(raw json.RawMessage) {
	if len(raw) == 0 || !validID(raw) {
		return
	}
	var plain any
	if json.Unmarshal(raw, &plain) != nil {
		return
	}
	id, err := jsonrpc.MakeID(plain)
	if _, runs := s.running[id]; err == nil && runs {
		s.running[id] = true
	}
}

// Write implements mcp.Connection.
func (s *stdio) Write(_ context.Context, message jsonrpc.Message) error {
	if response, ok := message.(*jsonrpc.Response); ok {
		cancelled, known := s.retire(response.ID)
		if known {
			defer s.done() // when the line is out
		}
		if cancelled {
			return nil
		}
		response.Error = wireError(response.Error)
	}
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	return s.line(data)
}

// retire takes a request out of the account, before its answer is written: the
// host may use the id again as soon as it has read it.
func (s *stdio) retire(id jsonrpc.ID) (cancelled, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancelled, known = s.running[id]
	delete(s.running, id)
	return cancelled, known
}

// done notes that the answer to a request was written, or held back.
func (s *stdio) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered--
	if s.draining && s.unanswered == 0 {
		close(s.idle)
	}
}

// wireError gives errors a code where the SDK sends 0, which means nothing: a
// second initialize, a call before the first.
func wireError(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	}
	if e.Code == 0 {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Message, Data: e.Data}
	}
	return err
}

// refuse answers a line that the SDK does not see.
func (s *stdio) refuse(r *refused) error {
	if r.id == nil {
		r.id = json.RawMessage("null")
	}
	s.log.Debug("message of the host refused", "code", r.code, "reason", r.message)
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": r.id,
		"error": map[string]any{"code": r.code, "message": r.message}})
	if err != nil {
		return fmt.Errorf("encoding an error: %w", err)
	}
	return s.line(data)
}

func (s *stdio) line(data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(data, '\n'))
	if err != nil {
		return fmt.Errorf("writing to the host: %w", err)
	}
	return nil
}
