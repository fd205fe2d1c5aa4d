// Package sqlite is the one door to SQLite. It opens a store with the settings
// that make "committed" mean "on disk", refuses the file systems on which that
// promise does not hold, keeps a damaged file as it is instead of replacing it,
// and serialises every write through one connection.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

const (
	// busyTimeout is how long a connection waits for another one's lock. All
	// writers of a process already queue in Write, so what is left is a
	// checkpoint or a person's own sqlite3 shell.
	busyTimeout = 5 * time.Second
	// defaultReaders is enough for two cores, and each costs a page cache.
	defaultReaders = 4
	// defaultMaxWAL is twice what the desktop system's whole store may be: a
	// log that long was never checkpointed, so something is wrong with it.
	defaultMaxWAL = 128 << 20
	// walKept is the length to which a checkpointed log is cut back.
	walKept = 16 << 20
)

// Config says what to open.
type Config struct {
	// Path is the database file. Its folder is created with mode 0700.
	Path string
	// Migrations bring the schema from version i to i+1. All that are missing
	// run in one transaction; a store with a higher version is refused.
	Migrations []string
	// Application marks the file as ours (SQLite's application_id), so that
	// one store is never opened as another. It must not be zero.
	Application int32
	// Readers is the number of reading connections; zero means 4.
	Readers int
	// MaxWAL bounds the write-ahead log; zero means 128 MiB.
	MaxWAL int64
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Path == "" || c.Application == 0 {
		return c, errors.New("a store needs a path and an application id")
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return c, fmt.Errorf("resolving %s: %w", c.Path, err)
	}
	c.Path = path
	if c.Readers <= 0 {
		c.Readers = defaultReaders
	}
	if c.MaxWAL <= 0 {
		c.MaxWAL = defaultMaxWAL
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// DB is an open store: one writing connection and some reading ones. All
// methods are safe for concurrent use.
type DB struct {
	config  Config
	writes  *sql.DB
	reads   *sql.DB
	anchor  *sql.Conn     // an idle reader that keeps the log in place
	writing chan struct{} // holds one token while a transaction runs
	closed  chan struct{}
	close   sync.Once

	// Of the goroutine that holds the writing token.
	conn     *sql.Conn
	stmts    map[string]*sql.Stmt
	ids      []os.FileInfo // the files as they were opened
	replaced bool
	warned   bool

	mu        sync.Mutex // guards readStmts
	readStmts map[string]*sql.Stmt
}

// Open opens or creates the store. The caller holds the lock of the folder
// (see Acquire): Open reads the files before SQLite does, and closing them
// would drop the POSIX locks of another connection of the same process.
func Open(ctx context.Context, config Config) (*DB, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of a store: %w", Wrap(err))
	}
	if err := checkFolder(filepath.Dir(config.Path)); err != nil {
		return nil, err
	}
	if err := checkFiles(config); err != nil {
		return nil, err
	}
	if err := private(config.Path); err != nil {
		return nil, err
	}
	d := &DB{
		config:    config,
		writing:   make(chan struct{}, 1),
		closed:    make(chan struct{}),
		readStmts: map[string]*sql.Stmt{},
	}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", config.Path, err), d.Close())
	}
	return d, nil
}

func (d *DB) start(ctx context.Context) error {
	var err error
	if d.writes, err = sql.Open("sqlite", dataSource(d.config.Path, writeParams())); err != nil {
		return Wrap(err)
	}
	d.writes.SetMaxOpenConns(1)
	if err := d.connect(ctx); err != nil {
		return err
	}
	if err := d.checkSettings(ctx); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	d.settle()
	if d.reads, err = sql.Open("sqlite", dataSource(d.config.Path, readParams())); err != nil {
		return Wrap(err)
	}
	d.reads.SetMaxOpenConns(d.config.Readers + 1)
	d.reads.SetMaxIdleConns(d.config.Readers + 1)
	// The last connection to close removes the log. One that never does lets
	// the writing one be discarded after an error.
	if d.anchor, err = d.reads.Conn(ctx); err != nil {
		return fmt.Errorf("connecting a reader: %w", Wrap(err))
	}
	var tables int
	if err := d.anchor.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return fmt.Errorf("reading the schema: %w", Wrap(err))
	}
	return d.remember()
}

