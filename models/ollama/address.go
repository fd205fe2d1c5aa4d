package ollama

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const (
	defaultHost = "127.0.0.1"
	defaultPort = "11434"
	maxAddress  = 2048
)

// AddressFromEnv returns the address that OLLAMA_HOST names, by Ollama's own
// rules: scheme and port may be missing, quotes and blanks are ignored, a bad
// port is the default one. A server's "all interfaces" becomes this machine.
// It is the one variable of Ollama that Lomi reads.
func AddressFromEnv(getenv func(string) string) string {
	value := strings.Trim(strings.TrimSpace(getenv("OLLAMA_HOST")), `"'`)
	scheme, rest, ok := strings.Cut(strings.TrimSpace(value), "://")
	fallback := defaultPort
	switch {
	case !ok:
		scheme, rest = "http", value
		if value == "ollama.com" {
			scheme, rest = "https", "ollama.com:443"
		}
	case scheme == "http":
		fallback = "80"
	case scheme == "https":
		fallback = "443"
	}
	hostport, path, _ := strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = defaultHost, fallback
		if ip := net.ParseIP(strings.Trim(hostport, "[]")); ip != nil {
			host = ip.String()
		} else if hostport != "" {
			host = hostport
		}
	}
	if n, err := strconv.ParseInt(port, 10, 32); err != nil || n > 65535 || n < 0 {
		port = fallback
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = defaultHost
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: path}
	return u.String()
}

// parseAddress accepts what may be the address of an engine.
func parseAddress(address string) (*url.URL, error) {
	if len(address) > maxAddress {
		return nil, fmt.Errorf("the address is longer than %d characters", maxAddress)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("the address is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the address must begin with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the address has no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the address must not hold a user, a query or a fragment")
	}
	return u, nil
}

// onLoopback reports whether the engine runs on this machine.
func onLoopback(u *url.URL) bool {
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}
