package chat

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lomi/agent"
	"lomi/broker"
	"lomi/broker/catalog"
	"lomi/broker/client"
	"lomi/broker/control"
	"lomi/broker/identity"
	"lomi/broker/ledger"
	"lomi/broker/wire"
	"lomi/chat/store"
	"lomi/internal/keeper"
	artifacts "lomi/tools/artifact"
	"lomi/tools/browser"
	"lomi/tools/terminal"
	"lomi/tools/workbench"
)

func TestMain(m *testing.M) {
	keeper.Hook() // the keepers of shells and Chromium are this program
	os.Exit(m.Run())
}

// machine is everything behind a conversation, real: broker and ledger, socket
// and mutual TLS, shells, Chromium, the history on disk.
type machine struct {
	t         *testing.T
	engine    *broker.Broker
	service   *Service
	model     *scripted
	conv      string
	workspace control.Workspace
}

func startMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lomi-chat-*")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, model: &scripted{}}
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("project"), 0o755))
	book, err := ledger.Open(t.Context(), ledger.Config{Dir: at("agent-control"), MarkPath: at("ledger.mark")})
	must(t, err)
	t.Cleanup(func() { must(t, book.Close(context.Background())) })
	desk, err := workbench.Open(workbench.Config{Path: at("workbench.json")})
	must(t, err)
	m.workspace, err = desk.OpenProject(t.Context(), at("project"), "shop")
	must(t, err)
	pictures, err := broker.OpenArtifacts(at("artifacts"), nil)
	must(t, err)
	shells, err := terminal.New(terminal.Config{Desk: desk, Shell: "/bin/bash", Instance: dir,
		Env:      []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir},
		TakeOver: func(resource string) { m.engine.TakeOver(resource) }})
	must(t, err)
	t.Cleanup(func() { must(t, shells.Shutdown(context.Background())) })
	pages, err := browser.New(browser.Config{Dir: at("browser"), Instance: dir, Desk: desk, Artifacts: pictures,
		Allow:    func(session, origin string) bool { return m.engine.AllowsOrigin(session, origin) },
		TakeOver: func(resource string) { m.engine.TakeOver(resource) }})
	must(t, err)
	t.Cleanup(func() { must(t, pages.Close(context.Background())) })
	shelf, err := artifacts.New(pictures)
	must(t, err)
	instance := control.NewID()
	m.engine, err = broker.New(t.Context(), broker.Config{Ledger: book, Desk: desk, Tools: catalog.All(), Artifacts: pictures, Instance: instance,
		Adapters: map[string]broker.Adapter{"workbench": workbench.NewAdapter(desk), "terminal": shells, "browser": pages, "artifact": shelf}})
	must(t, err)
	m.service = m.chat(dir, m.serve(dir, instance))
	c, err := m.service.Create(t.Context(), CreateRequest{ProjectID: m.workspace.ProjectID, ProjectPath: m.workspace.ProjectPath, WorkspaceID: m.workspace.ID, Model: "m"})
	must(t, err)
	m.conv = c.ID
	return m
}

// serve lets the engine answer on a socket until the test ends.
func (m *machine) serve(dir, instance string) client.Config {
	m.t.Helper()
	certificate, err := identity.NewCertificate(identity.BrokerName(instance))
	must(m.t, err)
	listener, err := wire.ListenFresh(dir)
	must(m.t, err)
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := wire.Serve(ctx, listener, wire.Config{InstanceID: instance, Certificate: certificate, UID: os.Getuid(), Identify: identity.Identify, Handler: m.engine}); err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(func() {
		stop()
		serving.Wait()
		must(m.t, m.engine.Close())
	})
	return client.Config{Endpoint: listener.Addr().String(), InstanceID: instance, BrokerSHA256: identity.Pin(certificate.Certificate[0])}
}

