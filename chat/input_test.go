package chat

import (
	"strings"
	"testing"
	"time"

	"lomi/agent"
	"lomi/broker/control"
)

// TestInputAsksAPerson parks an input like a command, and says truthfully what
// became of it.
func TestInputAsksAPerson(t *testing.T) {
	for _, row := range []struct {
		name    string
		answer  func(chan bool)
		outcome agent.Outcome
		settled string
		words   string
		typed   bool
	}{
		{"yes", func(c chan bool) { <-time.After(100 * time.Second); c <- true }, agent.OutcomeOK, "approved", "Typed.", true},
		{"no", func(c chan bool) { <-time.After(5 * time.Second); c <- false }, agent.OutcomeDenied, "denied", "Denied by the person", false},
		{"silence", func(chan bool) {}, agent.OutcomeExpired, "expired", "Expired unanswered", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.say("terminal_run", `{"command":"ls"}`)
				ask := make(chan bool)
				b.broker.ask["lomi_terminal_input"] = ask
				go row.answer(ask)
				r := b.say("terminal_input", `{"text":"yes, delete"}`)[0]
				wantText(t, r, row.outcome, row.words)
				if strings.Contains(r.Text, "Typed") != row.typed {
					t.Errorf("says %q", r.Text)
				}
				asked := last[approvalData](t, b.store, b.conv, ApprovalRequested)
				got := last[approvalData](t, b.store, b.conv, ApprovalSettled)
				if got.Outcome != row.settled || got.ID != r.Receipt || asked.ID != got.ID || asked.Kind != "risk" {
					t.Errorf("asked %+v, settled %+v, receipt %q", asked, got, r.Receipt)
				}
				if typed := strings.Contains(b.broker.output.String(), "yes, delete"); typed != row.typed {
					t.Errorf("typed: %v", typed)
				}
			})
		})
	}
}

// TestStopWhileInputIsAsked takes the question back: a yes after Stop types
// nothing.
func TestStopWhileInputIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.say("terminal_run", `{"command":"ls"}`)
		b.broker.ask["lomi_terminal_input"] = make(chan bool)
		b.model.replies = append(b.model.replies[:len(b.model.requests)], calls("terminal_input", `{"text":"yes, delete"}`))
		b.send("go")
		b.wait(10 * time.Second)
		if _, err := b.service.Stop(b.conv, ""); err != nil {
			t.Fatal(err)
		}
		b.service.turns.Wait()
		r := b.result()
		wantText(t, r, agent.OutcomeCancelled, "pressed Stop")
		if op := b.broker.receipts[r.Receipt]; op == nil || op.State != control.StateCancelled {
			t.Errorf("receipt %q is %+v", r.Receipt, op)
		}
		if got := last[approvalData](t, b.store, b.conv, ApprovalSettled); got.ID != r.Receipt || got.Outcome != "withdrawn" {
			t.Errorf("settled %+v", got)
		}
		if strings.Contains(b.broker.output.String(), "yes, delete") {
			t.Error("it was typed")
		}
	})
}

// TestInputWhoseEndIsNotKnownAtOnce waits for a slow acknowledgement, and does
// not call an unknown outcome typed.
func TestInputWhoseEndIsNotKnownAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.say("terminal_run", `{"command":"ls"}`)
		b.broker.slowInput = 15 * time.Second
		wantText(t, b.say("terminal_input", `{"text":"slowly"}`)[0], agent.OutcomeOK, "Typed.", "slowly")
		b.broker.slowInput, b.broker.lostInput = 0, true
		r := b.say("terminal_input", `{"text":"perhaps"}`)[0]
		wantText(t, r, agent.OutcomeUnknown, "Outcome unknown", "Look before you repeat it")
		if strings.Contains(r.Text, "Typed") {
			t.Errorf("says %q", r.Text)
		}
	})
}
