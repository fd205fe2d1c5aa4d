package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"lomi/broker/control"
)

// IPCVersion is the version of this protocol; both sides state it in every
// frame.
const IPCVersion = 1

// ALPN names the protocol inside TLS.
const ALPN = "lomi-control/1"

// Sizes of the steps.
const (
	maxEnrollment  = 16 << 10
	maxCertificate = 8192
	maxLabel       = 80
	maxInstance    = 128
	// A request frame has room for the largest arguments and for the first
	// byte too many, so that those are refused by their own bound.
	maxRequest = 2 * control.MaxArguments
)

// enrollment is the first frame, from the client.
type enrollment struct {
	IPCVersion  int    `json:"ipcVersion"`
	InstanceID  string `json:"instanceId"`
	ClientLabel string `json:"clientLabel"`
	Certificate []byte `json:"certificate"` // DER
}

// welcome is the answer. Refused stands instead of the other fields when the
// broker takes no further pairing.
type welcome struct {
	IPCVersion       int      `json:"ipcVersion"`
	InstanceID       string   `json:"instanceId,omitempty"`
	Certificate      []byte   `json:"certificate,omitempty"` // DER
	PairingRequestID string   `json:"pairingRequestId,omitempty"`
	Refused          *refusal `json:"refused,omitempty"`
}

type refusal struct {
	Code    control.Code `json:"code"`
	Message string       `json:"message"`
}

// message is every frame inside TLS: a request of the client, a result of the
// server, or a signal of either.
type message struct {
	IPCVersion int            `json:"ipcVersion"`
	RequestID  uint64         `json:"requestId,omitempty"`
	Request    *request       `json:"request,omitempty"`
	Result     *control.Reply `json:"result,omitempty"`
	Signal     signal         `json:"signal,omitempty"`
}

type request struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type signal string

const (
	ping signal = "ping"
	pong signal = "pong"
)

var errVersion = errors.New("another version of the protocol")

// decode reads a message. Unknown fields are refused: what one side means and
// the other ignores would be a restriction silently dropped. The arguments of a
// request stay bytes, because their rules, and the answer to a breach, are the
// engine's. What came before an error stays in into.
func decode(data []byte, into *message) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it is more than one value")
	}
	return nil
}

// encode keeps the bytes of a json.RawMessage but for white space. With HTML
// escaping, on by default, 64 KiB of "<" would leave as 384 KiB.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a frame: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkArguments holds back what the broker could not match to its request.
func checkArguments(args json.RawMessage) error {
	switch {
	case len(args) > control.MaxArguments:
		return control.Errorf(control.ResourceExhausted, "arguments: must have at most %d bytes", control.MaxArguments)
	case len(args) > 0 && (!utf8.Valid(args) || !json.Valid(args)):
		return control.Errorf(control.ResourceExhausted, "arguments: must be JSON in UTF-8")
	}
	return nil
}

func (e *enrollment) check(instance string) error {
	switch {
	case e.IPCVersion != IPCVersion:
		return errVersion
	case e.InstanceID != instance:
		return errors.New("enrolment for another instance")
	case !ValidLabel(e.ClientLabel):
		return errors.New("a label that is not 1 to 80 printable characters")
	case len(e.Certificate) == 0 || len(e.Certificate) > maxCertificate:
		return fmt.Errorf("a certificate that is not 1 to %d bytes", maxCertificate)
	}
	return nil
}

// ValidLabel reports whether a client may call itself label: 1 to 80
// characters, none of them a control character.
func ValidLabel(label string) bool {
	if label == "" || !utf8.ValidString(label) || utf8.RuneCountInString(label) > maxLabel {
		return false
	}
	for _, r := range label {
		// Format characters count as control characters here: a label that
		// reorders the line it stands in misleads the person who approves it.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return false
		}
	}
	return true
}
