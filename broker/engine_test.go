package broker

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lomi/broker/catalog"
	"lomi/broker/catalog/link"
	"lomi/broker/control"
	"lomi/broker/ledger"
	"lomi/broker/wire"
)

// patience bounds every wait of these tests; nothing takes a hundredth of it.
const patience = 20 * time.Second

// desk is a workbench with two projects.
type desk struct {
	mu     sync.Mutex
	all    []control.Workspace
	panels []control.Panel
}

func (d *desk) Panels(workspace string) []control.Panel {
	d.mu.Lock()
	defer d.mu.Unlock()
	var of []control.Panel
	for _, p := range d.panels {
		if p.WorkspaceID == workspace {
			of = append(of, p)
		}
	}
	return of
}

func newDesk() *desk {
	return &desk{all: []control.Workspace{
		{ID: "w1", Name: "main", ProjectID: "p1", ProjectName: "one", ProjectPath: "/one", Revision: "1"},
		{ID: "w2", Name: "side", ProjectID: "p1", ProjectName: "one", ProjectPath: "/one", Revision: "1"},
		{ID: "x1", Name: "other", ProjectID: "p2", ProjectName: "two", ProjectPath: "/two", Revision: "1"},
	}}
}

func (d *desk) Workspaces() []control.Workspace {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]control.Workspace{}, d.all...)
}

func (d *desk) Workspace(id string) (control.Workspace, bool) {
	for _, w := range d.Workspaces() {
		if w.ID == id {
			return w, true
		}
	}
	return control.Workspace{}, false
}

func (d *desk) replace(w control.Workspace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.all {
		if d.all[i].ID == w.ID {
			d.all[i] = w
		}
	}
}

// fakeRequest is the request of the fake tools. It stands in for every domain.
type fakeRequest struct {
	WorkspaceID string `json:"workspaceId"`
	RetryEpoch  string `json:"retryEpoch"`
	RequestKey  string `json:"requestKey"`
	Resource    string `json:"resource,omitempty"`
	LeaseID     string `json:"leaseId,omitempty"`
	Origin      string `json:"origin,omitempty"`
	Command     string `json:"command,omitempty"`
	Risk        string `json:"risk,omitempty"`
	Run         string `json:"run,omitempty"`
	Refused     string `json:"refused,omitempty"`
	Foreign     string `json:"foreign,omitempty"` // the target lies in this workspace
	Extra       string `json:"extra,omitempty"`   // a scope that only this request needs
}

func (r fakeRequest) Workspace() string                    { return r.WorkspaceID }
func (r fakeRequest) Retry() (epoch, key, revision string) { return r.RetryEpoch, r.RequestKey, "" }
func (r fakeRequest) NeedsScopes() []control.Scope {
	if r.Extra == "" {
		return nil
	}
	return []control.Scope{control.Scope(r.Extra)}
}

type fakeRead struct {
	control.Scoped
}

type fakeData struct {
	Kind    string `json:"kind"`
	PanelID string `json:"panelId,omitempty"`
	LeaseID string `json:"leaseId,omitempty"`
	Text    string `json:"text,omitempty"`
	Current string `json:"current,omitempty"`
}

// fakeAdapter does what a test tells it to.
type fakeAdapter struct {
	calls   atomic.Int64
	resolve func(context.Context, Call) (Target, error)
	do      func(context.Context, *Permit, Call, Target) (Result, error)
}

func (f *fakeAdapter) Resolve(ctx context.Context, c Call) (Target, error) {
	if f.resolve != nil {
		return f.resolve(ctx, c)
	}
	r, ok := c.Request.(*fakeRequest)
	if !ok {
		return Target{}, nil
	}
	return Target{WorkspaceID: r.Foreign, Resource: r.Resource, LeaseID: r.LeaseID, Origin: r.Origin, Command: r.Command,
		Risk: r.Risk, Run: r.Run, Refused: r.Refused, Summary: "Do " + r.Command}, nil
}

func (f *fakeAdapter) Do(ctx context.Context, p *Permit, c Call, t Target) (Result, error) {
	f.calls.Add(1)
	if f.do != nil {
		return f.do(ctx, p, c, t)
	}
	if err := p.Start(); err != nil {
		return Result{}, err
	}
	return Result{Data: fakeData{Kind: "fake", Text: "done"}}, nil
}

func fakeTools() []control.Tool {
	mutation := func() any { return new(fakeRequest) }
	scopes := []control.Scope{control.WorkspaceRead, control.TerminalExecute}
	kinds := []string{"fake", "terminal"}
	return append(catalog.All(),
		control.Tool{Name: "fake_do", Domain: "fake", Title: "Do", Operation: true, Scopes: scopes, Results: kinds, NewRequest: mutation},
		control.Tool{Name: "fake_direct", Domain: "fake", Title: "Do directly", Scopes: scopes, Results: kinds, NewRequest: mutation},
		control.Tool{Name: "fake_risky", Domain: "fake", Title: "Risk", Operation: true, Destructive: true, Scopes: scopes, Results: kinds, NewRequest: mutation},
		control.Tool{Name: "fake_open", Domain: "fake", Title: "Open", Operation: true, OpenWorld: true, Scopes: scopes, Results: kinds, NewRequest: mutation},
		control.Tool{Name: "fake_type", Domain: "fake", Title: "Type", Operation: true, Lease: true, Scopes: scopes, Results: kinds, NewRequest: mutation},
		control.Tool{Name: "fake_read", Domain: "fake", Title: "Read", ReadOnly: true, Scopes: []control.Scope{control.TerminalRead}, Results: kinds,
			NewRequest: func() any { return new(fakeRead) }},
	)
}

