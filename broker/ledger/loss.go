package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lomi/internal/sqlite"
)

// found is what the store says about itself before it is opened for writing.
type found struct {
	store  string
	head   head
	atMark Hash // of the row that the mark names; zero if it is not there
}

// checkLoss compares the store with the mark, without changing a byte of
// either, and returns the mark's newest slot. A start that kills itself
// between a commit and its mark leaves the store ahead, which is fine; a mark
// ahead of the store is loss.
func checkLoss(ctx context.Context, config Config) (slot, error) {
	newest, exists, whole, err := readMark(config.MarkPath)
	if err != nil {
		return slot{}, err
	}
	var store found
	err = sqlite.Inspect(ctx, storeConfig(config), func(ctx context.Context, db *sql.DB) (err error) {
		store, err = look(ctx, db, newest.head.seq)
		return err
	})
	loss := &LossError{MarkSeq: newest.head.seq, StoreSeq: store.head.seq}
	switch {
	case errors.Is(err, sqlite.ErrCorrupt), errors.Is(err, errBroken):
		loss.Reason, loss.Err = "the store is damaged", err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return slot{}, err
	case !exists && store.head.seq == 0:
		return slot{}, nil
	case !exists:
		loss.Reason = "the mark that says how far it went is missing"
	case !whole:
		loss.Reason = "the mark that says how far it went is damaged"
	case store.store == "":
		loss.Reason = "the store is gone"
	case store.store != newest.store:
		loss.Reason = "this is another store than the one that was last used"
	case newest.head.seq > store.head.seq:
		loss.Reason = "the store ends before the last acknowledged entry"
	case newest.head.seq > 0 && store.atMark != newest.head.hash:
		loss.Reason = "the store holds another entry than the one that was acknowledged"
	default:
		return newest, nil
	}
	return slot{}, loss
}

// errBroken is a journal whose newest rows are no chain.
var errBroken = errors.New("the newest rows of the journal do not follow each other")

func look(ctx context.Context, db *sql.DB, marked uint64) (found, error) {
	var f found
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name IN ('store', 'journal')`).Scan(&tables); err != nil {
		return f, err
	}
	if tables < 2 {
		return f, nil // killed before the first transaction
	}
	err := db.QueryRowContext(ctx, `SELECT id FROM store`).Scan(&f.store)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return f, err
	}
	if f.head, err = scanHead(db.QueryRowContext(ctx, selectHead)); err != nil {
		return f, err
	}
	// The row at the mark and those after it: at most one batch, unless the
	// mark is old.
	rows, err := db.QueryContext(ctx, `SELECT `+recordColumns+` FROM journal WHERE seq >= ? ORDER BY seq LIMIT ?`, int64(marked), checkedRows)
	if err != nil {
		return f, err
	}
	defer rows.Close()
	var before *record
	for rows.Next() {
		r, err := scanRecord(rows)
		if err != nil {
			return f, err
		}
		if r.hash != r.digest() || before != nil && (r.seq != before.seq+1 || r.prev != before.hash) {
			return f, fmt.Errorf("%w: row %d", errBroken, r.seq)
		}
		if r.seq == marked {
			f.atMark = r.hash
		}
		before = &r
	}
	return f, rows.Err()
}

// checkedRows bounds how much of the journal a start recomputes.
const checkedRows = 4096

// SetAside renames a store that a person gave up, with its mark, so that Open
// makes a new one. Nothing is deleted. It returns the store's new name.
func SetAside(config Config) (string, error) {
	lock, err := sqlite.Acquire(filepath.Join(config.Dir, lockName))
	if err != nil {
		return "", fmt.Errorf("setting the store aside: %w", err)
	}
	now := time.Now
	if config.Now != nil {
		now = config.Now
	}
	suffix := ".lost-" + now().UTC().Format("20060102T150405.000000000")
	store := filepath.Join(config.Dir, storeName)
	for _, path := range []string{config.MarkPath, store + "-shm", store + "-wal", store} {
		if e := os.Rename(path, path+suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err := errors.Join(err, lock.Release()); err != nil {
		return "", fmt.Errorf("setting the store aside: %w", err)
	}
	return store + suffix, nil
}
