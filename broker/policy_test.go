package broker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/control"
)

// What asks, under which policy. Asked is seen by the answer at once with a
// receipt that waits.
func TestWhatAsks(t *testing.T) {
	const granted, outside = "https://granted.test:443", "https://outside.test:443"
	for _, row := range []struct {
		policy Policy
		tool   string
		args   []any
		kind   string // of the question, "" for none
		reason string
	}{
		{PolicyGrant, "fake_do", nil, "", ""},
		{PolicyGrant, "fake_risky", []any{"command", "rm -rf build", "risk", "bad"}, "", ""},
		{PolicyGrant, "fake_open", []any{"origin", granted}, "", ""},
		{PolicyGrant, "fake_open", []any{"origin", outside}, "origin", "outside the grant"},
		{PolicyGrant, "fake_do", []any{"refused", "use another tool"}, "", ""},

		{PolicyAskForRisk, "fake_do", nil, "", ""},
		{PolicyAskForRisk, "fake_risky", nil, "risk", "change or remove"},
		{PolicyAskForRisk, "fake_open", nil, "risk", "beyond this computer"},
		{PolicyAskForRisk, "fake_open", []any{"origin", granted}, "risk", "beyond this computer"},
		{PolicyAskForRisk, "fake_open", []any{"origin", outside}, "origin", "outside the grant"},
		{PolicyAskForRisk, "fake_open", []any{"origin", outside, "risk", "none"}, "origin", "outside the grant"},
		{PolicyAskForRisk, "fake_risky", []any{"risk", "none"}, "", ""},
		{PolicyAskForRisk, "fake_do", []any{"risk", "types into vim"}, "risk", "types into vim"},
		{PolicyAskForRisk, "fake_risky", []any{"command", "ls -la"}, "", ""},
		{PolicyAskForRisk, "fake_risky", []any{"command", "ls -la; touch x"}, "risk", "runs a command"},
		{PolicyAskForRisk, "fake_do", []any{"command", "npm test"}, "risk", "runs a command"},

		{PolicyAskAlways, "fake_do", nil, "risk", "asks about everything"},
		{PolicyAskAlways, "fake_risky", []any{"command", "ls -la"}, "risk", "runs a command"},
		{PolicyAskAlways, "fake_do", []any{"risk", "none"}, "risk", "asks about everything"},
		{PolicyAskAlways, "fake_open", []any{"origin", outside}, "origin", "outside the grant"},
	} {
		t.Run(string(row.policy)+" "+row.tool, func(t *testing.T) {
			r := newRig(t)
			c := r.pair(GrantSpec{Scopes: append(DomainScopes("browser"), control.TerminalExecute, control.TerminalRead),
				Workspaces: []string{"w1"}, Origins: []string{"https://granted.test"}, Policy: row.policy})
			op := c.operation(row.tool, c.args(row.args...))
			if row.kind == "" {
				if op.State != control.StateSucceeded {
					t.Errorf("%v: got %+v, want no question", row.args, op)
				}
				return
			}
			if op.State != control.StateAwaitingUser || op.EffectState != control.EffectNone || r.adapter.calls.Load() != 0 {
				t.Fatalf("%v: got %+v, want a question and no effect", row.args, op)
			}
			q := r.onlyApproval()
			if q.ID != op.OperationID || q.Kind != row.kind || !strings.Contains(q.Reason, row.reason) || q.Session != c.session {
				t.Errorf("%v: question %+v", row.args, q)
			}
			if got := decodeData[struct{ Kind string }](t, c.call("fake_read", map[string]any{"workspaceId": "w1"})); got.Kind != "fake" {
				t.Errorf("a read waits too: %+v", got)
			}
		})
	}
}

func TestRefusedRatherThanAsked(t *testing.T) {
	for _, policy := range []Policy{PolicyAskForRisk, PolicyAskAlways} {
		r := newRig(t)
		c := r.pair(GrantSpec{Scopes: DomainScopes("terminal"), Workspaces: []string{"w1"}, Policy: policy})
		reply := c.call("fake_do", c.args("refused", "use lomi_terminal_run", "risk", "types at the prompt"))
		if reply.Code != control.ScopeDenied || reply.Message != "use lomi_terminal_run" || len(r.Approvals()) != 0 {
			t.Errorf("%s: %+v", policy, reply)
		}
	}
}

func asking(t *testing.T) (*rig, *client) {
	t.Helper()
	r := newRig(t)
	return r, r.pair(GrantSpec{Scopes: append(DomainScopes("browser"), control.TerminalExecute, control.TerminalRead), Workspaces: []string{"w1"}})
}

