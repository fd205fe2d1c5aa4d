package wire

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lomi/broker/identity"
)

// BenchmarkCall is one small call after another over the real socket: what the
// protocol itself costs of each read through the broker.
func BenchmarkCall(b *testing.B) {
	broker := certificate(b, instance+brokerSuffix)
	dir, err := os.MkdirTemp("/tmp", "lomi-wire-*")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := Listen(filepath.Join(dir, SocketName))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() {
		_ = Serve(ctx, l, Config{InstanceID: instance, Certificate: broker, UID: os.Getuid(), Identify: identity.Identify,
			Handler: &engine{auto: Approved}})
	})
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	w, err := Enroll(ctx, conn, Enrollment{InstanceID: instance, Label: "bench", Certificate: certificate(b, helperName),
		BrokerSHA256: pin(broker.Certificate[0])})
	if err != nil {
		b.Fatal(err)
	}
	link, err := w.Open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer link.Close()
	for b.Loop() {
		if _, err := link.Call(ctx, "lomi_status", json.RawMessage(`{}`)); err != nil {
			b.Fatal(err)
		}
	}
}
