package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/control"
	"lomi/broker/ledger"
)

const (
	// quickWait is how long a call waits for its effect to settle, so that
	// quick ones answer with their result; runWait the same for a command,
	// whose caller polls anyway.
	quickWait = 10 * time.Second
	runWait   = 300 * time.Millisecond
	runTool   = "lomi_terminal_run"
	inputTool = "lomi_terminal_input"

	maxOperationResult = 64 << 10
)

// Where an operation stands between being recorded and having effects. The
// caller that gives up and the goroutine that goes on decide by one swap.
const (
	opOpen int32 = iota
	opDispatched
	opAbandoned
)

// operation is one mutation under way. Its goroutine belongs to the broker and
// outlives the call that started it.
type operation struct {
	id          string
	admission   *admission
	key         ledger.Key
	fingerprint ledger.Hash
	phase       atomic.Int32

	cancelOnce sync.Once
	cancel     chan struct{} // closed when someone wants it to end
	recorded   chan struct{} // closed when the receipt is durable, or cannot be
	settled    chan struct{} // closed when nothing changes any more

	mu      sync.Mutex
	receipt ledger.Receipt
	err     error // the ledger's, which kept it from being recorded
	image   *control.Image
	turn    sync.Mutex // held over one transition in the ledger
}

func (op *operation) set(r ledger.Receipt) {
	op.mu.Lock()
	op.receipt = r
	op.mu.Unlock()
}

func (op *operation) fail(err error) {
	op.mu.Lock()
	op.err = err
	op.mu.Unlock()
}

func (op *operation) view() (ledger.Receipt, *control.Image, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.receipt, op.image, op.err
}

// flying finds the operation under way for a key (F-28: a second request with
// the same id joins the first).
func (b *Broker) flying(key ledger.Key) *operation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight[key]
}

// underWay finds the operation of a receipt, nil if it is over.
func (b *Broker) underWay(id string) *operation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.operations[id]
}

// launch starts the operation of an admitted mutation, or joins the one that a
// twin of the request has started meanwhile.
func (b *Broker) launch(a *admission) (*operation, error) {
	op := &operation{
		id: control.NewReceiptID(), admission: a, key: a.key, fingerprint: a.fingerprint,
		cancel: make(chan struct{}), recorded: make(chan struct{}), settled: make(chan struct{}),
	}
	a.call.Operation = op.id
	b.mu.Lock()
	if twin := b.inFlight[a.key]; twin != nil {
		b.mu.Unlock()
		if twin.fingerprint != a.fingerprint {
			return nil, errConflict()
		}
		return twin, nil
	}
	if err := b.live(a.session); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	select {
	case a.session.slots <- struct{}{}:
	default:
		b.mu.Unlock()
		return nil, errFull()
	}
	b.inFlight[a.key] = op
	b.operations[op.id] = op
	b.mu.Unlock()
	if !b.owned.Go(func() { b.run(op) }) {
		b.forget(op)
		return nil, errRevoked()
	}
	return op, nil
}

func (b *Broker) forget(op *operation) {
	b.mu.Lock()
	delete(b.inFlight, op.key)
	delete(b.operations, op.id)
	b.mu.Unlock()
	<-op.admission.session.slots
}

// run takes an operation from its receipt to its end.
func (b *Broker) run(op *operation) {
	defer close(op.settled)
	defer b.forget(op)
	recorded := b.record(op)
	var p *approval
	if recorded && op.admission.question != nil {
		p = b.present(op) // before anyone hears that the receipt waits
	}
	close(op.recorded)
	if !recorded || p != nil && !b.ask(op, p) {
		return
	}
	b.carryOut(op)
}

// record makes the receipt durable. It waits for the ledger as long as the
// broker lives: giving up would leave a receipt that nobody settles.
func (b *Broker) record(op *operation) bool {
	a := op.admission
	entry := ledger.Entry{
		ID: op.id, Key: a.record, Session: a.session.id, Workspace: a.target.WorkspaceID,
		Target:      ledger.Target{WorkspaceID: a.target.WorkspaceID, ResourceID: a.target.Resource, Generation: a.target.Generation, Revision: a.revision},
		Fingerprint: a.fingerprint, Summary: summary(a), State: control.StateRunning,
	}
	if a.question != nil {
		entry.State = control.StateAwaitingUser
	}
	receipt, err := b.cfg.Ledger.Begin(b.store, entry)
	if err != nil {
		op.fail(err)
		return false
	}
	op.set(receipt)
	if receipt.ID != op.id {
		return false // recorded earlier: its answer stands
	}
	b.publishReceipt(receipt)
	return true
}

