package ledger

import (
	"database/sql"
	"fmt"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

// limits are the ceilings of the store; one pairing may use half of each.
type limits struct {
	receipts int64
	bytes    int64
}

func (l limits) withDefaults() limits {
	if l.receipts == 0 {
		l.receipts = 1_000_000
	}
	if l.bytes == 0 {
		l.bytes = 1 << 30
	}
	return l
}

// counted is how much of the store something uses.
type counted struct{ receipts, bytes int64 }

// usage is what the store holds, in all and by pairing.
type usage struct {
	total counted
	by    map[string]counted
}

func newUsage() usage { return usage{by: map[string]counted{}} }

func (u *usage) count(pairing string, c counted) {
	u.total.receipts += c.receipts
	u.total.bytes += c.bytes
	sum := u.by[pairing]
	sum.receipts += c.receipts
	sum.bytes += c.bytes
	if u.by[pairing] = sum; sum == (counted{}) {
		delete(u.by, pairing)
	}
}

func (u *usage) add(more usage) {
	for pairing, c := range more.by {
		u.count(pairing, c)
	}
}

func (c counted) over(receipts, bytes int64) bool { return c.receipts >= receipts || c.bytes >= bytes }

// room refuses a new receipt when the store, or the pairing's half of it, is
// full and nothing in it may be pruned.
func (b *batch) room(pairing string) error {
	if !b.full(pairing) {
		return nil
	}
	// At most once a tick: looking for what to prune in vain is not free.
	if l := b.ledger; b.now.Sub(l.pruned) >= tick {
		l.pruned = b.now
		if err := b.prune(); err != nil {
			return err
		}
	}
	if !b.full(pairing) {
		return nil
	}
	return refusef(control.StorageUnavailable, "The record of effects is full. Reads go on; what changes something has to wait until older entries may go.")
}

func (b *batch) full(pairing string) bool {
	limit, used := b.ledger.config.limits, b.ledger.usage
	total := counted{used.total.receipts + b.used.total.receipts, used.total.bytes + b.used.total.bytes}
	mine := counted{used.by[pairing].receipts + b.used.by[pairing].receipts, used.by[pairing].bytes + b.used.by[pairing].bytes}
	return total.over(limit.receipts, limit.bytes) || mine.over(limit.receipts/2, limit.bytes/2)
}

// countUsage reads the usage from the store, on whatever connection query uses.
func countUsage(query func(string, ...any) (*sql.Rows, error)) (usage, error) {
	u := newUsage()
	rows, err := query(`SELECT pairing, count(*), sum(bytes) FROM receipts GROUP BY pairing`)
	if err != nil {
		return u, fmt.Errorf("counting the receipts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var pairing string
		var c counted
		if err := rows.Scan(&pairing, &c.receipts, &c.bytes); err != nil {
			return u, fmt.Errorf("counting the receipts: %w", err)
		}
		u.count(pairing, c)
	}
	return u, sqlite.Wrap(rows.Err())
}
