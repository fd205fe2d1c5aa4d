package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func testConfig(dir string) Config {
	return Config{Dir: filepath.Join(dir, "agent-control"), MarkPath: filepath.Join(dir, "ledger.mark"), Logger: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, config Config) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), config)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t testing.TB, l *Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func epoch(t testing.TB, l *Ledger, pairing string) Epoch {
	t.Helper()
	e, err := l.NewEpoch(context.Background(), pairing)
	if err != nil {
		t.Fatalf("opening an epoch: %v", err)
	}
	return e
}

func entry(e Epoch, request string, state control.State) Entry {
	return Entry{
		ID: control.NewReceiptID(), Session: "session-" + e.Pairing, Workspace: "w1", State: state,
		Key:         Key{Pairing: e.Pairing, Epoch: e.ID, Project: "p1", Tool: "lomi_terminal_run", Request: request},
		Target:      Target{WorkspaceID: "w1", ResourceID: "r1", Generation: "1", Revision: "7"},
		Fingerprint: Hash{1, 2, 3}, Summary: "run seq 3",
	}
}

func begin(t testing.TB, l *Ledger, e Entry) Receipt {
	t.Helper()
	r, err := l.Begin(context.Background(), e)
	if err != nil {
		t.Fatalf("beginning: %v", err)
	}
	return r
}

func done(result string) Change {
	return Change{From: []control.State{control.StateRunning}, To: control.StateSucceeded, Effect: control.EffectComplete, Result: json.RawMessage(result)}
}

func change(t testing.TB, l *Ledger, id string, c Change) Receipt {
	t.Helper()
	r, err := l.Transition(context.Background(), id, c)
	if err != nil {
		t.Fatalf("changing to %s: %v", c.To, err)
	}
	return r
}

