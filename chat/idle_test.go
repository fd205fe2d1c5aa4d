package chat

import (
	"testing"
	"testing/synctest"
	"time"

	"lomi/agent"
)

// TestIdleSessionsGiveTheirConnectionsUp leaves the broker's connections to other
// hosts: of many conversations those used last stay connected.
func TestIdleSessionsGiveTheirConnectionsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		command := calls("terminal_run", `{"command":"ls"}`)
		b.model.replies = []replyFunc{command, says("ok")}
		b.turn("ls")
		for range maxConnected + 4 {
			<-time.After(time.Second)
			c, err := b.service.Create(t.Context(), CreateRequest{Model: "m", WorkspaceID: "w1"})
			if err != nil {
				t.Fatal(err)
			}
			b.model.replies = append(b.model.replies, command, says("ok"))
			if _, err := b.service.Send(t.Context(), c.ID, SendRequest{Text: "ls"}); err != nil {
				t.Fatal(err)
			}
			b.service.turns.Wait()
		}
		open := 0
		for i, conn := range b.broker.conns {
			select {
			case <-conn.Done():
				if i >= len(b.broker.conns)-maxConnected {
					t.Errorf("connection %d of those used last is closed", i)
				}
			default:
				open++
			}
		}
		if open != maxConnected {
			t.Errorf("%d connections are open, want %d", open, maxConnected)
		}
		b.model.replies = append(b.model.replies, command, says("ok"))
		b.turn("and again")
		wantText(t, b.result(), agent.OutcomeOK, "ran ls")
	})
}
