package broker

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite" // to hold the store's lock from outside

	"lomi/broker/control"
)

// blockWriter holds the store's write lock, so that the ledger's writer waits,
// until the returned function is called.
func (r *rig) blockWriter() (release func()) {
	r.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(r.dir, "control", "control.sqlite3"))
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := db.Conn(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := conn.ExecContext(r.t.Context(), "BEGIN IMMEDIATE"); err != nil {
		r.t.Fatal(err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			_, err := conn.ExecContext(context.WithoutCancel(r.t.Context()), "ROLLBACK")
			if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
				r.t.Error(err)
			}
		})
	}
	r.t.Cleanup(release)
	return release
}

// A revocation does not wait for the ledger: the caller is told at once, and
// what the ledger lets through later has no effect.
func TestRevokeWhileTheLedgerIsBlocked(t *testing.T) {
	for name, revoke := range map[string]func(r *rig, c *client){
		"revoke":     func(r *rig, c *client) { r.Revoke(c.session) },
		"stop":       func(r *rig, _ *client) { r.Stop() },
		"yolo":       func(r *rig, _ *client) { r.SetYOLO(true) },
		"disconnect": func(r *rig, c *client) { r.Closed(c.session) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.pair(terminalGrant("w1"))
			release := r.blockWriter()
			reply := make(chan control.Reply, 1)
			args := c.args()
			go func() { reply <- c.call("fake_do", args) }()
			until(t, "the call waits for the ledger", func() bool { return len(r.session(c.session).slots) == 1 })
			revoke(r, c)
			wantCode(t, <-reply, control.ControlRevoked)
			<-c.ended
			release()
			until(t, "the receipt is settled", func() bool {
				all, err := r.Receipts(t.Context(), ReceiptFilter{Unsettled: true})
				b := r.Broker
				b.mu.Lock()
				defer b.mu.Unlock()
				return err == nil && len(all) == 0 && len(b.operations) == 0
			})
			if n := r.adapter.calls.Load(); n != 0 {
				t.Errorf("it ran %d times", n)
			}
			all, err := r.Receipts(t.Context(), ReceiptFilter{})
			if err != nil || len(all) > 1 || len(all) == 1 && (all[0].State == control.StateSucceeded || all[0].Effect != control.EffectNone) {
				t.Errorf("receipts %+v, %v", all, err)
			}
		})
	}
}

// A revocation does not wait for an adapter that hangs, in Resolve or in Do.
func TestRevokeWhileTheAdapterHangs(t *testing.T) {
	for _, tool := range []string{"fake_do", "fake_direct", "fake_read"} {
		for _, where := range []string{"resolve", "do"} {
			t.Run(tool+" in "+where, func(t *testing.T) {
				r := newRig(t)
				c := r.pair(terminalGrant("w1"))
				hang, began := make(chan struct{}), make(chan struct{})
				if where == "resolve" {
					r.adapter.resolve = func(context.Context, Call) (Target, error) {
						close(began)
						<-hang
						return Target{}, nil
					}
				} else {
					r.adapter.do = func(context.Context, *Permit, Call, Target) (Result, error) {
						close(began)
						<-hang
						return Result{}, errors.New("too late")
					}
				}
				reply := make(chan control.Reply, 1)
				args := c.args()
				if tool == "fake_read" {
					args = map[string]any{"workspaceId": "w1"}
				}
				go func() { reply <- c.call(tool, args) }()
				<-began
				if err := r.Revoke(c.session); err != nil {
					t.Fatal(err)
				}
				wantCode(t, <-reply, control.ControlRevoked)
				close(hang)
			})
		}
	}
}

