package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// survivor is a command that starts what likes to outlive its shell: in a
// session of its own, deaf to hang-ups, twice forked. Each leaves one line in
// the marker when it begins, and would leave another if it began again.
const survivor = `echo begun >> marker; setsid sleep 7801 & nohup sleep 7802 >/dev/null 2>&1 & (setsid sh -c 'trap "" TERM HUP; sleep 7803 & sleep 7804' &) ; (trap '' TERM HUP INT; sleep 7805); echo ended >> marker`

// TestKillDaemon kills the daemon in the middle of a command: the next one
// knows that the outcome is unknown, repeats nothing, and finds no process of
// the old tree alive.
func TestKillDaemon(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>Open</title>")
	}))
	defer site.Close()
	d := startDaemon(t)
	p := d.page()
	w := p.project(d.project)
	c := p.converse(w, "demo/guide", "terminal", "browser")
	c.say("open " + site.URL + " then run " + survivor)
	marker := filepath.Join(d.project, "marker")
	running := func() (n int) {
		for _, one := range processes(d.mark()) {
			if one.marked && strings.HasPrefix(one.command, "sleep 780") {
				n++
			}
		}
		return n
	}
	until(t, "all five children run", func() bool { return running() == 5 })
	receipt := c.wait("the receipt of the command", func(e logEvent) bool {
		return e.Kind == "approval.requested" && strings.Contains(e.field("summary"), "begun")
	})
	d.kill()
	killed := time.Now()

	// Within five seconds nothing lives: neither what the shell started nor the
	// keepers nor Chromium.
	chromium := 0
	for _, one := range d.seen {
		if strings.Contains(one.command, "chrom") {
			chromium++
		}
	}
	if chromium < 3 {
		t.Errorf("only %d processes of Chromium were seen: there was nothing to end", chromium)
	}
	d.childless(5*time.Second - time.Since(killed))

	d.start()
	// The receipt says what nobody knows.
	var receipts struct {
		Receipts []struct{ ID, Tool, State, Effect string }
	}
	d.lomiJSON(&receipts, "receipt", "list", "--state", "outcome_unknown")
	if len(receipts.Receipts) != 1 || receipts.Receipts[0].Tool != "lomi_terminal_run" {
		t.Fatalf("receipts with an unknown outcome: %+v, want the one command", receipts.Receipts)
	}
	if asked := receipt.field("id"); asked != receipts.Receipts[0].ID {
		t.Errorf("the command that was approved is %s, the unknown one %s", asked, receipts.Receipts[0].ID)
	}
	shown := d.lomi("receipt", "show", receipts.Receipts[0].ID)
	if shown.code != 0 || !strings.Contains(shown.stdout, "outcome_unknown") || !strings.Contains(shown.stdout, "unknown") {
		t.Errorf("lomi receipt show: %d\n%s%s", shown.code, shown.stdout, shown.stderr)
	}

	// The conversation says that its turn was interrupted, and goes on with a
	// new pairing; the command does not run again.
	var kept struct{ Events []logEvent }
	d.lomiJSON(&kept, "conversation", "show", c.id)
	interrupted := false
	for _, e := range kept.Events {
		interrupted = interrupted || e.Kind == "turn.ended" && e.field("stopReason") == "interrupted"
	}
	if !interrupted {
		t.Errorf("no turn of the conversation is interrupted: %+v", kept.Events)
	}
	var sessions struct{ Sessions []json.RawMessage }
	d.lomiJSON(&sessions, "session", "list")
	if len(sessions.Sessions) != 0 {
		t.Errorf("sessions outlived their daemon: %s", sessions.Sessions)
	}
	again := d.lomi("chat", "--conversation", c.id, "--approve", "grant", "--json", "-p", "run echo after >> marker")
	if again.code != 0 || !strings.Contains(again.stdout, `"kind":"pairing"`) {
		t.Errorf("the next turn ended with %d: %s%s", again.code, again.stdout, again.stderr)
	}
	raw, err := os.ReadFile(marker)
	if err != nil || string(raw) != "begun\nafter\n" {
		t.Errorf("the marker holds %q (%v): the command ran again, or went on", raw, err)
	}
	if n := running(); n != 0 {
		t.Errorf("%d children run again", n)
	}
}
