package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/internal/sqlite"
)

const childEnv = "STORE_TEST_CHILD"

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Config{Dir: dir})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	return s
}

func opened(t testing.TB) *Store {
	t.Helper()
	s := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func message(text string) Event {
	data, _ := json.Marshal(map[string]any{"parts": []map[string]string{{"kind": "text", "text": text}}})
	return Event{Kind: "message.added", Time: time.Unix(1_900_000_000, 5).UTC(), Data: data}
}

func add(t testing.TB, s *Store, conversation string, events ...Event) int64 {
	t.Helper()
	first, err := s.Append(context.Background(), conversation, events)
	if err != nil {
		t.Fatalf("appending: %v", err)
	}
	return first
}

func TestLogIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Create(t.Context(), Conversation{ID: "c1", Title: "One", Settings: json.RawMessage(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	odd := Event{Kind: "turn.started", Time: time.Unix(1_900_000_001, 0).UTC(), Data: json.RawMessage(`{"text": "漢🙂 \u0000 \ud83d"}`)}
	if first := add(t, s, "c1", message("hello"), odd); first != 1 {
		t.Errorf("the first event has number %d", first)
	}
	third := message("again")
	third.Seq = 3
	if first := add(t, s, "c1", third); first != 3 {
		t.Errorf("the third event has number %d", first)
	}
	want, err := s.Read(t.Context(), "c1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	defer s.Close()
	got, err := s.Read(t.Context(), "c1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if len(got) != 3 || got[1].Kind != odd.Kind || string(got[1].Data) != string(odd.Data) || !got[1].Time.Equal(odd.Time) || got[2].Seq != 3 {
		t.Errorf("the events are not as they were written: %+v", got)
	}
	got, err = s.Read(t.Context(), "c1", 1, 1)
	if err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("a page of one behind 1: %+v, %v", got, err)
	}
	c, err := s.Get(t.Context(), "c1")
	if err != nil || c.Title != "One" || c.LastSeq != 3 || string(c.Settings) != `{"a":1}` || c.Created.IsZero() {
		t.Errorf("the conversation is %+v, %v", c, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := opened(t)
	add(t, s, "c1", numbered(1, "first"))
	for name, row := range map[string]struct {
		conversation string
		events       []Event
		want         error
	}{
		"unknown conversation": {"c2", []Event{message("x")}, ErrNotFound},
		"late writer":          {"c2", []Event{numbered(7, "x")}, ErrNotFound},
		"gap":                  {"c1", []Event{numbered(3, "x")}, ErrSequence},
		"again":                {"c1", []Event{numbered(1, "x")}, ErrSequence},
		"gap inside":           {"c1", []Event{numbered(2, "x"), numbered(4, "y")}, ErrSequence},
		"nothing":              {"c1", nil, ErrInvalid},
		"no kind":              {"c1", []Event{{Data: json.RawMessage(`{}`)}}, ErrInvalid},
		"no JSON":              {"c1", []Event{{Kind: "k", Data: json.RawMessage(`{`)}}, ErrInvalid},
		"no data":              {"c1", []Event{{Kind: "k"}}, ErrInvalid},
		"too large":            {"c1", []Event{{Kind: "k", Data: json.RawMessage(`"` + strings.Repeat("x", maxEvent) + `"`)}}, ErrInvalid},
		"too many":             {"c1", slices.Repeat([]Event{message("x")}, maxEvents+1), ErrInvalid},
		"no id":                {"", []Event{numbered(1, "x")}, ErrInvalid},
	} {
		if _, err := s.Append(t.Context(), row.conversation, row.events); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", name, err, row.want)
		}
	}
	if events, err := s.Read(t.Context(), "c1", 0, 0); err != nil || len(events) != 1 {
		t.Errorf("refused events left %d in the log, %v", len(events), err)
	}
	large := Event{Kind: "k", Data: json.RawMessage(`"` + strings.Repeat("x", maxEvent-2) + `"`)}
	add(t, s, "c1", large)
}

func numbered(seq int64, text string) Event {
	e := message(text)
	e.Seq = seq
	return e
}

// TestBug95: writers at once lose nothing and leave no gap.
func TestBug95(t *testing.T) {
	s := opened(t)
	add(t, s, "c", numbered(1, "first"))
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for range 10 {
				if _, err := s.Append(context.Background(), "c", []Event{message(fmt.Sprint("from ", i)), message("and more")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	events, err := s.Read(t.Context(), "c", 0, 0)
	if err != nil || len(events) != 401 || events[400].Seq != 401 {
		t.Errorf("got %d events, %v, want 401 without a gap", len(events), err)
	}
}

func TestConversations(t *testing.T) {
	s := opened(t)
	at := time.Unix(2_000_000_000, 0)
	s.config.Now = func() time.Time { at = at.Add(time.Second); return at }
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := s.Create(t.Context(), Conversation{ID: id, Title: "title " + id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Create(t.Context(), Conversation{ID: "a"}); !errors.Is(err, ErrExists) {
		t.Errorf("twice the same id: got %v, want ErrExists", err)
	}
	if err := s.Rename(t.Context(), "b", "renamed"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), Conversation{ID: "a", Title: "A", Project: "p", Model: "m", Settings: json.RawMessage(`{"x":2}`)}); err != nil {
		t.Fatal(err)
	}
	list := func(limit int, before string) (ids []string) {
		t.Helper()
		all, err := s.List(t.Context(), limit, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"a", "b", "d", "c"}, list(0, "")); diff != "" {
		t.Errorf("last changed first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d", "c"}, list(2, "b")); diff != "" {
		t.Errorf("older than b (-want +got):\n%s", diff)
	}
	if ids, err := s.Conversations(t.Context()); err != nil || !slices.Equal(ids, []string{"a", "b", "c", "d"}) {
		t.Errorf("all ids: %v, %v", ids, err)
	}
	c, err := s.Get(t.Context(), "a")
	if err != nil || c.Title != "A" || c.Project != "p" || c.Model != "m" || string(c.Settings) != `{"x":2}` {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, err := range map[string]error{
		"rename": s.Rename(t.Context(), "none", "x"),
		"update": s.Update(t.Context(), Conversation{ID: "none"}),
		"delete": s.Delete(t.Context(), "none"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of nothing: got %v, want ErrNotFound", name, err)
		}
	}
	if err := s.Create(t.Context(), Conversation{ID: "e", Settings: json.RawMessage(`{`)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("broken settings: got %v, want ErrInvalid", err)
	}
}

func TestDeleteTakesEventsAndTextAlong(t *testing.T) {
	s := opened(t)
	add(t, s, "gone", numbered(1, "secret words"), message("more secret words"))
	add(t, s, "kept", numbered(1, "other words"))
	if err := s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{`SELECT count(*) FROM events`, `SELECT count(*) FROM texts WHERE texts MATCH '"words"'`, `SELECT count(*) FROM conversations`} {
		var n int
		if err := s.db.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 1 {
			t.Errorf("%s: %d, %v, want 1", query, n, err)
		}
	}
	if _, err := s.Get(t.Context(), "gone"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if events, err := s.Read(t.Context(), "gone", 0, 0); err != nil || len(events) != 0 {
		t.Errorf("got %d events, %v", len(events), err)
	}
	if _, err := s.Append(t.Context(), "gone", []Event{numbered(3, "late")}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a writer that outlives the deletion: got %v, want ErrNotFound", err)
	}
}

func TestSearch(t *testing.T) {
	s := opened(t)
	texts := []string{
		"The quick brown fox", "Ein Süßwasserfisch", "漢字を検索する", "run: git commit --amend -m \"x\"",
		"naïve café", "a \"quoted\" OR phrase* NEAR(1)", "quick as a go program", "plain",
	}
	for i, text := range texts {
		add(t, s, "c"+strconv.Itoa(i), numbered(1, text))
	}
	add(t, s, "c0", Event{Kind: "call.ended", Data: json.RawMessage(`{"text":"quick, but no message"}`)},
		Event{Kind: "reply.ended", Data: json.RawMessage(`{"parts":[{"kind":"thinking","text":"quick thought"},{"kind":"text","text":"as"},{"kind":"text","text":"two parts"}]}`)})
	for query, want := range map[string][]string{
		"quick":           {"c6", "c0"},
		"QUICK fox":       {"c0"},
		"uic":             {"c6", "c0"},
		"wasserfisch":     {"c1"},
		"検索する":            {"c2"},
		"字を":              {"c2"}, // two characters
		"quick go":        {"c6"},
		"go":              {"c6"},
		"naive cafe":      {"c4"},
		"café":            {"c4"},
		"--amend":         {"c3"},
		"\"quoted\"":      {"c5"},
		"phrase*":         {"c5"},
		"plain OR quick":  nil,
		"NEAR(1)":         {"c5"},
		"text:plain":      nil,
		"two parts":       {"c0"},
		"thought":         nil,
		"no such thing":   nil,
		"":                nil,
		" \t ":            nil,
		"'; DROP TABLE x": nil, // S-40
	} {
		hits, err := s.Search(t.Context(), query, 0)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		var got []string
		for _, hit := range hits {
			got = append(got, hit.Conversation)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{strings.Repeat("x", maxQuery+1), "a\x00b", "\xff", strings.Repeat("ab ", maxTerms+1)} {
		if _, err := s.Search(t.Context(), query, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", query, err)
		}
	}
	if hits, err := s.Search(t.Context(), "quick", 1); err != nil || len(hits) != 1 || hits[0].Seq != 1 || hits[0].Snippet != "quick as a go program" {
		t.Errorf("one hit: %+v, %v", hits, err)
	}
}

func TestSnippet(t *testing.T) {
	long := strings.Repeat("漢字 ", 100) + "needle\nin a\thaystack " + strings.Repeat("é", 300)
	got := snippet(long, []string{"NEEDLE"})
	if !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") || !strings.Contains(got, "needle in a haystack") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %q", got)
	}
	if got := snippet("short", []string{"x"}); got != "short" {
		t.Errorf("got %q", got)
	}
}

// TestLogIsAppendOnly scans the SQL of the package and asks the store.
func TestLogIsAppendOnly(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	change := regexp.MustCompile(`(?i)(UPDATE|DELETE\s+FROM|REPLACE\s+INTO|DROP\s+TABLE|ALTER\s+TABLE)\s+(OR\s+\w+\s+)?events\b[^` + "`" + `]*`)
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range change.FindAllString(string(text), -1) {
			found = append(found, file+": "+match)
		}
	}
	if diff := cmp.Diff([]string{"store.go: DELETE FROM events WHERE conversation = ?"}, found); diff != "" {
		t.Errorf("statements that change events (-want +got):\n%s", diff)
	}
	s := opened(t)
	add(t, s, "c", numbered(1, "x"))
	err = s.db.Write(t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE events SET data = '{}'`)
		return err
	})
	if !sqlite.IsConstraint(err) {
		t.Errorf("an update of an event: got %v, want the trigger's refusal", err)
	}
}

func TestSecondOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	_, err := Open(t.Context(), Config{Dir: dir})
	if owned, ok := errors.AsType[*sqlite.OwnedError](err); !ok || owned.PID != os.Getpid() {
		t.Errorf("got %v, want the process that owns the history", err)
	}
}

// TestF09: a damaged history is refused and kept.
func TestF09(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	add(t, s, "c", numbered(1, "x"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "history.sqlite3")
	garbage := strings.Repeat("garbage ", 4000)
	if err := os.WriteFile(path, []byte(garbage), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Dir: dir}); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != garbage {
		t.Errorf("the damaged history was changed (%v)", err)
	}
}

// TestF01: what was acknowledged before kill -9 is there, in order.
func TestF01(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		s := open(t, dir)
		for i := int64(1); ; i++ {
			if _, err := s.Append(context.Background(), "c", []Event{numbered(i, fmt.Sprint("text ", i))}); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(os.Stdout, "%d\n", i)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestF01$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := 0
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if last, err = strconv.Atoi(scan.Text()); err != nil {
			t.Errorf("the child says %q", scan.Text())
			break
		}
		if last == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	s := open(t, dir)
	defer s.Close()
	events, err := s.Read(t.Context(), "c", 0, 0)
	if err != nil || len(events) < last || last < 200 {
		t.Fatalf("%d events are left of %d acknowledged, %v", len(events), last, err)
	}
	hits, err := s.Search(t.Context(), fmt.Sprint("text ", last), 1)
	if err != nil || len(hits) != 1 {
		t.Errorf("the last acknowledged text is not found: %v, %v", hits, err)
	}
}
