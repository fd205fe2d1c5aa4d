package wire

import (
	"context"
	"encoding/json"

	"lomi/broker/control"
)

// Peer is who is at the other end of a connection. The kernel says UID and
// PID; Label is what the peer calls itself and proves nothing;
// CertificateSHA256 (64 hex digits) is the certificate that the peer must
// prove to own once a person has approved it.
type Peer struct {
	UID               int
	PID               int // 0 where the system does not tell
	Label             string
	CertificateSHA256 string
}

// Decision is how a pairing was settled.
type Decision string

// The decisions.
const (
	Approved Decision = "approved"
	Rejected Decision = "rejected"
	Expired  Decision = "expired"
)

// Pairing is a request that waits for a person. Exactly one Decision is sent
// on the channel, which is buffered so that sending never blocks.
type Pairing struct {
	ID       string
	Decision <-chan Decision
}

// Session is an approved and authenticated connection. Closing Ended (revoke,
// stop, restart of the policy epoch) makes the server end the connection after
// the answers that are already due were written. A nil Ended never ends it.
type Session struct {
	ID    string
	Ended <-chan struct{}
}

// Handler is the engine behind the socket. Every method is safe for concurrent
// use, and none is called for a peer of another user.
//
// The order for one connection is: Enroll; after Approved and a mutual TLS
// handshake with exactly the enrolled certificate, Open; then Handle, up to 16
// at a time; then Closed, once, if Open succeeded.
type Handler interface {
	// Enroll makes a pending pairing. ctx lives as long as the connection, so
	// that its end also drops the pairing: the helper hung up, the 120 s are
	// over, or the daemon stops. An *control.Error reaches the peer as it is
	// (RESOURCE_EXHAUSTED when too many pairings wait).
	Enroll(ctx context.Context, peer Peer) (Pairing, error)
	// Open turns an approved pairing into a session. ctx is that of Enroll.
	Open(ctx context.Context, pairing string) (Session, error)
	// Handle answers one request. args is the JSON of the arguments as the
	// peer sent it, at most control.MaxArguments bytes, not yet decoded; never
	// empty ("{}" stands for none). ctx ends when the connection ends. A panic
	// is not caught here.
	Handle(ctx context.Context, session, tool string, args json.RawMessage) control.Reply
	// Closed tells that the connection of a session has ended. The contexts of
	// its calls are cancelled by then, but some calls may not have returned.
	Closed(session string)
}
