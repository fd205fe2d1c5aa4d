package terminal

import (
	"strings"
	"sync/atomic"
	"testing"

	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

// Agents that are gone must not keep the places of those who come: a hundred
// short conversations left a hundred shells.
func TestTerminalsOfTheGoneMakeRoom(t *testing.T) {
	b := newBench(t, "bash")
	var alive atomic.Bool
	alive.Store(true)
	b.m.cfg.Alive = func(string) bool { return alive.Load() }
	create := func() (catalog.Created, error) {
		result, err := b.do(&catalog.CreateRequest{Mutation: control.Mutation{WorkspaceID: "w"}}, freePermit())
		if err != nil {
			return catalog.Created{}, err
		}
		return result.Data.(catalog.Created), nil
	}
	first, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.m.Type(t.Context(), first.PanelID, []byte(" ")); err != nil {
		t.Fatal(err)
	}
	for range maxTerminals - 1 {
		if _, err := create(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create(); err == nil || !strings.Contains(err.Error(), "32 terminals in use") {
		t.Fatalf("with every session there: got %v, want a refusal", err)
	}
	alive.Store(false)
	if _, err := create(); err != nil {
		t.Fatalf("with every session gone: %v", err)
	}
	if n := len(b.m.Panels()); n != maxTerminals {
		t.Errorf("%d terminals, want %d", n, maxTerminals)
	}
	if _, err := b.m.find(first.PanelID); err != nil {
		t.Error("the terminal that a person typed into was closed")
	}
}
