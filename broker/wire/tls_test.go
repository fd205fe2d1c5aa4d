package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// made is a certificate that differs from a good one in what change changes.
// parent signs it, itself when nil.
func made(t *testing.T, name string, parent *tls.Certificate, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	change(template)
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// F-34: who does not prove the enrolled certificate, in exactly the agreed
// way, gets no session, and nothing of what it sends is parsed.
func TestTLSClientRefused(t *testing.T) {
	authority := func(t *testing.T) *tls.Certificate {
		ca := made(t, "authority", nil, func(c *x509.Certificate) { c.IsCA = true; c.BasicConstraintsValid = true })
		return &ca
	}
	for name, row := range map[string]struct {
		enrolled func(t *testing.T) tls.Certificate // "" means a good one
		change   func(t *testing.T, c *tls.Config)
	}{
		"TLS 1.2":               {nil, func(_ *testing.T, c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }},
		"no certificate":        {nil, func(_ *testing.T, c *tls.Config) { c.Certificates = nil }},
		"another certificate":   {nil, func(t *testing.T, c *tls.Config) { c.Certificates[0] = certificate(t, helperName) }},
		"no protocol":           {nil, func(_ *testing.T, c *tls.Config) { c.NextProtos = nil }},
		"another protocol":      {nil, func(_ *testing.T, c *tls.Config) { c.NextProtos = []string{"h2"} }},
		"S-75 hostile protocol": {nil, func(_ *testing.T, c *tls.Config) { c.NextProtos = []string{"\x1b[31m\n"} }},
		"a longer chain": {nil, func(t *testing.T, c *tls.Config) {
			more := certificate(t, helperName)
			c.Certificates[0].Certificate = append(c.Certificates[0].Certificate[:1:1], more.Certificate[0])
		}},
		"a chain of 1 MiB": {nil, func(_ *testing.T, c *tls.Config) {
			first := c.Certificates[0].Certificate[0]
			c.Certificates[0].Certificate = [][]byte{first}
			for range (1 << 20) / len(first) {
				c.Certificates[0].Certificate = append(c.Certificates[0].Certificate, first)
			}
		}},
		"enrolled but expired": {func(t *testing.T) tls.Certificate {
			return made(t, helperName, nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		}, nil},
		"enrolled but not yet valid": {func(t *testing.T) tls.Certificate {
			return made(t, helperName, nil, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
		}, nil},
		"enrolled but by an authority": {func(t *testing.T) tls.Certificate {
			return made(t, helperName, authority(t), func(*x509.Certificate) {})
		}, nil},
		"enrolled but for another name": {func(t *testing.T) tls.Certificate {
			return made(t, instance+brokerSuffix, nil, func(*x509.Certificate) {})
		}, nil},
		"enrolled but for two names": {func(t *testing.T) tls.Certificate {
			return made(t, helperName, nil, func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "x") })
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &engine{auto: Approved}, func(r *rig) {
				e := r.enrollment()
				if row.enrolled != nil {
					e.Certificate = row.enrolled(r.t)
				}
				w, err := Enroll(r.t.Context(), r.dial(), e)
				if err != nil {
					t.Fatal(err)
				}
				config := clientTLS(e.Certificate, e.BrokerSHA256, instance+brokerSuffix)
				config.VerifyConnection = nil
				if row.change != nil {
					row.change(r.t, config)
				}
				conn := tls.Client(w.conn, config)
				_ = conn.Handshake() // it may succeed on this side
				conn.SetDeadline(time.Now().Add(time.Minute))
				_, _ = conn.Write(appendFrame([]byte(`{"ipcVersion":1,"requestId":1,"request":{"tool":"a"}}`)))
				_, _ = io.Copy(io.Discard, conn)
				synctest.Wait()
				if opened, handled := r.engine.opened.Load(), r.engine.handled.Load(); opened != 0 || handled != 0 {
					t.Errorf("%d sessions, %d calls", opened, handled)
				}
			})
		})
	}
}