// carryOut has the adapter do what was admitted, and records how it ended.
func (b *Broker) carryOut(op *operation) {
	a := op.admission
	permit := op.permit(b)
	err := permit.Check()
	if err == nil && !op.phase.CompareAndSwap(opOpen, opDispatched) {
		err = control.Errorf(control.DeadlineExceeded, "the record was not durable in time; nothing was done")
	}
	if err != nil {
		b.settle(op, failedBefore(err))
		return
	}
	out := b.do(a.session.life, permit, a)
	if out.result.Lease != "" {
		b.giveLease(a.session, out.result.Lease)
	}
	b.extend(a.session, out.result.Workspaces)
	op.mu.Lock()
	op.image = out.result.Image
	op.mu.Unlock()
	b.settle(op, out)
}

// permit is good while the session lives and its lease, if the tool needs one,
// is held. A wish to cancel takes it back until the effect has started; after
// that the adapter needs it to end the effect in order.
func (op *operation) permit(b *Broker) *Permit {
	var p *Permit
	held := op.admission.lease
	if !op.admission.tool.Lease {
		held = nil
	}
	p = NewPermit(func() error {
		if err := b.live(op.admission.session); err != nil {
			return err
		}
		if held != nil && held.gone.Load() {
			return control.Errorf(control.ControlRevoked, "a person or another connection controls the panel now")
		}
		select {
		case <-op.cancel:
			if !p.Started() {
				return control.Errorf(control.ControlRevoked, "cancelled before it began")
			}
		default:
		}
		return nil
	}, op.cancel)
	return p
}

// outcome is how a call of an adapter ended.
type outcome struct {
	state   control.State
	effect  control.Effect
	code    control.Code
	message string
	data    json.RawMessage
	result  Result
	err     error // of a read: what the caller is told
	current string
	movedBy string
}

// do calls the adapter and classifies what comes back. A panic says nothing
// about how far the effect got.
func (b *Broker) do(ctx context.Context, permit *Permit, a *admission) (out outcome) {
	defer func() {
		if r := recover(); r != nil {
			b.logPanic(a.tool.Name, "do", r)
			out = outcome{state: control.StateOutcomeUnknown, effect: control.EffectUnknown, code: control.OutcomeUnknown,
				message: "the tool broke down; look at the real thing before trying again", err: errors.New("the adapter panicked")}
		}
	}()
	result, err := a.adapter.Do(ctx, permit, a.call, a.target)
	if err == nil {
		var data json.RawMessage
		if data, err = b.encode(a, result); err == nil {
			return succeeded(result, data)
		}
	}
	return b.failed(ctx, permit, a, err)
}

// encode marshals a result, without leases: those are filled in from memory.
func (b *Broker) encode(a *admission, result Result) (json.RawMessage, error) {
	if result.Data == nil {
		return nil, nil
	}
	data, err := json.Marshal(result.Data)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of %s: %w", a.tool.Name, err)
	}
	if err := resultKind(a.tool, data); err != nil {
		return nil, err
	}
	if !a.keyed {
		return data, nil
	}
	return setLease(data, "")
}

func succeeded(result Result, data json.RawMessage) outcome {
	out := outcome{state: result.State, effect: result.Effect, message: result.Message, data: data, result: result}
	if out.state == "" {
		out.state = control.StateSucceeded
	}
	switch {
	case out.state == control.StateSucceeded:
		out.effect = control.EffectComplete
	case out.state == control.StateOutcomeUnknown:
		out.effect, out.code = control.EffectUnknown, control.OutcomeUnknown
	case out.effect == "":
		out.effect = control.EffectPartial
	}
	return out
}

// failed reads an error: a stated effect counts; without one, whether the
// permit was started decides between "nothing happened" and "nobody knows".
func (b *Broker) failed(ctx context.Context, permit *Permit, a *admission, err error) outcome {
	e, public := control.AsError(err)
	if !public {
		b.log.ErrorContext(ctx, "carrying out a call", "tool", a.tool.Name, "err", err)
		e = &control.Error{Code: control.AppUnavailable, Message: "internal error in Lomi; see the daemon's log"}
	}
	out := outcome{state: control.StateFailed, effect: e.Effect, code: e.Code, message: e.Message, err: err,
		current: e.Current, movedBy: e.MovedBy}
	if out.effect == "" {
		out.effect = control.EffectNone
		if permit.Started() {
			out.effect = control.EffectUnknown
		}
	}
	if out.effect == control.EffectUnknown {
		out.state = control.StateOutcomeUnknown
		if out.code == control.AppUnavailable {
			out.code = control.OutcomeUnknown
		}
	}
	return out
}

