package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/control"
)

const (
	childEnv  = "LEDGER_TEST_CHILD"
	storePath = "agent-control/" + storeName
	walPath   = storePath + "-wal"
	markName  = "ledger.mark"
)

// snapshot is the content of the files by name.
type snapshot map[string]string

func take(t *testing.T, dir string) snapshot {
	t.Helper()
	s := snapshot{}
	for _, name := range []string{storePath, walPath, markName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s[name] = string(data)
	}
	return s
}

func (s snapshot) put(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "agent-control"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range s {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// effects runs n effects to their end.
func effects(t *testing.T, l *Ledger, e Epoch, name string, n int) {
	t.Helper()
	for i := range n {
		r := begin(t, l, entry(e, fmt.Sprint(name, i), control.StateRunning))
		change(t, l, r.ID, done(`{"ok":true}`))
	}
}

// TestLossIsDetected: SQLite opens every one of these stores and calls it
// "ok" (security notes, fact 4).
func TestLossIsDetected(t *testing.T) {
	dir := t.TempDir()
	l := open(t, testConfig(dir))
	e := epoch(t, l, "p")
	effects(t, l, e, "early", 5)
	early := take(t, dir)
	effects(t, l, e, "late", 15)
	late := take(t, dir)
	strangerDir := t.TempDir()
	stranger := open(t, testConfig(strangerDir))
	effects(t, stranger, epoch(t, stranger, "p"), "x", 40)
	other := take(t, strangerDir)

	flip := func(name string, at func(size int) int) func(snapshot) {
		return func(s snapshot) {
			data := []byte(s[name])
			data[at(len(data))] ^= 0x10
			s[name] = string(data)
		}
	}
	for _, row := range []struct {
		name   string
		damage func(s snapshot)
		loss   bool
	}{
		{"intact", func(snapshot) {}, false},
		{"one slot of the mark torn", flip(markName, func(int) int { return slotStride + 20 }), false},
		{"the other slot torn", flip(markName, func(int) int { return 20 }), false},
		{"F-04 log deleted", func(s snapshot) { delete(s, walPath) }, true},
		{"F-04 bit in the middle of the log", flip(walPath, func(size int) int { return size / 2 }), true},
		{"F-04 bit near the end of the log", flip(walPath, func(size int) int { return size - 100 }), true},
		{"F-04 bit in the head of the log", flip(walPath, func(int) int { return 17 }), true},
		{"F-04 log cut in half", func(s snapshot) { s[walPath] = s[walPath][:len(s[walPath])/2] }, true},
		{"F-04 log cut by a frame", func(s snapshot) { s[walPath] = s[walPath][:len(s[walPath])-4120] }, true},
		{"F-05 old copy restored", func(s snapshot) { s[storePath], s[walPath] = early[storePath], early[walPath] }, true},
		{"F-05 store of another folder", func(s snapshot) { s[storePath], s[walPath] = other[storePath], other[walPath] }, true},
		{"store deleted", func(s snapshot) { delete(s, storePath); delete(s, walPath) }, true},
		{"store emptied", func(s snapshot) { s[storePath], s[walPath] = "", "" }, true},
		{"F-09 store of garbage", func(s snapshot) { s[storePath] = strings.Repeat("garbage ", 1000) }, true},
		{"mark deleted", func(s snapshot) { delete(s, markName) }, true},
		{"mark of garbage", func(s snapshot) { s[markName] = strings.Repeat("x", 8192) }, true},
		{"mark emptied", func(s snapshot) { s[markName] = "" }, true},
		{"mark of another store", func(s snapshot) { s[markName] = other[markName] }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := maps.Clone(late)
			row.damage(s)
			dir := s.put(t)
			l, err := Open(t.Context(), testConfig(dir))
			if err == nil {
				t.Cleanup(func() { shut(t, l) })
				verified(t, l)
			}
			loss, ok := errors.AsType[*LossError](err)
			if ok != row.loss || !ok && err != nil {
				t.Fatalf("got %v, want loss %v", err, row.loss)
			}
			if !row.loss {
				return
			}
			if loss.Reason == "" || !strings.Contains(err.Error(), loss.Reason) {
				t.Errorf("the error %v has no reason", err)
			}
			after := take(t, dir)
			if after[walPath] == "" && s[walPath] == "" {
				delete(after, walPath)
				delete(s, walPath)
			}
			if diff := cmp.Diff(s, after, cmp.Comparer(func(a, b string) bool { return a == b })); diff != "" {
				t.Error("the files were touched")
			}
			setAside(t, dir, s)
		})
	}
}

// setAside gives a lost store up, which must keep every byte of it.
func setAside(t *testing.T, dir string, s snapshot) {
	t.Helper()
	config := testConfig(dir)
	kept, err := SetAside(config)
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := s[storePath]; ok {
		if got, err := os.ReadFile(kept); err != nil || string(got) != want {
			t.Errorf("the store that was set aside is not what it was: %v", err)
		}
	}
	l := open(t, config)
	effects(t, l, epoch(t, l, "p"), "new", 1)
	verified(t, l)
}

// TestMarkBehindStore: a kill between a commit and its mark leaves the store
// ahead, which is no loss.
func TestMarkBehindStore(t *testing.T) {
	dir := t.TempDir()
	l := open(t, testConfig(dir))
	e := epoch(t, l, "p")
	effects(t, l, e, "a", 3)
	before := take(t, dir)
	effects(t, l, e, "b", 1)
	after := take(t, dir)
	after[markName] = before[markName]
	l = open(t, testConfig(after.put(t)))
	verified(t, l)
}

// TestF01: what was acknowledged before kill -9 is there afterwards, once, and
// what was not finished is not called done.
func TestF01(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	begun, settled := map[string]bool{}, map[string]bool{}
	for round := range 3 {
		runChild(t, dir, 150*(round+1), begun, settled)
		l := open(t, testConfig(dir))
		verified(t, l)
		for id := range begun {
			r, err := l.Get(t.Context(), id)
			switch {
			case err != nil:
				t.Fatalf("an acknowledged receipt is gone: %v", err)
			case !r.State.Settled():
				t.Errorf("receipt %s is still %s", id, r.State)
			case settled[id] && (r.State != control.StateSucceeded || string(r.Result) != `{"id":"`+id+`"}`):
				t.Errorf("receipt %s was acknowledged as succeeded and is %s %s", id, r.State, r.Result)
			}
		}
		shut(t, l)
	}
	if len(settled) < 100 {
		t.Errorf("only %d effects were acknowledged", len(settled))
	}
}

// runChild lets a child write until it has acknowledged lines, and kills it.
func runChild(t *testing.T, dir string, lines int, begun, settled map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestF01$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	for n := 0; scan.Scan(); n++ {
		what, id, ok := strings.Cut(scan.Text(), " ")
		if !ok || len(id) != 40 {
			t.Errorf("the child says %q", scan.Text())
			break
		}
		begun[id] = true
		if what == "settled" {
			settled[id] = true
		}
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
}

// writeUntilKilled says a line for each acknowledgement, in one write each, so
// that a kill leaves no half of one.
func writeUntilKilled(t *testing.T, dir string) {
	l := open(t, testConfig(dir))
	e := epoch(t, l, "p")
	var group sync.WaitGroup
	for client := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				r, err := l.Begin(context.Background(), entry(e, fmt.Sprint(client, "-", i), control.StateRunning))
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(os.Stdout, "begun %s\n", r.ID)
				if _, err := l.Transition(context.Background(), r.ID, done(`{"id":"`+r.ID+`"}`)); err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(os.Stdout, "settled %s\n", r.ID)
			}
		})
	}
	group.Wait()
}