func (m *machine) chat(dir string, way client.Config) *Service {
	m.t.Helper()
	history, err := store.Open(m.t.Context(), store.Config{Dir: filepath.Join(dir, "chat")})
	must(m.t, err)
	m.t.Cleanup(func() { must(m.t, history.Close()) })
	s, err := New(m.t.Context(), Config{Store: Keep(history), Models: m.model, Broker: Client(func() (client.Config, error) { return way, nil })})
	must(m.t, err)
	m.t.Cleanup(func() { must(m.t, s.Close(context.Background())) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// person answers every question until the test ends: a pairing with the grant
// given, an origin or a risk with yes.
func (m *machine) person(spec broker.GrantSpec) {
	m.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	feed := m.engine.Subscribe(ctx)
	var answering sync.WaitGroup
	answering.Go(func() {
		for e := range feed.Events() {
			switch asked := e.Data.(type) {
			case broker.Pairing:
				if asked.Outcome == "" {
					if err := m.engine.Approve(ctx, asked.ID, spec); err != nil {
						m.t.Error(err)
					}
				}
			case broker.Approval:
				if asked.Outcome == "" {
					if err := m.engine.Decide(ctx, asked.ID, true); err != nil {
						m.t.Error(err)
					}
				}
			}
		}
	})
	m.t.Cleanup(func() { stop(); answering.Wait() })
}

// say runs one turn whose replies are the calls given, one after the other, and
// returns the results.
func (m *machine) say(pairs ...string) []callEndedData {
	m.t.Helper()
	m.model.mu.Lock()
	m.model.replies = m.model.replies[:min(len(m.model.replies), len(m.model.requests))]
	for i := 0; i+1 < len(pairs); i += 2 {
		m.model.replies = append(m.model.replies, calls(pairs[i], pairs[i+1]))
	}
	m.model.replies = append(m.model.replies, says("done"))
	m.model.mu.Unlock()
	before, err := m.service.Get(m.conv)
	must(m.t, err)
	_, err = m.service.Send(m.t.Context(), m.conv, SendRequest{Text: "go on"})
	must(m.t, err)
	m.service.turns.Wait()
	events, err := m.service.Events(m.t.Context(), m.conv, before.LastSeq, 0)
	must(m.t, err)
	checkResults(m.t, events)
	var results []callEndedData
	for _, e := range events {
		if e.Kind == CallEnded {
			must(m.t, decodeInto(e, func(d callEndedData) { results = append(results, d) }))
		}
	}
	if len(results) != len(pairs)/2 {
		m.t.Fatalf("%d results for %d calls", len(results), len(pairs)/2)
	}
	return results
}

// TestWithEverythingReal drives a shell and Chromium as a model would.
func TestWithEverythingReal(t *testing.T) {
	var submitted atomic.Int32
	var name atomic.Value
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			submitted.Add(1)
			name.Store(r.FormValue("name"))
			fmt.Fprint(w, `<title>Thanks</title><h1>Thank you</h1><p>Order saved</p>`)
			return
		}
		fmt.Fprint(w, `<title>Order</title><main><h1>Order</h1><form method=post><label>Name <input name=name></label>
			<label>Country <select name=country><option>Sweden<option>Norway</select></label><button>Send</button></form></main>`)
	}))
	defer site.Close()
	m := startMachine(t)
	m.person(broker.GrantSpec{Scopes: append(broker.DomainScopes("terminal"), broker.DomainScopes("browser")...),
		Workspaces: []string{m.workspace.ID}, Policy: broker.PolicyGrant})

	r := m.say(
		"terminal_run", `{"command":"seq 3"}`,
		"terminal_run", `{"command":"sh -c 'exit 7'"}`,
		"terminal_run", `{"command":"seq 20000"}`,
		"terminal_run", `{"command":"read -p 'Name? ' x; echo got $x","wait_s":30}`,
		"terminal_input", `{"text":"Ann"}`,
		"terminal_run", `{"command":"sleep 300","wait_s":1}`,
		"terminal_interrupt", `{}`,
		"terminal_list", `{}`,
		"terminal_run", `{"command":"sleep 300 & echo ok"}`,
	)
	wantText(t, r[0], agent.OutcomeOK, "Exit code 0.", "```\n1\n2\n3\n```")
	wantText(t, r[1], agent.OutcomeOK, "Exit code 7. No output.")
	wantText(t, r[2], agent.OutcomeOK, "bytes left out here", "\n20000\n")
	wantText(t, r[3], agent.OutcomeOK, "waits for input", "Name?")
	wantText(t, r[4], agent.OutcomeOK, "got Ann")
	wantText(t, r[5], agent.OutcomeOK, "Still running")
	wantText(t, r[6], agent.OutcomeOK, "Stopped with Ctrl+C")
	wantText(t, r[7], agent.OutcomeOK, "main: the prompt is ready")
	wantText(t, r[8], agent.OutcomeOK, "Exit code 0.", "ok\n", "\nStill running in the background: sleep 300 (pid ") // bug 33

	r = m.say("browser_open", fmt.Sprintf(`{"url":%q}`, site.URL+"/"))
	wantText(t, r[0], agent.OutcomeOK, `Title: "Order"`, "# Order", `textbox "Name"`, `combobox "Country" = "Sweden" {Sweden|Norway}`, `button "Send"`)
	number := func(line string) string {
		t.Helper()
		head, _, ok := strings.Cut(r[0].Text, line)
		if !ok {
			t.Fatalf("%q is not in %s", line, r[0].Text)
		}
		head = head[strings.LastIndex(head, "[")+1:]
		return head[:strings.Index(head, "]")]
	}
	acted := m.say(
		"browser_fill", fmt.Sprintf(`{"element":%s,"text":"Ånn 你好"}`, number(`textbox "Name"`)),
		"browser_select", fmt.Sprintf(`{"element":%s,"option":"Norway"}`, number(`combobox "Country"`)),
		"browser_click", fmt.Sprintf(`{"element":%s}`, number(`button "Send"`)),
		"browser_click", fmt.Sprintf(`{"element":%s}`, number(`button "Send"`)),
		"browser_navigate", `{"url":"back"}`,
		"browser_screenshot", `{}`,
		"browser_key", `{"key":"Tab"}`,
		"browser_scroll", `{"direction":"down"}`,
		"browser_wait", `{"text":"Country"}`,
		"browser_logs", `{}`,
	)
	wantText(t, acted[0], agent.OutcomeOK, "Filled", `= "Ånn 你好"`)
	wantText(t, acted[1], agent.OutcomeOK, `= "Norway"`)
	wantText(t, acted[2], agent.OutcomeOK, "A new page was loaded", "# Thank you", "Order saved")
	wantText(t, acted[3], agent.OutcomeError, "is gone: the page changed; here is the new snapshot")
	wantText(t, acted[4], agent.OutcomeOK, `Title: "Order"`)
	wantText(t, acted[5], agent.OutcomeOK, "cannot see pictures")
	if len(acted[5].Images) != 1 || acted[5].Images[0].Artifact == "" {
		t.Errorf("images %+v", acted[5].Images)
	}
	for _, i := range []int{6, 7, 8, 9} {
		wantText(t, acted[i], agent.OutcomeOK)
	}
	if got, _ := name.Load().(string); submitted.Load() != 1 || got != "Ånn 你好" {
		t.Errorf("%d submissions, name %q", submitted.Load(), got)
	}
}

