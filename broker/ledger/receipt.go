package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

const (
	// maxField bounds ids and names, maxSummary the line that a person reads.
	maxField   = 512
	maxSummary = 2 << 10
	// maxList is the largest page of List.
	maxList = 500
)

// Key finds a receipt again when its request is repeated.
type Key struct {
	Pairing string // the approved connection
	Epoch   string // its retry epoch
	Project string
	Tool    string
	Request string // the caller's request key
}

// Entry is a new receipt. State is where it begins: queued, awaiting_user or
// running.
type Entry struct {
	ID          string // control.NewReceiptID
	Key         Key
	Session     string
	Workspace   string
	Target      Target
	Fingerprint Hash
	Summary     string // what a person reads; cut at 2 KiB
	State       control.State
}

// Receipt is what the broker knows of one effect. Times that have not come
// are zero.
type Receipt struct {
	ID          string
	Key         Key
	Session     string
	Workspace   string
	Target      Target
	Fingerprint Hash
	Summary     string
	State       control.State
	Effect      control.Effect
	Result      json.RawMessage // nil if none, or if dropped after it was read
	ResultHash  Hash            // zero if there never was a result
	Dropped     bool            // the result is gone, its hash stays
	Code        control.Code    // of a failed, cancelled or unknown one
	Message     string          // likewise, for the caller to read
	Created     time.Time
	Updated     time.Time
	Dispatched  time.Time
	Completed   time.Time
	RetainUntil time.Time

	n         int64
	bytes     int64
	firstSeq  uint64
	lastSeq   uint64
	firstRead int64
}

const receiptColumns = `n, id, pairing, epoch, project, tool, request_key, session, workspace, target, fingerprint,
	summary, state, effect, result, result_hash, dropped, code, message, created, updated, dispatched, completed,
	first_read, retain_until, bytes, first_seq, last_seq`

const (
	selectByID  = `SELECT ` + receiptColumns + ` FROM receipts WHERE id = ?`
	selectByKey = `SELECT ` + receiptColumns + ` FROM receipts
		WHERE pairing = ? AND epoch = ? AND project = ? AND tool = ? AND request_key = ?`
	selectUnsettled = `SELECT ` + receiptColumns + ` FROM receipts
		WHERE state IN ('queued', 'awaiting_user', 'running', 'cancelling') ORDER BY n`
)

type scanner interface{ Scan(...any) error }

func scanReceipt(row scanner) (Receipt, error) {
	var r Receipt
	var target string
	var fingerprint, result, hash []byte
	var created, updated, dispatched, completed, retain int64
	err := row.Scan(&r.n, &r.ID, &r.Key.Pairing, &r.Key.Epoch, &r.Key.Project, &r.Key.Tool, &r.Key.Request,
		&r.Session, &r.Workspace, &target, &fingerprint, &r.Summary, &r.State, &r.Effect, &result, &hash,
		&r.Dropped, &r.Code, &r.Message, &created, &updated, &dispatched, &completed, &r.firstRead, &retain,
		&r.bytes, &r.firstSeq, &r.lastSeq)
	if err != nil {
		return Receipt{}, err
	}
	if err := json.Unmarshal([]byte(target), &r.Target); err != nil {
		return Receipt{}, fmt.Errorf("reading the target of receipt %s: %w", r.ID, err)
	}
	copy(r.Fingerprint[:], fingerprint)
	copy(r.ResultHash[:], hash)
	if len(result) > 0 {
		r.Result = result
	}
	r.Created, r.Updated, r.Dispatched = when(created), when(updated), when(dispatched)
	r.Completed, r.RetainUntil = when(completed), when(retain)
	return r, nil
}

func when(nano int64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, nano)
}

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (e Entry) check() error {
	for _, field := range []string{e.Key.Pairing, e.Key.Epoch, e.Key.Tool, e.Key.Request} {
		if field == "" {
			return invalid("an empty field")
		}
	}
	for _, field := range []string{e.Key.Pairing, e.Key.Epoch, e.Key.Project, e.Key.Tool, e.Key.Request, e.Session, e.Workspace} {
		if len(field) > maxField || strings.ContainsRune(field, 0) {
			return invalid("a field that is too long or holds a NUL")
		}
	}
	if len(e.ID) != 40 || !control.ValidID(e.ID) {
		return invalid("a receipt id is 40 hex digits")
	}
	switch e.State {
	case control.StateQueued, control.StateAwaitingUser, control.StateRunning:
		return nil
	}
	return invalid("a receipt cannot begin as " + string(e.State))
}

