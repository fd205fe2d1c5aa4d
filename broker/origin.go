package broker

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"lomi/broker/control"
)

// ExactOrigin gives the scheme, host and effective port of a URL as
// "https://host:443", the one spelling in which origins are compared. It
// refuses what two readers could read differently: user info (S-100), odd
// spellings of IPv4 addresses (S-53), a trailing dot, a host that is not ASCII.
func ExactOrigin(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Opaque != "" {
		return "", control.Errorf(control.ResourceExhausted, "is no URL")
	}
	if strings.ContainsAny(rawURL, "\\\t\r\n") {
		return "", control.Errorf(control.ResourceExhausted, "holds a character that browsers rewrite")
	}
	scheme := strings.ToLower(u.Scheme)
	port := u.Port()
	switch {
	case scheme != "http" && scheme != "https":
		return "", control.Errorf(control.ResourceExhausted, "must be http or https")
	case u.User != nil:
		return "", control.Errorf(control.ResourceExhausted, "must not hold user information")
	case port == "" && strings.HasSuffix(u.Host, ":"):
		return "", control.Errorf(control.ResourceExhausted, "has an empty port")
	case port == "" && scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", control.Errorf(control.ResourceExhausted, "has no valid port")
	}
	host, err := exactHost(u.Hostname())
	if err != nil {
		return "", err
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func exactHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", control.Errorf(control.ResourceExhausted, "must not name a network interface")
		}
		return addr.Unmap().String(), nil
	}
	host = strings.ToLower(host)
	if host == "" || len(host) > 253 {
		return "", control.Errorf(control.ResourceExhausted, "has no valid host")
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.IndexFunc(label, notHostRune) >= 0 {
			return "", control.Errorf(control.ResourceExhausted, "has no exact ASCII host name")
		}
	}
	// Browsers read a host whose last label is a number as an IPv4 address in
	// one of many spellings; none but the dotted one was accepted above.
	last := labels[len(labels)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.HasPrefix(last, "0x") || allDigits(last) {
		return "", control.Errorf(control.ResourceExhausted, "spells an address in an unusual way")
	}
	return host, nil
}

func notHostRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func allDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// exactOrigin reads one entry of a grant: an origin and nothing more, and none
// of Lomi's own.
func exactOrigin(raw string, internal func(host, port string) bool) (string, error) {
	if strings.ContainsAny(raw, "*?#") {
		return "", control.Errorf(control.ResourceExhausted, "must be one exact origin")
	}
	o, err := ExactOrigin(raw)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(raw); err != nil || (u.Path != "" && u.Path != "/") {
		return "", control.Errorf(control.ResourceExhausted, "must not hold a path")
	}
	if internalOrigin(o, internal) {
		return "", control.Errorf(control.ScopeDenied, "is one of Lomi's own addresses")
	}
	return o, nil
}

// internalOrigin reports whether an exact origin belongs to Lomi itself: the
// reserved names of its page, or what the daemon says it listens on. An origin
// that cannot be read counts as internal, so that it is never loaded.
func internalOrigin(origin string, internal func(host, port string) bool) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" {
		return true
	}
	host, port := u.Hostname(), u.Port()
	for _, name := range []string{"tauri", "ipc", "theme", "plugin", "lomi"} {
		if host == name || host == name+".localhost" {
			return true
		}
	}
	if strings.HasSuffix(host, ".lomi.invalid") {
		return true
	}
	return internal != nil && internal(host, port)
}
