// Package guard stands between an engine's client and the network. The endpoint
// is taken to be hostile: it may redirect, answer for ever, send a gigabyte or
// nothing at all, and whatever it does has to end in an error of its own.
package guard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"lomi/models"
)

// ErrTooLarge is a body that went past its bound.
var ErrTooLarge = fmt.Errorf("the answer is larger than allowed: %w", models.ErrProtocol)

// maxSnippet is how much of a foreign text an error may repeat.
const maxSnippet = 300

// Transport is an http.RoundTripper without ambient authority: no proxy and no
// key from the environment, no redirect followed, no compression that could
// hide a bomb. The zero value is ready after Init.
type Transport struct {
	// MaxBody bounds a response body in bytes.
	MaxBody int64
	// Strip names request headers that a library adds on its own and that must
	// not leave.
	Strip []string

	base *http.Transport
}

// NewClient returns an HTTP client over a Transport.
func NewClient(t Transport) *http.Client {
	t.base = &http.Transport{
		Proxy:                  nil, // HTTP_PROXY would carry prompts elsewhere
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Transport: &t,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the caller sees the 3xx and says so
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(t.Strip) > 0 {
		req = req.Clone(req.Context())
		for _, name := range t.Strip {
			req.Header.Del(name)
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: t.MaxBody}
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the base.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte // exactly at the bound is still within it
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// ReadLine returns the next line without its end, at most limit bytes long. A
// last line without a line end comes with io.EOF; an empty result with io.EOF is
// the end. The line is valid until the next call.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimRight(line, "\r\n"), err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > limit {
			return nil, fmt.Errorf("a line of more than %d bytes: %w", limit, models.ErrProtocol)
		}
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	return bytes.TrimRight(long, "\r\n"), err
}

// Idle limits each wait of one request. The clock runs only between Expect and
// Pause, so that a slow reader of the stream is never taken for a slow engine.
type Idle struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// NewIdle derives the context of a request. Stop has to be called.
func NewIdle(parent context.Context) *Idle {
	ctx, cancel := context.WithCancelCause(parent)
	return &Idle{parent: parent, ctx: ctx, cancel: cancel}
}

// Context is the request's context; a passed limit cancels it.
func (i *Idle) Context() context.Context { return i.ctx }

// Expect starts the clock anew: what is awaited must come within limit.
func (i *Idle) Expect(limit time.Duration, what string) {
	i.Pause()
	i.timer = time.AfterFunc(limit, func() {
		i.cancel(fmt.Errorf("%s: nothing for %v: %w", what, limit, models.ErrTimeout))
	})
}

// Pause stops the clock.
func (i *Idle) Pause() {
	if i.timer != nil {
		i.timer.Stop()
	}
}

// Stop ends the request.
func (i *Idle) Stop() {
	i.Pause()
	i.cancel(context.Canceled)
}

// Explain turns an error of a read or a request into one of the port: what the
// caller cancelled stays the caller's cause, a passed limit is ErrTimeout, a
// stream that stopped is ErrCutOff, no connection is ErrUnreachable.
func (i *Idle) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case i.parent.Err() != nil:
		cause := context.Cause(i.parent)
		if errors.Is(i.parent.Err(), context.DeadlineExceeded) && !errors.Is(cause, models.ErrTimeout) {
			return fmt.Errorf("waiting for the model: %w: %w", models.ErrTimeout, cause)
		}
		return fmt.Errorf("waiting for the model: %w", cause)
	case i.ctx.Err() != nil:
		return context.Cause(i.ctx)
	case Known(err):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the engine closed the connection: %w", models.ErrCutOff)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the address is the caller's to add, without the path
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "read" {
		return fmt.Errorf("%s: %w", Snippet([]byte(err.Error())), models.ErrCutOff)
	}
	return fmt.Errorf("%s: %w", Snippet([]byte(err.Error())), models.ErrUnreachable)
}

// Known reports whether err already is a failure of the port.
func Known(err error) bool {
	for _, known := range []error{
		models.ErrUnreachable, models.ErrAuth, models.ErrNoModel, models.ErrOverflow, models.ErrRateLimit,
		models.ErrCutOff, models.ErrTimeout, models.ErrProtocol, models.ErrEmpty, models.ErrUnsupported,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Snippet makes a foreign text fit to stand in an error that a person reads:
// one line of at most 300 characters without control characters. A page of HTML
// becomes the fact that it is one.
func Snippet(text []byte) string {
	text = bytes.TrimSpace(text[:min(len(text), 64<<10)])
	if len(text) == 0 {
		return "an empty answer"
	}
	if lower := bytes.ToLower(text[:min(len(text), 64)]); bytes.HasPrefix(lower, []byte("<!doctype")) || bytes.HasPrefix(lower, []byte("<html")) {
		return "an HTML page instead of an answer"
	}
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(string(text), "?") {
		if n == maxSnippet-1 {
			b.WriteRune('…')
			break
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			r = '?'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// Answer maps an HTTP answer that is no reply, like Status, and notes when a busy
// engine wants to be asked again.
func Answer(resp *http.Response, said string) error {
	err := Status(resp.StatusCode, said)
	if after := retryAfter(resp.Header, time.Now()); after > 0 && errors.Is(err, models.ErrRateLimit) {
		return &models.BusyError{Err: err, After: after}
	}
	return err
}

// retryAfter reads the header's two forms, seconds and a date, 0 when it is not
// there or makes no sense. A header that names a year means a day: it only
// decides that nobody waits for it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	const longest = 24 * time.Hour
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) { // NaN too
			return 0
		}
		return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}

// Status maps an HTTP status and what the engine said to a failure of the port.
// The text decides first: engines report a prompt that is too long as 400 or 500.
func Status(code int, said string) error {
	lower := strings.ToLower(said)
	has := func(words ...string) bool {
		for _, w := range words {
			if !strings.Contains(lower, w) {
				return false
			}
		}
		return true
	}
	kind := models.ErrProtocol
	switch {
	case has("exceed", "context"), has("context_length_exceeded"), has("maximum context length"), has("context size", "larger"):
		kind = models.ErrOverflow
	case has("does not support"), has("not supported"), has("cannot run this remote model"):
		kind = models.ErrUnsupported
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		kind = models.ErrAuth
	case code == http.StatusNotFound, has("model", "not found"):
		kind = models.ErrNoModel
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, has("server busy"):
		kind = models.ErrRateLimit
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		kind = models.ErrTimeout
	case code >= 300 && code < 400:
		return fmt.Errorf("the engine redirects, which is refused (HTTP %d): %w", code, kind)
	}
	if code >= 400 {
		return fmt.Errorf("%s (HTTP %d): %w", Snippet([]byte(said)), code, kind)
	}
	return fmt.Errorf("%s: %w", Snippet([]byte(said)), kind)
}
