package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"lomi/broker/control"
)

// approvalTime is how long a client waits for approval and handshake; the
// server gives up first.
const approvalTime = 130 * time.Second

// What a client can meet.
var (
	// ErrRejected: a person said no to the pairing.
	ErrRejected = errors.New("the pairing was rejected")
	// ErrExpired: nobody answered the pairing in time.
	ErrExpired = errors.New("the pairing expired unanswered")
	// ErrImpostor: the other end is not the broker that was meant.
	ErrImpostor = errors.New("the other end is not the expected broker")
	// ErrLost: the connection ended. A request that was sent before may or may
	// not have had its effect.
	ErrLost = errors.New("the connection to the broker is lost")
	// ErrNotSent goes with any other error of Call when the request never left:
	// it had no effect.
	ErrNotSent = errors.New("the request was not sent")
)

// Enrollment is what a client says of itself, and whom it expects.
type Enrollment struct {
	InstanceID   string
	Label        string
	Certificate  tls.Certificate // self-signed, for helper.lomi.invalid
	BrokerSHA256 string          // pin of the broker's certificate, 64 hex digits
}

// Enrolled is a pairing that waits for a person.
type Enrolled struct {
	conn    net.Conn
	e       Enrollment
	pairing string
}

// Enroll asks for a pairing on a fresh connection, which it owns from then on.
// A refusal of the broker comes back as its *control.Error.
func Enroll(ctx context.Context, conn net.Conn, e Enrollment) (_ *Enrolled, err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			conn.Close()
		}
	}()
	if len(e.Certificate.Certificate) != 1 {
		return nil, errors.New("enrolling: exactly one certificate is needed")
	}
	body, err := encode(enrollment{IPCVersion: IPCVersion, InstanceID: e.InstanceID, ClientLabel: e.Label,
		Certificate: e.Certificate.Certificate[0]})
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(enrollTime + welcomeTime))
	if _, err := conn.Write(appendFrame(body)); err != nil {
		return nil, fmt.Errorf("sending an enrolment: %w", err)
	}
	body, err = readFrame(conn, maxEnrollment, nil)
	if err != nil {
		return nil, fmt.Errorf("waiting for the broker's welcome: %w", unexpected(err))
	}
	var w welcome
	if err := control.DecodeWithin(body, maxEnrollment, &w); err != nil {
		return nil, fmt.Errorf("reading the broker's welcome: %w", err)
	}
	if err := e.accept(w); err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return &Enrolled{conn: conn, e: e, pairing: w.PairingRequestID}, nil
}

func (e *Enrollment) accept(w welcome) error {
	switch {
	case w.IPCVersion != IPCVersion:
		return errVersion
	case w.Refused != nil:
		return &control.Error{Code: w.Refused.Code, Message: w.Refused.Message, Effect: control.EffectNone}
	case w.InstanceID != e.InstanceID:
		return fmt.Errorf("%w: another instance", ErrImpostor)
	case !samePin(e.BrokerSHA256, pin(w.Certificate)):
		return fmt.Errorf("%w: another certificate", ErrImpostor)
	case !control.ValidID(w.PairingRequestID):
		return errors.New("a welcome without a pairing id")
	}
	return nil
}

// PairingID is what a person sees and approves.
func (w *Enrolled) PairingID() string { return w.pairing }

// Close gives the pairing up.
func (w *Enrolled) Close() error { return w.conn.Close() }

// Open waits for the approval and secures the connection. The wait ends with
// ctx. It is called once; after an error the connection is closed.
func (w *Enrolled) Open(ctx context.Context) (_ *Link, err error) {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	secured := tls.Client(w.conn, clientTLS(w.e.Certificate, w.e.BrokerSHA256, w.e.InstanceID+brokerSuffix))
	if err := secured.HandshakeContext(ctx); err != nil {
		alert := w.leftAlert(err)
		w.conn.Close()
		return nil, openError(ctx, cmp.Or(alert, err))
	}
	l := startLink(secured)
	// In TLS 1.3 our handshake is over before the broker has judged our
	// certificate and opened the session. An answer to a ping proves both.
	if err := l.proof(ctx); err != nil {
		l.Close()
		return nil, openError(ctx, err)
	}
	return l, nil
}

// leftAlert is the refusal that a broker left behind before it closed the
// connection, to which our handshake then could not be written.
func (w *Enrolled) leftAlert(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "write" {
		return nil
	}
	record := make([]byte, len(alertRecord(0)))
	w.conn.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := io.ReadFull(w.conn, record); err != nil {
		return nil
	}
	switch {
	case bytes.Equal(record, alertRecord(alertRejected)):
		return ErrRejected
	case bytes.Equal(record, alertRecord(alertExpired)):
		return ErrExpired
	}
	return nil
}

func openError(ctx context.Context, err error) error {
	switch {
	case isAlert(err, alertRejected), errors.Is(err, ErrRejected):
		return ErrRejected
	case isAlert(err, alertExpired), errors.Is(err, ErrExpired):
		return ErrExpired
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for approval: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrLost), isConnectionError(err):
		return fmt.Errorf("%w while the pairing waited", ErrLost)
	}
	return fmt.Errorf("%w: %w", ErrImpostor, err)
}

// isConnectionError tells a dead connection from a failed check.
func isConnectionError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return (ok && (op.Op == "read" || op.Op == "write")) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed)
}
