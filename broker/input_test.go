package broker

import (
	"context"
	"testing"

	"lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

// typist is a terminal whose shell runs vim, and which takes keys in order.
func typist(t *testing.T) (*rig, *client, string) {
	t.Helper()
	fake := &fakeAdapter{}
	r := newRig(t, func(cfg *Config) { cfg.Adapters["terminal"] = fake })
	r.adapter = fake
	fake.resolve = func(_ context.Context, call Call) (Target, error) {
		switch in := call.Request.(type) {
		case *terminal.InputRequest:
			return Target{Resource: "terminal:" + in.PanelID, LeaseID: in.LeaseID, Risk: "types into vim", Run: "op1", Summary: "Type into vim"}, nil
		case *terminal.InterruptRequest:
			return Target{Resource: "terminal:" + in.PanelID, LeaseID: in.LeaseID, Risk: "none", Summary: "Press Ctrl+C"}, nil
		}
		return Target{}, control.Errorf(control.UnsupportedCapability, "no")
	}
	fake.do = func(_ context.Context, p *Permit, call Call, _ Target) (Result, error) {
		if err := p.Start(); err != nil {
			return Result{}, err
		}
		if in, ok := call.Request.(*terminal.InputRequest); ok {
			return Result{Data: terminal.InputAck{Kind: "terminal_input_ack", InputSequence: in.InputSequence, Dispatch: "dispatched"}}, nil
		}
		return Result{Data: terminal.Interrupted{Kind: "terminal_interrupt", Dispatched: true}}, nil
	}
	c := r.pair(GrantSpec{Scopes: DomainScopes("terminal"), Workspaces: []string{"w1"}})
	lease := r.giveLease(r.session(c.session), "terminal:p1")
	return r, c, lease.id
}

func typed(lease, sequence string, input map[string]any) map[string]any {
	return map[string]any{"workspaceId": "w1", "panelId": "p1", "terminalSessionId": "t1", "leaseId": lease, "inputSequence": sequence, "input": input}
}

func TestInputIsKeyedByLeaseAndSequence(t *testing.T) {
	r, c, lease := typist(t)
	text := map[string]any{"type": "text", "text": "ihello"}
	waiting := c.operation("lomi_terminal_input", typed(lease, "1", text))
	q := r.onlyApproval()
	if waiting.Kind != "operation" || waiting.State != control.StateAwaitingUser || waiting.OperationID != q.ID ||
		waiting.Asks == nil || waiting.Asks.Summary != "Type into vim" {
		t.Fatalf("while a person is asked: %+v", waiting)
	}
	byKey := decodeData[control.Operation](t, c.call("lomi_operation_get",
		map[string]any{"retryEpoch": c.epoch, "requestKey": "input:" + lease + ":1", "tool": "lomi_terminal_input"}))
	if byKey.OperationID != q.ID || byKey.State != control.StateAwaitingUser {
		t.Errorf("by key: %+v", byKey)
	}
	if err := r.Decide(t.Context(), q.ID, true); err != nil {
		t.Fatal(err)
	}
	c.get(q.ID, 15000)
	for range 2 {
		if ack := decodeData[terminal.InputAck](t, c.call("lomi_terminal_input", typed(lease, "1", text))); ack.Dispatch != "dispatched" {
			t.Errorf("the same sequence again: %+v", ack)
		}
	}
	wantCode(t, c.call("lomi_terminal_input", typed(lease, "1", map[string]any{"type": "text", "text": "other"})), control.IdempotencyConflict)
	if ack := decodeData[terminal.InputAck](t, c.call("lomi_terminal_input", typed(lease, "2", text))); ack.Dispatch != "dispatched" {
		t.Errorf("the same run asks again: %+v", ack)
	}
	if n := r.adapter.calls.Load(); n != 2 {
		t.Errorf("typed %d times", n)
	}
	r.TakeOver("terminal:p1")
	wantCode(t, c.call("lomi_terminal_input", typed(lease, "3", text)), control.ControlRevoked)
}

func TestControlCNeverAsks(t *testing.T) {
	r, c, lease := typist(t)
	if err := r.SetPolicy(c.session, PolicyAskAlways); err != nil {
		t.Fatal(err)
	}
	if ack := decodeData[terminal.InputAck](t, c.call("lomi_terminal_input", typed(lease, "1", map[string]any{"type": "key", "key": "ctrl_c"}))); ack.Dispatch != "dispatched" {
		t.Errorf("the key: %+v", ack)
	}
	op := c.operation("lomi_terminal_interrupt", c.args("panelId", "p1", "terminalSessionId", "t1", "leaseId", lease, "operationId", "op1"))
	if op.State != control.StateSucceeded {
		t.Errorf("the tool: %+v", op)
	}
	if op := c.operation("lomi_terminal_input", typed(lease, "2", map[string]any{"type": "key", "key": "enter"})); op.State != control.StateAwaitingUser || op.Asks == nil {
		t.Errorf("another key: %+v", op)
	}
}

// A number whose input came to nothing is still the next one: the terminal
// counts what was typed. The next input of that number is a new request, and
// its receipt the one that the key finds.
func TestInputThatCameToNothing(t *testing.T) {
	r, c, lease := typist(t)
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	denied := c.operation("lomi_terminal_input", typed(lease, "1", text("rm x")))
	if err := r.Decide(t.Context(), denied.OperationID, false); err != nil {
		t.Fatal(err)
	}
	if got := c.get(denied.OperationID, 15000); got.State != control.StateFailed || got.Code != control.ScopeDenied {
		t.Fatalf("denied: %+v", got)
	}
	for _, again := range []string{"rm x", "ls"} {
		op := c.operation("lomi_terminal_input", typed(lease, "1", text(again)))
		if op.State != control.StateAwaitingUser || op.OperationID == denied.OperationID {
			t.Fatalf("%q: %+v", again, op)
		}
		if got := c.operation("lomi_operation_cancel", map[string]any{"operationId": op.OperationID}); got.State != control.StateCancelled {
			t.Errorf("cancelled: %+v", got)
		}
		if err := r.Decide(t.Context(), op.OperationID, true); err == nil {
			t.Error("a yes after the cancellation was taken")
		}
	}
	if n := r.adapter.calls.Load(); n != 0 {
		t.Fatalf("typed %d times", n)
	}
	last := c.operation("lomi_terminal_input", typed(lease, "1", text("ls")))
	if err := r.Decide(t.Context(), last.OperationID, true); err != nil {
		t.Fatal(err)
	}
	c.get(last.OperationID, 15000)
	if ack := decodeData[terminal.InputAck](t, c.call("lomi_terminal_input", typed(lease, "1", text("ls")))); ack.Dispatch != "dispatched" {
		t.Errorf("what was typed, again: %+v", ack)
	}
	wantCode(t, c.call("lomi_terminal_input", typed(lease, "1", text("rm x"))), control.IdempotencyConflict)
	byKey := c.operation("lomi_operation_get", map[string]any{"retryEpoch": c.epoch, "requestKey": "input:" + lease + ":1", "tool": "lomi_terminal_input"})
	if byKey.OperationID != last.OperationID {
		t.Errorf("the key finds %+v", byKey)
	}
	if n := r.adapter.calls.Load(); n != 1 {
		t.Errorf("typed %d times", n)
	}
}

// An operation that waits for a person says for what as long as it says that
// it waits: also while the answer is carried out, and when it was read before.
func TestWaitingOperationTellsItsQuestion(t *testing.T) {
	fake := &fakeAdapter{}
	r := newRig(t, func(cfg *Config) { cfg.Adapters["fake"] = fake })
	c := r.pair(GrantSpec{Scopes: DomainScopes("terminal"), Workspaces: []string{"w1"}, Policy: PolicyAskAlways})
	again, let := make(chan struct{}), make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	fake.resolve = func(ctx context.Context, _ Call) (Target, error) {
		select {
		case <-first:
		default: // the plan is looked at again after the yes
			close(again)
			select {
			case <-let:
			case <-ctx.Done():
			}
		}
		return Target{Summary: "Do it"}, nil
	}
	op := c.operation("fake_do", c.args())
	if op.Asks == nil || op.Asks.Kind != "risk" || op.Asks.Summary != "Do it" {
		t.Fatalf("at once: %+v", op)
	}
	if err := r.Decide(t.Context(), op.OperationID, true); err != nil {
		t.Fatal(err)
	}
	<-again
	if got := c.get(op.OperationID, 0); got.State != control.StateAwaitingUser || got.Asks == nil {
		t.Errorf("while the answer is carried out: %+v", got)
	}
	read, err := r.receiptOf(t.Context(), r.session(c.session), op.OperationID)
	if err != nil || read.State != control.StateAwaitingUser {
		t.Fatalf("receipt %+v, %v", read, err)
	}
	close(let)
	c.get(op.OperationID, 15000)
	late, err := r.operationOf(r.session(c.session), read)
	if err != nil || late.State != control.StateSucceeded || late.Asks != nil {
		t.Errorf("read before the end, told after it: %+v, %v", late, err)
	}
}

func TestInputOutcomeUnknown(t *testing.T) {
	r, c, lease := typist(t)
	if err := r.SetPolicy(c.session, PolicyGrant); err != nil {
		t.Fatal(err)
	}
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		if err := p.Start(); err != nil {
			return Result{}, err
		}
		return Result{}, context.DeadlineExceeded
	}
	for range 2 {
		ack := decodeData[terminal.InputAck](t, c.call("lomi_terminal_input", typed(lease, "1", map[string]any{"type": "text", "text": "x"})))
		if ack.Dispatch != "outcome_unknown" {
			t.Errorf("got %+v", ack)
		}
	}
	if n := r.adapter.calls.Load(); n != 1 {
		t.Errorf("typed %d times", n)
	}
}