func TestAnswers(t *testing.T) {
	r, c := asking(t)
	yes := c.operation("fake_risky", c.args("command", "npm test"))
	if err := r.Decide(t.Context(), yes.OperationID, true); err != nil {
		t.Fatal(err)
	}
	if op := c.get(yes.OperationID, 15000); op.State != control.StateSucceeded {
		t.Errorf("after a yes: %+v", op)
	}
	if err := r.Decide(t.Context(), yes.OperationID, false); errorCode(err) != control.TargetNotFound {
		t.Errorf("answering again: %v", err)
	}
	args := c.args("command", "npm test")
	no := c.operation("fake_risky", args)
	if no.State != control.StateAwaitingUser {
		t.Fatalf("a yes answered the next question too: %+v", no)
	}
	if err := r.Decide(t.Context(), no.OperationID, false); err != nil {
		t.Fatal(err)
	}
	op := c.get(no.OperationID, 15000)
	if op.State != control.StateFailed || op.EffectState != control.EffectNone || op.Code != control.ScopeDenied || !strings.Contains(op.Message, "denied by the person") {
		t.Errorf("after a no: %+v", op)
	}
	wantCode(t, c.call("fake_risky", args), control.ScopeDenied)
	if n := r.adapter.calls.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

func TestFirstAnswerWins(t *testing.T) {
	r, c := asking(t)
	op := c.operation("fake_risky", c.args())
	answers := make(chan error, 16)
	for i := range cap(answers) {
		go func() { answers <- r.Decide(t.Context(), op.OperationID, i%2 == 0) }()
	}
	won := 0
	for range cap(answers) {
		if <-answers == nil {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d answers were taken", won)
	}
	if got := c.get(op.OperationID, 15000); got.State != control.StateSucceeded && got.State != control.StateFailed {
		t.Errorf("got %+v", got)
	}
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := asking(t)
		op := c.operation("fake_risky", c.args())
		if err := r.SetPolicy(c.session, PolicyGrant); err != nil { // changes nothing for what waits
			t.Fatal(err)
		}
		pass(approvalTimeout - time.Second)
		if n := len(r.Approvals()); n != 1 {
			t.Fatalf("%d questions wait", n)
		}
		pass(time.Second)
		got := c.get(op.OperationID, 0)
		if got.State != control.StateFailed || got.EffectState != control.EffectNone || got.Code != control.DeadlineExceeded || !strings.Contains(got.Message, "expired unanswered") {
			t.Errorf("got %+v", got)
		}
		if err := r.Decide(t.Context(), op.OperationID, true); errorCode(err) != control.TargetNotFound {
			t.Errorf("a late answer: %v", err)
		}
		if r.adapter.calls.Load() != 0 {
			t.Error("it ran")
		}
	})
}

func TestRememberedCommand(t *testing.T) {
	r, c := asking(t)
	first := c.operation("fake_risky", c.args("command", "npm test unit"))
	q := r.onlyApproval()
	if q.Rule != "npm test" {
		t.Fatalf("question %+v", q)
	}
	if err := r.DecideAndRemember(t.Context(), q.ID); err != nil {
		t.Fatal(err)
	}
	c.get(first.OperationID, 15000)
	for command, asks := range map[string]bool{"npm test": false, "npm test all": false, "npm test; ls": true, "npm run x": true} {
		op := c.operation("fake_risky", c.args("command", command))
		if got := op.State == control.StateAwaitingUser; got != asks {
			t.Errorf("%q asks: %v", command, got)
		}
		if asks {
			if err := r.Decide(t.Context(), op.OperationID, false); err != nil {
				t.Fatal(err)
			}
			c.get(op.OperationID, 15000)
		}
	}
	wrapped := c.operation("fake_risky", c.args("command", "sudo npm test"))
	if err := r.DecideAndRemember(t.Context(), wrapped.OperationID); errorCode(err) != control.ResourceExhausted {
		t.Errorf("remembering a wrapper: %v", err)
	}
	if len(r.Approvals()) != 1 {
		t.Error("a refused answer settled the question")
	}
	if diff := cmp.Diff([]string{"npm test"}, r.Sessions()[0].Rules); diff != "" {
		t.Error(diff)
	}
	if err := r.SetPolicy(c.session, PolicyAskAlways); err != nil {
		t.Fatal(err)
	}
	if op := c.operation("fake_risky", c.args("command", "npm test")); op.State != control.StateAwaitingUser {
		t.Errorf("ask always does not ask: %+v", op)
	}
}

func TestOneAnswerForARunAndAnOrigin(t *testing.T) {
	r, c := asking(t)
	say := func(op control.Operation) {
		t.Helper()
		if err := r.Decide(t.Context(), op.OperationID, true); err != nil {
			t.Fatal(err)
		}
		if got := c.get(op.OperationID, 15000); got.State != control.StateSucceeded {
			t.Fatalf("got %+v", got)
		}
	}
	typing := []any{"resource", "terminal:a", "risk", "types into vim", "run", "op1"}
	say(c.operation("fake_do", c.args(typing...)))
	if op := c.operation("fake_do", c.args(typing...)); op.State != control.StateSucceeded {
		t.Errorf("the same run asks again: %+v", op)
	}
	typing[len(typing)-1] = "op2"
	say(c.operation("fake_do", c.args(typing...)))
	typing[1] = "terminal:b"
	say(c.operation("fake_do", c.args(typing...)))

	const origin = "https://new.test:443"
	say(c.operation("fake_open", c.args("origin", origin)))
	if err := r.SetPolicy(c.session, PolicyGrant); err != nil {
		t.Fatal(err)
	}
	if op := c.operation("fake_open", c.args("origin", origin)); op.State != control.StateSucceeded {
		t.Errorf("the approved origin asks again: %+v", op)
	}
	if op := c.operation("fake_open", c.args("origin", "http://new.test:80")); op.State != control.StateAwaitingUser {
		t.Errorf("another scheme is another origin: %+v", op)
	}
	other := r.pair(terminalGrant("w1"))
	if op := other.operation("fake_open", other.args("origin", origin)); op.State != control.StateAwaitingUser {
		t.Errorf("an origin of another session: %+v", op)
	}
}

