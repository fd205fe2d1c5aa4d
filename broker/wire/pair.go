package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"lomi/broker/control"
)

// errHungUp ends the wait for a person when the helper has gone.
var errHungUp = errors.New("the peer hung up")

// notApproved is a pairing that ended without approval.
type notApproved struct{ decision Decision }

func (e *notApproved) Error() string { return "the pairing was " + string(e.decision) }

// pair takes an enrolled peer to an authenticated connection: welcome, the
// wait for a person, TLS.
func (s *server) pair(ctx context.Context, conn net.Conn, peer Peer) (secured net.Conn, pairing string, err error) {
	p, err := s.enroll(ctx, conn, peer)
	if err != nil {
		return nil, "", err
	}
	early, err := s.decide(ctx, conn, p)
	if err != nil {
		return nil, "", err
	}
	secured, err = s.secure(ctx, conn, early, peer)
	if err != nil {
		return nil, "", fmt.Errorf("securing the connection: %w", err)
	}
	return secured, p.ID, nil
}

// enroll makes the pairing and tells the client its id. A pairing that may
// wait holds one of the places until decide gives it back.
func (s *server) enroll(ctx context.Context, conn net.Conn, peer Peer) (Pairing, error) {
	if !take(s.pending) {
		return Pairing{}, s.refuse(conn, control.Errorf(control.ResourceExhausted,
			"%d pairings wait for an answer already; settle one first", maxPending))
	}
	p, err := s.Handler.Enroll(ctx, peer)
	if err != nil {
		release(s.pending)
		return Pairing{}, s.refuse(conn, err)
	}
	err = s.welcome(conn, welcome{InstanceID: s.InstanceID, Certificate: s.Certificate.Certificate[0], PairingRequestID: p.ID})
	if err != nil {
		release(s.pending)
		return Pairing{}, err
	}
	return p, nil
}

// refuse tells the client why there is no pairing. It returns why.
func (s *server) refuse(conn net.Conn, why error) error {
	reply := control.Failure(why) // hides what is not meant for a peer
	return errors.Join(why, s.welcome(conn, welcome{Refused: &refusal{Code: reply.Code, Message: reply.Message}}))
}

func (s *server) welcome(conn net.Conn, w welcome) error {
	w.IPCVersion = IPCVersion
	body, err := encode(w)
	if err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(welcomeTime))
	if _, err := conn.Write(appendFrame(body)); err != nil {
		return fmt.Errorf("writing a welcome: %w", err)
	}
	return nil
}

// decide waits for the person. What the client has sent meanwhile, the start
// of its handshake, is returned to be read again.
func (s *server) decide(ctx context.Context, conn net.Conn, p Pairing) (early []byte, err error) {
	w := watchEarly(conn)
	decision, err := s.settled(ctx, w, p)
	if err != nil {
		return nil, err
	}
	early, err = w.stop()
	if err != nil {
		return nil, err
	}
	if decision == Approved {
		return early, nil
	}
	alert := byte(alertRejected)
	if decision == Expired {
		alert = alertExpired
	}
	conn.SetDeadline(time.Now().Add(welcomeTime))
	if _, err := conn.Write(alertRecord(alert)); err != nil {
		return nil, errors.Join(&notApproved{decision}, err)
	}
	// The client may only now begin its handshake. To a closed socket it could
	// not write, and would take the refusal for a lost connection; so the
	// connection is its to close.
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxHandshake))
	return nil, &notApproved{decision}
}

// settled waits until the pairing is settled, and then gives its place back.
func (s *server) settled(ctx context.Context, w *early, p Pairing) (Decision, error) {
	defer release(s.pending)
	timer := time.NewTimer(pairingTime)
	defer timer.Stop()
	select {
	case decision := <-p.Decision:
		return decision, nil
	case <-timer.C:
		return Expired, nil
	case <-w.done:
		return "", errors.Join(errHungUp, w.err)
	case <-ctx.Done():
		w.stop()
		return "", context.Cause(ctx)
	}
}

// early reads what a client sends before it was approved, because only a read
// notices that the client has gone. Nothing of it is looked at until then.
type early struct {
	conn net.Conn
	read bytes.Buffer
	err  error
	done chan struct{} // closed when reading has ended; read and err are set
}

func watchEarly(conn net.Conn) *early {
	conn.SetDeadline(time.Time{})
	e := &early{conn: conn, done: make(chan struct{})}
	go e.run() // ends with stop, or with the connection
	return e
}

func (e *early) run() {
	defer close(e.done)
	piece := make([]byte, 4096)
	for {
		n, err := e.conn.Read(piece)
		e.read.Write(piece[:n])
		if err == nil && e.read.Len() > maxHandshake {
			err = errHandshakeSize
		}
		if err != nil {
			e.err = err
			return
		}
	}
}

// stop ends the reading and returns what came.
func (e *early) stop() ([]byte, error) {
	e.conn.SetReadDeadline(time.Unix(1, 0)) // in the past: a waiting read returns now
	<-e.done
	if !errors.Is(e.err, os.ErrDeadlineExceeded) {
		return nil, errors.Join(errHungUp, e.err)
	}
	e.conn.SetDeadline(time.Time{})
	return e.read.Bytes(), nil
}

// secure runs the server's side of the handshake, when it is its turn.
func (s *server) secure(ctx context.Context, conn net.Conn, early []byte, peer Peer) (net.Conn, error) {
	if err := await(ctx, s.handshakes); err != nil {
		return nil, err
	}
	defer release(s.handshakes)
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	capped := &cappedConn{Conn: conn, before: early, left: maxHandshake - len(early)}
	secured := tls.Server(capped, serverTLS(s.Certificate, peer.CertificateSHA256))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	capped.unlimited = true
	return secured, nil
}
