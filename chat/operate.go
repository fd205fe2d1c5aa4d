package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lomi/agent"
	"lomi/broker/catalog/link"
	"lomi/broker/client"
	"lomi/broker/control"
)

// revisionRetries is how often a request is made anew, with a new key, because
// somebody else than the person moved the workspace.
const revisionRetries = 3

// operation is a mutation that was admitted, as far as it has come.
type operation struct {
	control.Operation
	expired bool // nobody answered; the session gave up
	asked   bool // a person was asked
}

// mutate makes a call that has an effect, and waits until it has settled or
// wait is over. build builds the request for a new key and the revision that
// the workspace has now, "" if the tool expects none.
func (c *sessionCall) mutate(tool string, wait time.Duration, revised bool, build func(key, revision string) control.Retryable, tail func() string) (operation, error) {
	for attempt := 0; ; attempt++ {
		revision := ""
		if revised {
			now, err := c.connected()
			if err != nil {
				return operation{}, err
			}
			revision = now.Revision
		}
		op, err := c.dispatch(tool, func(key string) control.Retryable { return build(key, revision) })
		if err == nil {
			op, err = c.settle(op, wait, tail)
		}
		conflict, byPerson := conflictOf(op, err)
		if !conflict || byPerson || attempt >= revisionRetries {
			return op, err
		}
	}
}

func conflictOf(op operation, err error) (conflict, byPerson bool) {
	if err != nil {
		e, ok := control.AsError(err)
		return ok && e.Code == control.RevisionConflict, ok && e.MovedBy == "person"
	}
	return op.State == control.StateFailed && op.Code == control.RevisionConflict && op.EffectState == control.EffectNone, false
}

// dispatch makes a mutation under a new key and sends it. A retry epoch lasts a
// day and a conversation longer: when it is over, nothing was dispatched (the
// broker looks at the epoch before it records anything), so the request is made
// anew under the next one, once.
func (c *sessionCall) dispatch(tool string, build func(key string) control.Retryable) (operation, error) {
	op, err := c.send(tool, build(control.NewID()))
	if e, ok := control.AsError(err); !ok || e.Code != control.RetryWindowExpired {
		return op, err
	}
	if _, err := c.connected(); err != nil {
		return operation{}, err
	}
	return c.send(tool, build(control.NewID()))
}

// send sends a mutation and gives its receipt. When the turn ends before the
// answer is there, the answer is still waited for and the receipt looked for
// by its key, whatever comes first: what was sent may be under way, and the
// caller must be able to cancel it.
func (c *sessionCall) send(tool string, request control.Retryable) (operation, error) {
	if c.ctx.Err() != nil {
		return operation{}, context.Cause(c.ctx)
	}
	sending, end := context.WithCancel(context.WithoutCancel(c.ctx))
	answers := make(chan answer, 1)
	var sent sync.WaitGroup
	sent.Go(func() {
		reply, err := c.request(sending, tool, request, true)
		answers <- answer{reply, err}
	})
	defer sent.Wait()
	defer end()
	var a answer
	select {
	case a = <-answers:
	case <-c.ctx.Done():
		_, key, _ := request.Retry()
		a = c.findSent(tool, key, answers)
	}
	if a.err != nil {
		return operation{}, a.err
	}
	var op operation
	var err error
	if op.Operation, err = admitted(tool, a.reply); err != nil {
		return op, err
	}
	c.receipt, c.open = op.OperationID, op
	return op, nil
}

// answer is what came of a request.
type answer struct {
	reply control.Reply
	err   error
}

// findSent looks for the receipt of a request whose turn has ended. The broker
// works on both at the same time, so the receipt may not be there at the first
// look.
func (c *sessionCall) findSent(tool, key string, answers <-chan answer) answer {
	ctx, end := context.WithTimeout(context.WithoutCancel(c.ctx), cancelTimeout)
	defer end()
	again := time.NewTicker(findPoll)
	defer again.Stop()
	for {
		reply, err := c.after(ctx, "lomi_operation_get", c.keyOf(tool, key))
		if err == nil {
			return answer{reply: reply}
		}
		select {
		case a := <-answers:
			return a
		case <-again.C:
		case <-ctx.Done():
			c.session.cfg.Logger.WarnContext(ctx, "no receipt for a request that was left", "conv", c.session.cfg.Conversation, "tool", tool, "err", err)
			return answer{err: context.Cause(c.ctx)}
		}
	}
}

// keyOf asks for the operation of a request's key. The project is named,
// because the grant may hold several.
func (c *sessionCall) keyOf(tool, key string) link.OperationGetRequest {
	return link.OperationGetRequest{RetryEpoch: c.session.epoch, RequestKey: key, Tool: tool, ProjectID: c.session.project}
}

