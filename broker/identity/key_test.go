package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// privateFolder is a fresh folder of mode 0700.
func privateFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, privateDir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestLoadKeyCreatesOnce(t *testing.T) {
	dir := privateFolder(t)
	first, err := LoadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Equal(second) {
		t.Error("a second start got another key")
	}
	info, err := os.Stat(filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != 0o600 {
		t.Errorf("mode of the key: got %v, want 0600", got)
	}
	if info.Size() > maxKeyFile {
		t.Errorf("the key has %d bytes", info.Size())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("got %d files in the folder, want the key alone", len(entries))
	}
}

func TestLoadKeyTwoStartsAtOnce(t *testing.T) {
	dir := privateFolder(t)
	keys := make([]string, 16)
	var starts sync.WaitGroup
	for i := range keys {
		starts.Go(func() {
			key, err := LoadKey(dir)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = PublicHex(key)
		})
	}
	starts.Wait()
	for _, key := range keys {
		if key != keys[0] {
			t.Fatalf("two keys: %s and %s", key, keys[0])
		}
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	otherKind, err := x509.MarshalPKCS8PrivateKey(foreign)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(t *testing.T) []byte {
		dir := privateFolder(t)
		if _, err := LoadKey(dir); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, keyFile))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, prepare := range map[string]func(t *testing.T, dir, path string){
		"empty":          func(t *testing.T, _, path string) { write(t, path, nil, 0o600) },
		"damaged":        func(t *testing.T, _, path string) { write(t, path, []byte("no key"), 0o600) },
		"cut":            func(t *testing.T, _, path string) { write(t, path, valid(t)[:20], 0o600) },
		"another kind":   func(t *testing.T, _, path string) { write(t, path, otherKind, 0o600) },
		"oversized":      func(t *testing.T, _, path string) { write(t, path, make([]byte, maxKeyFile+1), 0o600) },
		"group readable": func(t *testing.T, _, path string) { write(t, path, valid(t), 0o640) },
		"open folder": func(t *testing.T, dir, path string) {
			write(t, path, valid(t), 0o600)
			chmod(t, dir, 0o755)
		},
		"symbolic link": func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "elsewhere"), valid(t), 0o600)
			must(t, os.Symlink("elsewhere", path))
		},
		"two links": func(t *testing.T, dir, path string) {
			write(t, path, valid(t), 0o600)
			must(t, os.Link(path, filepath.Join(dir, "second")))
		},
		"FIFO": func(t *testing.T, _, path string) { must(t, unix.Mkfifo(path, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := privateFolder(t)
			path := filepath.Join(dir, keyFile)
			prepare(t, dir, path)
			before, err := os.Lstat(path)
			must(t, err)
			if _, err := LoadKey(dir); err == nil {
				t.Fatal("got a key")
			}
			after, err := os.Lstat(path)
			must(t, err)
			if !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Error("the file was not kept as it was")
			}
		})
	}
}

func TestLoadKeyCreatesOnlyInPrivateFolder(t *testing.T) {
	dir := privateFolder(t)
	chmod(t, dir, 0o750)
	if _, err := LoadKey(dir); err == nil {
		t.Error("created a key in a folder that others enter")
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must(t, os.Chmod(path, mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
