package terminal

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"lomi/broker"
	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
	"lomi/internal/keeper"
)

func TestMain(m *testing.M) {
	keeper.Hook()
	os.Exit(m.Run())
}

// testDesk is a workbench with one workspace.
type testDesk struct {
	project string
	refuse  error

	mu     sync.Mutex
	panels map[string]control.Panel
}

func (d *testDesk) Workspace(id string) (control.Workspace, bool) {
	return control.Workspace{ID: id, ProjectName: "demo", ProjectPath: d.project}, id == "w"
}

func (d *testDesk) AddPanel(_ context.Context, panel control.Panel, _ string) (string, error) {
	return "2", errors.Join(d.refuse, d.set(panel))
}

func (d *testDesk) UpdatePanel(_ context.Context, panel control.Panel) error { return d.set(panel) }

func (d *testDesk) set(panel control.Panel) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.panels[panel.ID] = panel
	return nil
}

func (d *testDesk) RemovePanel(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.panels, id)
	return nil
}

func (d *testDesk) panel(id string) control.Panel {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.panels[id]
}

// bench is a manager with one terminal and the calls to it.
type bench struct {
	testing.TB
	m        *Manager
	desk     *testDesk
	t        *terminal
	home     string
	sequence int
	serial   int

	mu       sync.Mutex
	takeOver func(string)
}

func newBench(t testing.TB, shell string, env ...string) *bench {
	t.Helper()
	b := &bench{TB: t, home: t.TempDir(), desk: &testDesk{project: t.TempDir(), panels: map[string]control.Panel{}}}
	m, err := New(Config{
		Desk: b.desk, Shell: shell,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "PS1=$ "}, env...),
		TakeOver: func(resource string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.takeOver != nil {
				b.takeOver(resource)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.m = m
	t.Cleanup(func() {
		if err := m.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// open makes the terminal through the adapter.
func (b *bench) open() *bench {
	b.Helper()
	result, err := b.do(&catalog.CreateRequest{Mutation: control.Mutation{WorkspaceID: "w"}}, freePermit())
	if err != nil {
		b.Fatal(err)
	}
	created := result.Data.(catalog.Created)
	if b.t, err = b.m.find(created.PanelID); err != nil {
		b.Fatal(err)
	}
	if !created.Ready {
		b.Fatalf("the shell is not ready; it printed %q", b.all())
	}
	return b
}

func startBench(t testing.TB, shell string, env ...string) *bench {
	t.Helper()
	return newBench(t, shell, env...).open()
}

func freePermit() *broker.Permit { return broker.NewPermit(func() error { return nil }, nil) }

// do resolves and carries out one request, as the broker does.
func (b *bench) do(request any, permit *broker.Permit) (broker.Result, error) {
	call := broker.Call{Request: request, Session: "s", PeerPID: os.Getpid(), Lease: "lease"}
	if _, ok := request.(*catalog.RunRequest); ok {
		call.Operation = b.operation()
	}
	target, err := b.m.Resolve(b.Context(), call)
	if err != nil {
		return broker.Result{}, err
	}
	return b.m.Do(b.Context(), permit, call, target)
}

// operation is the id of the run that was started last.
func (b *bench) operation() string { return "op" + strconv.Itoa(b.serial) }

func (b *bench) session() catalog.Session {
	return catalog.Session{PanelID: b.t.panel.ID, TerminalSessionID: b.t.panel.TerminalSessionID}
}

// ran is what came of one command.
type ran struct {
	broker.Result
	err         error
	operation   string
	observation catalog.Observation
}

func (b *bench) runWith(command string, permit *broker.Permit) ran {
	b.Helper()
	b.serial++
	result, err := b.do(&catalog.RunRequest{Keyed: control.Keyed{WorkspaceID: "w"}, Session: b.session(), LeaseID: "lease", Command: command}, permit)
	r := ran{Result: result, err: err, operation: b.operation()}
	if data, ok := result.Data.(catalog.Command); ok {
		r.observation = data.Observation
	}
	return r
}

// run runs a command that is expected to be seen to its end.
func (b *bench) run(command string) (output string, exit int) {
	b.Helper()
	r := b.runWith(command, freePermit())
	if r.err != nil {
		b.Fatalf("run %q: %v; terminal: %q", command, r.err, b.all())
	}
	if r.observation.ExitCode == nil {
		b.Fatalf("run %q: no exit code: %+v; terminal: %q", command, r.Result, b.all())
	}
	return b.outputOf(r.operation).Text, *r.observation.ExitCode
}

func (b *bench) read(request catalog.ReadRequest) (any, error) {
	b.Helper()
	request.Scoped, request.Session = control.Scoped{WorkspaceID: "w"}, b.session()
	if err := request.Validate(); err != nil {
		b.Fatal(err)
	}
	result, err := b.do(&request, freePermit())
	return result.Data, err
}

func (b *bench) outputOf(operation string) catalog.Output {
	b.Helper()
	data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: operation, MaxBytes: 65536})
	if err != nil {
		b.Fatal(err)
	}
	return data.(catalog.Output)
}

func (b *bench) output() catalog.Output {
	b.Helper()
	data, err := b.read(catalog.ReadRequest{})
	if err != nil {
		b.Fatal(err)
	}
	return data.(catalog.Output)
}

func (b *bench) screen() catalog.Screen {
	b.Helper()
	data, err := b.read(catalog.ReadRequest{Mode: "screen"})
	if err != nil {
		b.Fatal(err)
	}
	return data.(catalog.Screen)
}

func (b *bench) input(input catalog.Input) (broker.Result, error) {
	b.sequence++
	return b.do(&catalog.InputRequest{Scoped: control.Scoped{WorkspaceID: "w"}, Session: b.session(), LeaseID: "lease",
		InputSequence: strconv.Itoa(b.sequence), Input: input}, freePermit())
}

func (b *bench) typeText(text string) {
	b.Helper()
	if _, err := b.input(catalog.Input{Type: "text", Text: text}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) press(key string) {
	b.Helper()
	if _, err := b.input(catalog.Input{Type: "key", Key: key}); err != nil {
		b.Fatal(err)
	}
}

// all is everything the terminal printed, for messages.
func (b *bench) all() string {
	if b.t == nil {
		return ""
	}
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	return string(b.t.out.raw.read(b.t.out.raw.from(), ringBytes))
}

// eventually waits for something that another process brings about.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	deadline := time.After(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			tail := b.all()
			b.Fatalf("still not so after 30 s: %s; terminal: %q", what, tail[max(0, len(tail)-2000):])
		}
	}
}

func (b *bench) ready() {
	b.Helper()
	b.eventually("prompt is ready", func() bool { return b.output().Prompt == "ready" })
}

func mustParse(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