// admitted reads the answer to a mutation. Some tools answer with their own
// kind once it is done, which makes it an operation without a receipt's id.
func admitted(tool string, reply control.Reply) (control.Operation, error) {
	var op control.Operation
	if err := json.Unmarshal(reply.Data, &op); err != nil {
		return op, fmt.Errorf("decoding the receipt of %s: %w", tool, err)
	}
	if op.Kind != "operation" {
		op = control.Operation{Kind: "operation", Tool: tool, State: control.StateSucceeded, EffectState: control.EffectComplete, Result: reply.Data}
	}
	return op, nil
}

// byKey finds an operation by the key of its request.
func (c *sessionCall) byKey(tool, key string) (control.Operation, error) {
	op, err := read[control.Operation](c, "lomi_operation_get", c.keyOf(tool, key))
	if err == nil {
		c.receipt, c.open = op.OperationID, operation{Operation: op}
	}
	return op, err
}

// abandon cancels what is still under way when the turn has ended.
func (c *sessionCall) abandon() {
	if c.open.OperationID == "" || c.open.State.Settled() {
		return
	}
	if _, err := c.cancel(c.open); err != nil {
		c.session.cfg.Logger.WarnContext(c.ctx, "operation not cancelled", "conv", c.session.cfg.Conversation, "receipt", c.open.OperationID, "err", err)
	}
}

// settle watches an operation. The wait does not count while a person is being
// asked. When the turn ends first, the operation is cancelled and its end
// waited for, briefly: the session is kept.
func (c *sessionCall) settle(op operation, wait time.Duration, tail func() string) (operation, error) {
	deadline := time.Now().Add(wait)
	var park time.Time
	for !op.State.Settled() {
		if c.ctx.Err() != nil {
			return c.cancel(op)
		}
		left := time.Until(deadline)
		switch {
		case op.State == control.StateAwaitingUser:
			if !op.asked {
				op.asked, park = true, time.Now()
				c.tell(agent.Update{Approval: c.approval(op, "")})
			}
			if time.Since(park) > parkTimeout+5*time.Second {
				op.expired = true
				return c.giveUp(op, "expired")
			}
			left = parkPoll
		case op.asked && !park.IsZero():
			deadline = deadline.Add(time.Since(park))
			park = time.Time{}
			c.tell(agent.Update{Approval: c.approval(op, "approved")})
			continue
		case left <= 0:
			return op, nil
		}
		next, err := c.poll(op, min(left, pollWait))
		if err != nil {
			if c.ctx.Err() != nil {
				return c.cancel(op)
			}
			if !park.IsZero() {
				c.tell(agent.Update{Approval: c.approval(op, withdrawn)})
			}
			return op, err
		}
		op.Operation = next
		c.open = op
		if op.State != control.StateAwaitingUser && !op.State.Settled() {
			text := ""
			if tail != nil {
				text = tail()
			}
			c.progress(string(op.State), text)
		}
	}
	if !park.IsZero() {
		c.tell(agent.Update{Approval: c.approval(op, decisionOf(op.Operation))})
	}
	return op, nil
}

// decisionOf says what became of a question whose operation has settled.
func decisionOf(op control.Operation) string {
	switch {
	case op.Code == control.DeadlineExceeded && op.EffectState == control.EffectNone:
		return "expired"
	case op.Code == control.ScopeDenied:
		return "denied"
	case op.State == control.StateCancelled && op.EffectState == control.EffectNone:
		return withdrawn
	}
	return "approved"
}

// withdrawn is the outcome of a question that nobody has to answer any more:
// its turn was stopped, or its connection lost. Nobody let it expire.
const withdrawn = "withdrawn"

// approval is the question as the broker puts it to people.
func (c *sessionCall) approval(op operation, outcome string) *agent.Approval {
	a := &agent.Approval{ID: op.OperationID, Kind: "risk", Summary: callTitle(c.call), Detail: op.Message, Outcome: outcome}
	if op.Asks != nil {
		a.Kind, a.Summary, a.Detail = op.Asks.Kind, op.Asks.Summary, op.Asks.Reason
	}
	return a
}

func (c *sessionCall) poll(op operation, wait time.Duration) (control.Operation, error) {
	return read[control.Operation](c, "lomi_operation_get",
		link.OperationGetRequest{OperationID: op.OperationID, WaitMS: int(max(wait, time.Millisecond).Milliseconds())})
}

// giveUp cancels an operation that waits for a person.
func (c *sessionCall) giveUp(op operation, outcome string) (operation, error) {
	reply, err := c.request(c.ctx, "lomi_operation_cancel", link.OperationCancelRequest{OperationID: op.OperationID}, false)
	if err == nil {
		err = json.Unmarshal(reply.Data, &op.Operation)
	}
	c.tell(agent.Update{Approval: c.approval(op, outcome)})
	return op, err
}