func wantCode(t *testing.T, err error, want control.Code) {
	t.Helper()
	e, ok := control.AsError(err)
	if !ok || e.Code != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func verified(t *testing.T, l *Ledger) {
	t.Helper()
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

var comparable = cmp.Options{cmpopts.IgnoreUnexported(Receipt{}), cmpopts.EquateApproxTime(0)}

func TestReceiptLifeSurvivesRestart(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	e := epoch(t, l, "pair-1")
	asked := begin(t, l, entry(e, "k1", control.StateAwaitingUser))
	if !asked.Dispatched.IsZero() || asked.Effect != control.EffectNone {
		t.Errorf("a receipt that waits: %+v", asked)
	}
	running, err := l.Dispatch(t.Context(), asked.ID)
	if err != nil || running.State != control.StateRunning || running.Dispatched.IsZero() {
		t.Fatalf("got %v and %v, want running", running.State, err)
	}
	settled := change(t, l, asked.ID, done(`{"exitCode":0}`))
	got, err := l.Get(t.Context(), asked.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settled, got, comparable); diff != "" {
		t.Errorf("stored receipt (-answered +stored):\n%s", diff)
	}
	failed := begin(t, l, entry(e, "k2", control.StateRunning))
	failed = change(t, l, failed.ID, Change{To: control.StateFailed, Effect: control.EffectNone, Code: control.TargetBusy, Message: "The terminal is busy."})
	verified(t, l)
	shut(t, l)

	l = open(t, config)
	for _, want := range []Receipt{settled, failed} {
		got, err := l.Get(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, comparable); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	}
	verified(t, l)
	_, err = l.Get(t.Context(), control.NewReceiptID())
	wantCode(t, err, control.TargetNotFound)
}

// TestF28: the same request twice is one receipt; another body under the same
// key is a conflict.
func TestF28(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	var group sync.WaitGroup
	ids := make([]string, 16)
	for i := range ids {
		group.Go(func() {
			r, err := l.Begin(context.Background(), entry(e, "same", control.StateRunning))
			if err != nil {
				t.Error(err)
			}
			ids[i] = r.ID
		})
	}
	group.Wait()
	if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != 1 {
		t.Errorf("16 equal requests got receipts %v, want one", distinct)
	}
	found, ok, err := l.Lookup(t.Context(), entry(e, "same", "").Key)
	if err != nil || !ok || found.ID != ids[0] {
		t.Errorf("lookup got %v %v %v, want the receipt", found.ID, ok, err)
	}
	other := entry(e, "same", control.StateRunning)
	other.Fingerprint = Hash{9}
	_, err = l.Begin(t.Context(), other)
	wantCode(t, err, control.IdempotencyConflict)
	taken := entry(e, "another", control.StateRunning)
	taken.ID = ids[0]
	if _, err := l.Begin(t.Context(), taken); !errors.Is(err, ErrInvalid) {
		t.Errorf("a taken id: got %v, want ErrInvalid", err)
	}
	verified(t, l)
}

// TestF29: no epoch of another pairing or of an earlier run is good for
// anything.
func TestF29(t *testing.T) {
	config := testConfig(t.TempDir())
	ticks := newClock()
	config.Now = ticks.Now
	l := open(t, config)
	mine, theirs := epoch(t, l, "mine"), epoch(t, l, "theirs")
	waiting := begin(t, l, entry(mine, "k", control.StateAwaitingUser))

	foreign := entry(theirs, "k", control.StateRunning)
	foreign.Key.Pairing = "mine"
	_, err := l.Begin(t.Context(), foreign)
	wantCode(t, err, control.RetryWindowExpired)
	_, _, err = l.Lookup(t.Context(), foreign.Key)
	wantCode(t, err, control.RetryWindowExpired)

	if err := l.EndEpoch(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	_, err = l.Begin(t.Context(), entry(mine, "k2", control.StateRunning))
	wantCode(t, err, control.RetryWindowExpired)
	_, err = l.Dispatch(t.Context(), waiting.ID)
	wantCode(t, err, control.RetryWindowExpired)
	ticks.add(24 * time.Hour)
	_, err = l.Begin(t.Context(), entry(theirs, "k", control.StateRunning))
	wantCode(t, err, control.RetryWindowExpired)
	fresh := epoch(t, l, "theirs")
	shut(t, l)

	l = open(t, config)
	_, _, err = l.Lookup(t.Context(), entry(fresh, "k", "").Key)
	wantCode(t, err, control.RetryWindowExpired)
}

func TestAllowedTransitions(t *testing.T) {
	states := []control.State{control.StateQueued, control.StateAwaitingUser, control.StateRunning, control.StateCancelling,
		control.StateSucceeded, control.StateFailed, control.StateCancelled, control.StateOutcomeUnknown}
	// Written out from broker spec 6.2, not from the code.
	want := map[string]bool{
		"queued awaiting_user": true, "queued running": true, "queued cancelled": true, "queued failed": true,
		"awaiting_user queued": true, "awaiting_user cancelled": true, "awaiting_user failed": true,
		"running succeeded": true, "running failed": true, "running cancelling": true, "running outcome_unknown": true,
		"cancelling cancelled": true, "cancelling succeeded": true, "cancelling failed": true, "cancelling outcome_unknown": true,
	}
	effects := []control.Effect{control.EffectNone, control.EffectPartial, control.EffectComplete, control.EffectUnknown, "else"}
	for _, from := range states {
		for _, to := range states {
			for _, effect := range effects {
				err := Change{To: to, Effect: effect}.check(Receipt{ID: "r", State: from})
				ok := want[string(from)+" "+string(to)]
				if _, state := errors.AsType[*StateError](err); state == ok {
					t.Errorf("%s -> %s: got %v, want allowed %v", from, to, err, ok)
				}
				if !ok {
					continue
				}
				valid := effect != "else"
				if from == control.StateQueued || from == control.StateAwaitingUser {
					valid = effect == control.EffectNone
				}
				if to == control.StateOutcomeUnknown {
					valid = effect == control.EffectUnknown
				}
				if to == control.StateSucceeded {
					valid = effect == control.EffectComplete
				}
				if (err == nil) != valid {
					t.Errorf("%s -> %s with effect %s: got %v, want valid %v", from, to, effect, err, valid)
				}
			}
		}
	}
}

func TestRefusedChangesLeaveNothing(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	r := begin(t, l, entry(e, "k", control.StateRunning))
	for name, c := range map[string]Change{
		"large result":  done(`"` + strings.Repeat("x", maxResult) + `"`),
		"broken result": done(`{"a":`),
		"wrong from":    {From: []control.State{control.StateCancelling}, To: control.StateFailed, Effect: control.EffectNone},
	} {
		if _, err := l.Transition(t.Context(), r.ID, c); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	change(t, l, r.ID, Change{To: control.StateCancelling, Effect: control.EffectNone, Result: json.RawMessage(`1`)})
	second := done(`2`)
	second.From = nil
	if _, err := l.Transition(t.Context(), r.ID, second); !errors.Is(err, ErrInvalid) {
		t.Errorf("a second result: got %v, want ErrInvalid", err)
	}
	change(t, l, r.ID, Change{To: control.StateCancelled, Effect: control.EffectPartial, Message: strings.Repeat("é", maxMessage)})
	got, err := l.Get(t.Context(), r.ID)
	if err != nil || string(got.Result) != "1" || len(got.Message) > maxMessage || !strings.HasSuffix(got.Message, "é…") {
		t.Errorf("got result %s, message of %d bytes, %v", got.Result, len(got.Message), err)
	}
	for _, bad := range []Entry{
		{}, entry(e, "", control.StateRunning), entry(e, "k\x00", control.StateRunning),
		entry(e, "k", control.StateSucceeded), entry(e, strings.Repeat("k", maxField+1), control.StateRunning),
	} {
		if _, err := l.Begin(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("entry %+v: got %v, want ErrInvalid", bad, err)
		}
	}
	// S-27: an id that is a path is no id.
	for _, id := range []string{"../x", "a/b", strings.Repeat("a", 65), strings.Repeat("/", 40)} {
		bad := entry(e, "s27", control.StateRunning)
		bad.ID = id
		if _, err := l.Begin(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("id %q: got %v, want ErrInvalid", id, err)
		}
	}
	verified(t, l)
}

// held stops the writer in a job until release is called.
func held(t *testing.T, l *Ledger) (release func()) {
	t.Helper()
	started, gate := make(chan struct{}), make(chan struct{})
	finished := make(chan error, 1)
	go func() {
		finished <- l.submit(context.Background(), func(*batch) error {
			close(started)
			<-gate
			return nil
		})
	}()
	<-started
	return func() {
		t.Helper()
		close(gate)
		if err := <-finished; err != nil {
			t.Errorf("the holding job: %v", err)
		}
	}
}

// until polls for a state that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waiting for %s took too long", what)
		case <-ticker.C:
		}
	}
}

func TestGroupCommit(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	release := held(t, l)
	before := l.batches.Load()
	const clients = 40
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			if _, err := l.Begin(context.Background(), entry(e, fmt.Sprint(i), control.StateRunning)); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "the queue to fill", func() bool { return len(l.queue) == clients })
	release()
	group.Wait()
	if got := l.batches.Load() - before; got != 1 {
		t.Errorf("%d queued effects took %d commits, want 1", clients, got)
	}
	verified(t, l)
}