// Begin records a new receipt and returns when it is durable. If the key
// already has one with the same fingerprint that one comes back (its ID is not
// the entry's) and nothing is recorded; with another fingerprint it is
// IDEMPOTENCY_CONFLICT. A dead epoch is RETRY_WINDOW_EXPIRED, a full store
// STORAGE_UNAVAILABLE.
//
// A caller whose context ends stops waiting; the receipt is recorded all the
// same, and whoever owns the request settles it.
func (l *Ledger) Begin(ctx context.Context, entry Entry) (Receipt, error) {
	if err := entry.check(); err != nil {
		return Receipt{}, fmt.Errorf("beginning receipt %s: %w", entry.ID, err)
	}
	var receipt Receipt
	err := l.submit(ctx, func(b *batch) (err error) {
		receipt, err = b.begin(entry)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("beginning receipt %s: %w", entry.ID, err)
	}
	return receipt, nil
}

// Transition changes a receipt and returns it when the change is durable. A
// change that the receipt's state does not allow is a *StateError.
func (l *Ledger) Transition(ctx context.Context, id string, change Change) (Receipt, error) {
	var receipt Receipt
	err := l.submit(ctx, func(b *batch) (err error) {
		receipt, err = b.transition(id, change)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("changing receipt %s to %s: %w", id, change.To, err)
	}
	return receipt, nil
}

// Dispatch makes a waiting receipt running, by way of queued when a person was
// asked, in one durable step.
func (l *Ledger) Dispatch(ctx context.Context, id string) (Receipt, error) {
	var receipt Receipt
	err := l.submit(ctx, func(b *batch) (err error) {
		receipt, err = b.dispatch(id)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("dispatching receipt %s: %w", id, err)
	}
	return receipt, nil
}

// Get returns one receipt, TARGET_NOT_FOUND if there is none.
func (l *Ledger) Get(ctx context.Context, id string) (Receipt, error) {
	receipt, err := scanReceipt(l.db.QueryRow(ctx, selectByID, id))
	if err != nil {
		return Receipt{}, fmt.Errorf("reading receipt %s: %w", id, readError(err))
	}
	return receipt, nil
}

// Lookup finds the receipt of a repeated request. Only the live epoch of the
// same pairing is looked into; any other is RETRY_WINDOW_EXPIRED.
func (l *Ledger) Lookup(ctx context.Context, key Key) (Receipt, bool, error) {
	if _, err := l.liveEpoch(key); err != nil {
		return Receipt{}, false, err
	}
	receipt, err := scanReceipt(l.db.QueryRow(ctx, selectByKey, key.Pairing, key.Epoch, key.Project, key.Tool, key.Request))
	if errors.Is(err, sql.ErrNoRows) {
		return Receipt{}, false, nil
	}
	if err != nil {
		return Receipt{}, false, fmt.Errorf("looking for a receipt: %w", readError(err))
	}
	return receipt, true, nil
}

func readError(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return control.Errorf(control.TargetNotFound, "There is no such operation.")
	}
	return fmt.Errorf("%w: %w", control.Errorf(control.StorageUnavailable, "The record of effects cannot be read."), sqlite.Wrap(err))
}

// Filter narrows List. Empty fields do not.
type Filter struct {
	Session   string
	Pairing   string
	State     control.State
	Unsettled bool   // only what may still change
	Before    string // only what is older than this receipt
	Limit     int    // at most 500, which is also what zero means
}

// List returns receipts, the newest first.
func (l *Ledger) List(ctx context.Context, filter Filter) ([]Receipt, error) {
	var where strings.Builder
	where.WriteString("1 = 1")
	var args []any
	add := func(clause string, value string) {
		if value != "" {
			where.WriteString(" AND " + clause)
			args = append(args, value)
		}
	}
	// Few fixed pieces, so the statements stay few and prepared.
	add("session = ?", filter.Session)
	add("pairing = ?", filter.Pairing)
	add("state = ?", string(filter.State))
	add("n < (SELECT n FROM receipts WHERE id = ?)", filter.Before)
	if filter.Unsettled {
		where.WriteString(" AND state IN ('queued', 'awaiting_user', 'running', 'cancelling')")
	}
	if filter.Limit <= 0 || filter.Limit > maxList {
		filter.Limit = maxList
	}
	rows, err := l.db.Query(ctx, `SELECT `+receiptColumns+` FROM receipts WHERE `+where.String()+` ORDER BY n DESC LIMIT ?`,
		append(args, filter.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("listing receipts: %w", readError(err))
	}
	return collect(rows)
}

func collect(rows *sql.Rows) ([]Receipt, error) {
	defer rows.Close()
	var all []Receipt
	for rows.Next() {
		receipt, err := scanReceipt(rows)
		if err != nil {
			return nil, fmt.Errorf("listing receipts: %w", err)
		}
		all = append(all, receipt)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing receipts: %w", readError(err))
	}
	return all, nil
}
