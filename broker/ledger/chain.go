package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"lomi/broker/control"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// String is the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// head is the end of the journal.
type head struct {
	seq  uint64
	hash Hash
}

// The kinds of a journal row. A carried row restates a live receipt whose
// older rows are pruned; a pruned row says which rows went, and with which
// hash the last of them ended.
const (
	kindTransition = "transition"
	kindCarried    = "carried"
	kindPruned     = "pruned"
)

// record is one row of the journal.
type record struct {
	seq         uint64
	kind        string
	receipt     string
	from, to    control.State
	effect      control.Effect
	fingerprint []byte
	result      []byte
	time        int64
	first, last uint64
	prev, hash  Hash
}

// digest is the hash of a record, over every field and the hash before it.
// Each field goes in with its length, so that no two records write the same
// bytes.
func (r record) digest() Hash {
	h := sha256.New()
	h.Write([]byte("lomi-journal-v1\x00"))
	number(h, r.seq)
	for _, field := range []string{r.kind, r.receipt, string(r.from), string(r.to), string(r.effect)} {
		number(h, uint64(len(field)))
		h.Write([]byte(field))
	}
	for _, field := range [][]byte{r.fingerprint, r.result} {
		number(h, uint64(len(field)))
		h.Write(field)
	}
	number(h, uint64(r.time))
	number(h, r.first)
	number(h, r.last)
	h.Write(r.prev[:])
	return Hash(h.Sum(nil))
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

const insertRecord = `INSERT INTO journal(seq, kind, receipt, from_state, to_state, effect, fingerprint, result_hash,
	time, first, last, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// append writes the next row of the journal.
func (b *batch) append(r record) error {
	r.seq, r.prev, r.time = b.head.seq+1, b.head.hash, b.now.UnixNano()
	if r.fingerprint == nil {
		r.fingerprint = []byte{}
	}
	if r.result == nil {
		r.result = []byte{}
	}
	r.hash = r.digest()
	_, err := b.tx.Exec(insertRecord, int64(r.seq), r.kind, r.receipt, string(r.from), string(r.to), string(r.effect),
		r.fingerprint, r.result, r.time, int64(r.first), int64(r.last), r.prev[:], r.hash[:])
	if err != nil {
		return fmt.Errorf("appending to the journal: %w", err)
	}
	b.head = head{seq: r.seq, hash: r.hash}
	return nil
}

const selectHead = `SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`

func scanHead(row scanner) (head, error) {
	var h head
	var sum []byte
	err := row.Scan(&h.seq, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return head{}, nil
	}
	copy(h.hash[:], sum)
	return h, err
}

func (b *batch) loadHead() error {
	h, err := scanHead(b.tx.QueryRow(selectHead))
	if err != nil {
		return fmt.Errorf("reading the end of the journal: %w", err)
	}
	b.head = h
	return nil
}

const recordColumns = `seq, kind, receipt, from_state, to_state, effect, fingerprint, result_hash, time, first, last, prev, hash`

func scanRecord(row scanner) (record, error) {
	var r record
	var prev, sum []byte
	err := row.Scan(&r.seq, &r.kind, &r.receipt, &r.from, &r.to, &r.effect, &r.fingerprint, &r.result, &r.time,
		&r.first, &r.last, &prev, &sum)
	copy(r.prev[:], prev)
	copy(r.hash[:], sum)
	return r, err
}

// Verify reads the whole journal and says whether it is a chain without gaps
// from which the receipts follow. It is for a person who asks (the doctor
// command) and for tests; a start only compares the mark.
func (l *Ledger) Verify(ctx context.Context) error {
	return l.db.Snapshot(ctx, verify)
}

func verify(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT `+recordColumns+` FROM journal ORDER BY seq`)
	if err != nil {
		return fmt.Errorf("verifying the journal: %w", err)
	}
	defer rows.Close()
	states := map[string]record{}
	var before record
	var pruned *record
	first := record{}
	for rows.Next() {
		r, err := scanRecord(rows)
		if err != nil {
			return fmt.Errorf("verifying the journal: %w", err)
		}
		switch {
		case r.hash != r.digest():
			return fmt.Errorf("verifying the journal: row %d does not have its hash", r.seq)
		case before.seq == 0:
			first = r
		case r.seq != before.seq+1 || r.prev != before.hash:
			return fmt.Errorf("verifying the journal: row %d does not follow row %d", r.seq, before.seq)
		}
		before = r
		if r.kind == kindPruned {
			kept := r
			pruned = &kept
			continue
		}
		states[r.receipt] = r
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("verifying the journal: %w", err)
	}
	if err := verifyStart(first, pruned); err != nil {
		return err
	}
	return verifyFold(ctx, tx, states)
}

// verifyStart accepts a journal that begins with its first row, or behind the
// rows that its last pruned row names.
func verifyStart(first record, pruned *record) error {
	switch {
	case first.seq == 0, first.seq == 1 && first.prev == Hash{}:
		return nil
	case pruned != nil && first.seq == pruned.last+1 && string(pruned.result) == string(first.prev[:]):
		return nil
	}
	return fmt.Errorf("verifying the journal: it begins with row %d and nothing says where the rows before it went", first.seq)
}

func verifyFold(ctx context.Context, tx *sql.Tx, states map[string]record) error {
	rows, err := tx.QueryContext(ctx, `SELECT id, state, effect, fingerprint, last_seq FROM receipts`)
	if err != nil {
		return fmt.Errorf("verifying the receipts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var r record
		if err := rows.Scan(&id, &r.to, &r.effect, &r.fingerprint, &r.seq); err != nil {
			return fmt.Errorf("verifying the receipts: %w", err)
		}
		want, ok := states[id]
		if !ok || want.seq != r.seq || want.to != r.to || want.effect != r.effect || string(want.fingerprint) != string(r.fingerprint) {
			return fmt.Errorf("verifying the receipts: receipt %s is not what the journal says", id)
		}
		delete(states, id)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("verifying the receipts: %w", err)
	}
	for id := range states { // a receipt goes together with its last row
		return fmt.Errorf("verifying the receipts: receipt %s is missing", id)
	}
	return nil
}
