package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"lomi/agent"
	"lomi/models"
)

// memory is a Store that keeps everything in memory and holds its callers to
// the rules: sequence numbers without gaps.
type memory struct {
	mu     sync.Mutex
	events map[string][]Event
	saved  map[string]Conversation
	order  []string
	fail   error
	keep   error // of Delete
}

func newMemory() *memory {
	return &memory{events: map[string][]Event{}, saved: map[string]Conversation{}}
}

func (m *memory) Append(_ context.Context, id string, events []Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if _, ok := m.events[id]; !ok {
		m.order = append(m.order, id)
	}
	for _, e := range events {
		if want := int64(len(m.events[id])) + 1; e.Seq != want {
			return fmt.Errorf("event %d of %s, want %d", e.Seq, id, want)
		}
		m.events[id] = append(m.events[id], e)
	}
	return nil
}

func (m *memory) Read(_ context.Context, id string, after int64, limit int) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.events[id]
	from := min(max(int(after), 0), len(all))
	return slices.Clone(all[from:min(from+limit, len(all))]), nil
}

func (m *memory) Save(_ context.Context, c Conversation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved[c.ID] = c // even when appending fails: the log is what counts
	return nil
}

func (m *memory) List(context.Context) ([]Saved, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Saved
	for _, id := range m.order {
		c := m.saved[id]
		c.ID = id
		all = append(all, Saved{Conversation: c, Logged: int64(len(m.events[id]))})
	}
	return all, nil
}

func (m *memory) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keep != nil {
		return m.keep
	}
	if _, ok := m.events[id]; !ok {
		return errors.New("no such log")
	}
	delete(m.events, id)
	m.order = without(m.order, id)
	return nil
}

func (m *memory) all(id string) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[id])
}

// kinds lists the kinds of a log's events.
func (m *memory) kinds(id string) []EventKind {
	var out []EventKind
	for _, e := range m.all(id) {
		out = append(out, e.Kind)
	}
	return out
}

// last decodes the data of the last event of a kind.
func last[T any](t *testing.T, m *memory, id string, kind EventKind) T {
	t.Helper()
	var found T
	ok := false
	for _, e := range m.all(id) {
		if e.Kind == kind {
			ok = true
			if err := decodeInto(e, func(d T) { found = d }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !ok {
		t.Fatalf("no %s in %v", kind, m.kinds(id))
	}
	return found
}

// checkResults holds what holds for every log: one result for every call.
func checkResults(t *testing.T, events []Event) {
	t.Helper()
	asked, started, ended := map[string]int{}, map[string]int{}, map[string]int{}
	turns := 0
	for _, e := range events {
		var err error
		switch e.Kind {
		case TurnStarted:
			turns++
		case TurnEnded:
			turns--
		case ReplyEnded:
			err = decodeInto(e, func(d replyEndedData) {
				for _, p := range d.Parts {
					if p.Kind == models.PartCall {
						asked[p.Call.ID]++
					}
				}
			})
		case CallStarted:
			err = decodeInto(e, func(d callStartedData) { started[d.Call]++ })
		case CallEnded:
			err = decodeInto(e, func(d callEndedData) {
				ended[d.Call]++
				if d.Text == "" || d.Outcome == "" {
					t.Errorf("call %s has no text or no outcome", d.Call)
				}
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range asked {
		if asked[id] != 1 || started[id] != 1 || ended[id] != 1 {
			t.Errorf("call %s: asked %d, started %d, ended %d", id, asked[id], started[id], ended[id])
		}
	}
	if len(ended) != len(asked) {
		t.Errorf("%d calls ended, %d asked", len(ended), len(asked))
	}
	if turns != 0 {
		t.Errorf("%d turns are open", turns)
	}
}

func outcomes(t *testing.T, m *memory, id string) []agent.Outcome {
	t.Helper()
	var out []agent.Outcome
	for _, e := range m.all(id) {
		if e.Kind == CallEnded {
			if err := decodeInto(e, func(d callEndedData) { out = append(out, d.Outcome) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}