// Inspect gives fn a reading connection to an existing store without changing
// a byte of it: no checkpoint, no migration, no new mode. The caller holds the
// lock of the folder. A store that is not there is fs.ErrNotExist.
func Inspect(ctx context.Context, config Config, fn func(context.Context, *sql.DB) error) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(config.Path); err != nil {
		return fmt.Errorf("inspecting a store: %w", err)
	}
	if err := checkFiles(config); err != nil {
		return err
	}
	// A connection with mode=ro never checkpoints, not even as the last one
	// to close, which is what leaves the files as they were found.
	params := url.Values{"mode": {"ro"}, "_defensive": {"1"}, "_dqs": {"0"},
		"_pragma": {pragmaBusy(), "query_only(1)"}}
	db, err := sql.Open("sqlite", dataSource(config.Path, params))
	if err != nil {
		return Wrap(err)
	}
	db.SetMaxOpenConns(1)
	err = fn(ctx, db)
	return Wrap(errors.Join(err, db.Close()))
}

// Path is the database file.
func (d *DB) Path() string { return d.config.Path }

// Close waits for the running transaction and closes every connection. It is
// safe to call twice.
func (d *DB) Close() error {
	var err error
	d.close.Do(func() {
		close(d.closed)
		d.writing <- struct{}{} // never given back: nothing writes any more
		d.mu.Lock()
		d.readStmts = nil
		d.mu.Unlock()
		d.discard(false)
		if d.anchor != nil {
			err = errors.Join(err, d.anchor.Close())
		}
		if d.reads != nil {
			err = errors.Join(err, d.reads.Close())
		}
		if d.writes != nil {
			err = errors.Join(err, d.writes.Close())
		}
	})
	return Wrap(err)
}

// dataSource builds the driver's name of a file. Without the "file:" prefix
// SQLite's own parameters are ignored without a word, and an unescaped "?" or
// "%" in a folder name would end the path.
func dataSource(path string, params url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params.Encode()
}

func pragmaBusy() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// writeParams puts busy_timeout first: the switch to WAL itself can meet a
// lock.
func writeParams() url.Values {
	return url.Values{
		"_txlock":    {"immediate"},
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_pragma": {
			pragmaBusy(), "journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)",
			"checkpoint_fullfsync(1)", "foreign_keys(1)", "trusted_schema(0)",
			fmt.Sprintf("journal_size_limit(%d)", walKept),
		},
	}
}

func readParams() url.Values {
	return url.Values{
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_pragma":    {pragmaBusy(), "synchronous(FULL)", "foreign_keys(1)", "trusted_schema(0)", "query_only(1)"},
	}
}

// checkSettings reads back what the promises rest on: SQLite answers a mode
// that it cannot give (no shared memory, no locks) with another one, not with
// an error.
func (d *DB) checkSettings(ctx context.Context) error {
	for _, want := range []struct{ pragma, value string }{
		{"journal_mode", "wal"}, {"synchronous", "2"}, {"foreign_keys", "1"}, {"fullfsync", "1"},
	} {
		var got string
		if err := d.conn.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil {
			return fmt.Errorf("reading back %s: %w", want.pragma, Wrap(err))
		}
		if got != want.value {
			return fmt.Errorf("%w: %s stays %q", ErrUnsuitable, want.pragma, got)
		}
	}
	return nil
}

// migrate brings the schema up to date in one transaction, so that a kill
// between two statements leaves the old schema.
func (d *DB) migrate(ctx context.Context) error {
	return d.Write(ctx, func(tx *Tx) error {
		var version int
		var application int32
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if err := tx.QueryRow("PRAGMA application_id").Scan(&application); err != nil {
			return err
		}
		if err := checkVersion(d.config, version, application); err != nil {
			return err
		}
		if version == len(d.config.Migrations) {
			return nil
		}
		for i, step := range d.config.Migrations[version:] {
			if err := tx.script(step); err != nil {
				return fmt.Errorf("migrating to version %d: %w", version+i+1, err)
			}
		}
		return tx.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d",
			d.config.Application, len(d.config.Migrations)))
	})
}
