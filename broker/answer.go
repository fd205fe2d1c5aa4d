package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"lomi/broker/catalog/terminal"
	"lomi/broker/control"
	"lomi/broker/ledger"
)

// kindFailure marks the body that a failed receipt keeps when its error said
// more than a code and a message.
const kindFailure = "failure"

type failure struct {
	Kind    string `json:"kind"`
	Current string `json:"current,omitempty"`
	MovedBy string `json:"movedBy,omitempty"`
}

func failureBody(out outcome) json.RawMessage {
	body, err := json.Marshal(failure{Kind: kindFailure, Current: out.current, MovedBy: out.movedBy})
	if err != nil {
		return nil // strings only: cannot fail
	}
	return body
}

func failureOf(r ledger.Receipt) (failure, bool) {
	var f failure
	if len(r.Result) == 0 || json.Unmarshal(r.Result, &f) != nil || f.Kind != kindFailure {
		return failure{}, false
	}
	return f, true
}

// answer words a receipt for the call that asked for the effect. What failed
// without an effect is a failure; everything else is told as it stands,
// because something may have happened.
func (b *Broker) answer(a *admission, r ledger.Receipt, image *control.Image) (control.Reply, error) {
	if r.State.Settled() {
		b.cfg.Ledger.Delivered(r)
	}
	if r.State == control.StateFailed && r.Effect == control.EffectNone {
		f, _ := failureOf(r)
		b.audit(a.session.id, a.tool.Name, a.workspace, "carry out", r.Code, 0)
		return control.Failure(&control.Error{Code: r.Code, Message: r.Message, Current: f.Current, MovedBy: f.MovedBy}), nil
	}
	// What waits for a person is told as an operation whatever the tool answers
	// otherwise: the caller must learn whom it waits for, and be able to cancel.
	if a.tool.Operation || r.State == control.StateAwaitingUser {
		op, err := b.operationOf(a.session, r)
		if err != nil {
			return control.Reply{}, err
		}
		return control.OK(op, image)
	}
	return b.answerDirectly(a, r, image)
}

// answerDirectly words a receipt for a tool whose answer is its own kind.
func (b *Broker) answerDirectly(a *admission, r ledger.Receipt, image *control.Image) (control.Reply, error) {
	if len(r.Result) > 0 && r.State != control.StateOutcomeUnknown {
		data, err := b.fillLease(a.session, r.Result)
		return control.Reply{Status: "ok", ControlAPIVersion: control.APIVersion, Data: data, Image: image}, err
	}
	if in, ok := a.request.(*terminal.InputRequest); ok && (!r.State.Settled() || r.State == control.StateOutcomeUnknown) {
		ack := terminal.InputAck{Kind: "terminal_input_ack", InputSequence: in.InputSequence, Dispatch: "pending",
			Target: terminal.Target{WorkspaceID: in.WorkspaceID, PanelID: in.PanelID, TerminalSessionID: in.TerminalSessionID}}
		if r.State == control.StateOutcomeUnknown {
			ack.Dispatch = "outcome_unknown"
		}
		return control.OK(ack, nil)
	}
	code, text := r.Code, r.Message
	switch {
	case !r.State.Settled():
		code, text = control.DeadlineExceeded, "it has not settled yet; repeat the same request to learn how it ends"
	case r.State == control.StateCancelled:
		code, text = control.ControlRevoked, "it was cancelled"
	case code == "":
		code = control.OutcomeUnknown
	}
	return control.Failure(&control.Error{Code: code, Message: text}), nil
}

// asks is what a person is asked about an operation, nil when nothing is. It
// comes from the admission and not from the list of questions, which holds a
// question neither before it is shown nor while its answer is carried out.
func (op *operation) asks() *control.Ask {
	q := op.admission.question
	if q == nil {
		return nil
	}
	return &control.Ask{Kind: q.kind, Summary: summary(op.admission), Reason: visible(q.reason)}
}

// standing gives a receipt as it stands, with the question if it waits for a
// person. One whose operation has ended since it was read is read again, so
// that nobody is told of a question that is over.
func (b *Broker) standing(r ledger.Receipt) (ledger.Receipt, *control.Ask, error) {
	if r.State != control.StateAwaitingUser {
		return r, nil, nil
	}
	if op := b.underWay(r.ID); op != nil {
		return r, op.asks(), nil
	}
	ctx, cancel := context.WithTimeout(b.store, storeTimeout)
	defer cancel()
	now, err := b.cfg.Ledger.Get(ctx, r.ID)
	if err != nil {
		return r, nil, fmt.Errorf("reading a receipt again: %w", err)
	}
	return now, nil, nil
}

// operationOf is what a session may know of its own receipt.
func (b *Broker) operationOf(s *session, r ledger.Receipt) (control.Operation, error) {
	r, asks, err := b.standing(r)
	if err != nil {
		return control.Operation{}, err
	}
	op := control.Operation{Kind: "operation", OperationID: r.ID, Tool: r.Key.Tool, State: r.State, EffectState: r.Effect,
		WorkspaceID: r.Workspace, Code: r.Code, Message: r.Message, Asks: asks}
	if _, failed := failureOf(r); failed || len(r.Result) == 0 {
		if r.Dropped && op.Message == "" {
			op.Message = "the result was read before and is no longer kept"
		}
		return op, nil
	}
	op.Result, err = b.fillLease(s, r.Result)
	return op, err
}

// fillLease puts the lease that the session holds now into a result that names
// the panel it belongs to. It comes from memory, never from the store.
func (b *Broker) fillLease(s *session, data json.RawMessage) (json.RawMessage, error) {
	var head struct {
		Kind    string `json:"kind"`
		PanelID string `json:"panelId"`
	}
	if len(data) == 0 {
		return data, nil
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading a result: %w", err)
	}
	var resource string
	switch head.Kind {
	case "terminal":
		resource = "terminal:" + head.PanelID
	case "browser":
		resource = "browser:" + head.PanelID
	default:
		return data, nil
	}
	held := b.heldLease(s, resource)
	if held == nil {
		return data, nil
	}
	return setLease(data, held.id)
}

// setLease sets or removes the field leaseId of a result.
func setLease(data json.RawMessage, id string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("reading a result: %w", err)
	}
	if _, has := fields["leaseId"]; !has && id == "" {
		return data, nil
	}
	delete(fields, "leaseId")
	if id != "" {
		quoted, err := json.Marshal(id)
		if err != nil {
			return nil, fmt.Errorf("encoding a lease: %w", err)
		}
		fields["leaseId"] = quoted
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding a result: %w", err)
	}
	return out, nil
}

// receiptOf reads a receipt of this session: what is under way from memory,
// the rest from the ledger. A foreign and a missing one look the same.
func (b *Broker) receiptOf(ctx context.Context, s *session, id string) (ledger.Receipt, error) {
	op := b.underWay(id)
	if op != nil && op.admission.session == s {
		if r, _, err := op.view(); err == nil && r.ID == id {
			return r, nil
		}
	}
	ctx, cancel := b.bounded(ctx, s)
	defer cancel()
	r, err := b.cfg.Ledger.Get(ctx, id)
	if err != nil {
		return ledger.Receipt{}, b.ofStore(s, err)
	}
	if r.Key.Pairing != s.id {
		return ledger.Receipt{}, control.Errorf(control.TargetNotFound, "operationId: is not of this connection")
	}
	return r, nil
}
