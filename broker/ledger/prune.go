package ledger

import (
	"fmt"
	"time"

	"lomi/broker/control"
)

const (
	// pruneEvery is how often a running ledger looks for what may go.
	pruneEvery = 10 * time.Minute
	// pruneRows is how much of the journal one step takes, and pruneSteps how
	// many steps one transaction: about 50 ms in which nothing else is
	// written.
	pruneRows  = 256
	pruneSteps = 8
	// bodyKept and bodyLife: a larger result goes this long after it was
	// first delivered; its hash stays.
	bodyKept = 4 << 10
	bodyLife = 10 * time.Minute
	// auditKept bounds the audit table.
	auditKept = 100_000
)

// prune drops what may go: read results, receipts past their retention with
// the journal before them, ended epochs, old audit rows.
func (b *batch) prune() error {
	if err := b.dropBodies(); err != nil {
		return fmt.Errorf("dropping results: %w", err)
	}
	for range pruneSteps {
		more, err := b.pruneJournal()
		if err != nil {
			return fmt.Errorf("pruning the journal: %w", err)
		}
		if !more {
			break
		}
	}
	_, err := b.tx.Exec(`DELETE FROM epochs WHERE expires < ? AND NOT EXISTS
		(SELECT 1 FROM receipts WHERE pairing = epochs.pairing AND epoch = epochs.id)`, b.now.Add(-epochLife).UnixNano())
	if err != nil {
		return fmt.Errorf("pruning epochs: %w", err)
	}
	if _, err := b.tx.Exec(`DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?`, auditKept); err != nil {
		return fmt.Errorf("pruning the audit: %w", err)
	}
	return nil
}

// pruneJournal takes the oldest rows if they are old enough. The row that the
// mark names always stays. What is restated is young again, so a live receipt
// is carried once a day at most.
func (b *batch) pruneJournal() (more bool, err error) {
	var first, last, rows uint64
	old := b.now.Add(-settledLife).UnixNano()
	err = b.tx.QueryRow(`SELECT coalesce(min(seq), 0), coalesce(max(seq), 0), count(*) FROM
		(SELECT seq, time FROM journal ORDER BY seq LIMIT ?) WHERE time < ? AND seq < ?`,
		pruneRows, old, int64(b.ledger.head.seq)).Scan(&first, &last, &rows)
	if err != nil || rows == 0 || rows != last-first+1 {
		// A clock that jumped back leaves a hole of young rows; they age.
		return false, err
	}
	var sum []byte
	if err := b.tx.QueryRow(`SELECT hash FROM journal WHERE seq = ?`, int64(last)).Scan(&sum); err != nil {
		return false, err
	}
	if err := b.pruneReceipts(last); err != nil {
		return false, err
	}
	if err := b.append(record{kind: kindPruned, first: first, last: last, result: sum}); err != nil {
		return false, err
	}
	_, err = b.tx.Exec(`DELETE FROM journal WHERE seq <= ?`, int64(last))
	return rows == pruneRows, err
}

const (
	selectPrefix = `SELECT ` + receiptColumns + ` FROM receipts WHERE id IN
		(SELECT receipt FROM journal WHERE seq <= ?)`
	restate = `UPDATE receipts SET first_seq = ?, last_seq = ? WHERE id = ?`
)

// pruneReceipts deletes the receipts that end in the prefix and are past their
// retention, and restates the others at the end of the journal.
func (b *batch) pruneReceipts(last uint64) error {
	rows, err := b.tx.Query(selectPrefix, int64(last))
	if err != nil {
		return err
	}
	receipts, err := collect(rows)
	if err != nil {
		return err
	}
	for _, r := range receipts {
		over := r.State.Settled() && !r.RetainUntil.After(b.now)
		switch {
		case over && r.lastSeq > last:
			// Its later row stays and says how it ended; it goes next time.
		case over:
			if _, err := b.tx.Exec(`DELETE FROM receipts WHERE id = ?`, r.ID); err != nil {
				return err
			}
			b.used.count(r.Key.Pairing, counted{-1, -r.bytes})
		case r.firstSeq <= last:
			if err := b.carry(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *batch) carry(r Receipt) error {
	var sum []byte
	if r.ResultHash != (Hash{}) {
		sum = r.ResultHash[:]
	}
	err := b.append(record{kind: kindCarried, receipt: r.ID, to: r.State, effect: r.Effect, fingerprint: r.Fingerprint[:], result: sum})
	if err != nil {
		return err
	}
	_, err = b.tx.Exec(restate, int64(b.head.seq), int64(b.head.seq), r.ID)
	return err
}

// dropBodies removes large results that were delivered a while ago.
func (b *batch) dropBodies() error {
	rows, err := b.tx.Query(`SELECT `+receiptColumns+` FROM receipts WHERE first_read > 0 AND dropped = 0 AND first_read <= ? LIMIT ?`,
		b.now.Add(-bodyLife).UnixNano(), pruneRows)
	if err != nil {
		return err
	}
	receipts, err := collect(rows)
	if err != nil {
		return err
	}
	for _, r := range receipts {
		freed := int64(len(r.Result))
		if _, err := b.tx.Exec(`UPDATE receipts SET result = NULL, dropped = 1, bytes = bytes - ? WHERE id = ?`, freed, r.ID); err != nil {
			return err
		}
		b.used.count(r.Key.Pairing, counted{0, -freed})
	}
	return nil
}

// drops reports whether a delivered result of this receipt may go.
func (r Receipt) drops() bool {
	return len(r.Result) > bodyKept && r.State.Settled() && r.State != control.StateOutcomeUnknown
}
