package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lomi/broker/catalog"
	"lomi/broker/catalog/artifact"
	"lomi/broker/catalog/browser"
	"lomi/broker/catalog/link"
	"lomi/broker/catalog/terminal"
	"lomi/broker/catalog/workbench"
	"lomi/broker/client"
	"lomi/broker/control"
)

// fakeBroker stands in for the broker: it decodes and validates every request
// by the catalog, so that a wrong full form fails here too, keeps receipts, and
// acts like one terminal program and one page.
type fakeBroker struct {
	mu     sync.Mutex
	decide func(ctx context.Context, pairing string) error // nil approves at once
	down   bool
	dials  int
	conns  []*fakeConn

	scopes   []control.Scope
	revision int
	epoch    int
	told     int // the epoch that lomi_connect gave last

	runs      map[string]*fakeRun // what a command line does
	output    strings.Builder     // of the terminal
	receipts  map[string]*control.Operation
	pending   map[string]*fakeOp
	n         int
	requests  []fakeRequest
	conflicts int    // how many mutations still meet a moved revision
	movedBy   string // of those

	page       []browser.Node
	pageURL    string
	pageTitle  string
	pageNotes  []string
	refuse     map[string]string // tools that fail, with the message
	navigation int
	snapshot   int
	taken      time.Time
	onClick    func(b *fakeBroker, ref string)
	ask        map[string]chan bool // tools that ask a person first
	revoked    bool
	hold       bool          // mutations are answered only when their caller gives up
	keys       []string      // of all mutations
	late       time.Duration // until a mutation is admitted
	gone       bool          // the terminal was closed
	lostInput  bool          // whether an input was typed is unknown
	slowInput  time.Duration
}

type fakeRequest struct {
	tool string
	args any
}

// fakeRun is a command: its output at once, then its end after a while. A zero
// after ends at once, a negative one never.
type fakeRun struct {
	output  string
	exit    int
	after   time.Duration
	waiting bool
	program string // that waits
}

type fakeOp struct {
	op        *control.Operation
	key       string
	request   any
	settled   chan struct{}
	cancelled chan struct{}
}

// fakeProject is the one of the workspace; the grant holds others too.
const fakeProject = "project1"

func newFakeBroker() *fakeBroker {
	return &fakeBroker{scopes: control.Scopes(), runs: map[string]*fakeRun{}, receipts: map[string]*control.Operation{},
		pending: map[string]*fakeOp{}, ask: map[string]chan bool{}, pageURL: "http://localhost:3000/", pageTitle: "Shop", refuse: map[string]string{}, navigation: 1, taken: time.Now()}
}

type fakeConn struct {
	broker  *fakeBroker
	pairing string
	done    chan struct{}
	once    sync.Once
	label   string
}

func (b *fakeBroker) Dial(_ context.Context, label string) (Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, client.ErrUnavailable
	}
	b.dials++
	b.epoch++
	c := &fakeConn{broker: b, pairing: fmt.Sprint("pairing", b.dials), done: make(chan struct{}), label: label}
	b.conns = append(b.conns, c)
	return c, nil
}

func (c *fakeConn) PairingID() string     { return c.pairing }
func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) Close() error          { c.once.Do(func() { close(c.done) }); return nil }

func (c *fakeConn) Await(ctx context.Context) error {
	if c.broker.decide == nil {
		return nil
	}
	return c.broker.decide(ctx, c.pairing)
}

var errFakeGone = errors.New("connection reset")

func (c *fakeConn) Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error) {
	select {
	case <-c.done:
		return control.Reply{}, errFakeGone
	case <-ctx.Done():
		return control.Reply{}, ctx.Err()
	default:
	}
	t, ok := catalog.Find(tool)
	if !ok {
		return control.Failure(control.Errorf(control.UnsupportedCapability, "no such tool")), nil
	}
	request := t.NewRequest()
	if err := control.Decode(args, request); err != nil {
		return control.Failure(err), nil
	}
	if v, ok := request.(control.Validator); ok {
		if err := v.Validate(); err != nil {
			return control.Failure(err), nil
		}
	}
	data, image, err := c.broker.handle(ctx, c, tool, request)
	if errors.Is(err, errFakeGone) {
		c.Close()
		return control.Reply{}, err
	}
	if err != nil {
		if ctx.Err() != nil {
			return control.Reply{}, ctx.Err()
		}
		return control.Failure(err), nil
	}
	return control.OK(data, image)
}

// asked returns the requests of a tool so far.
func (b *fakeBroker) asked(tool string) []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []any
	for _, r := range b.requests {
		if r.tool == tool {
			out = append(out, r.args)
		}
	}
	return out
}