// The plan that a person approved is the one that runs, or none.
func TestPlanMustNotChange(t *testing.T) {
	r, c := asking(t)
	var now Target
	r.adapter.resolve = func(context.Context, Call) (Target, error) { return now, nil }
	base := Target{Resource: "terminal:a", Generation: "1", Command: "make x", Summary: "Run make x in main"}
	for _, row := range []struct {
		name   string
		change func(*Target)
		want   control.State
	}{
		{"nothing", func(*Target) {}, control.StateSucceeded},
		{"the panel's title", func(t *Target) { t.Summary = "Run make x in other" }, control.StateSucceeded},
		{"the shell", func(t *Target) { t.Generation = "2" }, control.StateFailed},
		{"the command", func(t *Target) { t.Command = "make y" }, control.StateFailed},
		{"the origin", func(t *Target) { t.Origin = "https://x.test:443" }, control.StateFailed},
		{"the risk", func(t *Target) { t.Risk = "types into ssh" }, control.StateFailed},
	} {
		now = base
		op := c.operation("fake_risky", c.args())
		row.change(&now)
		if err := r.Decide(t.Context(), op.OperationID, true); err != nil {
			t.Fatal(err)
		}
		got := c.get(op.OperationID, 15000)
		if got.State != row.want || row.want == control.StateFailed && (got.Code != control.StaleGeneration || got.EffectState != control.EffectNone) {
			t.Errorf("%s changed: %+v", row.name, got)
		}
	}
}

func TestQuestionShowsThePlan(t *testing.T) {
	r, c := asking(t)
	args := c.args("command", "ls "+strings.Repeat(" ", 500)+"\u202eevil\r\x1b[2K", "leaseId", "secretlease")
	op := c.operation("fake_risky", args)
	q := r.onlyApproval()
	if want := "ls " + strings.Repeat(" ", 500) + `\u{202e}evil\u{000d}\u{001b}[2K`; q.Command != want || q.Summary != "Do "+want {
		t.Errorf("S-61: shown as %q, %q", q.Command, q.Summary)
	}
	if q.Rule != "" || q.PlanHash == "" || q.Expires.Sub(q.Requested) != approvalTimeout {
		t.Errorf("question %+v", q)
	}
	var shown map[string]string
	if err := json.Unmarshal(q.Arguments, &shown); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"workspaceId": "w1", "command": args["command"].(string)}, shown); diff != "" {
		t.Errorf("arguments: %s", diff)
	}
	raw, err := json.Marshal(q)
	if err != nil || strings.Contains(string(raw), "secretlease") {
		t.Errorf("a lease got out: %s, %v", raw, err)
	}
	receipt, err := r.Receipt(t.Context(), op.OperationID)
	if err != nil || receipt.Summary != q.Summary || receipt.State != control.StateAwaitingUser {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
}

func TestAskedAndGone(t *testing.T) {
	r, c := asking(t)
	sub := r.Subscribe(t.Context())
	cancelled := c.operation("fake_risky", c.args())
	got := decodeData[control.Operation](t, c.call("lomi_operation_cancel", map[string]any{"operationId": cancelled.OperationID}))
	if got.State != control.StateCancelled || got.EffectState != control.EffectNone {
		t.Errorf("cancelled: %+v", got)
	}
	revoked := c.operation("fake_risky", c.args())
	if err := r.Revoke(c.session); err != nil {
		t.Fatal(err)
	}
	until(t, "the question is withdrawn", func() bool { return len(r.Approvals()) == 0 })
	until(t, "the receipt is cancelled", func() bool {
		receipt, err := r.Receipt(t.Context(), revoked.OperationID)
		return err == nil && receipt.State == control.StateCancelled && receipt.Effect == control.EffectNone
	})
	if r.adapter.calls.Load() != 0 {
		t.Error("it ran")
	}
	var outcomes []string
	for len(outcomes) < 2 {
		if e := <-sub.Events(); e.Kind == "approval.settled" {
			outcomes = append(outcomes, e.Data.(Approval).Outcome)
		}
	}
	if diff := cmp.Diff([]string{"withdrawn", "withdrawn"}, outcomes); diff != "" {
		t.Error(diff)
	}
}
