package identity

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lomi/broker/control"
)

const (
	discoveryFile    = "discovery.json"
	discoveryVersion = 1
	maxDiscovery     = 16 << 10
	ipcVersion       = 1
	// signingDomain keeps a signature from meaning anything elsewhere.
	signingDomain = "lomi-mcp-discovery-v1\x00"
)

// Descriptor says where a running daemon answers and how to know it.
type Descriptor struct {
	InstanceID   string `json:"instanceId"`
	Endpoint     string `json:"endpoint"` // path of the control socket
	BrokerSHA256 string `json:"brokerSha256"`
	IPCVersion   int    `json:"ipcVersion"`
}

// signed is the file: the payload is a string, so that exactly the signed
// bytes are read again.
type signed struct {
	Version   int    `json:"version"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// DiscoveryPath is where the descriptor lies in dir.
func DiscoveryPath(dir string) string { return filepath.Join(dir, discoveryFile) }

// Publish signs a descriptor and puts it into dir, in place of an older one.
func Publish(dir string, key ed25519.PrivateKey, d Descriptor) error {
	d.IPCVersion = ipcVersion
	if err := d.check(); err != nil {
		return fmt.Errorf("publishing a descriptor: %w", err)
	}
	if err := checkPrivateDir(dir); err != nil {
		return fmt.Errorf("publishing a descriptor: %w", err)
	}
	payload, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding a descriptor: %w", err)
	}
	data, err := json.Marshal(signed{
		Version:   discoveryVersion,
		Payload:   string(payload),
		Signature: hex.EncodeToString(ed25519.Sign(key, append([]byte(signingDomain), payload...))),
	})
	if err != nil {
		return fmt.Errorf("encoding a descriptor: %w", err)
	}
	if err := writeAtomic(DiscoveryPath(dir), data, os.Rename); err != nil {
		return fmt.Errorf("publishing a descriptor: %w", err)
	}
	return nil
}

// ReadDescriptor reads the descriptor at path and believes it only when the
// file is private to us and signed with the key whose public half is keyHex.
func ReadDescriptor(path, keyHex string) (Descriptor, error) {
	key, err := parsePublic(keyHex)
	if err != nil {
		return Descriptor{}, err
	}
	file, err := readSigned(path)
	if err != nil {
		return Descriptor{}, err
	}
	signature, err := hex.DecodeString(file.Signature)
	if err != nil || !ed25519.Verify(key, append([]byte(signingDomain), file.Payload...), signature) {
		return Descriptor{}, fmt.Errorf("%s: the signature is not by the expected key", path)
	}
	return parseDescriptor(path, file.Payload)
}

func readSigned(path string) (signed, error) {
	data, err := readPrivate(path, maxDiscovery)
	if err != nil {
		return signed{}, fmt.Errorf("reading a descriptor: %w", err)
	}
	var file signed
	if err := control.DecodeWithin(data, maxDiscovery, &file); err != nil {
		return signed{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if file.Version != discoveryVersion {
		return signed{}, fmt.Errorf("%s: version %d, not %d", path, file.Version, discoveryVersion)
	}
	return file, nil
}

func parseDescriptor(path, payload string) (Descriptor, error) {
	var d Descriptor
	if err := control.DecodeWithin([]byte(payload), maxDiscovery, &d); err != nil {
		return Descriptor{}, fmt.Errorf("reading %s: payload: %w", path, err)
	}
	if err := d.check(); err != nil {
		return Descriptor{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return d, nil
}

func (d *Descriptor) check() error {
	sum, err := hex.DecodeString(d.BrokerSHA256)
	switch {
	case d.IPCVersion != ipcVersion:
		return fmt.Errorf("protocol version %d, not %d", d.IPCVersion, ipcVersion)
	case !control.ValidID(d.InstanceID):
		return errors.New("no valid instance id")
	case !filepath.IsAbs(d.Endpoint):
		return errors.New("the endpoint is not an absolute path")
	case err != nil || len(sum) != 32:
		return errors.New("the broker's pin is not 64 hex digits")
	}
	return nil
}

// Withdraw removes the descriptor in dir if it is that of instance. Another
// one's, or none, is left alone.
func Withdraw(dir, instance string) error {
	file, err := readSigned(DiscoveryPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := parseDescriptor(DiscoveryPath(dir), file.Payload)
	if err != nil {
		return err
	}
	if d.InstanceID != instance {
		return nil
	}
	if err := os.Remove(DiscoveryPath(dir)); err != nil {
		return fmt.Errorf("withdrawing a descriptor: %w", err)
	}
	return nil
}