func (b *fakeBroker) epochName() string { return fmt.Sprint("epoch", b.epoch) }

func (b *fakeBroker) handle(ctx context.Context, c *fakeConn, tool string, request any) (any, *control.Image, error) {
	b.mu.Lock()
	b.requests = append(b.requests, fakeRequest{tool, request})
	if b.revoked {
		b.mu.Unlock()
		return nil, nil, control.Errorf(control.ControlRevoked, "revoked")
	}
	gone, refused := b.gone, b.refuse[tool]
	b.mu.Unlock()
	if refused != "" {
		return nil, nil, control.Errorf(control.TargetBusy, "%s", refused)
	}
	switch r := request.(type) {
	case *terminal.RunRequest:
		if gone {
			return nil, nil, control.Errorf(control.TargetNotFound, "no such panel")
		}
	case *link.ConnectRequest:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = b.epoch
		return link.Connected{Kind: "connected", WorkspaceID: r.WorkspaceID, ProjectID: fakeProject, RetryEpoch: b.epochName(), Scopes: b.scopes, Revision: fmt.Sprint(b.revision)}, nil, nil
	case *link.OperationGetRequest:
		return b.get(ctx, r)
	case *link.OperationCancelRequest:
		return b.cancel(r.OperationID)
	case *terminal.ReadRequest:
		return b.read(r)
	case *workbench.PanelListRequest:
		return workbench.Panels{Kind: "panels", Items: []workbench.PanelEntry{{ID: "panel1", Kind: control.PanelTerminal}}}, nil, nil
	case *browser.SnapshotRequest:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.look(), nil, nil
	case *browser.ScreenshotRequest:
		return artifact.Artifact{Kind: "artifact", ID: "art1", MediaType: "image/png"}, &control.Image{MediaType: "image/png", Data: []byte("png")}, nil
	}
	return b.mutate(ctx, tool, request)
}

