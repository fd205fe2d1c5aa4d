package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lomi/broker/control"
)

const (
	// maxNotes bounds what waits for the next tick. Beyond it rows are counted
	// and not kept: the audit must not slow the reads that it records.
	maxNotes = 8192
	// noteChunk is how many rows one transaction takes, so that an effect does
	// not wait behind all of them.
	noteChunk = 256
	maxDetail = 512
)

// AuditRow is one read or one denied attempt. Kind is "read", "denied" or
// whatever else the broker distinguishes; "overflow" is the ledger's own and
// says with Count how many rows did not fit.
type AuditRow struct {
	Time    time.Time
	Kind    string
	Pairing string
	Session string
	Tool    string
	Code    control.Code
	Detail  string // cut at 512 bytes; never an argument's value
	Count   int64
}

// notes is what is written within a second and not waited for.
type notes struct {
	mu        sync.Mutex
	audit     []AuditRow
	lost      int64
	delivered []string
}

// Audit records a row within a second. It never waits and never fails; what
// does not fit is counted. A kill may lose the last second.
func (l *Ledger) Audit(row AuditRow) {
	if row.Time.IsZero() {
		row.Time = l.config.Now()
	}
	if row.Count == 0 {
		row.Count = 1
	}
	row.Detail = cut(row.Detail, maxDetail)
	l.notes.mu.Lock()
	defer l.notes.mu.Unlock()
	if len(l.notes.audit) >= maxNotes {
		l.notes.lost++
		return
	}
	l.notes.audit = append(l.notes.audit, row)
}

// Delivered says that a receipt's result has been handed to its owner. A large
// one may be dropped ten minutes later; its hash stays.
func (l *Ledger) Delivered(r Receipt) {
	if !r.drops() {
		return
	}
	l.notes.mu.Lock()
	defer l.notes.mu.Unlock()
	if len(l.notes.delivered) < maxNotes {
		l.notes.delivered = append(l.notes.delivered, r.ID)
	}
}

// flushNotes is the writer's: it writes the notes in small transactions and
// lets waiting effects ride along.
func (l *Ledger) flushNotes() {
	l.notes.mu.Lock()
	audit, lost, delivered := l.notes.audit, l.notes.lost, l.notes.delivered
	l.notes.audit, l.notes.lost, l.notes.delivered = nil, 0, nil
	l.notes.mu.Unlock()
	if lost > 0 {
		audit = append(audit, AuditRow{Time: l.config.Now(), Kind: "overflow", Count: lost})
	}
	for rows := range slices.Chunk(audit, noteChunk) {
		own := l.flush(func(b *batch) error { return b.audit(rows) })
		if own.err != nil {
			l.notes.mu.Lock()
			l.notes.lost += int64(len(rows))
			l.notes.mu.Unlock()
		}
	}
	for ids := range slices.Chunk(delivered, noteChunk) {
		l.flush(func(b *batch) error { return b.delivered(ids) })
	}
}

func (l *Ledger) flush(run func(*batch) error) *job {
	own := &job{run: run, done: make(chan struct{})}
	l.commit(l.gather(own))
	return own
}

func (b *batch) audit(rows []AuditRow) error {
	for _, r := range rows {
		_, err := b.tx.Exec(`INSERT INTO audit(time, kind, pairing, session, tool, code, detail, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			stamp(r.Time), r.Kind, r.Pairing, r.Session, r.Tool, string(r.Code), r.Detail, r.Count)
		if err != nil {
			return fmt.Errorf("writing the audit: %w", err)
		}
	}
	return nil
}

func (b *batch) delivered(ids []string) error {
	for _, id := range ids {
		if _, err := b.tx.Exec(`UPDATE receipts SET first_read = ? WHERE id = ? AND first_read = 0`, stamp(b.now), id); err != nil {
			return fmt.Errorf("noting a delivered result: %w", err)
		}
	}
	return nil
}

// Audits returns audit rows, the newest first; limit is at most 500.
func (l *Ledger) Audits(ctx context.Context, limit int) ([]AuditRow, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	rows, err := l.db.Query(ctx, `SELECT time, kind, pairing, session, tool, code, detail, count FROM audit ORDER BY id DESC LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the audit: %w", readError(err))
	}
	defer rows.Close()
	var all []AuditRow
	for rows.Next() {
		var r AuditRow
		var at int64
		if err := rows.Scan(&at, &r.Kind, &r.Pairing, &r.Session, &r.Tool, &r.Code, &r.Detail, &r.Count); err != nil {
			return nil, fmt.Errorf("reading the audit: %w", err)
		}
		r.Time = when(at)
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the audit: %w", readError(err))
	}
	return all, nil
}
