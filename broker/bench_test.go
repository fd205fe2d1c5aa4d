package broker

import (
	"encoding/json"
	"strconv"
	"testing"
)

// BenchmarkStatus is the broker's share of a warm read.
func BenchmarkStatus(b *testing.B) {
	r := newRig(b)
	c := r.pair(terminalGrant("w1"))
	for b.Loop() {
		if reply := r.Handle(b.Context(), c.session, "lomi_status", json.RawMessage(`{}`)); reply.Status != "ok" {
			b.Fatal(reply.Message)
		}
	}
}

// BenchmarkEffect is the broker's share of a durable effect: what is left is
// two fsyncs.
func BenchmarkEffect(b *testing.B) {
	r := newRig(b)
	c := r.pair(terminalGrant("w1"))
	n := 0
	for b.Loop() {
		n++
		args := `{"workspaceId":"w1","retryEpoch":"` + c.epoch + `","requestKey":"b` + strconv.Itoa(n) + `"}`
		if reply := r.Handle(b.Context(), c.session, "fake_do", json.RawMessage(args)); reply.Status != "ok" {
			b.Fatal(reply.Message)
		}
	}
}
