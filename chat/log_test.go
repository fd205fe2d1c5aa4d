package chat

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lomi/models"
)

func testLog(m *memory) *Log {
	return newLog("c1", m, 0, time.Now, slog.New(slog.DiscardHandler))
}

func notice(text string) fact { return fact{NoticeAdded, noticeData{Text: text}} }

func mustAppend(t *testing.T, l *Log, facts ...fact) {
	t.Helper()
	if err := l.append(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
}

func delta(part int, offset int, text string) TextDelta {
	return TextDelta{Message: "m1", Part: part, Kind: models.PartText, Offset: offset, Text: text}
}

// assemble adds a reader's snapshot and deltas up, the way the page does.
type assemble struct {
	text   string
	gaps   int
	events []Event
}

func (a *assemble) take(item Item) {
	switch {
	case item.Event != nil:
		a.events = append(a.events, *item.Event)
	case item.Snapshot != nil:
		a.text = item.Snapshot.Parts[0].Text
	case item.Delta != nil:
		if item.Delta.Offset != len(a.text) {
			a.gaps++
			return
		}
		a.text += item.Delta.Text
	}
}

// TestReadInMidReply joins while a reply is being written: events first, then
// the text so far, then the rest, with nothing missing and nothing twice.
func TestReadInMidReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLog(m)
		mustAppend(t, l, notice("one"), notice("two"))
		whole := ""
		say := func(text string) {
			l.showText(delta(0, len(whole), text))
			whole += text
		}
		say("Hello")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan Item, 100)
		go func() {
			defer close(got)
			for item, err := range l.Read(ctx, 1) {
				if err != nil {
					return
				}
				got <- item
			}
		}()
		synctest.Wait()
		for range 50 {
			say(" and more")
			<-time.After(2 * time.Millisecond)
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		mustAppend(t, l, notice("three"))
		synctest.Wait()
		cancel()
		var a assemble
		first := ""
		for item := range got {
			a.take(item)
			if first == "" && item.Event == nil {
				first = a.text
			}
		}
		if a.text != whole || a.gaps != 0 {
			t.Errorf("text %q with %d gaps, want %q", a.text, a.gaps, whole)
		}
		if len(a.events) == 0 || a.events[0].Seq != 2 {
			t.Errorf("events %v, want them from 2 on", a.events)
		}
		if first != "Hello" {
			t.Errorf("the text so far was %q", first)
		}
	})
}

// TestDeltasAreMerged counts what a reader gets of 1,000 pieces a second.
func TestDeltasAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLog(newMemory())
		r, _, _ := l.join()
		defer l.leave(r)
		for i := range 1000 {
			l.showText(delta(0, i, "x"))
			<-time.After(time.Millisecond)
		}
		items, _, _ := l.take(r)
		deltas := 0
		for _, item := range items {
			if item.Delta != nil {
				deltas++
			}
		}
		if deltas < 10 || deltas > 25 {
			t.Errorf("%d deltas in a second, want about 20", deltas)
		}
		l.close()
	})
}

// TestCheckpoints stores new text every 500 ms, and at once when there is much.
func TestCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLog(m)
		l.showText(delta(0, 0, "abc"))
		<-time.After(checkpointEvery + time.Millisecond)
		synctest.Wait()
		if got := last[TextDelta](t, m, "c1", TextAppended); got.Text != "abc" || got.Offset != 0 {
			t.Errorf("checkpoint %+v", got)
		}
		l.showText(delta(0, 3, "def"))
		<-time.After(checkpointEvery + time.Millisecond)
		synctest.Wait()
		if got := last[TextDelta](t, m, "c1", TextAppended); got.Text != "def" || got.Offset != 3 {
			t.Errorf("checkpoint %+v", got)
		}
		l.showText(delta(0, 6, strings.Repeat("y", checkpointBytes)))
		if got := last[TextDelta](t, m, "c1", TextAppended); got.Offset != 6 || len(got.Text) != checkpointBytes {
			t.Errorf("no checkpoint after %d bytes", checkpointBytes)
		}
		mustAppend(t, l, fact{ReplyEnded, replyEndedData{Message: "m1"}})
		n := len(m.all("c1"))
		<-time.After(2 * checkpointEvery)
		synctest.Wait()
		if got := len(m.all("c1")); got != n {
			t.Errorf("%d events after the reply ended, want %d", got, n)
		}
	})
}

// TestBug27SlowReader does not read while 5,000 events and a question come. It
// is cut off, told so, and finds the question when it reads again.
func TestBug27SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLog(m)
		r, _, _ := l.join()
		for range 5000 {
			mustAppend(t, l, notice("n"))
		}
		mustAppend(t, l, fact{ApprovalRequested, approvalData{ID: "a", Kind: "pairing"}})
		items, behind, _ := l.take(r)
		l.leave(r)
		if !behind || len(items) > queueItems {
			t.Errorf("behind %v with %d items", behind, len(items))
		}
		found := false
		for item, err := range l.Read(t.Context(), 4990) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Event != nil && item.Event.Kind == ApprovalRequested {
				found = true
				break
			}
		}
		if !found {
			t.Error("the question is lost")
		}
	})
}

// TestDeltasDropAndEventsDoNot floods a reader that does not read with text.
func TestDeltasDropAndEventsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLog(newMemory())
		r, _, _ := l.join()
		defer l.leave(r)
		for i := range queueForDeltas * 4 {
			l.showText(delta(0, i, "x"))
			<-time.After(deltaEvery)
		}
		mustAppend(t, l, notice("still here"))
		items, behind, _ := l.take(r)
		if behind || len(items) > queueForDeltas+200 {
			t.Errorf("behind %v, %d items", behind, len(items))
		}
		if e := items[len(items)-1].Event; e == nil || e.Kind != NoticeAdded {
			t.Errorf("the event is not the last item")
		}
		l.close()
	})
}

func TestReadOfAFutureEvent(t *testing.T) {
	l := testLog(newMemory())
	mustAppend(t, l, notice("one"))
	for item, err := range l.Read(t.Context(), 9) {
		if err != nil || !item.Behind {
			t.Errorf("item %+v, error %v", item, err)
		}
	}
}

func TestCloseEndsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLog(newMemory())
		done := make(chan error, 1)
		go func() {
			for _, err := range l.Read(context.Background(), 0) {
				done <- err
			}
			close(done)
		}()
		synctest.Wait()
		l.close()
		if err, open := <-done; open {
			t.Errorf("the reader got %v", err)
		}
	})
}
