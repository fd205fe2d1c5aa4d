package identity

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func descriptor() Descriptor {
	return Descriptor{InstanceID: "0123456789abcdef0123456789abcdef", Endpoint: "/tmp/lomi-control-1/control.sock",
		BrokerSHA256: strings.Repeat("ab", 32), IPCVersion: 1}
}

// published is a folder with a descriptor in it.
func published(t *testing.T) (dir, keyHex string, key ed25519.PrivateKey) {
	t.Helper()
	dir = privateFolder(t)
	key, err := LoadKey(dir)
	must(t, err)
	must(t, Publish(dir, key, descriptor()))
	return dir, PublicHex(key), key
}

func TestDescriptorRoundTrip(t *testing.T) {
	dir, keyHex, key := published(t)
	got, err := ReadDescriptor(DiscoveryPath(dir), keyHex)
	must(t, err)
	if diff := cmp.Diff(descriptor(), got); diff != "" {
		t.Error(diff)
	}

	next := descriptor()
	next.InstanceID, next.Endpoint = "next", "/tmp/lomi-control-2/control.sock"
	must(t, Publish(dir, key, next))
	got, err = ReadDescriptor(DiscoveryPath(dir), keyHex)
	must(t, err)
	if diff := cmp.Diff(next, got); diff != "" {
		t.Errorf("after publishing again: %s", diff)
	}
	info, err := os.Stat(DiscoveryPath(dir))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode of the descriptor: got %v, want 0600", info.Mode())
	}
}

func sign(t *testing.T, key ed25519.PrivateKey, domain, payload string, version int) []byte {
	t.Helper()
	data, err := json.Marshal(signed{Version: version, Payload: payload,
		Signature: hex.EncodeToString(ed25519.Sign(key, []byte(domain+payload)))})
	must(t, err)
	return data
}

func TestReadDescriptorRefuses(t *testing.T) {
	payload := func(t *testing.T) string {
		data, err := json.Marshal(descriptor())
		must(t, err)
		return string(data)
	}
	rewrite := func(make func(t *testing.T, key ed25519.PrivateKey) []byte) func(*testing.T, string, ed25519.PrivateKey) {
		return func(t *testing.T, dir string, key ed25519.PrivateKey) {
			write(t, DiscoveryPath(dir), make(t, key), 0o600)
		}
	}
	for name, spoil := range map[string]func(t *testing.T, dir string, key ed25519.PrivateKey){
		"missing":     func(t *testing.T, dir string, _ ed25519.PrivateKey) { must(t, os.Remove(DiscoveryPath(dir))) },
		"file mode":   func(t *testing.T, dir string, _ ed25519.PrivateKey) { chmod(t, DiscoveryPath(dir), 0o644) },
		"folder mode": func(t *testing.T, dir string, _ ed25519.PrivateKey) { chmod(t, dir, 0o711) },
		"symbolic link": func(t *testing.T, dir string, _ ed25519.PrivateKey) {
			must(t, os.Rename(DiscoveryPath(dir), filepath.Join(dir, "elsewhere")))
			must(t, os.Symlink("elsewhere", DiscoveryPath(dir)))
		},
		"two links": func(t *testing.T, dir string, _ ed25519.PrivateKey) {
			must(t, os.Link(DiscoveryPath(dir), filepath.Join(dir, "second")))
		},
		"FIFO": func(t *testing.T, dir string, _ ed25519.PrivateKey) {
			must(t, os.Remove(DiscoveryPath(dir)))
			must(t, unix.Mkfifo(DiscoveryPath(dir), 0o600))
		},
		"folder in its place": func(t *testing.T, dir string, _ ed25519.PrivateKey) {
			must(t, os.Remove(DiscoveryPath(dir)))
			must(t, os.Mkdir(DiscoveryPath(dir), 0o600))
		},
		"empty":     rewrite(func(*testing.T, ed25519.PrivateKey) []byte { return nil }),
		"oversized": rewrite(func(*testing.T, ed25519.PrivateKey) []byte { return make([]byte, maxDiscovery+1) }),
		"version": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, signingDomain, payload(t), 2)
		}),
		"signed for something else": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, "another domain\x00", payload(t), 1)
		}),
		"signed by another": rewrite(func(t *testing.T, _ ed25519.PrivateKey) []byte {
			_, other, err := ed25519.GenerateKey(nil)
			must(t, err)
			return sign(t, other, signingDomain, payload(t), 1)
		}),
		"one byte changed": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			data := sign(t, key, signingDomain, payload(t), 1)
			return []byte(strings.Replace(string(data), "control-1", "control-9", 1))
		}),
		"S-70 unknown field": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			data := sign(t, key, signingDomain, payload(t), 1)
			return []byte(strings.Replace(string(data), "{", `{"Payload":"x",`, 1))
		}),
		"S-112 unknown field in the payload": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, signingDomain, strings.Replace(payload(t), "{", `{"only":"reads",`, 1), 1)
		}),
		"relative endpoint": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, signingDomain, strings.Replace(payload(t), `"/tmp`, `"tmp`, 1), 1)
		}),
		"short pin": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, signingDomain, strings.Replace(payload(t), "abab", "ab", 1), 1)
		}),
		"protocol version": rewrite(func(t *testing.T, key ed25519.PrivateKey) []byte {
			return sign(t, key, signingDomain, strings.Replace(payload(t), `"ipcVersion":1`, `"ipcVersion":2`, 1), 1)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			dir, keyHex, key := published(t)
			spoil(t, dir, key)
			if got, err := ReadDescriptor(DiscoveryPath(dir), keyHex); err == nil {
				t.Errorf("read %+v", got)
			}
		})
	}
}

func TestReadDescriptorRefusesPathAndKey(t *testing.T) {
	dir, keyHex, _ := published(t)
	linked := filepath.Join(t.TempDir(), "linked")
	must(t, os.Symlink(dir, linked))
	t.Chdir(dir)
	for name, path := range map[string]string{
		"relative":       discoveryFile,
		"unclean":        dir + "/../" + filepath.Base(dir) + "/" + discoveryFile,
		"folder is link": DiscoveryPath(linked),
	} {
		if _, err := ReadDescriptor(path, keyHex); err == nil {
			t.Errorf("%s: read it", name)
		}
	}
	for _, bad := range []string{"", "zz", keyHex[:62], keyHex + "00", strings.Repeat("0", 64)} {
		if _, err := ReadDescriptor(DiscoveryPath(dir), bad); err == nil {
			t.Errorf("key %q: read it", bad)
		}
	}
}

func TestWithdraw(t *testing.T) {
	dir, keyHex, _ := published(t)
	must(t, Withdraw(dir, "another-instance"))
	if _, err := ReadDescriptor(DiscoveryPath(dir), keyHex); err != nil {
		t.Fatalf("after withdrawing another instance: %v", err)
	}
	must(t, Withdraw(dir, descriptor().InstanceID))
	if _, err := os.Lstat(DiscoveryPath(dir)); !os.IsNotExist(err) {
		t.Errorf("the descriptor is still there: %v", err)
	}
	must(t, Withdraw(dir, descriptor().InstanceID)) // none is left: nothing to do
}