func TestCallerThatGivesUp(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	release := held(t, l)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller left")
	answer := make(chan error, 1)
	left, stayed := entry(e, "left", control.StateRunning), entry(e, "stayed", control.StateRunning)
	go func() {
		_, err := l.Begin(ctx, left)
		answer <- err
	}()
	until(t, "the first to queue", func() bool { return len(l.queue) == 1 })
	stays := make(chan error, 1)
	go func() {
		_, err := l.Begin(context.Background(), stayed)
		stays <- err
	}()
	until(t, "the second to queue", func() bool { return len(l.queue) == 2 })
	cancel(gone)
	if err := <-answer; !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause of giving up", err)
	}
	release()
	if err := <-stays; err != nil {
		t.Errorf("the other caller of the batch: %v", err)
	}
	for _, id := range []string{left.ID, stayed.ID} {
		if _, err := l.Get(t.Context(), id); err != nil {
			t.Errorf("receipt of a batch with a caller that left: %v", err)
		}
	}
}

func TestErrorFailsTheWholeBatchAndNoMore(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	begin(t, l, entry(e, "before", control.StateRunning))
	release := held(t, l)
	errs := make(chan error, 2)
	lost := entry(e, "lost", control.StateRunning)
	go func() {
		_, err := l.Begin(context.Background(), lost)
		errs <- err
	}()
	until(t, "the first to queue", func() bool { return len(l.queue) == 1 })
	go func() {
		errs <- l.submit(context.Background(), func(b *batch) error {
			_, err := b.tx.Exec(`INSERT INTO nowhere VALUES (1)`)
			return err
		})
	}()
	until(t, "the second to queue", func() bool { return len(l.queue) == 2 })
	release()
	for range 2 {
		wantCode(t, <-errs, control.StorageUnavailable)
	}
	if l.Health() == nil {
		t.Error("health is good after a failed batch")
	}
	_, err := l.Get(t.Context(), lost.ID)
	wantCode(t, err, control.TargetNotFound)
	begin(t, l, lost)
	if err := l.Health(); err != nil {
		t.Errorf("health after a good batch: %v", err)
	}
	verified(t, l)
}