// F-31: a permit is gone the moment the session is, at every stage.
func TestPermitEndsWithTheSession(t *testing.T) {
	for name, end := range map[string]func(r *rig, c *client){
		"revoke":   func(r *rig, c *client) { r.Revoke(c.session) },
		"stop":     func(r *rig, _ *client) { r.Stop() },
		"takeover": func(r *rig, _ *client) { r.TakeOver("terminal:a") },
		"release":  func(r *rig, _ *client) { r.Release("terminal:a") },
	} {
		for _, started := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				c := r.pair(terminalGrant("w1"))
				lease := r.giveLease(r.session(c.session), "terminal:a")
				checked := make(chan error, 2)
				r.adapter.do = func(ctx context.Context, p *Permit, call Call, _ Target) (Result, error) {
					if call.Lease != lease.id {
						t.Errorf("the call holds lease %q", call.Lease)
					}
					if started {
						checked <- p.Start()
					} else {
						checked <- p.Check()
					}
					end(r, c)
					checked <- p.Start()
					return Result{}, errRevoked()
				}
				c.call("fake_type", c.args("resource", "terminal:a", "leaseId", lease.id))
				if err := <-checked; err != nil {
					t.Errorf("before: %v", err)
				}
				if err := <-checked; errorCode(err) != control.ControlRevoked {
					t.Errorf("after: %v", err)
				}
			})
		}
	}
}

func TestLeases(t *testing.T) {
	r := newRig(t)
	one, two := r.pair(terminalGrant("w1")), r.pair(terminalGrant("w1"))
	r.adapter.do = func(_ context.Context, p *Permit, call Call, _ Target) (Result, error) {
		lease := ""
		if call.Tool.Name == "fake_do" {
			lease = "terminal:a"
		}
		return Result{Data: fakeData{Kind: "terminal", PanelID: "a", LeaseID: "an adapter's own"}, Lease: lease}, p.Start()
	}
	leaseOf := func(op control.Operation) string {
		t.Helper()
		return decodeData[fakeData](t, control.Reply{Status: "ok", Data: op.Result}).LeaseID
	}
	made := one.operation("fake_do", one.args())
	lease := leaseOf(made)
	if len(lease) != 32 {
		t.Fatalf("result %s", made.Result)
	}
	receipt, err := r.Receipt(t.Context(), made.OperationID)
	if err != nil || string(receipt.Result) != `{"kind":"terminal","panelId":"a"}` {
		t.Errorf("a lease is stored: %s, %v", receipt.Result, err)
	}
	if got := leaseOf(two.operation("fake_do", two.args())); got != "" {
		t.Errorf("the second session got lease %q on the first one's shell", got)
	}
	typing := func(c *client, id string) control.Reply {
		return c.call("fake_type", c.args("resource", "terminal:a", "leaseId", id))
	}
	wantCode(t, typing(one, lease), "")
	wantCode(t, typing(one, "other"), control.ControlRevoked)
	wantCode(t, typing(two, lease), control.ControlRevoked)
	if diff := len(r.Leases()); diff != 1 || r.Sessions()[0].Leases[0] != "terminal:a" {
		t.Errorf("leases %+v", r.Leases())
	}
	if !r.TakeOver("terminal:a") || r.TakeOver("terminal:a") {
		t.Error("the takeover took something else than one lease")
	}
	wantCode(t, typing(one, lease), control.ControlRevoked)
	if got := leaseOf(one.get(made.OperationID, 0)); got != "" {
		t.Errorf("after the takeover the receipt gives lease %q", got)
	}
	if got := leaseOf(one.operation("fake_do", one.args())); got != "" {
		t.Errorf("a lease on what a person took over: %q", got)
	}
	r.Release("terminal:a")
	next := leaseOf(two.operation("fake_do", two.args()))
	if next == "" || next == lease {
		t.Errorf("after the release: %q", next)
	}
	r.Closed(two.session)
	if got := r.Leases(); len(got) != 0 {
		t.Errorf("a disconnected session holds %+v", got)
	}
}

