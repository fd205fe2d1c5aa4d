package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
)

// Tx is one running write transaction. Its statements are prepared once for
// the life of the connection, so every query must be a constant text. It has
// no context on purpose: once begun, a transaction runs to its end, and a
// caller that leaves must not roll back what others wrote in it.
type Tx struct{ db *DB }

// Exec runs one statement.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	stmt, err := t.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(args...)
}

// Query runs one query; the caller closes the rows.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.Query(args...)
}

// QueryRow runs a query for at most one row.
func (t *Tx) QueryRow(query string, args ...any) Row {
	stmt, err := t.prepare(query)
	if err != nil {
		return Row{err: err}
	}
	return Row{row: stmt.QueryRow(args...)}
}

// Row is the answer of a query for one row, or the error of preparing it.
type Row struct {
	row *sql.Row
	err error
}

// Scan copies the columns. No row is sql.ErrNoRows.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return Wrap(r.err)
	}
	return Wrap(r.row.Scan(dest...))
}

func (t *Tx) prepare(query string) (*sql.Stmt, error) {
	if stmt, ok := t.db.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := t.db.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("preparing a statement: %w", err)
	}
	t.db.stmts[query] = stmt
	return stmt, nil
}

// script runs several statements that are not worth keeping prepared.
func (t *Tx) script(text string) error {
	_, err := t.db.conn.ExecContext(context.Background(), text)
	return err
}

// Write runs fn in one immediate transaction on the only writing connection
// and commits it if fn returns nil. The context bounds the wait for the turn
// to write, nothing after it. An error of SQLite other than a constraint
// discards the connection, whose state nobody knows then; the next Write
// opens a new one. ErrReplaced is for ever: another file is at our path.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	defer func() { <-d.writing }()
	if err := d.ready(); err != nil {
		return err
	}
	if err := d.connect(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	tx := &Tx{db: d}
	committed := false
	defer func() {
		// Reached by an error and by a panic of fn alike.
		if !committed {
			d.rollback(tx)
		}
	}()
	if _, err := tx.Exec("BEGIN IMMEDIATE"); err != nil {
		d.discard(true)
		return fmt.Errorf("beginning a transaction: %w", Wrap(err))
	}
	if err := fn(tx); err != nil {
		if fromSQLite(err) && !IsConstraint(err) {
			d.discard(true)
		}
		return Wrap(err)
	}
	if _, err := tx.Exec("COMMIT"); err != nil {
		d.discard(true)
		return fmt.Errorf("committing: %w", Wrap(err))
	}
	committed = true
	// A commit into files that are no longer at the path is lost: say so
	// before anyone is told of it.
	return d.unmoved()
}

func (d *DB) acquire(ctx context.Context) error {
	select {
	case <-d.closed:
		return ErrClosed
	default:
	}
	select {
	case d.writing <- struct{}{}:
		return nil
	case <-d.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("waiting to write: %w", context.Cause(ctx))
	}
}

// ready refuses a write into foreign files or into a log that can no longer be
// checkpointed, because a longer one would be refused at the next start.
func (d *DB) ready() error {
	if err := d.unmoved(); err != nil {
		return err
	}
	size := d.walSize()
	if size < d.config.MaxWAL/2 {
		d.warned = false
		return nil
	}
	if !d.warned {
		d.warned = true
		d.config.Logger.Warn("write-ahead log is not being checkpointed", "bytes", size)
	}
	if d.conn != nil {
		d.settle()
	}
	if d.walSize() > d.config.MaxWAL-walKept/2 {
		return fmt.Errorf("%w: a reader holds the write-ahead log", ErrFull)
	}
	return nil
}

func (d *DB) walSize() int64 {
	info, err := os.Stat(d.config.Path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

func (d *DB) connect(ctx context.Context) error {
	if d.conn != nil {
		return nil
	}
	conn, err := d.writes.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", Wrap(err))
	}
	d.conn, d.stmts = conn, map[string]*sql.Stmt{}
	if len(d.ids) > 0 {
		d.settle()
	}
	return nil
}

// settle moves the log into the database and empties it, after a start and
// after an error. What a failed commit left in the log would otherwise look to
// a later checkWAL like damage to one that succeeded. A reader may hinder it,
// and then the next checkpoint does the same.
func (d *DB) settle() {
	_, _ = d.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
}

func (d *DB) rollback(tx *Tx) {
	if d.conn == nil {
		return
	}
	if _, err := tx.Exec("ROLLBACK"); err != nil {
		d.discard(true)
	}
}

// discard lets the writing connection go; broken closes it for good instead
// of giving it back to the pool.
func (d *DB) discard(broken bool) {
	if d.conn == nil {
		return
	}
	for _, stmt := range d.stmts {
		_ = stmt.Close()
	}
	if broken {
		_ = d.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = d.conn.Close()
	d.conn, d.stmts = nil, nil
}

// remember notes which files are open, for unmoved.
func (d *DB) remember() error {
	for _, path := range []string{d.config.Path, d.config.Path + "-wal"} {
		info, err := os.Lstat(path)
		if err != nil {
			return fmt.Errorf("looking at the files of a store: %w", err)
		}
		d.ids = append(d.ids, info)
	}
	return nil
}

// unmoved compares the files at the path with those that are open: someone who
// restores a copy, or removes the log, leaves us writing into nothing.
func (d *DB) unmoved() error {
	if d.replaced {
		return ErrReplaced
	}
	for i, path := range []string{d.config.Path, d.config.Path + "-wal"} {
		if i >= len(d.ids) {
			return nil
		}
		info, err := os.Lstat(path)
		if err == nil && os.SameFile(info, d.ids[i]) {
			continue
		}
		d.replaced = true
		return errors.Join(ErrReplaced, err)
	}
	return nil
}

// Query runs one query on a reading connection; the caller closes the rows.
// The text must be a constant: it stays prepared.
func (d *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := d.prepareRead(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, Wrap(err)
}

// QueryRow runs a query for at most one row on a reading connection.
func (d *DB) QueryRow(ctx context.Context, query string, args ...any) Row {
	stmt, err := d.prepareRead(ctx, query)
	if err != nil {
		return Row{err: err}
	}
	return Row{row: stmt.QueryRowContext(ctx, args...)}
}

func (d *DB) prepareRead(ctx context.Context, query string) (*sql.Stmt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readStmts == nil {
		return nil, ErrClosed
	}
	if stmt, ok := d.readStmts[query]; ok {
		return stmt, nil
	}
	stmt, err := d.reads.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("preparing a query: %w", Wrap(err))
	}
	d.readStmts[query] = stmt
	return stmt, nil
}

// Snapshot runs fn on one reading connection that sees one state of the store
// throughout. It holds up checkpoints, so fn must not wait for anything.
func (d *DB) Snapshot(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	tx, err := d.reads.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning to read: %w", Wrap(err))
	}
	err = fn(ctx, tx)
	if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
		err = errors.Join(err, e)
	}
	return Wrap(err)
}