// mutate admits a request, after a while if so told and then whether or not its
// caller still waits: what was sent is sent.
func (b *fakeBroker) mutate(ctx context.Context, tool string, request any) (any, *control.Image, error) {
	b.mu.Lock()
	late := b.late
	b.mu.Unlock()
	if late == 0 {
		return b.admit(ctx, tool, request)
	}
	type answer struct {
		data  any
		image *control.Image
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		<-time.After(late)
		data, image, err := b.admit(ctx, tool, request)
		done <- answer{data, image, err}
	}()
	select {
	case a := <-done:
		return a.data, a.image, a.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func (b *fakeBroker) admit(ctx context.Context, tool string, request any) (any, *control.Image, error) {
	b.mu.Lock()
	if b.told != b.epoch && tool == "lomi_terminal_input" {
		b.mu.Unlock()
		return nil, nil, control.Errorf(control.RetryWindowExpired, "over")
	}
	if retry, ok := request.(control.Retryable); ok && tool != "lomi_terminal_input" {
		epoch, key, revision := retry.Retry()
		b.keys = append(b.keys, key)
		if epoch != b.epochName() {
			b.mu.Unlock()
			return nil, nil, control.Errorf(control.RetryWindowExpired, "another epoch")
		}
		if revision != "" && (revision != fmt.Sprint(b.revision) || b.conflicts > 0) {
			b.conflicts--
			b.revision++
			by := b.movedBy
			b.mu.Unlock()
			return nil, nil, &control.Error{Code: control.RevisionConflict, Message: "moved", MovedBy: by}
		}
	}
	b.n++
	op := &control.Operation{Kind: "operation", OperationID: fmt.Sprint("receipt", b.n), Tool: tool, State: control.StateRunning, EffectState: control.EffectNone}
	f := &fakeOp{op: op, request: request, settled: make(chan struct{}), cancelled: make(chan struct{})}
	if retry, ok := request.(control.Retryable); ok {
		_, f.key, _ = retry.Retry()
	}
	b.receipts[op.OperationID], b.pending[op.OperationID] = op, f
	hold := b.hold
	ask := b.ask[tool]
	if ask != nil {
		op.State = control.StateAwaitingUser
	}
	b.mu.Unlock()
	if ask != nil {
		go b.question(f, ask, request)
	} else {
		b.effect(f, request)
	}
	if hold {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if tool == "lomi_terminal_input" && op.State != control.StateAwaitingUser {
		return b.acknowledge(request.(*terminal.InputRequest), op)
	}
	return *op, nil, nil
}

// acknowledge is the direct answer to an input, as the broker gives it.
func (b *fakeBroker) acknowledge(r *terminal.InputRequest, op *control.Operation) (any, *control.Image, error) {
	ack := terminal.InputAck{Kind: "terminal_input_ack", InputSequence: r.InputSequence, Dispatch: "dispatched"}
	switch {
	case op.State == control.StateOutcomeUnknown:
		ack.Dispatch = "outcome_unknown"
	case !op.State.Settled():
		ack.Dispatch = "pending"
	case op.State != control.StateSucceeded:
		return nil, nil, control.Errorf(op.Code, "%s", op.Message)
	}
	return ack, nil, nil
}

func (b *fakeBroker) question(f *fakeOp, ask chan bool, request any) {
	timer := time.NewTimer(parkTimeout)
	defer timer.Stop()
	select {
	case yes := <-ask:
		if yes {
			b.mu.Lock()
			f.op.State = control.StateRunning
			b.mu.Unlock()
			b.effect(f, request)
			return
		}
		b.settle(f, control.StateFailed, control.EffectNone, control.ScopeDenied, nil)
	case <-timer.C:
		b.settle(f, control.StateFailed, control.EffectNone, control.DeadlineExceeded, nil)
	case <-f.cancelled:
		b.settle(f, control.StateCancelled, control.EffectNone, "", nil)
	}
}

func (b *fakeBroker) settle(f *fakeOp, state control.State, effect control.Effect, code control.Code, result any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.op.State.Settled() {
		return
	}
	f.op.State, f.op.EffectState, f.op.Code = state, effect, code
	if result != nil {
		raw, err := json.Marshal(result)
		if err != nil {
			f.op.State = control.StateOutcomeUnknown
		}
		f.op.Result = raw
	}
	close(f.settled)
}

func (b *fakeBroker) effect(f *fakeOp, request any) {
	done := func(result any) { b.settle(f, control.StateSucceeded, control.EffectComplete, "", result) }
	switch r := request.(type) {
	case *terminal.CreateRequest:
		b.mu.Lock()
		b.revision++
		b.mu.Unlock()
		done(terminal.Created{Kind: "terminal", Target: terminal.Target{PanelID: "panel1", TerminalSessionID: "shell1"}, LeaseID: "lease1", Ready: true})
	case *terminal.RunRequest:
		b.run(f, r)
	case *terminal.InputRequest:
		if b.lostInput {
			b.settle(f, control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown, nil)
			return
		}
		if b.slowInput > 0 {
			time.AfterFunc(b.slowInput, func() { b.typed(f, r) })
			return
		}
		b.typed(f, r)
	case *terminal.InterruptRequest:
		b.mu.Lock()
		target := b.pending[r.OperationID]
		b.mu.Unlock()
		b.settle(target, control.StateFailed, control.EffectComplete, "", b.ran(r.OperationID, 0, 130))
		done(terminal.Interrupted{Kind: "terminal_interrupt", Dispatched: true})
	case *browser.OpenRequest:
		b.mu.Lock()
		b.revision++
		b.pageURL = r.URL
		b.mu.Unlock()
		done(browser.Opened{Kind: "browser", Target: browser.Target{PanelID: "web1", BrowserGeneration: "g1"}, NavigationID: "g1:1", LeaseID: "lease2", Ready: true, URL: r.URL})
	case *browser.NavigateRequest:
		b.mu.Lock()
		b.navigation++
		if r.URL != "" {
			b.pageURL = r.URL
		}
		n := browser.Navigated{Kind: "browser_navigation", NavigationID: fmt.Sprint("g1:", b.navigation), URL: b.pageURL, Committed: true, Loaded: true}
		b.mu.Unlock()
		done(n)
	case *browser.ClickRequest:
		b.interact(f, r.Element)
	case *browser.FillRequest:
		b.interact(f, r.Element)
	case *browser.KeyRequest:
		b.interact(f, r.Element)
	default:
		b.settle(f, control.StateFailed, control.EffectNone, control.UnsupportedCapability, nil)
	}
}

func (b *fakeBroker) typed(f *fakeOp, r *terminal.InputRequest) {
	b.mu.Lock()
	b.output.WriteString(r.Input.Text + r.Input.Key)
	b.mu.Unlock()
	b.settle(f, control.StateSucceeded, control.EffectComplete, "",
		terminal.InputAck{Kind: "terminal_input_ack", InputSequence: r.InputSequence, Dispatch: "dispatched"})
}

func (b *fakeBroker) interact(f *fakeOp, e browser.Element) {
	b.mu.Lock()
	stale := e.SnapshotID != fmt.Sprint("snap", b.snapshot) || time.Since(b.taken) > time.Minute || e.NavigationID != fmt.Sprint("g1:", b.navigation)
	if !stale && b.onClick != nil {
		b.onClick(b, e.ElementRef)
	}
	b.mu.Unlock()
	if stale {
		b.settle(f, control.StateFailed, control.EffectNone, control.StaleSnapshot, nil)
		return
	}
	b.settle(f, control.StateSucceeded, control.EffectComplete, "", browser.Interaction{Kind: "browser_interaction", Dispatched: true, InputMode: "trusted"})
}

// look makes a snapshot; references of the one before die.
func (b *fakeBroker) look() browser.Snapshot {
	b.snapshot++
	b.taken = time.Now()
	s := browser.Snapshot{Kind: "browser_snapshot", NavigationID: fmt.Sprint("g1:", b.navigation), SnapshotID: fmt.Sprint("snap", b.snapshot),
		URL: b.pageURL, Title: b.pageTitle, Notes: b.pageNotes, Viewport: browser.Viewport{Width: 1000, Height: 800}}
	for i, n := range b.page {
		n.FrameID, n.Enabled = "main", true
		if n.ElementRef != "" {
			n.ElementRef = fmt.Sprintf("main:%d", b.snapshot*1000+i)
		}
		s.Elements = append(s.Elements, n)
	}
	return s
}

func (b *fakeBroker) ran(id string, start, exit int) terminal.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return terminal.Command{Kind: "terminal_command", Observation: terminal.Observation{OperationID: id, StartedObserved: true, Completed: true,
		ExitCode: &exit, Source: "shell_integration", StartCursor: fmt.Sprint(start), EndCursor: fmt.Sprint(b.output.Len())}}
}

func (b *fakeBroker) run(f *fakeOp, r *terminal.RunRequest) {
	b.mu.Lock()
	what := b.runs[r.Command]
	if what == nil {
		what = &fakeRun{output: "ran " + r.Command + "\n"}
	}
	start := b.output.Len()
	b.output.WriteString(what.output)
	b.mu.Unlock()
	end := func() {
		state := control.StateSucceeded
		if what.exit != 0 {
			state = control.StateFailed
		}
		b.settle(f, state, control.EffectComplete, "", b.ran(f.op.OperationID, start, what.exit))
	}
	switch {
	case what.after == 0:
		end()
	case what.after > 0:
		time.AfterFunc(what.after, end)
	}
}

func (b *fakeBroker) read(r *terminal.ReadRequest) (any, *control.Image, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.output.String()
	if r.Mode == "screen" {
		return terminal.Screen{Kind: "terminal_screen", Columns: 80, Rows: 24, Buffer: "normal", Text: text}, nil, nil
	}
	from := max(len(text)-r.MaxBytes, 0)
	if r.Cursor != "" {
		from = int(parseCursor(r.Cursor))
	}
	if from > len(text) {
		return nil, nil, control.Errorf(control.CursorExpired, "beyond the end")
	}
	to := min(from+r.MaxBytes, len(text))
	waiting, program := false, ""
	for _, p := range b.pending {
		if run, ok := p.request.(*terminal.RunRequest); ok && !p.op.State.Settled() && b.runs[run.Command] != nil {
			waiting = waiting || b.runs[run.Command].waiting
			program += b.runs[run.Command].program
		}
	}
	return terminal.Output{Kind: "terminal_output", Mode: r.Mode, Text: text[from:to], NextCursor: fmt.Sprint(to), AvailableFrom: "0",
		Prompt: "running", NextInputSequence: "1", StreamSequence: fmt.Sprint(len(text)), WaitingForInput: waiting, Foreground: program}, nil, nil
}

func (b *fakeBroker) get(ctx context.Context, r *link.OperationGetRequest) (any, *control.Image, error) {
	if r.OperationID == "" && r.ProjectID != fakeProject {
		return nil, nil, control.Errorf(control.ResourceExhausted, "projectId: is required, because more than one project is approved")
	}
	b.mu.Lock()
	f := b.pending[r.OperationID]
	for _, p := range b.pending {
		if r.RequestKey != "" && p.key == r.RequestKey {
			f = p
		}
	}
	b.mu.Unlock()
	if f == nil {
		return nil, nil, control.Errorf(control.TargetNotFound, "no such receipt")
	}
	timer := time.NewTimer(time.Duration(r.WaitMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-f.settled:
	case <-timer.C:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return *f.op, nil, nil
}

func (b *fakeBroker) cancel(id string) (any, *control.Image, error) {
	b.mu.Lock()
	f := b.pending[id]
	awaiting := f != nil && f.op.State == control.StateAwaitingUser
	b.mu.Unlock()
	switch {
	case f == nil:
		return nil, nil, control.Errorf(control.TargetNotFound, "no such receipt")
	case awaiting:
		close(f.cancelled)
		<-f.settled
	default:
		b.settle(f, control.StateCancelled, control.EffectComplete, "", b.ran(id, 0, 130))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return *f.op, nil, nil
}
