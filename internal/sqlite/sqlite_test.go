package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const testApplication = 0x7e57

var testMigrations = []string{
	`CREATE TABLE words(id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);`,
	`ALTER TABLE words ADD COLUMN size INTEGER NOT NULL DEFAULT 0; CREATE INDEX words_size ON words(size);`,
}

func testConfig(dir string) Config {
	return Config{Path: filepath.Join(dir, "store", "words.sqlite3"), Migrations: testMigrations, Application: testApplication}
}

func open(t *testing.T, config Config) *DB {
	t.Helper()
	db, err := Open(t.Context(), config)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func add(db *DB, words ...string) error {
	return db.Write(context.Background(), func(tx *Tx) error {
		for _, word := range words {
			if _, err := tx.Exec("INSERT INTO words(word) VALUES (?)", word); err != nil {
				return err
			}
		}
		return nil
	})
}

func words(t *testing.T, db *DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT word FROM words ORDER BY id")
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var word string
		if err := rows.Scan(&word); err != nil {
			t.Fatal(err)
		}
		all = append(all, word)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOpenSetsWhatThePromisesRestOn(t *testing.T) {
	db := open(t, testConfig(filepath.Join(t.TempDir(), "a folder with ? # % in it")))
	if err := add(db, "one"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := db.Write(t.Context(), func(tx *Tx) error {
		for _, name := range []string{"busy_timeout", "journal_mode", "synchronous", "fullfsync",
			"checkpoint_fullfsync", "foreign_keys", "user_version", "application_id"} {
			var value string
			if err := tx.QueryRow("PRAGMA " + name).Scan(&value); err != nil {
				return err
			}
			got[name] = value
		}
		_, err := tx.Exec(`SELECT "no such column"`)
		if err == nil {
			t.Error("a misspelt column in double quotes was taken for a text")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"busy_timeout": "5000", "journal_mode": "wal", "synchronous": "2", "fullfsync": "1",
		"checkpoint_fullfsync": "1", "foreign_keys": "1", "user_version": "2", "application_id": fmt.Sprint(testApplication)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(db.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%q has mode %v, want 0600", suffix, info.Mode().Perm())
		}
	}
	if _, err := db.Query(t.Context(), "DELETE FROM words"); err == nil {
		t.Error("a reading connection could write")
	}
}

func TestWriteKeepsItsPromises(t *testing.T) {
	db := open(t, testConfig(t.TempDir()))
	mine := errors.New("mine")
	err := db.Write(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO words(word) VALUES ('gone')"); err != nil {
			return err
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Fatalf("got %v, want the function's own error", err)
	}
	if err := add(db, "kept"); err != nil {
		t.Fatal(err)
	}
	conn := db.conn
	if err := add(db, "also gone", "kept"); !IsConstraint(err) {
		t.Fatalf("got %v, want a constraint", err)
	}
	if db.conn != conn {
		t.Error("a constraint discarded the connection")
	}
	err = db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO nowhere VALUES (1)")
		return err
	})
	if err == nil || db.conn != nil {
		t.Errorf("after %v the connection is still there, want it discarded", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	err = db.Write(cancelled, func(tx *Tx) error {
		cancel() // the caller leaves in mid-transaction
		_, err := tx.Exec("INSERT INTO words(word) VALUES ('settled')")
		return err
	})
	if err != nil {
		t.Errorf("a transaction that had begun ended with its caller: %v", err)
	}
	if diff := cmp.Diff([]string{"kept", "settled"}, words(t, db)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := add(db, "late"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if _, err := db.Query(t.Context(), "SELECT 1"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestWriteRollsBackAfterPanic(t *testing.T) {
	db := open(t, testConfig(t.TempDir()))
	func() {
		defer func() { recover() }()
		db.Write(t.Context(), func(tx *Tx) error {
			if _, err := tx.Exec("INSERT INTO words(word) VALUES ('gone')"); err != nil {
				return err
			}
			panic("in the middle")
		})
	}()
	if err := add(db, "next"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"next"}, words(t, db)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestBug89: several writers at once wait for each other and none sees "busy".
func TestBug89(t *testing.T) {
	db := open(t, testConfig(t.TempDir()))
	var group sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		group.Go(func() {
			for j := range 20 {
				if err := add(db, fmt.Sprintf("%d-%d", i, j)); err != nil {
					errs[i] = err
					return
				}
				var n int
				if err := db.QueryRow(t.Context(), "SELECT count(*) FROM words").Scan(&n); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := len(words(t, db)); got != 16*20 {
		t.Errorf("got %d rows, want %d", got, 16*20)
	}
}

func TestMigrations(t *testing.T) {
	dir := t.TempDir()
	old := testConfig(dir)
	old.Migrations = old.Migrations[:1]
	db := open(t, old)
	if err := add(db, "carried"); err != nil {
		t.Fatal(err)
	}
	db.Close()

	broken := testConfig(dir)
	broken.Migrations = append(testMigrations[:1:1], `CREATE TABLE half(id); CREATE TABLE words(id);`)
	if _, err := Open(t.Context(), broken); err == nil {
		t.Fatal("a migration that fails was let pass")
	}
	db = open(t, testConfig(dir))
	var size int
	if err := db.QueryRow(t.Context(), "SELECT size FROM words WHERE word = 'carried'").Scan(&size); err != nil {
		t.Errorf("reading a migrated row: %v", err)
	}
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM half").Scan(&size); err == nil {
		t.Error("the first half of a failed migration stayed")
	}
	db.Close()

	before := read(t, db.Path())
	if _, err := Open(t.Context(), old); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v, want ErrNewer", err)
	}
	foreign := testConfig(dir)
	foreign.Application = 1
	if _, err := Open(t.Context(), foreign); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	if diff := cmp.Diff(before, read(t, db.Path())); diff != "" {
		t.Error("a refused store was changed")
	}
}

func TestDamagedStoreIsKept(t *testing.T) {
	for _, row := range []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
	}{
		{"F-09 garbage header", func(t *testing.T, path string) { overwrite(t, path, 0, "not a database at all") }, ErrCorrupt},
		{"F-09 cut header", func(t *testing.T, path string) { truncate(t, path, 50) }, ErrCorrupt},
		{"F-09 bad schema page", func(t *testing.T, path string) { overwrite(t, path, 100, strings.Repeat("\xff", 900)) }, ErrCorrupt},
		{"F-04 log of zeros", func(t *testing.T, path string) {
			write(t, path+"-wal", make([]byte, 8192))
		}, ErrCorrupt},
		{"log too long", func(t *testing.T, path string) {
			write(t, path+"-wal", nil)
			truncate(t, path+"-wal", defaultMaxWAL+1)
		}, ErrCorrupt},
		{"S-26 link instead of the file", func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsuitable},
		{"S-26 pipe instead of the log", func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path+"-wal", 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsuitable},
	} {
		t.Run(row.name, func(t *testing.T) {
			config := testConfig(t.TempDir())
			db := open(t, config)
			if err := add(db, "one"); err != nil {
				t.Fatal(err)
			}
			db.Close()
			row.damage(t, config.Path)
			before := read(t, config.Path)
			if _, err := Open(t.Context(), config); !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if string(before) != string(read(t, config.Path)) {
				t.Error("the damaged store was changed")
			}
		})
	}
}

// crashed copies an open store, which is what a kill leaves behind.
func crashed(t *testing.T, commits int) Config {
	t.Helper()
	config := testConfig(t.TempDir())
	db := open(t, config)
	for i := range commits {
		if err := add(db, fmt.Sprintf("word %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	copied := testConfig(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(copied.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		write(t, copied.Path+suffix, read(t, config.Path+suffix))
	}
	return copied
}

// TestF04: a log cut anywhere opens with what was whole; a bit flipped before
// a later commit is damage and not a short log.
func TestF04(t *testing.T) {
	const commits = 12
	whole := crashed(t, commits)
	log := read(t, whole.Path+"-wal")
	page := int(binary.BigEndian.Uint32(log[8:]))
	frame := walFrameSize + page
	frames := (len(log) - walHeaderSize) / frame

	last := -1
	for n := range frames + 1 {
		for _, delta := range []int{-1, 0, 1} {
			size := walHeaderSize + n*frame + delta
			if size > len(log) {
				continue
			}
			config := crashedWith(t, whole, log[:size])
			db, err := Open(t.Context(), config)
			if err != nil {
				t.Fatalf("log of %d frames %+d bytes: %v", n, delta, err)
			}
			got := len(words(t, db))
			db.Close()
			if got < last {
				t.Errorf("log of %d frames %+d bytes has %d rows, a shorter one had %d", n, delta, got, last)
			}
			last = got
		}
	}
	if last != commits {
		t.Errorf("the whole log has %d rows, want %d", last, commits)
	}

	refused := 0
	for n := range frames {
		flipped := append([]byte(nil), log...)
		flipped[walHeaderSize+n*frame+walFrameSize+page/2] ^= 1
		config := crashedWith(t, whole, flipped)
		db, err := Open(t.Context(), config)
		if errors.Is(err, ErrCorrupt) {
			refused++
			if string(read(t, config.Path+"-wal")) != string(flipped) {
				t.Errorf("flip in frame %d: the damaged log was changed", n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("flip in frame %d: %v", n, err)
		}
		if got := len(words(t, db)); got < commits-1 {
			t.Errorf("flip in frame %d: %d of %d rows and no error", n, got, commits)
		}
		db.Close()
	}
	if refused == 0 {
		t.Error("no flipped bit was refused")
	}
}

func crashedWith(t *testing.T, from Config, log []byte) Config {
	t.Helper()
	config := testConfig(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, config.Path, read(t, from.Path))
	write(t, config.Path+"-wal", log)
	return config
}

func TestInspectChangesNothing(t *testing.T) {
	config := crashed(t, 5)
	file, log := read(t, config.Path), read(t, config.Path+"-wal")
	var n int
	err := Inspect(t.Context(), config, func(ctx context.Context, db *sql.DB) error {
		if _, err := db.ExecContext(ctx, "INSERT INTO words(word) VALUES ('no')"); err == nil {
			t.Error("an inspecting connection could write")
		}
		return db.QueryRowContext(ctx, "SELECT count(*) FROM words").Scan(&n)
	})
	if err != nil || n != 5 {
		t.Errorf("got %d rows and %v, want 5", n, err)
	}
	if string(file) != string(read(t, config.Path)) || string(log) != string(read(t, config.Path+"-wal")) {
		t.Error("inspecting changed the files")
	}
	if err := Inspect(t.Context(), testConfig(t.TempDir()), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

// TestF05: files swapped or unlinked under a live writer stop it for good.
func TestF05(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		t.Run("replaced"+suffix, func(t *testing.T) {
			db := open(t, testConfig(t.TempDir()))
			if err := add(db, "one"); err != nil {
				t.Fatal(err)
			}
			path := db.Path() + suffix
			content := read(t, path)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := add(db, "two"); !errors.Is(err, ErrReplaced) {
				t.Errorf("after the removal got %v, want ErrReplaced", err)
			}
			write(t, path, content)
			if err := add(db, "three"); !errors.Is(err, ErrReplaced) {
				t.Errorf("after a copy came back got %v, want ErrReplaced", err)
			}
		})
	}
}

// TestF08: a reader that stays open does not let the log grow past its bound,
// and the store goes on when the reader ends.
func TestF08(t *testing.T) {
	config := testConfig(t.TempDir())
	config.MaxWAL = walKept
	db := open(t, config)
	if err := add(db, "seed"); err != nil {
		t.Fatal(err)
	}
	reader, err := db.reads.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRow("SELECT count(*) FROM words").Scan(&n); err != nil {
		t.Fatal(err)
	}
	db.busy(t, 10)
	big := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		if i > 64 {
			t.Fatal("the log grows without bound")
		}
		if err = add(db, fmt.Sprint(i, big)); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if size := db.walSize(); size > config.MaxWAL {
		t.Errorf("the log has %d bytes, more than its bound", size)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := add(db, "after"); err != nil {
		t.Errorf("after the reader ended: %v", err)
	}
}

// busy shortens the wait for readers, which is a real wait in TestF08.
func (d *DB) busy(t *testing.T, ms int) {
	t.Helper()
	if _, err := d.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA busy_timeout(%d)", ms)); err != nil {
		t.Fatal(err)
	}
}

// TestF03: a file-size limit is "full", reads go on, and writing goes on
// when there is room again.
func TestF03(t *testing.T) {
	if os.Getenv("SQLITE_TEST_LIMIT") == "" {
		inChild(t, "TestF03", "SQLITE_TEST_LIMIT=1")
		return
	}
	db := open(t, testConfig(t.TempDir()))
	if err := add(db, "before"); err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 256 << 10, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	if err := add(db, strings.Repeat("y", 1<<20)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if diff := cmp.Diff([]string{"before"}, words(t, db)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := add(db, "after"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestF07: what cannot be written or is no plain folder is refused at once.
func TestF07(t *testing.T) {
	config := testConfig(t.TempDir())
	config.Path = "/proc/self/words.sqlite3"
	if _, err := Open(t.Context(), config); !errors.Is(err, ErrUnsuitable) {
		t.Errorf("in /proc: got %v, want ErrUnsuitable", err)
	}
	config.Path = filepath.Join(t.TempDir(), "file", "words.sqlite3")
	write(t, filepath.Dir(config.Path), nil)
	if _, err := Open(t.Context(), config); err == nil {
		t.Error("a file in the place of the folder was let pass")
	}
}

// TestF06: the second owner is told who the first is, by whatever name it
// reaches the folder.
func TestF06(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir + "-link") })
	lock, err := Acquire(filepath.Join(dir, "owner.lock"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(filepath.Join(dir+"-link", "owner.lock"))
	owned, ok := errors.AsType[*OwnedError](err)
	if !ok || owned.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want an OwnedError with process %d", err, os.Getpid())
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Acquire(filepath.Join(dir, "owner.lock"))
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestWrapKnowsEachSentinel(t *testing.T) {
	for _, row := range []struct {
		err  error
		want error
	}{
		{syscall.ENOSPC, ErrFull}, {syscall.EDQUOT, ErrFull}, {syscall.EROFS, ErrReadOnly}, {syscall.EACCES, ErrReadOnly},
		{ErrCorrupt, ErrCorrupt}, {fmt.Errorf("x: %w", ErrBusy), ErrBusy},
	} {
		if got := Wrap(row.err); !errors.Is(got, row.want) || !errors.Is(got, row.err) {
			t.Errorf("Wrap(%v) = %v, want %v", row.err, got, row.want)
		}
	}
	if Wrap(nil) != nil || Wrap(sql.ErrNoRows) != sql.ErrNoRows {
		t.Error("Wrap changed an error that is none of its own")
	}
}

func inChild(t *testing.T, name string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Fatalf("child: %v\n%s", err, out)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, at int64, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}
