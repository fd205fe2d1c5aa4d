package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// keyFile is the registration key in its folder. MCP hosts keep its public
// half in their configuration, so it outlives every instance.
const keyFile = "registration-key.pk8"

// maxKeyFile is far more than an Ed25519 key in PKCS #8 needs.
const maxKeyFile = 1024

// LoadKey reads the registration key in dir, a private folder, and creates it
// when there is none. A file that is damaged, or open to others, is kept as it
// is and refused: a new key would silently break every host's configuration.
func LoadKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	data, err := readPrivate(path, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the registration key: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("the registration key %s is damaged: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the registration key %s is damaged: it is no Ed25519 key", path)
	}
	return key, nil
}

func createKey(dir, path string) (ed25519.PrivateKey, error) {
	if err := checkPrivateDir(dir); err != nil {
		return nil, fmt.Errorf("creating the registration key: %w", err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the registration key: %w", err)
	}
	data, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the registration key: %w", err)
	}
	// It never replaces: of two starts at once, one loses and reads.
	err = writeAtomic(path, data, renameNew)
	if errors.Is(err, fs.ErrExist) {
		return LoadKey(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the registration key: %w", err)
	}
	return key, nil
}

// PublicHex is the public half of a registration key as hosts keep it.
func PublicHex(key ed25519.PrivateKey) string {
	return hex.EncodeToString(key.Public().(ed25519.PublicKey))
}

// parsePublic reads what PublicHex wrote.
func parsePublic(text string) (ed25519.PublicKey, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a discovery key must be 64 hex digits")
	}
	return ed25519.PublicKey(raw), nil
}
