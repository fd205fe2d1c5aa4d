package ledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"lomi/broker/control"
)

// BenchmarkEffects runs whole effects: a receipt begun, then settled, each
// durable. commits/effect counts transactions, of which each is one fsync of
// the log.
func BenchmarkEffects(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			l := open(b, testConfig(b.TempDir()))
			e := epoch(b, l, "p")
			before := l.batches.Load()
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range clients {
				group.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						r, err := l.Begin(context.Background(), entry(e, fmt.Sprint(i), control.StateRunning))
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := l.Transition(context.Background(), r.ID, done(`{"exitCode":0}`)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
			b.ReportMetric(float64(l.batches.Load()-before)/float64(b.N), "commits/effect")
		})
	}
}

// BenchmarkOpen is a restart with a thousand receipts, mark and log checked.
func BenchmarkOpen(b *testing.B) {
	config := testConfig(b.TempDir())
	l := open(b, config)
	e := epoch(b, l, "p")
	var group sync.WaitGroup
	for client := range 10 {
		group.Go(func() {
			for i := range 100 {
				if _, err := l.Begin(context.Background(), entry(e, fmt.Sprint(client, "-", i), control.StateQueued)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	shut(b, l)
	for b.Loop() {
		l, err := Open(context.Background(), config)
		if err != nil {
			b.Fatal(err)
		}
		shut(b, l)
	}
}