// cancel sends the person's Stop on, after the turn's context has ended, and
// waits a moment for what comes of it.
func (c *sessionCall) cancel(op operation) (operation, error) {
	ctx, end := context.WithTimeout(context.WithoutCancel(c.ctx), cancelTimeout)
	defer end()
	waiting := op.State == control.StateAwaitingUser
	cancelled := link.OperationCancelRequest{OperationID: op.OperationID}
	reply, err := c.after(ctx, "lomi_operation_cancel", cancelled)
	if err == nil && !op.State.Settled() {
		reply, err = c.after(ctx, "lomi_operation_get", link.OperationGetRequest{OperationID: op.OperationID, WaitMS: int((cancelTimeout / 2).Milliseconds())})
	}
	if err == nil {
		err = json.Unmarshal(reply.Data, &op.Operation)
	}
	if waiting && op.asked {
		c.tell(agent.Update{Approval: c.approval(op, decisionOf(op.Operation))})
	}
	c.cancelled = err != nil || op.State == control.StateCancelled || !op.State.Settled()
	c.open = operation{} // once is enough
	if err != nil {
		return op, fmt.Errorf("cancelling an operation: %w", err)
	}
	return op, nil
}

// after is request for what must be said when the turn's context has ended. It
// never ends the session: the connection has done nothing wrong.
func (c *sessionCall) after(ctx context.Context, tool string, request any) (control.Reply, error) {
	args, err := json.Marshal(request)
	if err != nil {
		return control.Reply{}, fmt.Errorf("encoding %s: %w", tool, err)
	}
	c.session.mu.Lock()
	conn := c.session.conn
	c.session.mu.Unlock()
	if conn == nil {
		return control.Reply{}, client.ErrUnavailable
	}
	reply, err := conn.Call(ctx, tool, args)
	if err != nil {
		return reply, err
	}
	return reply, reply.Err()
}

// result is the settled result of an operation, decoded. A settled operation
// that did not succeed is an error, except that failed ones with a complete
// effect (a command that exits 7) have a result to read.
func resultOf[T any](op operation, err error) (T, error) {
	var value T
	if err != nil {
		return value, err
	}
	if len(op.Result) > 0 && (op.State == control.StateSucceeded || op.EffectState == control.EffectComplete) {
		if err := json.Unmarshal(op.Result, &value); err != nil {
			return value, fmt.Errorf("decoding the result of %s: %w", op.Tool, err)
		}
		return value, nil
	}
	return value, &operationError{op}
}

// adviceError is an error of ours, in words for the model. Those of the broker
// are quoted.
type adviceError struct{ text string }

func (e *adviceError) Error() string { return e.text }

func advise(format string, args ...any) error { return &adviceError{fmt.Sprintf(format, args...)} }

// operationError is an operation that did not succeed, or has not settled.
type operationError struct{ op operation }

func (e *operationError) Error() string {
	return fmt.Sprintf("%s is %s: %s %s", e.op.Tool, e.op.State, e.op.Code, e.op.Message)
}

// failure words what went wrong for the model: what happened, and what to do.
func (c *sessionCall) failure(err error) agent.Result {
	if own, ok := errors.AsType[*adviceError](err); ok {
		return failed("%s", own.Error())
	}
	if failed, ok := errors.AsType[*operationError](err); ok {
		return c.operationFailure(failed.op)
	}
	if lost, ok := errors.AsType[*lostError](err); ok {
		if lost.mutation {
			return agent.Result{Text: "Outcome unknown: the connection to Lomi's broker was lost while this call was running. It may have had its effect; look before you repeat it. The next call asks the person anew.",
				IsError: true, Outcome: agent.OutcomeUnknown}
		}
		return agent.Result{Text: "Connection revoked: the session with Lomi's broker has ended. The next call asks the person anew.", IsError: true, Outcome: agent.OutcomeRevoked}
	}
	e, ok := control.AsError(err)
	if !ok {
		if c.ctx.Err() == nil {
			c.session.cfg.Logger.WarnContext(c.ctx, "call failed", "conv", c.session.cfg.Conversation, "tool", c.call.Name, "err", err)
		}
		return failed("Lomi could not do this because of an internal error; its log has more.")
	}
	if e.Code == control.ControlRevoked {
		return c.revoked(e.Message)
	}
	return c.explain(e.Code, e.Message)
}