// rig is a broker over a real ledger, with a fake adapter.
type rig struct {
	*Broker
	t       testing.TB
	adapter *fakeAdapter
	desk    *desk
	ledger  *ledger.Ledger
	dir     string
	keys    int
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, adapter: &fakeAdapter{}, desk: newDesk(), dir: t.TempDir()}
	var err error
	r.ledger, err = ledger.Open(t.Context(), ledger.Config{Dir: filepath.Join(r.dir, "control"), MarkPath: filepath.Join(r.dir, "mark")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Ledger: r.ledger, Desk: r.desk, Tools: fakeTools(), Adapters: map[string]Adapter{"fake": r.adapter},
		Instance: "i1", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	r.Broker, err = New(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Broker.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r.ledger.Close(ctx)
	})
	return r
}

func terminalGrant(workspaces ...string) GrantSpec {
	return GrantSpec{Scopes: DomainScopes("terminal"), Workspaces: workspaces, Policy: PolicyGrant}
}

var certificates atomic.Int64

// pair lets a helper in and gives its session and retry epoch.
func (r *rig) pair(spec GrantSpec) *client {
	r.t.Helper()
	certificate := strconv.FormatInt(certificates.Add(1), 10)
	p, err := r.Enroll(context.WithoutCancel(r.t.Context()), wire.Peer{PID: 1, Label: "test", CertificateSHA256: certificate})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Approve(r.t.Context(), p.ID, spec); err != nil {
		r.t.Fatal(err)
	}
	if d := <-p.Decision; d != wire.Approved {
		r.t.Fatalf("decision %s", d)
	}
	s, err := r.Open(r.t.Context(), p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &client{rig: r, session: s.ID, ended: s.Ended}
	if len(spec.Workspaces) > 0 {
		c.epoch = decodeData[link.Connected](r.t, c.call("lomi_connect", map[string]any{"workspaceId": spec.Workspaces[0]})).RetryEpoch
	}
	return c
}

// client is the other side of one session.
type client struct {
	rig     *rig
	session string
	ended   <-chan struct{}
	epoch   string
}

func (c *client) call(tool string, args map[string]any) control.Reply {
	c.rig.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		c.rig.t.Fatal(err)
	}
	return c.rig.Handle(c.rig.t.Context(), c.session, tool, raw)
}

// args are those of a mutation in w1 with a key of its own, changed by more.
func (c *client) args(more ...any) map[string]any {
	c.rig.keys++
	out := map[string]any{"workspaceId": "w1", "retryEpoch": c.epoch, "requestKey": "k" + strconv.Itoa(c.rig.keys)}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

func (c *client) operation(tool string, args map[string]any) control.Operation {
	c.rig.t.Helper()
	return decodeData[control.Operation](c.rig.t, c.call(tool, args))
}

func (c *client) get(id string, waitMS int) control.Operation {
	c.rig.t.Helper()
	return decodeData[control.Operation](c.rig.t, c.call("lomi_operation_get", map[string]any{"operationId": id, "waitMs": waitMS}))
}

func decodeData[T any](t testing.TB, r control.Reply) T {
	t.Helper()
	var out T
	if r.Status != "ok" {
		t.Fatalf("reply %s: %s", r.Code, r.Message)
	}
	if err := json.Unmarshal(r.Data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func wantCode(t testing.TB, r control.Reply, want control.Code) {
	t.Helper()
	if r.Code != want {
		t.Errorf("got %s %s %q %s, want code %s", r.Status, r.Code, r.Message, r.Data, want)
	}
}

// until polls a condition with a ticker until it holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("waited too long until %s", what)
		case <-tick.C:
		}
	}
}

// onlyApproval waits for the one question and gives it.
func (r *rig) onlyApproval() Approval {
	r.t.Helper()
	until(r.t, "a question waits", func() bool { return len(r.Approvals()) == 1 })
	return r.Approvals()[0]
}

func TestEffectIsRecordedAndAnswered(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	op := c.operation("fake_do", c.args())
	if op.State != control.StateSucceeded || op.EffectState != control.EffectComplete || string(op.Result) != `{"kind":"fake","text":"done"}` {
		t.Fatalf("got %+v", op)
	}
	receipts, err := r.Receipts(t.Context(), ReceiptFilter{})
	if err != nil || len(receipts) != 1 || receipts[0].ID != op.OperationID || receipts[0].Project != "p1" {
		t.Fatalf("receipts %+v, %v", receipts, err)
	}
}
