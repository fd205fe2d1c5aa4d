package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"lomi/internal/private"
)

const (
	codeLife  = 2 * time.Minute
	loginLife = 30 * 24 * time.Hour
	// A person opens a handful of links; more are someone trying.
	maxCodes  = 16
	maxLogins = 64
	// Guessing a 256-bit code is hopeless, so this bound is only about noise.
	wrongPerMinute = 30
)

// login is one page that a person opened. Only hashes are kept: whoever reads
// the file cannot log in with it.
type login struct {
	ID      string    `json:"id"`
	Cookie  string    `json:"cookie"` // SHA-256 in hex
	Key     string    `json:"key"`    // likewise
	Created time.Time `json:"created"`
}

// logins keeps the pages' logins and the one-time codes. Logins survive a
// restart of the daemon in a file; codes do not.
type logins struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	codes  map[string]time.Time // SHA-256 of a code -> when it ends
	all    []login
	wrong  int
	minute time.Time
}

func openLogins(path string, now func() time.Time) (*logins, error) {
	l := &logins{path: path, now: now, codes: map[string]time.Time{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading logins: %w", err)
	}
	if err := json.Unmarshal(raw, &l.all); err != nil {
		// A login is cheap to make again, and a damaged file must not keep a
		// person out: the old one is kept beside for whoever wants to look.
		if err := os.Rename(path, path+".damaged"); err != nil {
			return nil, fmt.Errorf("setting damaged logins aside: %w", err)
		}
		l.all = nil
	}
	return l, nil
}

// newCode makes a single-use code for a login link.
func (l *logins) newCode() string {
	code := secret()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for h, ends := range l.codes {
		if now.After(ends) {
			delete(l.codes, h)
		}
	}
	for h := range l.codes {
		if len(l.codes) < maxCodes {
			break
		}
		delete(l.codes, h)
	}
	l.codes[hash(code)] = now.Add(codeLife)
	return code
}

// redeem turns a code into a login: the cookie's value and the page's key.
func (l *logins) redeem(code string) (cookie, key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.minute) > time.Minute {
		l.minute, l.wrong = now, 0
	}
	if l.wrong >= wrongPerMinute {
		return "", "", errBadLogin
	}
	h := hash(code)
	ends, ok := l.codes[h]
	delete(l.codes, h)
	if !ok || now.After(ends) {
		l.wrong++
		return "", "", errBadLogin
	}
	cookie, key = secret(), secret()
	l.all = append(l.live(now), login{ID: secret()[:16], Cookie: hash(cookie), Key: hash(key), Created: now})
	if len(l.all) > maxLogins {
		l.all = l.all[len(l.all)-maxLogins:]
	}
	return cookie, key, l.save()
}

// find returns the login that both secrets belong to. Either one alone opens
// nothing: a cookie is sent to every server on this host, whatever its port.
func (l *logins) find(cookie, key string) (id string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.live(l.now()) {
		if same(one.Cookie, hash(cookie)) && same(one.Key, hash(key)) {
			return one.ID, true
		}
	}
	return "", false
}

// revokeAll ends every login.
func (l *logins) revokeAll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
	return l.save()
}

func (l *logins) live(now time.Time) []login {
	var live []login
	for _, one := range l.all {
		if now.Sub(one.Created) < loginLife {
			live = append(live, one)
		}
	}
	return live
}

func (l *logins) save() error {
	raw, err := json.Marshal(l.all)
	if err != nil {
		return fmt.Errorf("encoding logins: %w", err)
	}
	return private.Write(l.path, raw)
}

func secret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
