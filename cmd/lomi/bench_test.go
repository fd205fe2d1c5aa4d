package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lomi/broker"
	"lomi/broker/catalog"
	"lomi/broker/client"
	"lomi/broker/identity"
)

// benchDaemon is a whole daemon in this process, with a connected client that
// may read.
func benchDaemon(b *testing.B) *client.Conn {
	b.Helper()
	data, config := b.TempDir(), b.TempDir()
	e := env{strings.NewReader(""), io.Discard, io.Discard, os.Getenv}
	f := serveFlags{options: &options{data: data, config: config}, listen: "127.0.0.1:0", decide: "page"}
	d, err := newDaemon(b.Context(), f, e, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.stop(context.WithoutCancel(b.Context())) })
	w, err := d.bench.OpenProject(b.Context(), b.TempDir(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := client.Dial(b.Context(), client.Config{Endpoint: d.endpoint, InstanceID: d.instance, BrokerSHA256: d.certificate.pin, Label: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	grant := broker.GrantSpec{Scopes: broker.DomainScopes("terminal"), Workspaces: []string{w.ID}, Policy: broker.PolicyGrant}
	if err := d.broker.Approve(b.Context(), conn.PairingID(), grant); err != nil {
		b.Fatal(err)
	}
	if err := conn.Await(b.Context()); err != nil {
		b.Fatal(err)
	}
	return conn
}

// percentiles reports how long one operation took.
func percentiles(b *testing.B, name string, took []time.Duration) (p50 time.Duration) {
	slices.Sort(took)
	p50 = took[len(took)/2]
	b.ReportMetric(float64(p50.Nanoseconds())/1e3, name+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, name+"-p99-µs")
	return p50
}

// BenchmarkWarmStatus reads lomi_status through the whole broker, beside a plain
// mutual-TLS echo of the same bytes over a Unix socket, in one run.
func BenchmarkWarmStatus(b *testing.B) {
	conn := benchDaemon(b)
	ask := func() time.Duration {
		began := time.Now()
		reply, err := conn.Call(b.Context(), "lomi_status", json.RawMessage("{}"))
		if err != nil || reply.Status != "ok" {
			b.Fatal(reply, err)
		}
		return time.Since(began)
	}
	reply, err := conn.Call(b.Context(), "lomi_status", json.RawMessage("{}"))
	if err != nil {
		b.Fatal(err)
	}
	echo := echoServer(b, len(reply.Data))
	for range 200 {
		ask()
		echo()
	}
	var status, plain []time.Duration
	for b.Loop() {
		status = append(status, ask())
		plain = append(plain, echo())
	}
	ratio := float64(percentiles(b, "status", status)) / float64(percentiles(b, "echo", plain))
	b.ReportMetric(ratio, "status/echo")
	b.ReportMetric(0, "ns/op")
}

// echoServer answers size bytes for each line, over mutual TLS 1.3 on a Unix
// socket: what the broker's transport costs without the broker.
func echoServer(b *testing.B, size int) func() time.Duration {
	b.Helper()
	certificate, err := identity.NewCertificate("bench.lomi.invalid")
	if err != nil {
		b.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true} // both ends are this benchmark
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "echo"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		t := tls.Server(c, config)
		answer := make([]byte, size)
		for r := bufio.NewReader(t); ; {
			if _, err := r.ReadSlice('\n'); err != nil {
				return
			}
			if _, err := t.Write(answer); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	t := tls.Client(c, config)
	b.Cleanup(func() { t.Close() })
	question := append(make([]byte, 120), '\n')
	answer := make([]byte, size)
	return func() time.Duration {
		began := time.Now()
		if _, err := t.Write(question); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(t, answer); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
}

// BenchmarkDaemon starts the built binary until it can serve, and measures what
// it holds when nothing happens.
func BenchmarkDaemon(b *testing.B) {
	binary, err := filepath.Abs("../../bin/lomi")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		b.Fatalf("build it first with make build: %v", err)
	}
	var starts []time.Duration
	memory := 0
	for b.Loop() {
		dir := b.TempDir()
		ready := filepath.Join(dir, "ready")
		cmd := exec.Command(binary, "serve", "--data", dir, "--config", dir, "--listen", "127.0.0.1:0", "--no-open", "--ready-file", ready)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		await(b, ready)
		starts = append(starts, time.Since(began))
		memory = max(memory, resident(b, cmd.Process.Pid))
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}
	percentiles(b, "start", starts)
	b.ReportMetric(float64(memory)/1024, "resident-MiB")
	b.ReportMetric(0, "ns/op")
}

func await(b *testing.B, path string) {
	b.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatal("the daemon was not ready in 20 s")
		}
	}
}

// resident is a process's memory in KiB.
func resident(b *testing.B, pid int) int {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkTokens reports what the forms cost a qwen model.
func BenchmarkTokens(b *testing.B) {
	for b.Loop() {
		catalog.Tokens()
	}
	for _, c := range catalog.Tokens()[:3] {
		b.ReportMetric(float64(c.Tokens), strings.ReplaceAll(c.Name, " ", "_")+"-tokens")
	}
	b.ReportMetric(0, "ns/op")
}