// Every domain of the catalog that this issue fills has keys for its receipts.
func TestCatalogCanBeCarriedOut(t *testing.T) {
	newRig(t, func(cfg *Config) {
		for _, domain := range []string{"terminal", "browser", "workbench", "artifact"} {
			cfg.Adapters[domain] = &fakeAdapter{}
		}
	})
	_, err := New(t.Context(), Config{Ledger: newRig(t).ledger, Desk: newDesk(), Adapters: map[string]Adapter{"x": &fakeAdapter{}},
		Tools: []control.Tool{{Name: "x", Domain: "x", NewRequest: func() any { return new(fakeRead) }}}})
	if err == nil {
		t.Error("a tool that changes something was taken without a request key")
	}
}

// brokenRequest panics while it is checked.
type brokenRequest struct{}

func (*brokenRequest) Validate() error { panic("hunter2") }

func TestPanicInAdmissionIsAnswered(t *testing.T) {
	r := newRig(t, func(cfg *Config) {
		cfg.Tools = append(cfg.Tools, control.Tool{Name: "fake_broken", Domain: "fake", ReadOnly: true, NewRequest: func() any { return new(brokenRequest) }})
		cfg.Adapters = nil
	})
	c := r.pair(terminalGrant("w1"))
	wantCode(t, c.call("fake_broken", map[string]any{}), control.AppUnavailable)
	wantCode(t, c.call("lomi_status", map[string]any{}), "")
}
