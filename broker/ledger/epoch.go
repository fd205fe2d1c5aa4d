package ledger

import (
	"context"
	"fmt"
	"time"

	"lomi/broker/control"
)

// Epoch is the span in which a request key means one effect. It is bound to
// one pairing and to this run of the daemon.
type Epoch struct {
	ID      string
	Pairing string
	Expires time.Time
}

// NewEpoch opens a retry epoch of 24 h for a pairing.
func (l *Ledger) NewEpoch(ctx context.Context, pairing string) (Epoch, error) {
	if pairing == "" || len(pairing) > maxField {
		return Epoch{}, fmt.Errorf("opening a retry epoch: %w", invalid("a pairing without a name"))
	}
	epoch := Epoch{ID: control.NewReceiptID(), Pairing: pairing}
	err := l.submit(ctx, func(b *batch) error {
		if l.liveEpochs(b.now) >= maxEpochs {
			return refusef(control.ResourceExhausted, "Too many connections are approved at once.")
		}
		epoch := epoch // the caller's stays its own if it gives up
		epoch.Expires = b.now.Add(epochLife)
		_, err := b.tx.Exec(`INSERT INTO epochs(id, pairing, instance, started, expires) VALUES (?, ?, ?, ?, ?)`,
			epoch.ID, epoch.Pairing, l.config.Instance, stamp(b.now), stamp(epoch.Expires))
		b.after = append(b.after, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.epochs[epoch.ID] = epoch
		})
		return err
	})
	if err != nil {
		return Epoch{}, fmt.Errorf("opening a retry epoch: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs[epoch.ID], nil
}

// EndEpoch ends a retry epoch for good. No receipt begins or is dispatched in
// it after EndEpoch returned, nor is one found by its key.
func (l *Ledger) EndEpoch(ctx context.Context, id string) error {
	// In memory first and at once: a revocation does not wait for the disk.
	l.mu.Lock()
	delete(l.epochs, id)
	l.mu.Unlock()
	err := l.submit(ctx, func(b *batch) error {
		_, err := b.tx.Exec(`UPDATE epochs SET ended = ? WHERE id = ? AND ended = 0`, stamp(b.now), id)
		return err
	})
	if err != nil {
		return fmt.Errorf("ending a retry epoch: %w", err)
	}
	return nil
}

func (l *Ledger) liveEpoch(key Key) (Epoch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	epoch, ok := l.epochs[key.Epoch]
	if !ok || epoch.Pairing != key.Pairing || !l.config.Now().Before(epoch.Expires) {
		return Epoch{}, control.Errorf(control.RetryWindowExpired, "The retry epoch is over or is not this connection's. Connect again for a new one.")
	}
	return epoch, nil
}

// liveEpochs counts them and forgets those that are over.
func (l *Ledger) liveEpochs(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, epoch := range l.epochs {
		if !now.Before(epoch.Expires) {
			delete(l.epochs, id)
		}
	}
	return len(l.epochs)
}