// More takeovers than are remembered: a live panel that a person touched is
// never given to a session, those of gone panels are forgotten.
func TestTakeoversOfLivePanelsStay(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	panel := control.Panel{ID: "mine", WorkspaceID: "w1", Kind: control.PanelTerminal}
	r.desk.panels = []control.Panel{panel}
	r.TakeOver(panel.Resource())
	for i := range maxTaken + 10 {
		r.TakeOver("terminal:gone" + strconv.Itoa(i))
	}
	if l := r.giveLease(r.session(c.session), panel.Resource()); l != nil {
		t.Error("a session got a lease on a panel that a person took over")
	}
	if n := len(r.Leases()); n > maxTaken {
		t.Errorf("%d takeovers are remembered", n)
	}
	for i := range maxTaken + 10 { // all of them live
		p := control.Panel{ID: "live" + strconv.Itoa(i), WorkspaceID: "w1", Kind: control.PanelTerminal}
		r.desk.panels = append(r.desk.panels, p)
		r.TakeOver(p.Resource())
	}
	for _, p := range r.desk.panels {
		if r.giveLease(r.session(c.session), p.Resource()) != nil {
			t.Fatalf("a session got a lease on %s", p.ID)
		}
	}
}

// F-30: takers, holders and the session's end at the same time leave at most
// one holder, and none for an ended session.
func TestLeaseRaces(t *testing.T) {
	r := newRig(t)
	one, two := r.pair(terminalGrant("w1")), r.pair(terminalGrant("w1"))
	a, b := r.session(one.session), r.session(two.session)
	for range 200 {
		var wg sync.WaitGroup
		got := make([]*lease, 2)
		wg.Go(func() { got[0] = r.giveLease(a, "terminal:a") })
		wg.Go(func() { got[1] = r.giveLease(b, "terminal:a") })
		wg.Go(func() { r.TakeOver("terminal:a") })
		wg.Wait()
		for _, l := range got {
			if l != nil && !l.gone.Load() {
				t.Fatal("a lease outlived the takeover")
			}
		}
		r.Release("terminal:a")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { r.giveLease(a, "terminal:b") })
	}
	wg.Go(func() { r.Revoke(one.session) })
	wg.Wait()
	if r.heldLease(a, "terminal:b") != nil {
		t.Error("an ended session holds a lease")
	}
}

func TestCancelling(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	began, ended := make(chan struct{}), make(chan control.State, 1)
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		if err := p.Start(); err != nil {
			return Result{}, err
		}
		began <- struct{}{}
		<-p.Cancelled()
		if err := p.Check(); err != nil {
			t.Errorf("the permit to end in order is gone: %v", err)
		}
		return Result{Data: fakeData{Kind: "fake"}, State: <-ended, Effect: control.EffectPartial}, nil
	}
	for _, row := range []struct {
		how   control.State
		state control.State
		eff   control.Effect
	}{
		{control.StateCancelled, control.StateCancelled, control.EffectPartial},
		{control.StateFailed, control.StateFailed, control.EffectPartial},
		{control.StateSucceeded, control.StateSucceeded, control.EffectComplete},
		{control.StateOutcomeUnknown, control.StateOutcomeUnknown, control.EffectUnknown},
	} {
		reply := make(chan control.Reply, 1)
		args := c.args()
		go func() { reply <- c.call("fake_do", args) }()
		<-began
		all, err := r.Receipts(t.Context(), ReceiptFilter{Unsettled: true})
		if err != nil || len(all) != 1 {
			t.Fatalf("receipts %+v, %v", all, err)
		}
		ended <- row.how
		got := decodeData[control.Operation](t, c.call("lomi_operation_cancel", map[string]any{"operationId": all[0].ID}))
		if got.State != row.state || got.EffectState != row.eff {
			t.Errorf("ended as %s: %+v", row.how, got)
		}
		<-reply
		again := decodeData[control.Operation](t, c.call("lomi_operation_cancel", map[string]any{"operationId": all[0].ID}))
		if again.State != row.state {
			t.Errorf("cancelled again: %+v", again)
		}
	}
}

// An adapter may end as cancelled by itself: exit 130 from a person's Ctrl+C.
func TestCancelledByItself(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		return Result{State: control.StateCancelled, Effect: control.EffectPartial}, p.Start()
	}
	if op := c.operation("fake_do", c.args()); op.State != control.StateCancelled || op.EffectState != control.EffectPartial {
		t.Errorf("got %+v", op)
	}
}

