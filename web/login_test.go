package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newClock() *clock { return &clock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func openTestLogins(t *testing.T, path string, c *clock) *logins {
	t.Helper()
	l, err := openLogins(path, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func redeem(t *testing.T, l *logins) (cookie, key string) {
	t.Helper()
	cookie, key, err := l.redeem(l.newCode())
	if err != nil {
		t.Fatal(err)
	}
	return cookie, key
}

func TestALoginNeedsBothSecrets(t *testing.T) {
	c := newClock()
	l := openTestLogins(t, filepath.Join(t.TempDir(), "logins.json"), c)
	cookie, key := redeem(t, l)
	otherCookie, otherKey := redeem(t, l)
	for _, row := range []struct {
		name, cookie, key string
		want              bool
	}{
		{"both", cookie, key, true},
		{"the cookie alone, as another server on this host gets it", cookie, "", false},
		{"the key alone", "", key, false},
		{"the cookie of one login and the key of another", cookie, otherKey, false},
		{"the other way round", otherCookie, key, false},
		{"swapped", key, cookie, false},
	} {
		if _, got := l.find(row.cookie, row.key); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
	}
}

func TestACodeWorksOnceForTwoMinutes(t *testing.T) {
	c := newClock()
	l := openTestLogins(t, filepath.Join(t.TempDir(), "logins.json"), c)
	code := l.newCode()
	if _, _, err := l.redeem(code); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.redeem(code); err != errBadLogin {
		t.Errorf("a second use: got %v, want errBadLogin", err)
	}
	late := l.newCode()
	c.now = c.now.Add(codeLife + time.Second)
	if _, _, err := l.redeem(late); err != errBadLogin {
		t.Errorf("after two minutes: got %v, want errBadLogin", err)
	}
}

func TestLoginsSurviveARestartForThirtyDays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins.json")
	c := newClock()
	cookie, key := redeem(t, openTestLogins(t, path, c))
	again := openTestLogins(t, path, c)
	if _, ok := again.find(cookie, key); !ok {
		t.Error("the login did not survive a restart")
	}
	c.now = c.now.Add(loginLife + time.Minute)
	if _, ok := again.find(cookie, key); ok {
		t.Error("the login outlived its 30 days")
	}
}

// S-114: whoever reads the file finds hashes only.
func TestTheFileHoldsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins.json")
	cookie, key := redeem(t, openTestLogins(t, path, newClock()))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), cookie) || strings.Contains(string(raw), key) {
		t.Error("a secret is in the file in clear")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %o, want 600", got)
	}
}

func TestADamagedFileIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins.json")
	if err := os.WriteFile(path, []byte(`[{"id":"x"`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openTestLogins(t, path, newClock())
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Errorf("the damaged file was not kept: %v", err)
	}
	redeem(t, l)
}

func TestGuessesAreBounded(t *testing.T) {
	c := newClock()
	l := openTestLogins(t, filepath.Join(t.TempDir(), "logins.json"), c)
	for range wrongPerMinute {
		if _, _, err := l.redeem(secret()); err != errBadLogin {
			t.Fatal(err)
		}
	}
	good := l.newCode()
	if _, _, err := l.redeem(good); err != errBadLogin {
		t.Error("guessing goes on without a bound")
	}
	c.now = c.now.Add(61 * time.Second)
	if _, _, err := l.redeem(good); err != nil {
		t.Errorf("a minute later a good code must work: %v", err)
	}
}
