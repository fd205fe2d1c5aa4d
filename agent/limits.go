package agent

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"lomi/models"
)

// Limits bounds a turn. Zero fields mean the defaults of DefaultLimits.
type Limits struct {
	Steps        int           // replies
	Calls        int           // calls dispatched
	Clock        time.Duration // time, waiting for a person not counted
	Arguments    int           // bytes of one call's arguments
	Result       int           // bytes of one result, pictures included
	ResultsTotal int           // bytes of all results
}

// DefaultLimits are the budgets of a turn.
func DefaultLimits() Limits {
	return Limits{Steps: 128, Calls: 128, Clock: 4 * time.Hour,
		Arguments: 64 << 10, Result: 8 << 20, ResultsTotal: 16 << 20}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	pick := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	pick(&l.Steps, d.Steps)
	pick(&l.Calls, d.Calls)
	pick(&l.Arguments, d.Arguments)
	pick(&l.Result, d.Result)
	pick(&l.ResultsTotal, d.ResultsTotal)
	if l.Clock <= 0 {
		l.Clock = d.Clock
	}
	return l
}

// clock ends a turn's context with ErrLimit after a time in which it runs. It
// stands still while a person is being asked.
type clock struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc
	timer  *time.Timer
	left   time.Duration
	since  time.Time // zero while it stands still
}

func startClock(cancel context.CancelCauseFunc, left time.Duration) *clock {
	c := &clock{cancel: cancel, left: left, since: time.Now()}
	c.timer = time.AfterFunc(left, func() { cancel(ErrLimit) })
	return c
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.since = time.Time{}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		return
	}
	c.since = time.Now()
	c.timer.Reset(max(c.left, 0))
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
}

// A model in a loop makes the same calls and gets the same results. Of the last
// loopSpan calls, more than loopSame may not be alike, and not all of them may
// be two that take turns (bug 23, F-66).
const (
	loopSpan  = 10
	loopSame  = 5
	loopKinds = 2
)

// loop remembers the last calls with their results.
type loop struct {
	last [][sha256.Size]byte
}

// seen notes one call and reports whether the model goes round in circles.
func (l *loop) seen(call models.ToolCall, text string) bool {
	h := sha256.New()
	for _, s := range []string{call.Name, string(call.Arguments), text} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	l.last = append(l.last, [sha256.Size]byte(h.Sum(nil)))
	if len(l.last) > loopSpan {
		l.last = l.last[1:]
	}
	counts := map[[sha256.Size]byte]int{}
	for _, sum := range l.last {
		counts[sum]++
		if counts[sum] > loopSame {
			return true
		}
	}
	return len(l.last) == loopSpan && len(counts) <= loopKinds
}
