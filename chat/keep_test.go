package chat

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/agent"
	"lomi/chat/store"
)

// TestOnDisk runs a turn against the real history, closes it, and starts anew:
// once in order, once with the end of the log missing from what was saved.
func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Service, *store.Store, *scripted) {
		t.Helper()
		history, err := store.Open(t.Context(), store.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		model := &scripted{replies: []replyFunc{calls("terminal_run", `{"command":"ls"}`), says("There.")}}
		s, err := New(t.Context(), Config{Store: Keep(history), Models: model, Broker: newFakeBroker(), DefaultModel: "ollama/m"})
		if err != nil {
			t.Fatal(err)
		}
		return s, history, model
	}
	finish := func(s *Service, history *store.Store) {
		t.Helper()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := history.Close(); err != nil {
			t.Error(err)
		}
	}
	s, history, _ := open()
	c, err := s.Create(t.Context(), CreateRequest{ProjectPath: "/tmp/shop", WorkspaceID: "w1", ProjectID: "p1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), c.ID, SendRequest{Text: "list it"}); err != nil {
		t.Fatal(err)
	}
	s.turns.Wait()
	before := s.List()
	events, err := s.Events(t.Context(), c.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkResults(t, events)
	finish(s, history)

	s, history, _ = open()
	if diff := cmp.Diff(before, s.List()); diff != "" {
		t.Errorf("the list after a restart: %s", diff)
	}
	// An event that the saved line does not know of, in an open turn.
	log, err := s.Log(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.append(t.Context(), fact{TurnStarted, turnStartedData{Turn: "t9"}}); err != nil {
		t.Fatal(err)
	}
	finish(s, history)

	s, history, model := open()
	defer finish(s, history)
	events, err = s.Events(t.Context(), c.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkResults(t, events)
	if e := events[len(events)-1]; e.Kind != TurnEnded || time.Since(e.Time) > time.Hour {
		t.Errorf("last event %+v", e)
	}
	if _, err := s.Send(t.Context(), c.ID, SendRequest{Text: "again"}); err != nil {
		t.Fatal(err)
	}
	s.turns.Wait()
	if got := model.sent()[0].Messages; len(agent.Repair(got)) != len(got) || len(got) < 5 {
		t.Errorf("%d messages in the prompt", len(got))
	}
	if err := s.Delete(t.Context(), c.ID); err != nil || len(s.List()) != 0 {
		t.Errorf("deleting: %v", err)
	}
}
