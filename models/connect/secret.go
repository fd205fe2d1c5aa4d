package connect

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// maxKey bounds a key in bytes.
const maxKey = 8192

const redacted = "[redacted]"

// Secret is a key. Whatever prints it prints "[redacted]"; Reveal is for the
// one place that sends it.
type Secret struct{ value string }

// NewSecret checks a key that a person entered.
func NewSecret(key string) (Secret, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return Secret{}, errors.New("the key is empty")
	case len(key) > maxKey:
		return Secret{}, fmt.Errorf("the key is longer than %d bytes", maxKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return Secret{}, errors.New("the key holds characters that no key has") // a header would break at them
	}
	return Secret{key}, nil
}

// Reveal returns the key itself.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether there is no key.
func (s Secret) IsZero() bool { return s.value == "" }

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter, so that no verb prints the field.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, which JSON uses as well.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
