// Package store keeps conversations: for each one an append-only log of events
// numbered from 1 without gaps, and an index over their text. It keeps events
// and reads none; what they mean is the chat's business.
package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"lomi/internal/sqlite"
)

const (
	// maxEvent takes the largest thing that the chat records whole: a picture
	// of 10 MiB in base64 inside a message, or a tool's result of 8 MiB with
	// the escapes that JSON adds to text.
	maxEvent = 16 << 20
	// maxAppend and maxEvents keep one transaction in memory and short: a
	// turn's results are at most 16 MiB together, and repairing a turn that
	// was cut off writes one event for each of its 128 calls.
	maxAppend = 32 << 20
	maxEvents = 1000
	// maxRead and maxList bound one page.
	maxRead = 1000
	maxList = 500
	// Bounds of the short texts of a conversation. 64 KiB is what a request's
	// arguments may be, so no setting is longer.
	maxID       = 128
	maxName     = 1 << 10
	maxSettings = 64 << 10
)

// What a caller may ask and not get.
var (
	// ErrNotFound is a conversation that is not there, or no longer.
	ErrNotFound = errors.New("no such conversation")
	// ErrExists is a conversation that is there already.
	ErrExists = errors.New("the conversation exists")
	// ErrSequence is an event with a number that is not the next one: two
	// writers, or one that missed something.
	ErrSequence = errors.New("the event does not follow the last one")
	// ErrInvalid is an event or a conversation out of bounds.
	ErrInvalid = errors.New("invalid")
)

// Config says where the store lives.
type Config struct {
	// Dir holds history.sqlite3 and history.lock; it is created with mode
	// 0700.
	Dir string
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Text gives what an event says, for the search; "" for nothing. Nil
	// takes the text parts of whatever has parts.
	Text func(kind string, data json.RawMessage) string
}

// Store is the open history. All methods are safe for concurrent use.
type Store struct {
	config Config
	db     *sqlite.DB
	lock   *sqlite.OwnerLock
}

// Event is one line of a conversation's log.
type Event struct {
	Seq  int64
	Kind string
	Time time.Time
	Data json.RawMessage
}

// Conversation is what is kept about one beside its log.
type Conversation struct {
	ID       string
	Title    string
	Project  string
	Model    string
	Settings json.RawMessage // a JSON object, {} when empty
	LastSeq  int64
	Created  time.Time
	Updated  time.Time
}

// Open opens or creates the history. A file that is damaged, newer or another
// program's is refused with the error of internal/sqlite and left as it is; a
// second process is refused with a *sqlite.OwnedError.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Dir == "" {
		return nil, fmt.Errorf("opening the history: %w: no folder", ErrInvalid)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Text == nil {
		config.Text = textParts
	}
	lock, err := sqlite.Acquire(filepath.Join(config.Dir, "history.lock"))
	if err != nil {
		return nil, fmt.Errorf("opening the history: %w", err)
	}
	db, err := sqlite.Open(ctx, sqlite.Config{
		Path:        filepath.Join(config.Dir, "history.sqlite3"),
		Migrations:  migrations(),
		Application: applicationID,
		Logger:      config.Logger,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the history: %w", err), lock.Release())
	}
	return &Store{config: config, db: db, lock: lock}, nil
}

// Close waits for the running write and closes the store.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.lock.Release()) }

// Create adds an empty conversation. Its times are now and its LastSeq 0,
// whatever c says.
func (s *Store) Create(ctx context.Context, c Conversation) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("creating conversation %q: %w", c.ID, err)
	}
	err := s.db.Write(ctx, func(tx *sqlite.Tx) error { return create(tx, c, s.config.Now()) })
	if err != nil {
		return fmt.Errorf("creating conversation %q: %w", c.ID, err)
	}
	return nil
}

func (c Conversation) check() error {
	switch {
	case c.ID == "", len(c.ID) > maxID, strings.ContainsRune(c.ID, 0):
		return fmt.Errorf("%w: an id has 1 to %d bytes", ErrInvalid, maxID)
	case len(c.Title) > maxName, len(c.Project) > 4*maxName, len(c.Model) > maxName:
		return fmt.Errorf("%w: a name of more than %d bytes", ErrInvalid, maxName)
	case len(c.Settings) > maxSettings, len(c.Settings) > 0 && !json.Valid(c.Settings):
		return fmt.Errorf("%w: settings are JSON of at most %d bytes", ErrInvalid, maxSettings)
	}
	return nil
}

func create(tx *sqlite.Tx, c Conversation, now time.Time) error {
	done, err := tx.Exec(`INSERT INTO conversations(id, title, project, model, settings, created, updated)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING`,
		c.ID, c.Title, c.Project, c.Model, settings(c), now.UnixNano(), now.UnixNano())
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrExists, err)
	}
	return nil
}

