package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lomi/internal/sqlite"
)

// Append adds events to the end of a conversation's log, all or none, and
// returns the number of the first. They are durable when it returns. An
// event's Seq is given by the store; one that is set must be the one given
// (ErrSequence). A first event that says it is number 1 creates the
// conversation; any other for an unknown one is ErrNotFound, so a writer that
// outlives a deletion brings nothing back.
func (s *Store) Append(ctx context.Context, conversation string, events []Event) (first int64, err error) {
	if err := checkEvents(conversation, events); err != nil {
		return 0, fmt.Errorf("appending to conversation %q: %w", conversation, err)
	}
	// Outside the transaction, in which everybody else waits.
	texts := make([]string, len(events))
	for i, e := range events {
		texts[i] = clip(s.config.Text(e.Kind, e.Data), maxText)
	}
	err = s.db.Write(ctx, func(tx *sqlite.Tx) error {
		first, err = s.append(tx, conversation, events, texts)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("appending to conversation %q: %w", conversation, err)
	}
	return first, nil
}

func checkEvents(conversation string, events []Event) error {
	if err := (Conversation{ID: conversation}).check(); err != nil {
		return err
	}
	if len(events) == 0 || len(events) > maxEvents {
		return fmt.Errorf("%w: %d events at once, 1 to %d are taken", ErrInvalid, len(events), maxEvents)
	}
	total := 0
	for i, e := range events {
		switch total += len(e.Data); {
		case e.Kind == "" || len(e.Kind) > maxID:
			return fmt.Errorf("%w: event %d has a kind of %d bytes", ErrInvalid, i, len(e.Kind))
		case len(e.Data) > maxEvent:
			return fmt.Errorf("%w: event %d (%s) has %d bytes, at most %d are kept", ErrInvalid, i, e.Kind, len(e.Data), maxEvent)
		case total > maxAppend:
			return fmt.Errorf("%w: more than %d bytes at once", ErrInvalid, maxAppend)
		case !json.Valid(e.Data):
			return fmt.Errorf("%w: event %d (%s) is no JSON", ErrInvalid, i, e.Kind)
		}
	}
	return nil
}

func (s *Store) append(tx *sqlite.Tx, conversation string, events []Event, texts []string) (first int64, err error) {
	n, last, err := find(tx, conversation)
	if errors.Is(err, ErrNotFound) && events[0].Seq == 1 {
		if err := create(tx, Conversation{ID: conversation}, s.config.Now()); err != nil {
			return 0, err
		}
		n, last, err = find(tx, conversation)
	}
	if err != nil {
		return 0, err
	}
	seq := last
	for i, e := range events {
		seq++
		if e.Seq != 0 && e.Seq != seq {
			return 0, fmt.Errorf("%w: event %d, the next is %d", ErrSequence, e.Seq, seq)
		}
		if err := insert(tx, n, seq, e, texts[i]); err != nil {
			return 0, err
		}
	}
	updated := events[len(events)-1].Time
	if updated.IsZero() {
		updated = s.config.Now()
	}
	_, err = tx.Exec(`UPDATE conversations SET last_seq = ?, updated = max(updated, ?) WHERE n = ?`, seq, updated.UnixNano(), n)
	return last + 1, err
}

func insert(tx *sqlite.Tx, conversation, seq int64, e Event, text string) error {
	indexed := 0
	if strings.TrimSpace(text) != "" {
		indexed = 1
	}
	done, err := tx.Exec(`INSERT INTO events(conversation, seq, kind, time, data, indexed) VALUES (?, ?, ?, ?, ?, ?)`,
		conversation, seq, e.Kind, e.Time.UnixNano(), string(e.Data), indexed)
	if err != nil || indexed == 0 {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO texts(rowid, text) VALUES (?, ?)`, id, text)
	return err
}

// Read returns the events behind after, in order: limit of them (at most 1000,
// which is also what zero means) or fewer only when there are no more. An
// unknown conversation has none.
func (s *Store) Read(ctx context.Context, conversation string, after int64, limit int) ([]Event, error) {
	if limit <= 0 || limit > maxRead {
		limit = maxRead
	}
	rows, err := s.db.Query(ctx, `SELECT e.seq, e.kind, e.time, e.data FROM events AS e
		JOIN conversations AS c ON c.n = e.conversation WHERE c.id = ? AND e.seq > ? ORDER BY e.seq LIMIT ?`,
		conversation, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading conversation %q: %w", conversation, err)
	}
	defer rows.Close()
	var all []Event
	for rows.Next() {
		var e Event
		var at int64
		var data []byte // a copy, as the driver's own memory ends with the row
		if err := rows.Scan(&e.Seq, &e.Kind, &at, &data); err != nil {
			return nil, fmt.Errorf("reading conversation %q: %w", conversation, err)
		}
		e.Time, e.Data = time.Unix(0, at).UTC(), data
		if n := len(all); n > 0 && e.Seq != all[n-1].Seq+1 {
			return nil, fmt.Errorf("reading conversation %q: %w: event %d is missing", conversation, sqlite.ErrCorrupt, all[n-1].Seq+1)
		}
		all = append(all, e)
	}
	return all, wrap("reading a conversation", rows.Err())
}