func TestPersonCancels(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	began := make(chan string, 1)
	r.adapter.do = func(_ context.Context, p *Permit, call Call, _ Target) (Result, error) {
		began <- call.Operation
		<-p.Cancelled()
		return Result{}, p.Start() // before the effect began
	}
	reply := make(chan control.Reply, 1)
	args := c.args()
	go func() { reply <- c.call("fake_do", args) }()
	if err := r.Cancel(<-began); err != nil {
		t.Fatal(err)
	}
	op := decodeData[control.Operation](t, <-reply)
	if op.State != control.StateCancelled || op.EffectState != control.EffectNone {
		t.Errorf("got %+v", op)
	}
	if err := r.Cancel(op.OperationID); errorCode(err) != control.TargetNotFound {
		t.Errorf("cancelling what is over: %v", err)
	}
}

// How long calls wait: a mutation gives its receipt after ten seconds, a read
// an error before hosts give up, operation_get what it was asked to wait.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.pair(terminalGrant("w1"))
		release := make(chan struct{})
		r.adapter.do = func(ctx context.Context, p *Permit, _ Call, _ Target) (Result, error) {
			if err := p.Start(); err != nil {
				return Result{}, err
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return Result{Data: fakeData{Kind: "fake"}}, nil
		}
		begun := time.Now()
		args := c.args()
		op := c.operation("fake_do", args)
		if took := time.Since(begun); op.State != control.StateRunning || took != quickWait {
			t.Errorf("after %s: %+v", took, op)
		}
		begun = time.Now()
		if got := c.get(op.OperationID, 15000); got.State != control.StateRunning || time.Since(begun) != 15*time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), got)
		}
		begun = time.Now()
		wantCode(t, c.call("fake_direct", c.args()), control.DeadlineExceeded)
		if took := time.Since(begun); took != quickWait {
			t.Errorf("a direct tool answered after %s", took)
		}
		begun = time.Now()
		wantCode(t, c.call("fake_read", map[string]any{"workspaceId": "w1"}), control.DeadlineExceeded)
		if took := time.Since(begun); took != readLimit {
			t.Errorf("a read answered after %s", took)
		}
		close(release)
		if got := c.get(op.OperationID, 15000); got.State != control.StateSucceeded {
			t.Errorf("in the end: %+v", got)
		}
		byKey := decodeData[control.Operation](t, c.call("lomi_operation_get",
			map[string]any{"retryEpoch": c.epoch, "requestKey": args["requestKey"], "tool": "fake_do", "waitMs": 100}))
		if byKey.OperationID != op.OperationID {
			t.Errorf("by key: %+v", byKey)
		}
		r.adapter.resolve = func(ctx context.Context, _ Call) (Target, error) {
			<-ctx.Done()
			return Target{}, ctx.Err()
		}
		begun = time.Now()
		wantCode(t, c.call("fake_do", c.args()), control.DeadlineExceeded)
		if took := time.Since(begun); took != resolveLimit {
			t.Errorf("a target that is never found answered after %s", took)
		}
	})
}

func TestCloseIsBoundedAndRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.pair(terminalGrant("w1"))
		hang := make(chan struct{})
		began := make(chan struct{}, 1)
		r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
			began <- struct{}{}
			<-hang
			return Result{Data: fakeData{Kind: "fake"}}, nil
		}
		reply := make(chan control.Reply, 1)
		args := c.args()
		go func() { reply <- c.call("fake_do", args) }()
		<-began
		begun := time.Now()
		if err := r.Broker.Close(); err == nil || time.Since(begun) != closeGrace {
			t.Errorf("Close over a hanging adapter: %v after %s", err, time.Since(begun))
		}
		wantCode(t, <-reply, control.ControlRevoked)
		all, err := r.Receipts(t.Context(), ReceiptFilter{Unsettled: true})
		if err != nil || len(all) != 1 || all[0].State != control.StateRunning {
			t.Errorf("receipts %+v, %v", all, err)
		}
		close(hang)
		synctest.Wait()
	})
}