func settings(c Conversation) string {
	if len(c.Settings) == 0 {
		return "{}"
	}
	return string(c.Settings)
}

// Update replaces what is kept about a conversation; its log, LastSeq and
// Created stay.
func (s *Store) Update(ctx context.Context, c Conversation) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("updating conversation %q: %w", c.ID, err)
	}
	return s.change(ctx, c.ID, "updating", `UPDATE conversations SET title = ?, project = ?, model = ?, settings = ?, updated = ? WHERE id = ?`,
		c.Title, c.Project, c.Model, settings(c), s.config.Now().UnixNano(), c.ID)
}

// Rename changes the title alone.
func (s *Store) Rename(ctx context.Context, id, title string) error {
	if len(title) > maxName {
		return fmt.Errorf("renaming conversation %q: %w: a title of more than %d bytes", id, ErrInvalid, maxName)
	}
	return s.change(ctx, id, "renaming", `UPDATE conversations SET title = ?, updated = ? WHERE id = ?`,
		title, s.config.Now().UnixNano(), id)
}

func (s *Store) change(ctx context.Context, id, what, query string, args ...any) error {
	err := s.db.Write(ctx, func(tx *sqlite.Tx) error {
		done, err := tx.Exec(query, args...)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrNotFound, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s conversation %q: %w", what, id, err)
	}
	return nil
}

// Delete removes a conversation with its events and their text: the only way
// in which an event ever goes.
func (s *Store) Delete(ctx context.Context, id string) error {
	err := s.db.Write(ctx, func(tx *sqlite.Tx) error {
		n, _, err := find(tx, id)
		if err != nil {
			return err
		}
		for _, query := range []string{
			`DELETE FROM texts WHERE rowid IN (SELECT id FROM events WHERE conversation = ? AND indexed = 1)`,
			`DELETE FROM events WHERE conversation = ?`,
			`DELETE FROM conversations WHERE n = ?`,
		} {
			if _, err := tx.Exec(query, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("deleting conversation %q: %w", id, err)
	}
	return nil
}

// find returns a conversation's number and its last event's.
func find(tx *sqlite.Tx, id string) (n, last int64, err error) {
	err = tx.QueryRow(`SELECT n, last_seq FROM conversations WHERE id = ?`, id).Scan(&n, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, ErrNotFound
	}
	return n, last, err
}

const conversationColumns = `id, title, project, model, settings, last_seq, created, updated`

type scanner interface{ Scan(...any) error }

func scanConversation(row scanner) (Conversation, error) {
	var c Conversation
	var text string
	var created, updated int64
	err := row.Scan(&c.ID, &c.Title, &c.Project, &c.Model, &text, &c.LastSeq, &created, &updated)
	c.Settings, c.Created, c.Updated = json.RawMessage(text), time.Unix(0, created), time.Unix(0, updated)
	return c, err
}

// Get returns one conversation.
func (s *Store) Get(ctx context.Context, id string) (Conversation, error) {
	c, err := scanConversation(s.db.QueryRow(ctx, `SELECT `+conversationColumns+` FROM conversations WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Conversation{}, fmt.Errorf("reading conversation %q: %w", id, err)
	}
	return c, nil
}

// List returns conversations, the last changed first: at most limit (500 is
// the most, and what zero means), older than the conversation before if that
// is not empty.
func (s *Store) List(ctx context.Context, limit int, before string) ([]Conversation, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	query := `SELECT ` + conversationColumns + ` FROM conversations ORDER BY updated DESC, n DESC LIMIT ?`
	args := []any{limit}
	if before != "" {
		query = `SELECT ` + conversationColumns + ` FROM conversations
			WHERE (updated, n) < (SELECT updated, n FROM conversations WHERE id = ?) ORDER BY updated DESC, n DESC LIMIT ?`
		args = []any{before, limit}
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("listing conversations: %w", err)
	}
	defer rows.Close()
	var all []Conversation
	for rows.Next() {
		c, err := scanConversation(rows)
		if err != nil {
			return nil, fmt.Errorf("listing conversations: %w", err)
		}
		all = append(all, c)
	}
	return all, wrap("listing conversations", rows.Err())
}

// Conversations returns the id of every conversation, the oldest first.
func (s *Store) Conversations(ctx context.Context) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT id FROM conversations ORDER BY n`)
	if err != nil {
		return nil, fmt.Errorf("listing conversations: %w", err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("listing conversations: %w", err)
		}
		all = append(all, id)
	}
	return all, wrap("listing conversations", rows.Err())
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, sqlite.Wrap(err))
}
