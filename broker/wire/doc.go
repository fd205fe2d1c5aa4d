// Package wire is the control protocol between the broker and its clients:
// frames, enrolment, mutual TLS 1.3 with both certificates pinned in advance,
// and up to 16 requests at a time on one Unix-socket connection. It knows no
// tool and decides nothing; Handler does.
//
// On a fresh connection the client sends one enrolment frame in the clear and
// gets one welcome frame back. After that only TLS is spoken: the client's
// handshake starts at once and is answered when a person has approved the
// pairing, or ended with an alert when not. Inside TLS both sides exchange
// frames again.
package wire