func TestReplacedStoreStopsEffects(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	e := epoch(t, l, "pair-1")
	r := begin(t, l, entry(e, "k", control.StateRunning))
	if _, err := l.Get(t.Context(), r.ID); err != nil { // the reader has the files open from now on
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(config.Dir, storeName+"-wal")); err != nil {
		t.Fatal(err)
	}
	_, err := l.Begin(t.Context(), entry(e, "k2", control.StateRunning))
	wantCode(t, err, control.StorageUnavailable)
	if !errors.Is(err, sqlite.ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced in it", err)
	}
	if _, err := l.Get(t.Context(), r.ID); err != nil {
		t.Errorf("reads do not go on: %v", err)
	}
}

func TestSecondOwner(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	_, err := Open(t.Context(), config)
	owned, ok := errors.AsType[*sqlite.OwnedError](err)
	if !ok || owned.PID != os.Getpid() {
		t.Errorf("got %v, want the process that owns the ledger", err)
	}
	shut(t, l)
	open(t, config)
}

func TestClosedLedger(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	e := epoch(t, l, "pair-1")
	shut(t, l)
	_, err := l.Begin(t.Context(), entry(e, "k", control.StateRunning))
	wantCode(t, err, control.StorageUnavailable)
	_, err = l.Get(t.Context(), control.NewReceiptID())
	wantCode(t, err, control.StorageUnavailable)
}

func TestRecoverySettlesWhatWasLeft(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	e := epoch(t, l, "pair-1")
	ids := map[control.State]string{}
	for _, state := range []control.State{control.StateQueued, control.StateAwaitingUser, control.StateRunning} {
		ids[state] = begin(t, l, entry(e, string(state), state)).ID
	}
	cancelling := begin(t, l, entry(e, "cancelling", control.StateRunning))
	ids[control.StateCancelling] = change(t, l, cancelling.ID, Change{To: control.StateCancelling, Effect: control.EffectNone}).ID
	shut(t, l)

	l = open(t, config)
	for state, want := range map[control.State]struct {
		state  control.State
		effect control.Effect
		code   control.Code
	}{
		control.StateQueued:       {control.StateCancelled, control.EffectNone, control.ControlRevoked},
		control.StateAwaitingUser: {control.StateCancelled, control.EffectNone, control.ControlRevoked},
		control.StateRunning:      {control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown},
		control.StateCancelling:   {control.StateOutcomeUnknown, control.EffectUnknown, control.OutcomeUnknown},
	} {
		got, err := l.Get(t.Context(), ids[state])
		if err != nil || got.State != want.state || got.Effect != want.effect || got.Code != want.code || got.Message == "" || got.Completed.IsZero() {
			t.Errorf("left %s: got %s/%s %s %q, %v", state, got.State, got.Effect, got.Code, got.Message, err)
		}
	}
	verified(t, l)
}

