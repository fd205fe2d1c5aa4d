package terminal

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	catalog "lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

func TestReadDeadlineHolds(t *testing.T) { // bug 39
	ours, theirs, err := openPTY(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.close()
	ours.file.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := ours.read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestWriteToSilentProgramEnds(t *testing.T) {
	ours, theirs, err := openPTY(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.close()
	failed := make(chan error, 1)
	started := make(chan struct{})
	go func() { // ends by abort below
		var once sync.Once
		_, err := ours.send(make([]byte, 1<<20), func() error { once.Do(func() { close(started) }); return nil }, true)
		failed <- err
	}()
	<-started
	for {
		ours.abort()
		select {
		case err := <-failed:
			if !errors.Is(err, errAborted) && !errors.Is(err, errWriteTimeout) {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestResize(t *testing.T) { // F-58
	b := startBench(t, "/bin/bash")
	for _, row := range []struct {
		cols, rows int
		want       string
	}{{80, 25, "25 80\n"}, {1, 1, "4 20\n"}, {0, 0, "4 20\n"}, {65535, 65535, "1024 1024\n"}} {
		if err := b.m.Resize(b.t.panel.ID, row.cols, row.rows); err != nil {
			t.Fatal(err)
		}
		b.ready()
		if output, _ := b.run("stty size"); output != row.want {
			t.Errorf("%d x %d: got %q, want %q", row.cols, row.rows, output, row.want)
		}
	}
	if err := b.m.Resize("none", 80, 25); !errors.Is(err, ErrNoTerminal) {
		t.Errorf("got %v", err)
	}
}

func TestReadModes(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run(`printf '\033[31mred\033[0m\n'`)
	data, err := b.read(catalog.ReadRequest{Mode: "raw"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(data.(catalog.Raw).Base64)
	if err != nil || !strings.Contains(string(raw), "\x1b[31mred\x1b[0m\r\n") {
		t.Errorf("raw %q, %v", raw, err)
	}
	b.ready()
	screen := b.screen()
	if !strings.Contains(screen.Text, "\nred\n") || screen.Columns != defaultColumns || screen.Buffer != "normal" || !screen.CursorVisible {
		t.Errorf("screen %+v", screen)
	}
	out := b.output()
	if !strings.Contains(out.Text, "\nred\n") || out.Folder != b.desk.project {
		t.Errorf("output %+v", out)
	}
	for _, mode := range []string{"output", "raw"} {
		_, err = b.read(catalog.ReadRequest{Mode: mode, Cursor: "99999999"})
		wantCode(t, err, control.CursorExpired)
	}
	_, err = b.read(catalog.ReadRequest{Mode: "command", OperationID: "none"})
	wantCode(t, err, control.TargetNotFound)
	_, err = b.read(catalog.ReadRequest{Mode: "screen", MinimumParsedSequence: "99999999"})
	wantCode(t, err, control.DeadlineExceeded)
}

func TestReadNeverCutsCharacters(t *testing.T) { // bug 41, F-56
	b := startBench(t, "/bin/bash")
	b.run(`for i in $(seq 2000); do printf '漢🙂'; done`)
	want := strings.Repeat("漢🙂", 2000)
	for _, size := range []int{4, 5, 7, 1000, 16384, 65536} {
		var got strings.Builder
		cursor := ""
		for {
			data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: cursor, MaxBytes: size})
			if err != nil {
				t.Fatal(err)
			}
			out := data.(catalog.Output)
			if out.Gap {
				t.Fatalf("gap at %s", cursor)
			}
			got.WriteString(out.Text)
			if out.NextCursor == out.Command.EndCursor {
				break
			}
			cursor = out.NextCursor
		}
		if got.String() != want {
			t.Errorf("pieces of %d: got %d bytes, want %d", size, got.Len(), len(want))
		}
	}
	out := b.outputOf(b.operation())
	data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: out.Command.StartCursor + "", MaxBytes: 3})
	if err != nil {
		t.Fatal(err)
	}
	inside := decimal(uint64(len("x")) + mustParse(t, data.(catalog.Output).Command.StartCursor))
	data, err = b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: inside, MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if out := data.(catalog.Output); !out.Gap || !strings.HasPrefix(out.Text, "🙂") {
		t.Errorf("inside a character: %+v", out)
	}
}

func TestFloodIsBounded(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo first; yes 漢 | head -c 20000000")
	out := b.outputOf(b.operation())
	if !strings.HasPrefix(out.Text, "first\n漢\n") || len(out.Text) < pinnedBytes-4 || len(out.Text) > pinnedBytes {
		t.Errorf("the head of the run is %d bytes, begins %.20q", len(out.Text), out.Text)
	}
	data, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: b.operation(), Cursor: out.NextCursor})
	if err != nil {
		t.Fatal(err)
	}
	if rest := data.(catalog.Output); !rest.Gap || !strings.Contains(rest.Text, "漢\n漢\n") {
		t.Errorf("after the head: gap %v, %.20q", rest.Gap, rest.Text)
	}
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if len(b.t.out.raw.buf) != ringBytes || len(b.t.out.clean.buf) != ringBytes || b.t.out.raw.end < 20_000_000 {
		t.Errorf("rings of %d and %d bytes after %d", len(b.t.out.raw.buf), len(b.t.out.clean.buf), b.t.out.raw.end)
	}
}

func TestRunsAreForgotten(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo 0")
	first := b.operation()
	for range maxRuns {
		b.run("true")
	}
	_, err := b.read(catalog.ReadRequest{Mode: "command", OperationID: first})
	wantCode(t, err, control.TargetNotFound)
}

func TestAttach(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.run("echo before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got strings.Builder
	sent := false
	for chunk, err := range b.m.Attach(ctx, b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(chunk)
		if !sent {
			sent = true
			if !strings.Contains(got.String(), "\r\nbefore\r\n") && !strings.Contains(got.String(), "before\r\n") {
				t.Errorf("snapshot %q", got.String())
			}
			if err := b.m.Type(ctx, b.t.panel.ID, []byte("echo af''ter\r")); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(got.String(), "after\r\n") {
			break
		}
	}
	if strings.Contains(got.String(), b.t.out.secret) {
		t.Error("a tab sees the secret of the marks")
	}
	cancel()
	for _, err := range b.m.Attach(ctx, b.t.panel.ID) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, err := range b.m.Attach(ctx, "none") {
		if !errors.Is(err, ErrNoTerminal) {
			t.Errorf("got %v", err)
		}
	}
}

// A tab that does not read holds nobody up, and starts over when it does.
func TestSlowTab(t *testing.T) {
	b := startBench(t, "/bin/bash")
	chunks := 0
	for chunk, err := range b.m.Attach(t.Context(), b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		chunks++
		if chunks == 1 {
			b.run("seq 300000") // four times the ring, while the tab sleeps
			b.ready()
			continue
		}
		if !strings.HasPrefix(string(chunk), resetTab+behindNote) || !strings.Contains(string(chunk), "\n300000\r\n") {
			t.Errorf("got %.80q, %d bytes", chunk, len(chunk))
		}
		break
	}
}

func TestAttachEndsWithShell(t *testing.T) {
	b := startBench(t, "/bin/bash")
	b.runWith("echo bye; exit 0", freePermit())
	var got strings.Builder
	for chunk, err := range b.m.Attach(t.Context(), b.t.panel.ID) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(chunk)
	}
	if !strings.Contains(got.String(), "bye\r\n") {
		t.Errorf("got %q", got.String())
	}
}

func TestFullScreenProgram(t *testing.T) {
	b := startBench(t, "/bin/bash")
	done := b.startRun(`sh -c 'printf "\033[?1049h\033[2J\033[3;5Hmenu\033[?25l"; read x; printf "\033[?1049l\033[?25h"'`, "", freePermit())
	b.eventually("the menu shows", func() bool { return b.screen().Buffer == "alternate" })
	b.eventually("the cursor is hidden", func() bool { return !b.screen().CursorVisible })
	if text := b.screen().Text; text != "\n\n    menu" {
		t.Errorf("screen %q", text)
	}
	b.press("enter")
	<-done
	b.ready()
	if s := b.screen(); s.Buffer != "normal" || !s.CursorVisible {
		t.Errorf("afterwards %+v", s)
	}
}
