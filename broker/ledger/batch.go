package ledger

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

// receiptBytes is what a receipt and its rows of the journal take beside its
// texts, so that a million empty receipts stay under the 1 GiB.
const receiptBytes = 1 << 10

// A taken key inserts nothing and is looked at afterwards, which spares every
// new receipt a query.
const insertReceipt = `INSERT INTO receipts(id, pairing, epoch, project, tool, request_key, session, workspace, target,
	fingerprint, summary, state, effect, created, updated, dispatched, retain_until, bytes, first_seq, last_seq)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'none', ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT(pairing, epoch, project, tool, request_key) DO NOTHING`

func (b *batch) begin(e Entry) (Receipt, error) {
	epoch, err := b.ledger.liveEpoch(e.Key)
	if err != nil {
		return Receipt{}, refuse(err)
	}
	r := Receipt{ID: e.ID, Key: e.Key, Session: e.Session, Workspace: e.Workspace, Target: e.Target,
		Fingerprint: e.Fingerprint, Summary: cut(e.Summary, maxSummary), State: e.State, Effect: control.EffectNone,
		Created: b.now, Updated: b.now, RetainUntil: epoch.Expires, firstSeq: b.head.seq + 1, lastSeq: b.head.seq + 1}
	if e.State == control.StateRunning {
		r.Dispatched = b.now
	}
	r.bytes = receiptBytes + int64(len(r.Summary))
	if err := b.room(e.Key.Pairing); err != nil {
		// A repeated request is answered by a full store too.
		if known, err := b.existing(e); err == nil || isConflict(err) {
			return known, err
		}
		return Receipt{}, err
	}
	// Making room may have appended to the journal.
	r.firstSeq, r.lastSeq = b.head.seq+1, b.head.seq+1
	target, err := json.Marshal(e.Target)
	if err != nil {
		return Receipt{}, invalid("a target that is no JSON")
	}
	done, err := b.tx.Exec(insertReceipt, r.ID, e.Key.Pairing, e.Key.Epoch, e.Key.Project, e.Key.Tool, e.Key.Request,
		r.Session, r.Workspace, string(target), r.Fingerprint[:], r.Summary, string(r.State), stamp(r.Created),
		stamp(r.Updated), stamp(r.Dispatched), stamp(r.RetainUntil), r.bytes, int64(r.firstSeq), int64(r.lastSeq))
	if sqlite.IsConstraint(err) {
		return Receipt{}, invalid("a receipt id that is taken")
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("inserting a receipt: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return b.existing(e)
	}
	b.used.count(e.Key.Pairing, counted{1, r.bytes})
	return r, b.append(record{kind: kindTransition, receipt: r.ID, to: r.State, effect: r.Effect, fingerprint: r.Fingerprint[:]})
}

// existing answers a repeated key.
func (b *batch) existing(e Entry) (Receipt, error) {
	k := e.Key
	r, err := scanReceipt(b.tx.QueryRow(selectByKey, k.Pairing, k.Epoch, k.Project, k.Tool, k.Request))
	if err != nil {
		return Receipt{}, fmt.Errorf("reading the receipt of a key: %w", err)
	}
	if r.Fingerprint != e.Fingerprint {
		return Receipt{}, refusef(control.IdempotencyConflict, "This request key was used for a different request.")
	}
	return r, nil
}

func isConflict(err error) bool {
	e, ok := control.AsError(err)
	return ok && e.Code == control.IdempotencyConflict
}

func (b *batch) receipt(id string) (Receipt, error) {
	r, err := scanReceipt(b.tx.QueryRow(selectByID, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Receipt{}, refusef(control.TargetNotFound, "There is no such operation.")
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("reading a receipt: %w", err)
	}
	return r, nil
}

func (b *batch) transition(id string, c Change) (Receipt, error) {
	r, err := b.receipt(id)
	if err != nil {
		return Receipt{}, err
	}
	if err := c.check(r); err != nil {
		return Receipt{}, err
	}
	if c.To == control.StateRunning {
		if _, err := b.ledger.liveEpoch(r.Key); err != nil {
			return Receipt{}, refuse(err)
		}
	}
	return b.apply(r, c)
}

func (b *batch) dispatch(id string) (Receipt, error) {
	r, err := b.receipt(id)
	if err != nil {
		return Receipt{}, err
	}
	run := Change{To: control.StateRunning, Effect: control.EffectNone}
	if r.State != control.StateAwaitingUser {
		return b.transition(id, run)
	}
	// Nothing may be written before the last thing that can refuse it.
	if _, err := b.ledger.liveEpoch(r.Key); err != nil {
		return Receipt{}, refuse(err)
	}
	if r, err = b.apply(r, Change{To: control.StateQueued, Effect: control.EffectNone}); err != nil {
		return Receipt{}, err
	}
	return b.apply(r, run)
}

const updateReceipt = `UPDATE receipts SET state = ?, effect = ?, result = ?, result_hash = ?, code = ?, message = ?,
	updated = ?, dispatched = ?, completed = ?, retain_until = ?, bytes = ?, last_seq = ? WHERE id = ?`

// apply writes a change that was checked, to the journal and to its fold.
func (b *batch) apply(r Receipt, c Change) (Receipt, error) {
	from, before := r.State, r.bytes
	r.State, r.Effect, r.Updated = c.To, c.Effect, b.now
	if c.Result != nil {
		r.Result, r.ResultHash = c.Result, sha256.Sum256(c.Result)
		r.bytes += int64(len(c.Result))
	}
	if c.Code != "" || c.Message != "" {
		r.Code, r.Message = c.Code, cut(c.Message, maxMessage)
		r.bytes += int64(len(r.Message))
	}
	if c.To == control.StateRunning {
		r.Dispatched = b.now
	}
	if c.To.Settled() {
		r.Completed = b.now
		if end := b.now.Add(settledLife); end.After(r.RetainUntil) {
			r.RetainUntil = end
		}
	}
	r.lastSeq = b.head.seq + 1
	var sum []byte // NULL while there is no result
	if r.ResultHash != (Hash{}) {
		sum = r.ResultHash[:]
	}
	_, err := b.tx.Exec(updateReceipt, string(r.State), string(r.Effect), []byte(r.Result), sum, string(r.Code), r.Message,
		stamp(r.Updated), stamp(r.Dispatched), stamp(r.Completed), stamp(r.RetainUntil), r.bytes, int64(r.lastSeq), r.ID)
	if err != nil {
		return Receipt{}, fmt.Errorf("updating a receipt: %w", err)
	}
	b.used.count(r.Key.Pairing, counted{0, r.bytes - before})
	return r, b.append(record{kind: kindTransition, receipt: r.ID, from: from, to: r.State, effect: r.Effect,
		fingerprint: r.Fingerprint[:], result: sum})
}

// storeID reads the identity of the store, or gives a new store one.
func (b *batch) storeID() (string, error) {
	var id string
	err := b.tx.QueryRow(`SELECT id FROM store`).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	id = control.NewID()
	_, err = b.tx.Exec(`INSERT INTO store(one, id, created) VALUES (1, ?, ?)`, id, stamp(b.now))
	return id, err
}

// recover ends what an earlier run left: every epoch, and every receipt that
// never settled. What was dispatched may have had its effect; what was not has
// none, for dispatch is durable before it.
func (b *batch) recover() error {
	if _, err := b.tx.Exec(`UPDATE epochs SET ended = ? WHERE ended = 0`, stamp(b.now)); err != nil {
		return fmt.Errorf("ending epochs: %w", err)
	}
	rows, err := b.tx.Query(selectUnsettled)
	if err != nil {
		return fmt.Errorf("reading unfinished receipts: %w", err)
	}
	unsettled, err := collect(rows)
	if err != nil {
		return err
	}
	for _, r := range unsettled {
		if _, err := b.apply(r, recovered(r.State)); err != nil {
			return err
		}
	}
	if n := len(unsettled); n > 0 {
		b.ledger.config.Logger.Warn("unfinished operations of an earlier run are settled", "count", n)
	}
	return nil
}

func recovered(state control.State) Change {
	if state == control.StateQueued || state == control.StateAwaitingUser {
		return Change{To: control.StateCancelled, Effect: control.EffectNone, Code: control.ControlRevoked,
			Message: "Lomi ended before this began. Nothing was done."}
	}
	return Change{To: control.StateOutcomeUnknown, Effect: control.EffectUnknown, Code: control.OutcomeUnknown,
		Message: "Lomi ended while this ran. What it did is not known: look at the resource itself."}
}