// TestStopWithARealShell stops a turn in mid-command: the program gets its
// Ctrl+C, the session and its terminal are kept.
func TestStopWithARealShell(t *testing.T) {
	m := startMachine(t)
	m.person(broker.GrantSpec{Scopes: broker.DomainScopes("terminal"), Workspaces: []string{m.workspace.ID}, Policy: broker.PolicyGrant})
	m.say("terminal_run", `{"command":"echo ready"}`)
	m.model.mu.Lock()
	m.model.replies = append(m.model.replies[:len(m.model.requests)], calls("terminal_run", `{"command":"sleep 300","wait_s":600}`))
	m.model.mu.Unlock()
	log, err := m.service.Log(t.Context(), m.conv)
	must(t, err)
	_, err = m.service.Send(t.Context(), m.conv, SendRequest{Text: "wait"})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for item, err := range log.Read(ctx, log.lastSeq()) {
		must(t, err)
		if item.Progress != nil && item.Progress.State == "running" {
			_, err := m.service.Stop(m.conv, "")
			must(t, err)
		}
		if item.Event != nil && item.Event.Kind == CallEnded {
			must(t, decodeInto(*item.Event, func(d callEndedData) {
				wantText(t, d, agent.OutcomeCancelled, "pressed Stop")
				receipt, err := m.engine.Receipt(ctx, d.Receipt)
				must(t, err)
				if !receipt.State.Settled() {
					t.Errorf("receipt %+v", receipt)
				}
			}))
			break
		}
	}
	m.service.turns.Wait()
	wantText(t, m.say("terminal_run", `{"command":"echo still here"}`)[0], agent.OutcomeOK, "still here")
	if got := len(m.engine.Sessions()); got != 1 {
		t.Errorf("%d sessions", got)
	}
}

