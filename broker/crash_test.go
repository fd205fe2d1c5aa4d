package broker

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"lomi/broker/control"
	"lomi/broker/ledger"
)

// afterKill gives the receipts that a next start finds if the daemon were
// killed now: it opens a copy of the store as it lies on the disk.
func (r *rig) afterKill() []ledger.Receipt {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "control"), 0o700); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"mark", "control/control.sqlite3", "control/control.sqlite3-wal"} {
		raw, err := os.ReadFile(filepath.Join(r.dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	next, err := ledger.Open(r.t.Context(), ledger.Config{Dir: filepath.Join(dir, "control"), MarkPath: filepath.Join(dir, "mark")})
	if err != nil {
		r.t.Fatal(err)
	}
	defer next.Close(context.WithoutCancel(r.t.Context()))
	all, err := next.List(r.t.Context(), ledger.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// F-01: a kill at each stage leaves a request that never began, one with its
// receipt, or one that is unknown. The next daemon runs none of them again:
// the epoch of the request is over.
func TestKillAtEachStage(t *testing.T) {
	one := func(t *testing.T, at string, all []ledger.Receipt, state control.State, effect control.Effect) {
		t.Helper()
		if len(all) != 1 || all[0].State != state || all[0].Effect != effect {
			t.Errorf("%s: %+v, want %s %s", at, all, state, effect)
		}
	}
	r := newRig(t)
	c := r.pair(GrantSpec{Scopes: DomainScopes("terminal"), Workspaces: []string{"w1"}})
	if got := r.afterKill(); len(got) != 0 {
		t.Errorf("before the request: %+v", got)
	}
	r.adapter.resolve = func(context.Context, Call) (Target, error) {
		if got := r.afterKill(); len(got) > 1 {
			t.Errorf("grant checked: %+v", got)
		}
		return Target{}, nil
	}
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		one(t, "intent written", r.afterKill(), control.StateOutcomeUnknown, control.EffectUnknown)
		if err := p.Start(); err != nil {
			return Result{}, err
		}
		one(t, "effect started", r.afterKill(), control.StateOutcomeUnknown, control.EffectUnknown)
		return Result{Data: fakeData{Kind: "fake"}}, nil
	}
	op := c.operation("fake_risky", c.args())
	one(t, "a person is asked", r.afterKill(), control.StateCancelled, control.EffectNone)
	if err := r.Decide(t.Context(), op.OperationID, true); err != nil {
		t.Fatal(err)
	}
	if got := c.get(op.OperationID, 15000); got.State != control.StateSucceeded {
		t.Fatalf("got %+v", got)
	}
	one(t, "receipt written", r.afterKill(), control.StateSucceeded, control.EffectComplete)
	if n := r.adapter.calls.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}