func (c *sessionCall) operationFailure(op operation) agent.Result {
	switch {
	case op.expired || op.asked && op.Code == control.DeadlineExceeded && op.EffectState == control.EffectNone:
		return agent.Result{Text: "Expired unanswered: nobody answered within 120 s. They did not refuse. Nothing was done.", IsError: true, Outcome: agent.OutcomeExpired}
	case op.Code == control.ScopeDenied && (op.asked || strings.HasPrefix(op.Message, deniedByPerson)):
		return agent.Result{Text: "Denied by the person: nothing was done. Do not try another way to the same end.", IsError: true, Outcome: agent.OutcomeDenied}
	case op.State == control.StateOutcomeUnknown:
		return agent.Result{Text: "Outcome unknown: it may have had its effect. Look before you repeat it." + told(op.Message), IsError: true, Outcome: agent.OutcomeUnknown}
	case op.Code == control.ControlRevoked:
		return c.revoked(op.Message)
	case op.State == control.StateCancelled:
		return agent.Result{Text: "Cancelled." + told(op.Message), IsError: true, Outcome: agent.OutcomeCancelled}
	case !op.State.Settled():
		return agent.Result{Text: fmt.Sprintf("Not settled yet: it is %s. Look at it with operation_status{\"receipt\":%q}, if you have that tool; do not repeat it.", op.State, op.OperationID),
			IsError: true, Outcome: agent.OutcomeTimedOut}
	}
	return c.explain(op.Code, op.Message)
}

// deniedByPerson begins the broker's message about a refusal. It tells one from
// a scope that is missing when the answer came before the first look.
const deniedByPerson = "denied by the person"

// revoked finds out whether the whole session is gone or only a lease, because
// a person typed or clicked there.
func (c *sessionCall) revoked(message string) agent.Result {
	s := c.session
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil && c.ctx.Err() == nil {
		if _, err := c.connected(); err == nil {
			c.dropUsed()
			return agent.Result{Text: "The person took over. You cannot type or click there any more. Ask them, or open another one." + told(message),
				IsError: true, Outcome: agent.OutcomeRevoked}
		}
		s.lose(conn)
	}
	return agent.Result{Text: "Connection revoked: the person ended this chat's control. Nothing more was done. Ask them before you go on; the next call asks for a new approval.",
		IsError: true, Outcome: agent.OutcomeRevoked}
}

// dropUsed forgets the panel that this call was about: its lease is gone.
func (c *sessionCall) dropUsed() {
	switch {
	case isBrowserTool(c.call.Name):
		c.session.pages.drop(c.session.pages.used)
	default:
		c.session.terminals.drop(c.session.terminals.used)
	}
}

// fixFor says what to do about a code, "" when its message says it all.
func fixFor(code control.Code) string {
	switch code {
	case control.ScopeDenied:
		return "The person's grant does not allow this. Do not try another way; say what you would need."
	case control.TargetNotFound:
		return "Look at what is there now."
	case control.TargetBusy:
		return "It is busy. Wait for what is under way, or use another one."
	case control.PromptStateUnknown:
		return "The shell's prompt is not ready, so no command can be run safely. Look with terminal_screen, or open another terminal."
	case control.PanelNotRenderable:
		return "The panel cannot be seen now."
	case control.RevisionConflict:
		return "The person changed the workspace at the same moment. Try again."
	case control.StaleGeneration:
		return "It was restarted meanwhile. Open a new one."
	case control.StaleSnapshot:
		return "The page changed. Take a new browser_snapshot and use its numbers."
	case control.ResourceExhausted:
		return "Change what the message names."
	case control.DeadlineExceeded:
		return "It took too long."
	case control.UnsupportedCapability:
		return "This cannot be done here."
	case control.StorageUnavailable:
		return "Lomi cannot keep records now, so nothing can be changed. Tell the person."
	case control.UINotReady:
		return "Lomi's page must be open for this. Ask the person to open it."
	case control.ProtectedOriginTerminal:
		return "That terminal is protected. Use another one."
	case control.ArtifactTooLarge:
		return "It is too large."
	case control.HostUnqualified:
		return "This computer cannot do it."
	case control.AppUnavailable:
		return "Lomi is not ready. Tell the person."
	}
	return ""
}

// usesTerminal reports whether the call stands and falls with its terminal.
func (c *sessionCall) usesTerminal() bool {
	switch c.call.Name {
	case "terminal_run", "terminal_input", "terminal_read", "terminal_screen":
		return true
	}
	return false
}

func (c *sessionCall) explain(code control.Code, message string) agent.Result {
	if (code == control.TargetNotFound || code == control.StaleGeneration) && c.usesTerminal() {
		c.dropUsed()
		return failed("Terminal is gone. The next terminal_run opens a new one; what was set in the old one is lost.%s", told(message))
	}
	text := fixFor(code)
	if text == "" {
		text = "It failed: " + clip(string(code), 60) + "."
	}
	return agent.Result{Text: text + told(message), IsError: true, Outcome: agent.OutcomeError}
}

func operationCode(err error) (control.Code, bool) {
	failed, ok := errors.AsType[*operationError](err)
	if !ok {
		return "", false
	}
	return failed.op.Code, true
}