// TestRiskWithTheRealBroker asks before a risky command, and says so when the
// person says no.
func TestRiskWithTheRealBroker(t *testing.T) {
	m := startMachine(t)
	ctx, stop := context.WithCancel(context.Background())
	feed := m.engine.Subscribe(ctx)
	var answering sync.WaitGroup
	defer answering.Wait()
	defer stop()
	answering.Go(func() {
		for e := range feed.Events() {
			switch asked := e.Data.(type) {
			case broker.Pairing:
				if asked.Outcome == "" {
					spec := broker.GrantSpec{Scopes: broker.DomainScopes("terminal"), Workspaces: []string{m.workspace.ID}, Policy: "ask_always"}
					if err := m.engine.Approve(ctx, asked.ID, spec); err != nil {
						t.Error(err)
					}
				}
			case broker.Approval:
				if asked.Outcome == "" {
					if err := m.engine.Decide(ctx, asked.ID, asked.Tool == "lomi_terminal_create"); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
	r := m.say("terminal_run", `{"command":"rm -rf build"}`)
	wantText(t, r[0], agent.OutcomeDenied, "Denied by the person")
}

// TestInputAsksWithTheRealBroker types only after the person has said yes, and
// the question is in the log for whoever answers from there.
func TestInputAsksWithTheRealBroker(t *testing.T) {
	m := startMachine(t)
	m.person(broker.GrantSpec{Scopes: broker.DomainScopes("terminal"), Workspaces: []string{m.workspace.ID}, Policy: "ask_always"})
	r := m.say("terminal_run", `{"command":"read -p 'Name? ' x; echo got $x","wait_s":30}`, "terminal_input", `{"text":"Ann"}`)
	wantText(t, r[0], agent.OutcomeOK, "waits for input")
	wantText(t, r[1], agent.OutcomeOK, "Typed.", "got Ann")
	events, err := m.service.Events(t.Context(), m.conv, 0, 0)
	must(t, err)
	asked := map[EventKind]int{}
	for _, e := range events {
		if e.Kind == ApprovalRequested || e.Kind == ApprovalSettled {
			must(t, decodeInto(e, func(d approvalData) {
				if d.ID == r[1].Receipt {
					asked[e.Kind]++
				}
			}))
		}
	}
	if r[1].Receipt == "" || asked[ApprovalRequested] != 1 || asked[ApprovalSettled] != 1 {
		t.Errorf("receipt %q, in the log %v", r[1].Receipt, asked)
	}
}
