package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheDeskLogTellsEachEventOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		l := newDeskLog(c.Now)
		first := l.seq()
		l.append("a", nil)
		l.append("b", nil)
		ctx, cancel := context.WithCancel(t.Context())
		var got []int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, ok := range l.read(ctx, first+1) {
				if !ok {
					t.Error("said to be behind")
				}
				got = append(got, e.Seq)
			}
		}()
		synctest.Wait()
		l.append("c", nil)
		l.append("d", nil)
		synctest.Wait()
		cancel()
		<-done
		if len(got) != 3 || got[0] != first+2 || got[1] != first+3 || got[2] != first+4 {
			t.Errorf("got %v, want the second to the fourth after %d", got, first)
		}
	})
}

func TestAReaderTooFarBehindIsToldSo(t *testing.T) {
	l := newDeskLog(newClock().Now)
	for range 2*deskEvents + 1 {
		l.append("x", nil)
	}
	for _, row := range []struct {
		name  string
		after int64
		want  bool // may go on
	}{
		{"the last one", l.seq(), true},
		{"the oldest that is kept", l.seq() - deskEvents, true},
		{"one that is gone", l.seq() - deskEvents - 1, false},
		{"nothing yet", 0, false},
		{"a number that was never given", l.seq() + 10, false},
		{"a number from before a restart", newClock().now.Add(-time.Hour).UnixMilli() + 50, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the reader must not wait for more
		ok := true
		for _, one := range l.read(ctx, row.after) {
			ok = one
			break
		}
		if ok != row.want {
			t.Errorf("%s: got %v, want %v", row.name, ok, row.want)
		}
	}
}