func TestListAndHistory(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	mine, theirs := epoch(t, l, "mine"), epoch(t, l, "theirs")
	var ids []string
	for i := range 5 {
		r := begin(t, l, entry(mine, fmt.Sprint(i), control.StateRunning))
		ids = append(ids, r.ID)
		begin(t, l, entry(theirs, fmt.Sprint(i), control.StateRunning))
	}
	change(t, l, ids[1], done(`1`))
	list := func(f Filter) (got []string) {
		t.Helper()
		all, err := l.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			got = append(got, r.ID)
		}
		return got
	}
	for name, row := range map[string]struct {
		filter Filter
		want   []string
	}{
		"session":   {Filter{Session: "session-mine"}, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}},
		"state":     {Filter{Pairing: "mine", State: control.StateSucceeded}, []string{ids[1]}},
		"unsettled": {Filter{Pairing: "mine", Unsettled: true, Limit: 3}, []string{ids[4], ids[3], ids[2]}},
		"before":    {Filter{Pairing: "mine", Before: ids[3]}, []string{ids[2], ids[1], ids[0]}},
		"foreign":   {Filter{Session: "nobody"}, nil},
	} {
		if diff := cmp.Diff(row.want, list(row.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	page, err := l.History(t.Context(), HistoryQuery{Pairing: "mine", Workspace: "w1", Limit: 4})
	if err != nil || len(page.Items) != 4 || !page.More || page.Next != page.Items[3].Seq {
		t.Fatalf("got %+v, %v", page, err)
	}
	rest, err := l.History(t.Context(), HistoryQuery{Pairing: "mine", Workspace: "w1", After: page.Next})
	if err != nil || len(rest.Items) != 2 || rest.More {
		t.Fatalf("got %+v, %v", rest, err)
	}
	if last := rest.Items[1]; last.Receipt != ids[1] || last.State != control.StateSucceeded || last.Effect != control.EffectComplete {
		t.Errorf("the last change is %+v", last)
	}
	_, err = l.History(t.Context(), HistoryQuery{Pairing: "mine", Workspace: "w1", After: rest.Next + 1})
	wantCode(t, err, control.CursorExpired)
	_, err = l.History(t.Context(), HistoryQuery{Pairing: "mine", Workspace: "w1", After: 1 << 63})
	wantCode(t, err, control.CursorExpired)
}

func TestRetention(t *testing.T) {
	config := testConfig(t.TempDir())
	ticks := newClock()
	config.Now = ticks.Now
	l := open(t, config)
	l.prune(t) // so that the ticker does not
	e := epoch(t, l, "pair-1")
	var old []string
	live := begin(t, l, entry(e, "live", control.StateRunning))
	for i := range 400 {
		r := begin(t, l, entry(e, fmt.Sprint(i), control.StateRunning))
		change(t, l, r.ID, done(`1`))
		old = append(old, r.ID)
	}
	l.prune(t)
	if got := l.rows(t, "receipts"); got != 401 {
		t.Fatalf("nothing is old and %d receipts are left, want 401", got)
	}
	ticks.add(49 * time.Hour)
	young := begin(t, l, entry(epoch(t, l, "pair-2"), "young", control.StateRunning))
	l.prune(t)
	verified(t, l)
	for _, id := range []string{live.ID, young.ID} {
		if r, err := l.Get(t.Context(), id); err != nil || r.State != control.StateRunning {
			t.Errorf("a live receipt: %v, %v", r.State, err)
		}
	}
	for _, id := range old {
		if _, err := l.Get(t.Context(), id); err == nil {
			t.Fatalf("receipt %s outlived its retention", id)
		}
	}
	if got := l.rows(t, "journal"); got > 8 {
		t.Errorf("%d rows of the journal are left, want the carried, pruned and young ones", got)
	}
	_, err := l.History(t.Context(), HistoryQuery{Pairing: "pair-1", Workspace: "w1", After: 1})
	wantCode(t, err, control.CursorExpired)
	change(t, l, live.ID, done(`2`))
	verified(t, l)
	shut(t, l)
	l = open(t, config)
	verified(t, l)
	if u := l.usage; u.total.receipts != 2 || u.by["pair-1"].receipts != 1 {
		t.Errorf("usage after pruning: %+v", u)
	}
}

func (l *Ledger) prune(t *testing.T) {
	t.Helper()
	err := l.submit(context.Background(), func(b *batch) error {
		l.pruned = b.now.Add(1000 * time.Hour)
		return b.prune()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *Ledger) rows(t *testing.T, table string) (n int) {
	t.Helper()
	if err := l.db.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLargeResultsGoAfterDelivery(t *testing.T) {
	config := testConfig(t.TempDir())
	ticks := newClock()
	config.Now = ticks.Now
	l := open(t, config)
	l.prune(t)
	e := epoch(t, l, "pair-1")
	large := `"` + strings.Repeat("x", bodyKept) + `"`
	a, b := begin(t, l, entry(e, "a", control.StateRunning)), begin(t, l, entry(e, "b", control.StateRunning))
	small := begin(t, l, entry(e, "c", control.StateRunning))
	l.Delivered(change(t, l, a.ID, done(large)))
	change(t, l, b.ID, done(large))
	l.Delivered(change(t, l, small.ID, done(`1`)))
	until(t, "the delivery to be noted", func() bool {
		r, err := l.Get(t.Context(), a.ID)
		return err == nil && r.firstRead > 0
	})
	ticks.add(bodyLife)
	l.prune(t)
	got, err := l.Get(t.Context(), a.ID)
	if err != nil || got.Result != nil || !got.Dropped || got.ResultHash == (Hash{}) {
		t.Errorf("a delivered result: %d bytes, dropped %v, %v", len(got.Result), got.Dropped, err)
	}
	for _, id := range []string{b.ID, small.ID} {
		if got, err := l.Get(t.Context(), id); err != nil || got.Result == nil {
			t.Errorf("a result that was not delivered or is small is gone (%v)", err)
		}
	}
	verified(t, l)
}

func TestCeilings(t *testing.T) {
	config := testConfig(t.TempDir())
	config.limits = limits{receipts: 6}
	l := open(t, config)
	one, two := epoch(t, l, "one"), epoch(t, l, "two")
	var first Receipt
	for i := range 3 {
		if r := begin(t, l, entry(one, fmt.Sprint(i), control.StateRunning)); i == 0 {
			first = r
		}
	}
	_, err := l.Begin(t.Context(), entry(one, "more", control.StateRunning))
	wantCode(t, err, control.StorageUnavailable)
	if r := begin(t, l, entry(one, "0", control.StateRunning)); r.ID != first.ID {
		t.Error("a full store does not answer a repeated request")
	}
	other := entry(one, "0", control.StateRunning)
	other.Fingerprint = Hash{7}
	_, err = l.Begin(t.Context(), other)
	wantCode(t, err, control.IdempotencyConflict)
	change(t, l, first.ID, done(`1`)) // settling always has room
	for i := range 3 {
		begin(t, l, entry(two, fmt.Sprint(i), control.StateRunning))
	}
	_, err = l.Begin(t.Context(), entry(epoch(t, l, "three"), "k", control.StateRunning))
	wantCode(t, err, control.StorageUnavailable)
	shut(t, l)

	ticks := newClock()
	ticks.now = time.Now().Add(49 * time.Hour)
	config.Now = ticks.Now
	l = open(t, config)
	ticks.add(49 * time.Hour) // what recovery settled may go too
	begin(t, l, entry(epoch(t, l, "four"), "k", control.StateRunning))
	verified(t, l)
}

func TestAudit(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	release := held(t, l) // so that the ticker cannot flush meanwhile
	for range maxNotes + 7 {
		l.Audit(AuditRow{Kind: "denied", Pairing: "p", Tool: "lomi_files_read", Code: control.ScopeDenied, Detail: strings.Repeat("d", 2*maxDetail)})
	}
	release()
	shut(t, l)
	l = open(t, config)
	rows, err := l.Audits(t.Context(), 2)
	if err != nil || len(rows) != 2 {
		t.Fatalf("got %d rows, %v", len(rows), err)
	}
	if rows[0].Kind != "overflow" || rows[0].Count != 7 {
		t.Errorf("got %+v, want an overflow of 7", rows[0])
	}
	if r := rows[1]; r.Code != control.ScopeDenied || len(r.Detail) > maxDetail || r.Time.IsZero() || r.Count != 1 {
		t.Errorf("got %+v", r)
	}
	if got := l.rows(t, "audit"); got != maxNotes+1 {
		t.Errorf("got %d rows, want %d", got, maxNotes+1)
	}
	l.Audit(AuditRow{Kind: "read"})
	until(t, "a row to be flushed", func() bool { return l.rows(t, "audit") == maxNotes+2 })
}

// TestJournalIsAppendOnly scans the SQL of the package and asks the store.
func TestJournalIsAppendOnly(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	change := regexp.MustCompile(`(?i)(UPDATE|DELETE\s+FROM|REPLACE\s+INTO|DROP\s+TABLE|ALTER\s+TABLE)\s+(OR\s+\w+\s+)?journal\b`)
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range change.FindAllString(string(text), -1) {
			found = append(found, file+": "+match)
		}
	}
	if diff := cmp.Diff([]string{"prune.go: DELETE FROM journal"}, found); diff != "" {
		t.Errorf("statements that change the journal (-want +got):\n%s", diff)
	}
	l := open(t, testConfig(t.TempDir()))
	begin(t, l, entry(epoch(t, l, "p"), "k", control.StateRunning))
	err = l.db.Write(t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE journal SET time = 0`)
		return err
	})
	if !sqlite.IsConstraint(err) {
		t.Errorf("an update of the journal: got %v, want the trigger's refusal", err)
	}
}

func TestVerifyFindsTampering(t *testing.T) {
	for name, sql := range map[string]string{
		"receipt changed": `UPDATE receipts SET state = 'failed'`,
		"receipt removed": `DELETE FROM receipts WHERE n = (SELECT max(n) FROM receipts)`,
		"row removed":     `DELETE FROM journal WHERE seq = 2`,
		"start removed":   `DELETE FROM journal WHERE seq = 1`,
		"row changed":     `DELETE FROM journal WHERE seq = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, testConfig(t.TempDir()))
			e := epoch(t, l, "p")
			for i := range 4 {
				begin(t, l, entry(e, fmt.Sprint(i), control.StateRunning))
			}
			err := l.db.Write(t.Context(), func(tx *sqlite.Tx) error {
				_, err := tx.Exec(sql)
				if err == nil && name == "row changed" {
					_, err = tx.Exec(insertRecord, 3, kindTransition, "x", "", "failed", "none", []byte{}, []byte{}, 0, 0, 0, make([]byte, 32), make([]byte, 32))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Verify(t.Context()); err == nil {
				t.Error("not noticed")
			}
		})
	}
}
