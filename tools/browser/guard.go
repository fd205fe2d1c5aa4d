package browser

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"lomi/broker"
	"lomi/broker/control"
)

// maxURL is the longest address that is taken or shown.
const maxURL = 16 << 10

// checkURL returns the origin of an address that a caller named, and refuses
// what another parser could read differently; the network layer checks again
// what Chromium made of it.
func checkURL(raw string) (origin string, err error) {
	refuse := func(why string) error { return control.Errorf(control.ResourceExhausted, "url: %s", why) }
	if len(raw) > maxURL {
		return "", refuse("is longer than 16384 bytes")
	}
	if strings.ContainsAny(raw, "\\ ") || strings.ContainsFunc(raw, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return "", refuse("holds a backslash, blank or control character")
	}
	origin, err = broker.ExactOrigin(raw)
	if e, ok := control.AsError(err); ok {
		return "", refuse(e.Message)
	}
	if err != nil {
		return "", refuse("is no address")
	}
	return origin, nil
}

// originOf is "https://host:443": scheme, host and effective port. It is ""
// for what has no origin of the web (about:blank, data:, chrome:).
func originOf(raw string) string {
	origin, err := broker.ExactOrigin(raw)
	if err != nil {
		return ""
	}
	return origin
}

// verdict is what the guard says about a document that a page is to load; ""
// lets it pass, else it is a reason in words.
func (b *Browser) verdict(session, raw string, byPerson bool) string {
	origin := originOf(raw)
	if origin == "" {
		return "only http and https pages without user names are opened here"
	}
	if b.forbidden(origin) {
		return "it is an address of Lomi itself"
	}
	if !byPerson && !b.allowed(session, origin) {
		return "SCOPE_DENIED: " + origin + " is not among the allowed origins"
	}
	return ""
}

func (b *Browser) forbidden(origin string) bool {
	if b.cfg.Forbidden == nil {
		return false
	}
	_, hostPort, _ := strings.Cut(origin, "://")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return true
	}
	n, err := strconv.Atoi(port)
	return err != nil || b.cfg.Forbidden(host, n)
}

func (b *Browser) allowed(session, origin string) bool {
	return b.cfg.Allow != nil && b.cfg.Allow(session, origin)
}

// shown cuts an address for a message and takes its query away: it may carry
// what only the page should know.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an address that cannot be read"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	u.User, u.Fragment = nil, ""
	return clip(u.String(), 200)
}
