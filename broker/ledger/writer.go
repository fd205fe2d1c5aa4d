package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"lomi/internal/sqlite"
)

// job is one caller's part of a batch. err is the writer's until done is
// closed and the caller's afterwards.
type job struct {
	run  func(*batch) error
	err  error
	done chan struct{}
}

// batch is what the jobs of one transaction share.
type batch struct {
	ledger *Ledger
	tx     *sqlite.Tx
	now    time.Time
	head   head
	used   usage    // what this batch adds
	after  []func() // run when the batch is durable
}

func (l *Ledger) batch() *batch {
	return &batch{ledger: l, now: l.config.Now(), head: l.head, used: newUsage()}
}

// submit queues a job and waits until it is durable or refused. A caller that
// gives up only stops waiting.
func (l *Ledger) submit(ctx context.Context, run func(*batch) error) error {
	j := &job{run: run, done: make(chan struct{})}
	select {
	case <-l.stop:
		return unavailable(sqlite.ErrClosed)
	default:
	}
	select {
	case l.queue <- j:
	case <-l.stop:
		return unavailable(sqlite.ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("waiting to write: %w", context.Cause(ctx))
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a durable write: %w", context.Cause(ctx))
	case <-l.ended:
		// The job may have been the last one, or have come too late.
		select {
		case <-j.done:
			return j.err
		default:
			return unavailable(sqlite.ErrClosed)
		}
	}
}

// write is the writer goroutine. A batch is what queued while the last one was
// synced; the ticker only serves the mark and the audit queue.
func (l *Ledger) write() {
	defer close(l.ended)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case j := <-l.queue:
			l.commit(l.gather(j))
		case <-ticker.C:
			l.housekeep()
		case <-l.stop:
			l.finish()
			return
		}
	}
}

func (l *Ledger) gather(first *job) []*job {
	jobs := []*job{first}
	for len(jobs) < maxBatch {
		select {
		case j := <-l.queue:
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

// finish carries out what is queued and closes the store.
func (l *Ledger) finish() {
	for {
		select {
		case j := <-l.queue:
			l.commit(l.gather(j))
			continue
		default:
		}
		break
	}
	l.flushNotes()
	l.closed = errors.Join(l.mark.sync(), l.release())
}

// commit runs jobs in one transaction, marks what it made durable and answers
// every one of them. Any error but a refusal fails all.
func (l *Ledger) commit(jobs []*job) {
	b := l.batch()
	err := l.db.Write(context.Background(), func(tx *sqlite.Tx) error {
		b.tx = tx
		if !l.known {
			if err := b.loadHead(); err != nil {
				return err
			}
		}
		for _, j := range jobs {
			if j.err = j.run(b); j.err != nil && !isRefusal(j.err) {
				return j.err
			}
		}
		return nil
	})
	if err == nil && (b.head != l.head || !l.known) {
		l.batches.Add(1)
		// Before the answers: whoever has been told of a row finds its loss
		// reported.
		err = l.mark.write(b.head)
	}
	if err != nil {
		l.fail(jobs, err)
		return
	}
	l.head, l.known = b.head, true
	if l.uncounted {
		l.recount()
	} else {
		l.usage.add(b.used)
	}
	for _, f := range b.after {
		f()
	}
	if l.health.Swap(nil) != nil {
		l.config.Logger.Info("record of effects is usable again")
	}
	for _, j := range jobs {
		close(j.done)
	}
}

// fail answers every job of a batch that is not known to be durable. The
// store may hold it all the same, so the head is read again.
func (l *Ledger) fail(jobs []*job, err error) {
	l.known, l.uncounted = false, true
	if l.health.Swap(&err) == nil {
		l.config.Logger.Error("record of effects cannot be written", "err", err)
	}
	for _, j := range jobs {
		j.err = unavailable(err)
		close(j.done)
	}
}

// recount reads the usage again after a batch whose fate is not known.
func (l *Ledger) recount() {
	ctx, cancel := context.WithTimeout(context.Background(), recountTimeout)
	defer cancel()
	counted, err := countUsage(func(query string, args ...any) (*sql.Rows, error) { return l.db.Query(ctx, query, args...) })
	if err != nil {
		l.config.Logger.Warn("usage of the record of effects is not known", "err", err)
		return
	}
	l.usage, l.uncounted = counted, false
}

// recountTimeout bounds reading the usage of a full store.
const recountTimeout = 10 * time.Second

// housekeep runs once a tick.
func (l *Ledger) housekeep() {
	l.flushNotes()
	if err := l.mark.sync(); err != nil {
		l.config.Logger.Error("mark of the record of effects cannot be synced", "err", err)
	}
	if now := l.config.Now(); now.Sub(l.pruned) >= pruneEvery {
		l.pruned = now
		l.commit([]*job{{run: (*batch).prune, done: make(chan struct{})}})
	}
}
