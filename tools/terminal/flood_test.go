package terminal

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"lomi/broker"
	"lomi/broker/control"
)

// flooded is how much the test lets come; the benchmark takes a gigabyte, which
// lasts more than a minute. It is twenty times both rings.
const flooded = 20_000_000

// maxGrowth is how much more memory the whole process may hold while a
// terminal floods: both rings, what three readers hold, and room for the
// collector. It is far less than what is printed.
const maxGrowth = 8 << 20

func held() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watch attaches a tab that takes its next piece only when it is told to, or
// that never does when pace is nil. It ends with ctx.
func (b *bench) watch(ctx context.Context, pace <-chan struct{}) (done <-chan struct{}) {
	ended := make(chan struct{})
	first := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		seen := false
		for range b.m.Attach(ctx, b.t.panel.ID) {
			if !seen {
				seen = true
				close(first)
			}
			select {
			case <-pace:
			case <-ctx.Done():
			}
		}
	}()
	<-first
	return ended
}

func TestFloodHoldsNobodyUp(t *testing.T) { // 1 GB of yes, F-50
	b := startBench(t, "/bin/bash")
	ctx, stop := context.WithCancel(t.Context())
	pace := make(chan struct{})
	slow, dead := b.watch(ctx, pace), b.watch(ctx, nil)
	before := held()
	cancel := make(chan struct{})
	done := b.startRun(`yes`, "y\n", broker.NewPermit(func() error { return nil }, cancel))
	var most uint64
	looks := 0
	b.eventually("enough is printed", func() bool {
		select {
		case pace <- struct{}{}:
		default:
		}
		if looks++; looks%20 == 0 { // a look stops the world
			most = max(most, held())
		}
		return mustParse(t, b.output().StreamSequence) >= flooded
	})
	if grown := int64(most) - int64(before); grown > maxGrowth {
		t.Errorf("memory grew by %d bytes, want at most %d", grown, maxGrowth)
	}
	close(cancel)
	if r := <-done; r.err != nil || r.State != control.StateCancelled {
		t.Errorf("got %+v, %v; want cancelled", r.Result, r.err)
	}
	b.ready()
	if output, exit := b.run("echo end"); output != "end\n" || exit != 0 {
		t.Errorf("got %q, %d", output, exit)
	}
	if text := b.output().Text; !strings.Contains(text, "y\ny\n") || !strings.Contains(text, "\nend\n") {
		t.Errorf("the tail is not kept: %q", text[max(0, len(text)-200):])
	}
	stop()
	<-slow
	<-dead
	if grown := int64(held()) - int64(before); grown > maxGrowth {
		t.Errorf("%d bytes are still held", grown)
	}
	t.Logf("%d looks, at most %d kB more than before", looks, (int64(most)-int64(before))>>10)
}

func BenchmarkFlood(b *testing.B) {
	const size = 1_000_000_000
	bench := startBench(b, "/bin/bash")
	b.SetBytes(size)
	before := held()
	for b.Loop() {
		bench.run("yes | head -c " + strconv.Itoa(size))
	}
	b.ReportMetric(float64(int64(held())-int64(before))/1024, "kB-held")
}
