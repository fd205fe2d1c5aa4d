package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"
)

// maxHandshake is how many bytes a peer may send before TLS stands.
const maxHandshake = 64 << 10

// Names in the certificates. They identify nobody, the pins do; a certificate
// with another name was made for something else.
const (
	helperName   = "helper.lomi.invalid"
	brokerSuffix = ".lomi.invalid"
)

// Alerts with which the server ends the wait for a person, so that a client
// can tell a refusal from a lost connection.
const (
	alertRejected = 49 // access_denied
	alertExpired  = 45 // certificate_expired
)

// pin is the SHA-256 of a certificate in DER, in hex.
func pin(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func samePin(a, b string) bool {
	return len(a) == 2*sha256.Size && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func serverTLS(certificate tls.Certificate, peerPin string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		MaxVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate},
		NextProtos:             []string{ALPN},
		ClientAuth:             tls.RequireAnyClientCert, // the pin decides, in VerifyConnection
		SessionTicketsDisabled: true,
		VerifyConnection:       func(s tls.ConnectionState) error { return verify(s, peerPin, helperName) },
	}
}

func clientTLS(certificate tls.Certificate, peerPin, name string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		MaxVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{ALPN},
		ServerName:   name,
		// There is no authority to ask: the certificate is self-signed and
		// known in advance. VerifyConnection compares it with the pin, and Go
		// always calls it.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection:       func(s tls.ConnectionState) error { return verify(s, peerPin, name) },
	}
}

// verify holds both sides to the same rules.
func verify(s tls.ConnectionState, peerPin, name string) error {
	switch {
	case s.Version != tls.VersionTLS13:
		return errors.New("the peer does not speak TLS 1.3")
	case s.DidResume:
		return errors.New("a resumed session") // tickets are off; never trust that alone
	case s.NegotiatedProtocol != ALPN:
		return errors.New("the peer speaks another protocol inside TLS")
	case len(s.PeerCertificates) != 1:
		return fmt.Errorf("%d certificates where one is pinned", len(s.PeerCertificates))
	case !samePin(peerPin, pin(s.PeerCertificates[0].Raw)):
		return errors.New("the peer's certificate is not the pinned one")
	}
	return checkCertificate(s.PeerCertificates[0], name)
}

// checkCertificate refuses a certificate that was not made for this protocol,
// even when its pin fits.
func checkCertificate(c *x509.Certificate, name string) error {
	now := time.Now()
	switch {
	case now.Before(c.NotBefore):
		return errors.New("the certificate is not valid yet")
	case now.After(c.NotAfter):
		return errors.New("the certificate has expired")
	case len(c.DNSNames) != 1 || c.DNSNames[0] != name:
		return errors.New("the certificate is for another name")
	}
	if err := c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); err != nil {
		return fmt.Errorf("the certificate is not signed by itself: %w", err)
	}
	return nil
}

// alertRecord is a fatal TLS alert in the clear.
func alertRecord(description byte) []byte {
	return []byte{21, 3, 3, 0, 2, 2, description}
}

// isAlert reports whether err is the given alert of the peer. crypto/tls does
// not export the type of a received alert; its texts are those of AlertError.
func isAlert(err error, description uint8) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && op.Err.Error() == tls.AlertError(description).Error()
}

var errHandshakeSize = errors.New("more than 64 KiB before TLS stands")

// cappedConn reads what was already read first, and at most left bytes
// altogether until unlimited is set.
type cappedConn struct {
	net.Conn
	before    []byte
	left      int
	unlimited bool // set by the goroutine that reads, after the handshake
}

func (c *cappedConn) Read(p []byte) (int, error) {
	if len(c.before) > 0 {
		n := copy(p, c.before)
		c.before = c.before[n:]
		return n, nil
	}
	if c.unlimited {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, errHandshakeSize
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
