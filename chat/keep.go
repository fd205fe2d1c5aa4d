package chat

import (
	"context"
	"encoding/json"
	"fmt"

	"lomi/broker/client"
	"lomi/chat/store"
)

// Keep makes the service's Store of the history on disk.
func Keep(history *store.Store) Store { return &kept{history} }

type kept struct{ history *store.Store }

func (k *kept) Append(ctx context.Context, conversation string, events []Event) error {
	lines := make([]store.Event, len(events))
	for i, e := range events {
		lines[i] = store.Event{Seq: e.Seq, Kind: string(e.Kind), Time: e.Time, Data: e.Data}
	}
	_, err := k.history.Append(ctx, conversation, lines)
	return err
}

func (k *kept) Read(ctx context.Context, conversation string, after int64, limit int) ([]Event, error) {
	lines, err := k.history.Read(ctx, conversation, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(lines))
	for i, l := range lines {
		events[i] = Event{Seq: l.Seq, Kind: EventKind(l.Kind), Time: l.Time, Data: l.Data}
	}
	return events, nil
}

func (k *kept) Save(ctx context.Context, c Conversation) error {
	settings, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding conversation %s: %w", c.ID, err)
	}
	return k.history.Update(ctx, store.Conversation{ID: c.ID, Title: c.Title, Project: clip(c.ProjectPath, 1000), Model: clip(c.Model, 200), Settings: settings})
}

func (k *kept) List(ctx context.Context) ([]Saved, error) {
	var all []Saved
	before := ""
	for {
		page, err := k.history.List(ctx, 0, before)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return all, nil
		}
		for _, row := range page {
			saved := Saved{Logged: row.LastSeq}
			if err := json.Unmarshal(row.Settings, &saved.Conversation); err != nil {
				saved.Conversation = Conversation{} // the log says it all
			}
			saved.ID, before = row.ID, row.ID
			all = append(all, saved)
		}
	}
}

func (k *kept) Delete(ctx context.Context, conversation string) error {
	return k.history.Delete(ctx, conversation)
}

// Client makes the service's Dialer of the way to the running broker. config is
// asked at each connection, because agent control can be switched off and on;
// its label is replaced by the session's.
func Client(config func() (client.Config, error)) Dialer { return dialer(config) }

type dialer func() (client.Config, error)

// Dial implements Dialer.
func (d dialer) Dial(ctx context.Context, label string) (Conn, error) {
	config, err := d()
	if err != nil {
		return nil, err
	}
	config.Label = label
	conn, err := client.Dial(ctx, config)
	if err != nil {
		return nil, err
	}
	return conn, nil
}
