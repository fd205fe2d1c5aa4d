// Package identity answers who is at the other end. It keeps the registration
// key with which the daemon signs where it can be found, makes the ephemeral
// certificates that both sides of the control socket pin, reads the kernel's
// word about a peer, and decides from the peer's chain of processes whether a
// decision may be taken there.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// HelperName is the name in the certificate of every client.
const HelperName = "helper.lomi.invalid"

// certificateLife is longer than any daemon runs without a restart; the
// certificates live in memory only.
const certificateLife = 366 * 24 * time.Hour

// clockSlack makes a certificate valid a little in the past, so that a clock
// that is set back by a time server does not refuse it.
const clockSlack = time.Hour

// BrokerName is the name in the certificate of the broker of an instance.
func BrokerName(instance string) string { return instance + ".lomi.invalid" }

// NewCertificate makes a key and a certificate signed by itself. Neither is
// ever stored.
func NewCertificate(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading back a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Pin is the SHA-256 of a certificate in DER, as 64 hex digits.
func Pin(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
