package ledger

import (
	"context"
	"fmt"
	"time"

	"lomi/broker/control"
)

// HistoryQuery asks for the changes of one pairing's receipts in a workspace,
// behind the cursor After (zero for the beginning).
type HistoryQuery struct {
	Pairing   string
	Workspace string
	After     uint64
	Limit     int // at most 500, which is also what zero means
}

// HistoryItem is one change of a receipt.
type HistoryItem struct {
	Seq       uint64
	Receipt   string
	Workspace string
	Tool      string
	State     control.State
	Effect    control.Effect
	Time      time.Time
}

// HistoryPage is a part of the history. Next is the cursor for the part behind
// it, whether or not there is one yet.
type HistoryPage struct {
	Items []HistoryItem
	Next  uint64
	More  bool
}

// historySpan bounds how many rows of other pairings one page may pass over.
const historySpan = 20_000

// History reads the journal for the tool lomi_events_read. A cursor behind
// the end, or before what retention has left, is CURSOR_EXPIRED.
func (l *Ledger) History(ctx context.Context, q HistoryQuery) (HistoryPage, error) {
	if q.Limit <= 0 || q.Limit > maxList {
		q.Limit = maxList
	}
	var first, last uint64
	// Beyond int64 no row can be, and the driver refuses the number.
	if q.After > 1<<62 {
		return HistoryPage{}, expiredCursor()
	}
	err := l.db.QueryRow(ctx, `SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM journal`).Scan(&first, &last)
	if err != nil {
		return HistoryPage{}, fmt.Errorf("reading the history: %w", readError(err))
	}
	if q.After > last || q.After > 0 && q.After+1 < first {
		return HistoryPage{}, expiredCursor()
	}
	end := min(last, max(q.After, first)+historySpan)
	rows, err := l.db.Query(ctx, `SELECT j.seq, j.receipt, r.workspace, r.tool, j.to_state, j.effect, j.time
		FROM journal AS j JOIN receipts AS r ON r.id = j.receipt
		WHERE j.seq > ? AND j.seq <= ? AND j.kind = 'transition' AND r.pairing = ? AND r.workspace = ?
		ORDER BY j.seq LIMIT ?`, int64(q.After), int64(end), q.Pairing, q.Workspace, q.Limit+1)
	if err != nil {
		return HistoryPage{}, fmt.Errorf("reading the history: %w", readError(err))
	}
	defer rows.Close()
	page := HistoryPage{Next: end, More: end < last}
	for rows.Next() {
		var item HistoryItem
		var at int64
		if err := rows.Scan(&item.Seq, &item.Receipt, &item.Workspace, &item.Tool, &item.State, &item.Effect, &at); err != nil {
			return HistoryPage{}, fmt.Errorf("reading the history: %w", err)
		}
		item.Time = when(at)
		if len(page.Items) == q.Limit {
			page.Next, page.More = page.Items[q.Limit-1].Seq, true
			break
		}
		page.Items = append(page.Items, item)
	}
	if err := rows.Err(); err != nil {
		return HistoryPage{}, fmt.Errorf("reading the history: %w", readError(err))
	}
	return page, nil
}

func expiredCursor() error {
	return control.Errorf(control.CursorExpired, "The cursor is too old or lies behind the end. Begin again without one.")
}
