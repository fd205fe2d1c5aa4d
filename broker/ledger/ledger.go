// Package ledger is the broker's memory of effects. Every effect has a receipt
// that is durable before the effect begins and once more when it is known how
// it ended; every change of a receipt is a row of an append-only, hash-chained
// journal; and a mark outside the database tells a store that lost acknowledged
// rows from one that is whole. SQLite alone cannot: it drops the damaged end of
// a log and calls the rest "ok".
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

const (
	// epochLife is how long a retry epoch is good, and settledLife how long a
	// settled receipt is kept at least (broker spec 6.3).
	epochLife   = 24 * time.Hour
	settledLife = 24 * time.Hour
	// maxEpochs bounds the live epochs; each is one approved pairing.
	maxEpochs = 4096
	// queueLength is how many writes may wait. 64 connections with 16 requests
	// each fit, so a full queue means that the disk stands still.
	queueLength = 1024
	// maxBatch keeps one transaction short enough for the first in it.
	maxBatch = 512
	// tick is how often the mark is synced and the audit queue flushed.
	tick = time.Second

	storeName = "control.sqlite3"
	lockName  = "owner.lock"
)

// Config says where the ledger lives.
type Config struct {
	// Dir holds control.sqlite3 and owner.lock; it is created with mode 0700.
	Dir string
	// MarkPath is ledger.mark, outside Dir, so that restoring or removing Dir
	// alone is noticed.
	MarkPath string
	// Instance names this run of the daemon; empty makes one.
	Instance string
	// Logger receives what a person must look at; nil discards it.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	limits limits // for tests; zero means the real ones
}

// Ledger is an open receipt store. All methods are safe for concurrent use.
// One goroutine, started by Open and ended by Close, does all the writing; its
// life is the ledger's and never a caller's.
type Ledger struct {
	config Config
	db     *sqlite.DB
	lock   *sqlite.OwnerLock
	queue  chan *job
	stop   chan struct{} // closed by Close: no more jobs are taken
	ended  chan struct{} // closed by the writer when the last job is done
	once   sync.Once
	closed error

	mu     sync.Mutex // guards epochs
	epochs map[string]Epoch

	notes  notes
	health atomic.Pointer[error]

	// Of the writer goroutine.
	mark      *mark
	head      head
	known     bool // head is what the store says
	usage     usage
	uncounted bool // usage must be read again
	pruned    time.Time
	batches   atomic.Int64 // transactions that changed the journal
}

// Open opens or creates the ledger, ends every epoch of earlier runs and
// settles what they left unfinished. A store that lost rows is a *LossError
// and stays as it is; one that another process holds is a *sqlite.OwnedError.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	if config.Dir == "" || config.MarkPath == "" {
		return nil, errors.New("a ledger needs a folder and a mark")
	}
	if config.Instance == "" {
		config.Instance = control.NewID()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	config.limits = config.limits.withDefaults()
	lock, err := sqlite.Acquire(filepath.Join(config.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	l := &Ledger{
		config: config,
		lock:   lock,
		queue:  make(chan *job, queueLength),
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
		epochs: map[string]Epoch{},
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the ledger: %w", err), l.release())
	}
	go l.write() // ends with Close, which waits for it
	return l, nil
}

func storeConfig(config Config) sqlite.Config {
	return sqlite.Config{
		Path:        filepath.Join(config.Dir, storeName),
		Migrations:  migrations(),
		Application: applicationID,
		Logger:      config.Logger,
	}
}

func (l *Ledger) start(ctx context.Context) error {
	slots, err := checkLoss(ctx, l.config)
	if err != nil {
		return err
	}
	if l.db, err = sqlite.Open(ctx, storeConfig(l.config)); err != nil {
		return err
	}
	var store string
	b := l.batch()
	err = l.db.Write(ctx, func(tx *sqlite.Tx) error {
		b.tx = tx
		if err := b.loadHead(); err != nil {
			return err
		}
		if store, err = b.storeID(); err != nil {
			return err
		}
		if err := b.recover(); err != nil {
			return err
		}
		// Here and not by a reader, which would cost a start one connection.
		l.usage, err = countUsage(tx.Query)
		return err
	})
	if err != nil {
		return fmt.Errorf("settling the last run: %w", err)
	}
	if l.mark, err = openMark(l.config.MarkPath, store, slots); err != nil {
		return err
	}
	if err := l.mark.write(b.head); err != nil {
		return err
	}
	if err := l.mark.sync(); err != nil {
		return err
	}
	l.head, l.known = b.head, true
	return nil
}

// release undoes what start got done.
func (l *Ledger) release() error {
	var err error
	if l.mark != nil {
		err = errors.Join(err, l.mark.close())
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	return errors.Join(err, l.lock.Release())
}

// Close takes no more writes, carries out those that are queued, syncs the mark
// and closes the store. If the context ends first the store is left to the
// writer, which closes nothing behind its back; the next start recovers.
func (l *Ledger) Close(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	select {
	case <-l.ended:
		return l.closed
	case <-ctx.Done():
		return fmt.Errorf("closing the ledger: %w", context.Cause(ctx))
	}
}

// Health is nil while writes succeed, else why the last one did not.
func (l *Ledger) Health() error {
	if err := l.health.Load(); err != nil {
		return *err
	}
	return nil
}
