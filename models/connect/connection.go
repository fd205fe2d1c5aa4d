package connect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Kind says which engine a connection speaks to.
type Kind string

// The kinds of a connection.
const (
	KindOllama     Kind = "ollama"
	KindOpenAI     Kind = "openai"            // OpenAI itself
	KindCompatible Kind = "openai-compatible" // any server that speaks its Chat Completions
	KindDemo       Kind = "demo"
)

// KeyMode says where a connection's key is kept. No mode is a file.
type KeyMode string

// The key modes.
const (
	KeyNone    KeyMode = "none"
	KeySession KeyMode = "session" // in memory, gone with the daemon
	KeySystem  KeyMode = "system"  // in the system's key store
)

// The bounds of what may be configured.
const (
	maxConnections = 64
	maxModels      = 1000
	maxModelName   = 200
	maxURL         = 2048
)

// Connection is a configured model endpoint.
type Connection struct {
	Name    string  `json:"name"`
	Kind    Kind    `json:"kind"`
	BaseURL string  `json:"baseURL,omitempty"` // empty: the engine's own default
	KeyMode KeyMode `json:"keyMode"`
	// Organization is OpenAI's, empty for none.
	Organization string `json:"organization,omitempty"`
	// Models names models that the endpoint does not list itself.
	Models []string `json:"models,omitempty"`
	// Revision rises when the destination or the key changes. What was approved
	// for one revision is not approved for the next.
	Revision int `json:"revision"`
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// check validates a connection, naming the field.
func (c Connection) check() error {
	switch {
	case !nameForm.MatchString(c.Name):
		return errors.New("name: 1 to 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
	case len(c.Organization) > 200 || strings.ContainsFunc(c.Organization, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("organization: at most 200 characters without blanks")
	case len(c.Models) > maxModels:
		return fmt.Errorf("models: at most %d", maxModels)
	}
	for _, m := range c.Models {
		if m == "" || len(m) > maxModelName || strings.ContainsFunc(m, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fmt.Errorf("models: a name has 1 to %d characters without blanks", maxModelName)
		}
	}
	switch c.KeyMode {
	case KeyNone, KeySession, KeySystem:
	default:
		return errors.New("keyMode: none, session or system")
	}
	switch c.Kind {
	case KindDemo:
		if c.BaseURL != "" || c.KeyMode != KeyNone {
			return errors.New("kind: the guide has neither an address nor a key")
		}
		return nil
	case KindOllama:
		if c.KeyMode != KeyNone {
			return errors.New("keyMode: Ollama takes no key")
		}
	case KindOpenAI, KindCompatible:
	default:
		return errors.New("kind: ollama, openai, openai-compatible or demo")
	}
	if c.BaseURL == "" {
		if c.Kind == KindCompatible {
			return errors.New("baseURL: needed for a compatible server")
		}
		return nil
	}
	return checkURL(c.BaseURL, c.Kind == KindOllama)
}

// checkURL accepts https anywhere and http on this machine. An Ollama in the
// same house has no https and is sent no key; it is marked as another machine.
func checkURL(s string, plainAnywhere bool) error {
	if len(s) > maxURL {
		return fmt.Errorf("baseURL: at most %d characters", maxURL)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return errors.New("baseURL: not an address such as http://127.0.0.1:8080/v1")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("baseURL: no user, query or fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("baseURL: http or https")
	case !loopback(u.Hostname()) && !plainAnywhere:
		return errors.New("baseURL: http only on this machine, https elsewhere")
	}
	return nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// leaves reports whether what is said to an address leaves this machine. An
// address that cannot be read is taken to.
func leaves(address string) bool {
	u, err := url.Parse(address)
	return err != nil || !loopback(u.Hostname())
}