// failedBefore is an end before anything was dispatched.
func failedBefore(err error) outcome {
	out := outcome{state: control.StateFailed, effect: control.EffectNone, code: control.AppUnavailable,
		message: "internal error in Lomi; see the daemon's log"}
	if e, ok := control.AsError(err); ok {
		out.code, out.message = e.Code, e.Message
	}
	return out
}

// settle writes the end of an operation. Nothing the adapter did can be undone
// if the ledger refuses, so the receipt then stays as it is and becomes
// "unknown" at the next start.
func (b *Broker) settle(op *operation, out outcome) {
	op.turn.Lock()
	defer op.turn.Unlock()
	receipt, _, _ := op.view()
	change := ledger.Change{To: out.state, Effect: out.effect, Code: out.code, Message: out.message, Result: out.data}
	if len(out.data) > maxOperationResult {
		change.Result = nil
		change.Message = fmt.Sprintf("the result is larger than %d bytes and was not kept", maxOperationResult)
	}
	if out.current != "" || out.movedBy != "" {
		change.Result = failureBody(out)
	}
	if cancelledOp(op) && change.To == control.StateFailed && change.Effect == control.EffectNone && receipt.State != control.StateAwaitingUser {
		change.To = control.StateCancelled
	}
	if change.To == control.StateCancelled && receipt.State == control.StateRunning {
		receipt = b.transition(op, receipt, ledger.Change{To: control.StateCancelling, Effect: receipt.Effect})
	}
	b.transition(op, receipt, change)
}

// transition makes one change durable and shows it. The operation's turn is
// held.
func (b *Broker) transition(op *operation, from ledger.Receipt, change ledger.Change) ledger.Receipt {
	receipt, err := b.cfg.Ledger.Transition(b.store, op.id, change)
	if err != nil {
		b.log.Error("recording how an effect ended", "receipt", op.id, "err", err)
		op.fail(fmt.Errorf("recording %s: %w", change.To, err))
		return from
	}
	op.set(receipt)
	b.publishReceipt(receipt)
	return receipt
}

func cancelledOp(op *operation) bool {
	select {
	case <-op.cancel:
		return true
	default:
		return false
	}
}

// requestCancel tells an operation to end and records the wish. The wish comes
// first: a ledger that hangs must not keep a command running.
func (b *Broker) requestCancel(op *operation) {
	op.cancelOnce.Do(func() {
		close(op.cancel)
		b.owned.Go(func() {
			op.turn.Lock()
			defer op.turn.Unlock()
			if r, _, _ := op.view(); r.State == control.StateRunning {
				b.transition(op, r, ledger.Change{To: control.StateCancelling, Effect: r.Effect})
			}
		})
	})
}

// await answers a mutation when it has settled, when a person is asked, or
// when its time to wait is over; and at once when the session ends.
func (b *Broker) await(ctx context.Context, a *admission, op *operation) (*control.Reply, error) {
	limit := quickWait
	if a.tool.Name == runTool {
		limit = runWait
	}
	timer := time.NewTimer(quickWait)
	defer timer.Stop()
	select {
	case <-op.recorded:
	case <-timer.C:
		if op.phase.CompareAndSwap(opOpen, opAbandoned) {
			return nil, control.Errorf(control.StorageUnavailable, "the record of effects does not answer; nothing was done")
		}
	case <-a.session.life.Done():
		return nil, errRevoked()
	}
	if receipt, _, err := op.view(); err == nil && receipt.State != control.StateAwaitingUser {
		timer.Reset(limit)
		select {
		case <-op.settled:
		case <-timer.C:
		case <-ctx.Done():
		case <-a.session.life.Done():
			return nil, errRevoked()
		}
	}
	receipt, image, err := op.view()
	if err != nil {
		return nil, b.ofOperation(receipt, err)
	}
	reply, err := b.answer(a, receipt, image)
	return &reply, err
}

// ofOperation words a failure of the ledger in the middle of an operation.
func (b *Broker) ofOperation(receipt ledger.Receipt, err error) error {
	if receipt.ID == "" {
		return err // never recorded, never dispatched
	}
	b.log.Warn("answering without a settled receipt", "receipt", receipt.ID, "err", err)
	return &control.Error{Code: control.StorageUnavailable, Effect: control.EffectUnknown,
		Message: "how the effect ended could not be recorded; look at the real thing before trying again"}
}
