package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog/link"
	"lomi/broker/control"
)

func TestStepsKeepTheirOrder(t *testing.T) {
	r := newRig(t)
	var got []string
	for _, s := range r.steps() {
		got = append(got, s.name)
	}
	want := []string{"decode", "connection", "replay", "scope", "target", "bounds", "policy", "carry out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each row breaks one step, and every later one too where it can: the code
// shows which step refused. None may reach the adapter, and every one is on
// record as denied.
func TestEachStepRefuses(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	const head = `{"workspaceId":"w1","retryEpoch":"EPOCH","requestKey":"k"`
	for _, row := range []struct {
		name, tool, args string
		want             control.Code
		message          string // what the message must hold
	}{
		{"decode: no such tool", "lomi_nothing", `{}`, control.UnsupportedCapability, "not in the catalog"},
		{"decode: no JSON", "fake_do", `{`, control.ResourceExhausted, ""},
		{"decode: not an object", "fake_do", `[]`, control.ResourceExhausted, "object"},
		{"decode: an unknown field", "fake_do", head + `,"secretValue":"hunter2"}`, control.ResourceExhausted, "secretValue"},
		{"decode: a field twice", "fake_do", head + `,"requestKey":"k2"}`, control.ResourceExhausted, "requestKey"},
		{"decode: S-70 another case", "fake_do", head + `,"RequestKey":"k2"}`, control.ResourceExhausted, ""},
		{"decode: S-71 a NUL in a key", "fake_do", head + `,"command\u0000":"x"}`, control.ResourceExhausted, ""},
		{"decode: F-27 broken UTF-8", "fake_do", head + ",\"command\":\"\xff\"}", control.ResourceExhausted, "UTF-8"},
		{"decode: F-26 too deep", "fake_do", head + `,"command":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, control.ResourceExhausted, ""},
		{"decode: too large", "fake_do", head + `,"command":"` + strings.Repeat("a", control.MaxArguments) + `"}`, control.ResourceExhausted, "bytes"},
		{"decode: a rule of the catalog", "lomi_connect", `{"workspaceId":"../x"}`, control.ResourceExhausted, "workspaceId"},
		{"connection: no adapter in this build", "lomi_files_list", `{"workspaceId":"nowhere"}`, control.UnsupportedCapability, "lomi_status"},
		{"replay: an unknown epoch", "fake_do", `{"workspaceId":"nowhere","retryEpoch":"other","requestKey":"k"}`, control.RetryWindowExpired, "lomi_connect"},
		{"scope: of this request", "fake_do", strings.Replace(head, "w1", "nowhere", 1) + `,"extra":"files.read"}`, control.ScopeDenied, "files.read"},
		{"target: a foreign workspace", "fake_do", strings.Replace(head, "w1", "w2", 1) + `}`, control.TargetNotFound, ""},
		{"target: an unknown workspace", "fake_do", strings.Replace(head, "w1", "nowhere", 1) + `}`, control.TargetNotFound, ""},
		{"target: it lies elsewhere", "fake_do", head + `,"foreign":"w2"}`, control.TargetNotFound, ""},
		{"target: no lease", "fake_type", head + `,"resource":"terminal:a","leaseId":"l"}`, control.ControlRevoked, "leaseId"},
		{"target: an empty lease for an unknown resource", "fake_type", head + `}`, control.ControlRevoked, "leaseId"},
		{"bounds: S-103 Lomi's own address", "fake_do", head + `,"origin":"http://tauri.localhost:80"}`, control.ScopeDenied, "Lomi's own"},
		{"bounds: an origin that cannot be read", "fake_do", head + `,"origin":"%%"}`, control.ScopeDenied, "Lomi's own"},
	} {
		before := r.adapter.calls.Load()
		reply := r.Handle(t.Context(), c.session, row.tool, json.RawMessage(strings.Replace(row.args, "EPOCH", c.epoch, 1)))
		if reply.Code != row.want || !strings.Contains(reply.Message, row.message) {
			t.Errorf("%s: got %s %q, want %s with %q", row.name, reply.Code, reply.Message, row.want, row.message)
		}
		if strings.Contains(reply.Message, "hunter2") {
			t.Errorf("%s: the message holds a value: %q", row.name, reply.Message)
		}
		if r.adapter.calls.Load() != before {
			t.Errorf("%s: reached the adapter", row.name)
		}
	}
	receipts, err := r.Receipts(t.Context(), ReceiptFilter{})
	if err != nil || len(receipts) != 0 {
		t.Errorf("refused attempts left receipts: %+v, %v", receipts, err)
	}
	until(t, "the denials are on record", func() bool {
		rows, err := r.ledger.Audits(t.Context(), 100)
		denied := 0
		for _, row := range rows {
			if row.Kind == "denied" {
				denied++
			}
			if strings.Contains(row.Detail, "hunter2") {
				t.Fatalf("the audit holds a value: %+v", row)
			}
		}
		return err == nil && denied == 21
	})
}

func TestUnpairedReachesNothing(t *testing.T) {
	r := newRig(t)
	for _, tool := range []string{"fake_do", "fake_read", "lomi_status", "lomi_connect"} {
		wantCode(t, r.Handle(t.Context(), control.NewID(), tool, json.RawMessage(`{}`)), control.ControlRevoked)
	}
	if r.adapter.calls.Load() != 0 {
		t.Error("an unpaired call reached the adapter")
	}
}

func TestMissingScopeNamesItOnce(t *testing.T) {
	r := newRig(t)
	c := r.pair(GrantSpec{Scopes: []control.Scope{control.WorkspaceRead}, Workspaces: []string{"w1"}})
	reply := c.call("fake_do", c.args())
	wantCode(t, reply, control.ScopeDenied)
	if !strings.Contains(reply.Message, "terminal.execute") { // bug_103
		t.Errorf("message %q does not name what is missing", reply.Message)
	}
	wantCode(t, c.call("fake_read", map[string]any{"workspaceId": "w1"}), control.ScopeDenied)
}

func TestWorkspaceMustStayWhatThePersonSaw(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	r.desk.replace(control.Workspace{ID: "w1", ProjectID: "p1", ProjectPath: "/elsewhere"})
	wantCode(t, c.call("fake_do", c.args()), control.TargetNotFound)
	r.desk.replace(control.Workspace{ID: "w1", ProjectID: "p9", ProjectPath: "/one"})
	wantCode(t, c.call("fake_read", map[string]any{"workspaceId": "w1"}), control.TargetNotFound)
	r.desk.replace(control.Workspace{ID: "w1", ProjectID: "p1", ProjectPath: "/one"})
	if op := c.operation("fake_do", c.args()); op.State != control.StateSucceeded {
		t.Errorf("back where it was: %+v", op)
	}
}

func TestStatusIsTruthful(t *testing.T) {
	r := newRig(t)
	c := r.pair(GrantSpec{Scopes: []control.Scope{control.WorkspaceRead}, Workspaces: []string{"w1"}})
	status := decodeData[link.Status](t, c.call("lomi_status", map[string]any{}))
	if len(status.Capabilities) != len(r.cfg.Tools) || status.Connection != "connected" || status.InstanceID != "i1" {
		t.Errorf("status %+v", status)
	}
	for _, capability := range status.Capabilities {
		wantAvailable := strings.HasPrefix(capability.Name, "fake_") || r.tools[capability.Name].Domain == "link"
		if capability.Available != wantAvailable {
			t.Errorf("%s is available: %v", capability.Name, capability.Available)
		}
		if capability.Name == "fake_do" && capability.Authorized || capability.Name == "lomi_connect" && !capability.Authorized {
			t.Errorf("%s is authorized: %v", capability.Name, capability.Authorized)
		}
	}
	for name, tool := range r.tools {
		if tool.Domain == "link" || tool.Domain == "fake" || tool.NewRequest == nil {
			continue
		}
		request, err := json.Marshal(tool.NewRequest())
		if err != nil {
			t.Fatal(err)
		}
		// Arguments of zero values: most break a rule first, none may run.
		if reply := r.Handle(t.Context(), c.session, name, request); reply.Code != control.UnsupportedCapability && reply.Code != control.ResourceExhausted {
			t.Errorf("%s answers %s %s", name, reply.Code, reply.Message)
		}
	}
	next := decodeData[link.Diagnostics](t, c.call("lomi_diagnostics", map[string]any{}))
	if next.Connection != "connected" || next.NextStep == "" {
		t.Errorf("diagnostics %+v", next)
	}
}

func TestTwoSessionsCannotSeeEachOther(t *testing.T) {
	r := newRig(t)
	one, two := r.pair(terminalGrant("w1")), r.pair(terminalGrant("w1"))
	op := one.operation("fake_do", one.args("requestKey", "same"))
	for name, reply := range map[string]control.Reply{
		"by id":            two.call("lomi_operation_get", map[string]any{"operationId": op.OperationID}),
		"by key":           two.call("lomi_operation_get", map[string]any{"retryEpoch": two.epoch, "requestKey": "same", "tool": "fake_do"}),
		"cancelling":       two.call("lomi_operation_cancel", map[string]any{"operationId": op.OperationID}),
		"one that is none": two.call("lomi_operation_get", map[string]any{"operationId": control.NewReceiptID()}),
	} {
		if reply.Code != control.TargetNotFound {
			t.Errorf("%s: got %s %s", name, reply.Code, reply.Data)
		}
	}
	wantCode(t, two.call("lomi_operation_get", map[string]any{"retryEpoch": one.epoch, "requestKey": "same", "tool": "fake_do"}), control.RetryWindowExpired)
	wantCode(t, two.call("fake_do", two.args("retryEpoch", one.epoch, "requestKey", "same")), control.RetryWindowExpired)
	other := two.operation("fake_do", two.args("requestKey", "same"))
	if other.OperationID == op.OperationID {
		t.Error("F-29: the same key of another session gave the first one's receipt")
	}
	events := decodeData[link.Events](t, two.call("lomi_events_read", map[string]any{"workspaceId": "w1"}))
	for _, e := range events.Items {
		if e.OperationID != other.OperationID {
			t.Errorf("the history shows a foreign operation: %+v", e)
		}
	}
	if len(events.Items) != 2 {
		t.Errorf("history %+v", events)
	}
	more := decodeData[link.Events](t, two.call("lomi_events_read", map[string]any{"workspaceId": "w1", "cursor": events.NextCursor}))
	if len(more.Items) != 0 {
		t.Errorf("behind the cursor: %+v", more)
	}
	wantCode(t, two.call("lomi_events_read", map[string]any{"workspaceId": "w1", "cursor": "99999999"}), control.CursorExpired)
}

func TestReplay(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	args := c.args("command", "one")
	first := c.operation("fake_do", args)
	again := c.operation("fake_do", args)
	if diff := cmp.Diff(first, again); diff != "" || r.adapter.calls.Load() != 1 {
		t.Errorf("replay differs or ran again (%d times): %s", r.adapter.calls.Load(), diff)
	}
	raw := fmt.Sprintf(`{ "requestKey":%q, "command":"one","retryEpoch":%q,  "workspaceId":"w1" }`, args["requestKey"], c.epoch)
	if got := decodeData[control.Operation](t, r.Handle(t.Context(), c.session, "fake_do", json.RawMessage(raw))); got.OperationID != first.OperationID {
		t.Error("another order of the keys is another request")
	}
	args["command"] = "two"
	wantCode(t, c.call("fake_do", args), control.IdempotencyConflict)
	args["command"] = "one"
	if op := c.operation("fake_risky", args); op.OperationID == first.OperationID {
		t.Error("the same key of another tool gave the first one's receipt")
	}
	r.adapter.resolve = func(context.Context, Call) (Target, error) {
		return Target{}, control.Errorf(control.TargetNotFound, "the panel is gone")
	}
	if op := c.operation("fake_do", args); op.OperationID != first.OperationID {
		t.Error("a replay after the panel is gone did not answer from the receipt")
	}
	if err := r.Revoke(c.session); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.call("fake_do", args), control.ControlRevoked)
	next := r.pair(terminalGrant("w1"))
	wantCode(t, next.call("fake_do", args), control.RetryWindowExpired)
	if n := r.adapter.calls.Load(); n != 2 {
		t.Errorf("ran %d times, want 2", n)
	}
}

// F-28: the same id twice in flight joins, another body conflicts.
func TestTwinsInFlight(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	release, began := make(chan struct{}), make(chan struct{}, 8)
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		began <- struct{}{}
		<-release
		return Result{Data: fakeData{Kind: "fake"}}, p.Start()
	}
	args, results := c.args(), make(chan control.Reply, 8)
	for range 8 {
		go func() { results <- c.call("fake_do", args) }()
	}
	<-began
	wantCode(t, c.call("fake_do", c.args("requestKey", args["requestKey"], "command", "other")), control.IdempotencyConflict)
	close(release)
	ids := map[string]bool{}
	for range 8 {
		op := decodeData[control.Operation](t, <-results)
		ids[op.OperationID] = true
		if op.State != control.StateSucceeded {
			t.Errorf("a twin got %+v", op)
		}
	}
	if len(ids) != 1 || r.adapter.calls.Load() != 1 {
		t.Errorf("%d receipts, %d effects", len(ids), r.adapter.calls.Load())
	}
}

// How an adapter ends decides the receipt, and what the caller is told.
func TestHowEffectsEnd(t *testing.T) {
	plain := errors.New("disk on fire, password hunter2")
	stated := func(code control.Code, effect control.Effect) error {
		return &control.Error{Code: code, Message: "stated", Effect: effect}
	}
	for _, row := range []struct {
		name  string
		start bool
		do    func() (Result, error)
		state control.State
		eff   control.Effect
		code  control.Code
		fails bool // answered as a failure
	}{
		{"success", true, func() (Result, error) { return Result{Data: fakeData{Kind: "fake"}}, nil }, control.StateSucceeded, control.EffectComplete, "", false},
		{"no data", true, func() (Result, error) { return Result{}, nil }, control.StateSucceeded, control.EffectComplete, "", false},
		{"a command that exits 7", true, func() (Result, error) {
			return Result{Data: fakeData{Kind: "fake"}, State: control.StateFailed, Effect: control.EffectComplete, Message: "exit 7"}, nil
		}, control.StateFailed, control.EffectComplete, "", false},
		{"failed, no effect stated", true, func() (Result, error) { return Result{State: control.StateFailed}, nil }, control.StateFailed, control.EffectPartial, "", false},
		{"unknown as a result", true, func() (Result, error) { return Result{State: control.StateOutcomeUnknown}, nil }, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, false},
		{"refused before the effect", false, func() (Result, error) { return Result{}, control.Errorf(control.TargetBusy, "busy") }, control.StateFailed, control.EffectNone, control.TargetBusy, true},
		{"none stated after the start", true, func() (Result, error) { return Result{}, stated(control.TargetBusy, control.EffectNone) }, control.StateFailed, control.EffectNone, control.TargetBusy, true},
		{"partial stated", true, func() (Result, error) { return Result{}, stated(control.TargetBusy, control.EffectPartial) }, control.StateFailed, control.EffectPartial, control.TargetBusy, false},
		{"nothing stated before the start", false, func() (Result, error) { return Result{}, stated(control.TargetBusy, "") }, control.StateFailed, control.EffectNone, control.TargetBusy, true},
		{"nothing stated after the start", true, func() (Result, error) { return Result{}, stated(control.TargetBusy, "") }, control.StateOutcomeUnknown, control.EffectUnknown, control.TargetBusy, false},
		{"an internal error before", false, func() (Result, error) { return Result{}, plain }, control.StateFailed, control.EffectNone, control.AppUnavailable, true},
		{"an internal error after", true, func() (Result, error) { return Result{}, plain }, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, false},
		{"a panic before", false, func() (Result, error) { panic("hunter2") }, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, false},
		{"a panic after", true, func() (Result, error) { panic("after the start") }, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, false},
		{"a foreign kind", true, func() (Result, error) { return Result{Data: fakeData{Kind: "other"}}, nil }, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, false},
		{"a result that is too large", true, func() (Result, error) {
			return Result{Data: fakeData{Kind: "fake", Text: strings.Repeat("a", maxOperationResult)}}, nil
		}, control.StateSucceeded, control.EffectComplete, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			c := r.pair(terminalGrant("w1"))
			r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
				if row.start {
					if err := p.Start(); err != nil {
						return Result{}, err
					}
				}
				return row.do()
			}
			args := c.args()
			reply := c.call("fake_do", args)
			if row.fails != (reply.Status == "error") || row.fails && reply.Code != row.code {
				t.Errorf("answered %s %s %s %s", reply.Status, reply.Code, reply.Message, reply.Data)
			}
			replay := c.call("fake_do", args)
			if diff := cmp.Diff(reply, replay); diff != "" {
				t.Errorf("the replay answers otherwise: %s", diff)
			}
			receipts, err := r.Receipts(t.Context(), ReceiptFilter{})
			if err != nil || len(receipts) != 1 {
				t.Fatalf("receipts %+v, %v", receipts, err)
			}
			got := receipts[0]
			if got.State != row.state || got.Effect != row.eff || got.Code != row.code {
				t.Errorf("recorded %s %s %q, want %s %s %q", got.State, got.Effect, got.Code, row.state, row.eff, row.code)
			}
			if strings.Contains(got.Message+reply.Message+string(reply.Data), "hunter2") {
				t.Errorf("an internal text got out: %q %s", got.Message, reply.Data)
			}
			if r.adapter.calls.Load() != 1 {
				t.Errorf("ran %d times", r.adapter.calls.Load())
			}
		})
	}
}

func TestRevisionConflictTellsWhoMovedIt(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) {
		return Result{}, &control.Error{Code: control.RevisionConflict, Message: "moved", Effect: control.EffectNone, Current: "7", MovedBy: "person"}
	}
	args := c.args()
	for range 2 { // the replay too
		reply := c.call("fake_do", args)
		if reply.Code != control.RevisionConflict || reply.Current != "7" || reply.MovedBy != "person" {
			t.Errorf("got %+v", reply)
		}
	}
	receipts, err := r.Receipts(t.Context(), ReceiptFilter{State: control.StateFailed})
	if err != nil || len(receipts) != 1 {
		t.Fatalf("receipts %+v, %v", receipts, err)
	}
	if op := c.get(receipts[0].ID, 0); op.Code != control.RevisionConflict || len(op.Result) != 0 {
		t.Errorf("operation %+v", op)
	}
}

func TestReadsAreBoundedAndOnRecord(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	read := map[string]any{"workspaceId": "w1"}
	r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) {
		return Result{Data: fakeData{Kind: "fake", Text: "seen"}, Image: &control.Image{MediaType: "image/png", Data: []byte{1}}}, nil
	}
	reply := c.call("fake_read", read)
	if reply.Status != "ok" || reply.Image == nil || string(reply.Data) != `{"kind":"fake","text":"seen"}` {
		t.Errorf("read %+v", reply)
	}
	r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) {
		return Result{Data: fakeData{Kind: "fake", Text: strings.Repeat("a", control.MaxResult)}}, nil
	}
	wantCode(t, c.call("fake_read", read), control.ResourceExhausted)
	r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) { panic("no") }
	wantCode(t, c.call("fake_read", read), control.AppUnavailable)
	r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) {
		return Result{Data: fakeData{Kind: "other"}}, nil
	}
	wantCode(t, c.call("fake_read", read), control.AppUnavailable)
	until(t, "the reads are on record", func() bool {
		rows, err := r.ledger.Audits(t.Context(), 100)
		n := 0
		for _, row := range rows {
			if row.Tool == "fake_read" {
				n++
			}
		}
		return err == nil && n >= 3
	})
	receipts, err := r.Receipts(t.Context(), ReceiptFilter{})
	if err != nil || len(receipts) != 0 {
		t.Errorf("reads left receipts: %+v, %v", receipts, err)
	}
}

func TestQueueOfASessionIsBounded(t *testing.T) {
	r := newRig(t)
	c, other := r.pair(terminalGrant("w1")), r.pair(terminalGrant("w1"))
	release := make(chan struct{})
	r.adapter.do = func(ctx context.Context, p *Permit, call Call, _ Target) (Result, error) {
		if call.Session == c.session {
			<-release
		}
		return Result{Data: fakeData{Kind: "fake"}}, p.Start()
	}
	replies := make(chan control.Reply, maxOperations)
	for range maxOperations {
		args := c.args()
		go func() { replies <- c.call("fake_do", args) }()
	}
	until(t, "all are under way", func() bool { return r.adapter.calls.Load() == maxOperations })
	wantCode(t, c.call("fake_do", c.args()), control.ResourceExhausted)
	if op := other.operation("fake_do", other.args()); op.State != control.StateSucceeded {
		t.Errorf("another session waits too: %+v", op)
	}
	close(release)
	for range maxOperations {
		wantCode(t, <-replies, "")
	}
	if op := c.operation("fake_do", c.args()); op.State != control.StateSucceeded {
		t.Errorf("afterwards: %+v", op)
	}
}