// Frames in the clear where TLS belongs are not parsed.
func TestPlainFramesRefused(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		w := r.enroll()
		go w.conn.Write(appendFrame([]byte(`{"ipcVersion":1,"requestId":1,"request":{"tool":"a"}}`)))
		ends(w.conn)
		if r.engine.opened.Load() != 0 {
			t.Error("a session was opened")
		}
	})
}

// A flood before approval is cut at 64 KiB.
func TestFloodBeforeApproval(t *testing.T) {
	bubble(t, &engine{}, func(r *rig) {
		w := r.enroll()
		flood := bytes.Repeat([]byte{22}, 4*maxHandshake)
		n, err := w.conn.Write(flood)
		if err == nil {
			t.Error("all of it was taken")
		}
		if n > maxHandshake+8192 {
			t.Errorf("%d bytes were taken", n)
		}
		synctest.Wait()
		if r.engine.context(0).Err() == nil {
			t.Error("the pairing lives on")
		}
	})
}

// S-110: no ticket is given, so that there is nothing to resume after a
// revocation.
func TestNoResumption(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		cache := tls.NewLRUClientSessionCache(4)
		e := r.enrollment()
		for range 2 {
			w, err := Enroll(r.t.Context(), r.dial(), e)
			if err != nil {
				t.Fatal(err)
			}
			config := clientTLS(e.Certificate, e.BrokerSHA256, instance+brokerSuffix)
			config.SessionTicketsDisabled = false
			config.ClientSessionCache = cache
			conn := tls.Client(w.conn, config)
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			r.send(conn, `{"ipcVersion":1,"requestId":1,"request":{"tool":"a"}}`)
			r.receive(conn) // any ticket would have come before
			if conn.ConnectionState().DidResume {
				t.Error("a session was resumed")
			}
			if _, ok := cache.Get(instance + brokerSuffix); ok {
				t.Error("the server gave a ticket")
			}
			conn.Close()
		}
	})
}

// The client is as strict: a broker that is not the pinned one learns nothing.
func TestImpostorRefused(t *testing.T) {
	t.Run("another instance", func(t *testing.T) {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			e := r.enrollment()
			e.BrokerSHA256 = pin(certificate(r.t, instance+brokerSuffix).Certificate[0])
			if _, err := Enroll(r.t.Context(), r.dial(), e); !errors.Is(err, ErrImpostor) {
				t.Errorf("another certificate: got %v, want ErrImpostor", err)
			}
			for _, bad := range []string{"", "00", pin(r.broker.Certificate[0])[:63]} {
				e.BrokerSHA256 = bad
				if _, err := Enroll(r.t.Context(), r.dial(), e); !errors.Is(err, ErrImpostor) {
					t.Errorf("pin %q: got %v, want ErrImpostor", bad, err)
				}
			}
		})
	})
	t.Run("a copied welcome", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			real, own := certificate(t, instance+brokerSuffix), certificate(t, instance+brokerSuffix)
			client, server := net.Pipe()
			defer server.Close()
			go func() {
				if _, err := readFrame(server, maxEnrollment, nil); err != nil {
					return
				}
				body, err := encode(welcome{IPCVersion: IPCVersion, InstanceID: instance, Certificate: real.Certificate[0], PairingRequestID: "1"})
				if err != nil {
					return
				}
				server.Write(appendFrame(body))
				config := serverTLS(own, "")
				config.VerifyConnection = nil
				tls.Server(server, config).Handshake()
			}()
			w, err := Enroll(t.Context(), client, Enrollment{InstanceID: instance, Label: "test",
				Certificate: certificate(t, helperName), BrokerSHA256: pin(real.Certificate[0])})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Open(t.Context()); !errors.Is(err, ErrImpostor) {
				t.Errorf("got %v, want ErrImpostor", err)
			}
		})
	})
}
