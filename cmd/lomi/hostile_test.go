package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestAgentDecidesNothing: an agent that may run anything in a terminal tries
// to approve what agents ask for, by every way out of its process tree. Each is
// refused with 4, and nothing is decided.
func TestAgentDecidesNothing(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	agent := d.goHost("Agent")
	agent.pair(p, w, grant{Domains: []string{"terminal"}, Policy: "grant"})
	s := agent.shell()
	victim := d.goHost("Accomplice")
	victim.refused("PAIRING_REQUIRED", "lomi_workspace_list", args{})
	waiting := p.pairing("Accomplice")

	// A risky command of the agent's own waits for a person.
	p.do("POST", "/api/sessions/"+sessionOf(p, "Agent")+"/policy", map[string]string{"policy": "ask_for_risk"}, nil)
	asked := agent.begin("lomi_terminal_run", args{"panelId": s.PanelID, "terminalSessionId": s.TerminalSessionID, "leaseId": s.LeaseID, "command": "rm -rf made"})
	if asked.State != "awaiting_user" {
		t.Fatalf("a risky command is %+v, want it to wait", asked)
	}
	p.do("POST", "/api/sessions/"+sessionOf(p, "Agent")+"/policy", map[string]string{"policy": "grant"}, nil)

	// The same trick three times: who pairs, what runs, how one gets in.
	folders := " --data " + d.data + " --config " + d.config
	tries := []string{
		"pair approve " + waiting.ID, "pair approve " + waiting.ID + " --domains terminal --policy grant",
		"approve yes " + asked.OperationID, "open", "session policy " + sessionOf(p, "Agent") + " grant", "session resume",
		"chat --model demo/guide --approve grant -p 'run touch made'",
	}
	ways := []string{"%s", "setsid -w %s", "nohup %s", "(setsid sh -c '(%s) & wait') ", "sh -c 'sh -c \"%s\" & wait' & wait", "env -i PATH=$PATH %s"}
	script := &strings.Builder{}
	n := 0
	for _, try := range tries {
		for _, way := range ways {
			n++
			// A file each, because the ways out lose the exit code.
			one := filepath.Join(d.project, fmt.Sprintf("try-%d.sh", n))
			text := fmt.Sprintf("%s %s%s >%s/out-%d 2>&1 </dev/null\necho $? >%s/code-%d\n", d.binary, try, folders, d.project, n, d.project, n)
			if err := os.WriteFile(one, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(script, way+"\n", "sh "+one)
		}
	}
	if err := os.WriteFile(filepath.Join(d.project, "all.sh"), []byte(script.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	other := agent.shell() // the first waits for its answer
	agent.run(other, "sh all.sh 2>/dev/null")
	for i := range n {
		code := ""
		until(t, fmt.Sprintf("try %d has ended", i+1), func() bool {
			raw, err := os.ReadFile(filepath.Join(d.project, fmt.Sprintf("code-%d", i+1)))
			code = strings.TrimSpace(string(raw))
			return err == nil && code != ""
		})
		out, err := os.ReadFile(filepath.Join(d.project, fmt.Sprintf("out-%d", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		if code != "4" || !strings.HasPrefix(string(out), "lomi: ") || strings.Contains(string(out), "#login=") {
			t.Errorf("lomi %s by %q ended with %s, want 4:\n%s", tries[i/len(ways)], ways[i%len(ways)], code, out)
		}
	}

	// Nothing was decided.
	if p.pairing("Accomplice").ID != waiting.ID {
		t.Error("the pairing does not wait any more")
	}
	victim.refused("PAIRING_REQUIRED", "lomi_workspace_list", args{})
	var o operation
	agent.ok("lomi_operation_get", args{"operationId": asked.OperationID}, &o)
	if o.State != "awaiting_user" {
		t.Errorf("the question is %s, want it to wait still", o.State)
	}
	if _, err := os.Stat(filepath.Join(d.project, "made")); err == nil {
		t.Error("something ran")
	}

	// The person still decides, in the page.
	p.do("POST", "/api/pairings/"+waiting.ID+"/reject", struct{}{}, nil)
	p.do("POST", "/api/approvals/"+asked.OperationID, map[string]string{"answer": "no"}, nil)
	if o = agent.settle(o); o.State == "succeeded" || o.EffectState != "none" {
		t.Errorf("a refused command is %+v", o)
	}
}

func sessionOf(p *page, label string) string {
	p.t.Helper()
	var answer struct {
		Sessions []struct{ ID, Label string }
	}
	p.do("GET", "/api/sessions", nil, &answer)
	for _, s := range answer.Sessions {
		if s.Label == label {
			return s.ID
		}
	}
	p.t.Fatalf("no session of %s: %+v", label, answer.Sessions)
	return ""
}

// TestManyWatch: two conversations at once, from the terminal, while two tabs
// follow each: every tab gets every event once, in order, and the same ones.
func TestManyWatch(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	p := d.page()
	desks := []*tab{p.follow("desk", nil), p.follow("desk", nil)}
	var both sync.WaitGroup
	runs := make([]ran, 2)
	for i := range runs {
		both.Go(func() {
			runs[i] = d.lomi("chat", "--model", "demo/guide", "--project", d.project, "--approve", "grant", "--domains", "terminal", "-p", fmt.Sprintf("run echo chat-%d-$((%d + 40))", i, i))
		})
	}
	both.Wait()
	for i, r := range runs {
		if r.code != 0 || !strings.Contains(r.stdout, fmt.Sprintf("chat-%d-%d", i, i+40)) || strings.Contains(r.stdout, fmt.Sprintf("chat-%d-", 1-i)) {
			t.Errorf("chat %d ended with %d:\n%s%s", i, r.code, r.stdout, r.stderr)
		}
	}
	var list struct{ Conversations []struct{ ID string } }
	d.lomiJSON(&list, "conversation", "list")
	if len(list.Conversations) != 2 {
		t.Fatalf("got %d conversations, want 2", len(list.Conversations))
	}
	logs := [][]*tab{desks}
	for _, c := range list.Conversations {
		logs = append(logs, []*tab{p.follow("conversation:"+c.ID, nil), p.follow("conversation:"+c.ID, nil)})
	}
	for _, tabs := range logs[1:] {
		for _, one := range tabs {
			one.wait("the end of the turn", func(e logEvent) bool { return e.Kind == "turn.ended" })
		}
	}
	for _, tabs := range logs {
		until(t, "both tabs have the same", func() bool { return len(tabs[0].all()) > 0 && len(tabs[0].all()) == len(tabs[1].all()) })
		a, b := tabs[0].all(), tabs[1].all()
		for i := range a {
			if a[i].Seq != b[i].Seq || string(a[i].Data) != string(b[i].Data) {
				t.Errorf("event %d differs: %s %s and %s %s", i, a[i].Kind, a[i].Data, b[i].Kind, b[i].Data)
			}
			if i > 0 && a[i].Seq != a[i-1].Seq+1 {
				t.Errorf("after event %d comes %d", a[i-1].Seq, a[i].Seq)
			}
		}
	}
}
