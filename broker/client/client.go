// Package client is a session with the broker from the other side of its
// socket: the built-in chat and the MCP face both use it. A Conn pairs once,
// carries up to 16 calls at a time, and ends with its connection; it never
// reconnects and never repeats a call. Who needs another one pairs anew.
package client

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lomi/broker/control"
	"lomi/broker/identity"
	"lomi/broker/wire"
)

// CallTime bounds one call: hosts of MCP servers give up on their own after
// 10 to 60 seconds.
const CallTime = 20 * time.Second

// dialTime bounds the way to the welcome.
const dialTime = 10 * time.Second

// What can end a pairing or a session. Test with errors.Is.
var (
	// ErrUnavailable: no broker answers where it should.
	ErrUnavailable = errors.New("no daemon answers, or agent control is off")
	// ErrRejected: a person said no.
	ErrRejected = wire.ErrRejected
	// ErrExpired: nobody answered within 120 s.
	ErrExpired = wire.ErrExpired
	// ErrImpostor: what answers is not the expected broker.
	ErrImpostor = wire.ErrImpostor
	// ErrLost: the connection ended. A call that was sent may have had its
	// effect.
	ErrLost = wire.ErrLost
	// ErrNotSent goes with another error: the call had no effect.
	ErrNotSent = wire.ErrNotSent
)

// Config says which broker to speak to, and as whom.
type Config struct {
	// Endpoint is the absolute path of the control socket.
	Endpoint string
	// InstanceID and BrokerSHA256 (64 hex digits) name the running daemon.
	InstanceID   string
	BrokerSHA256 string
	// Label is what the person who approves reads; it proves nothing. See
	// CleanLabel.
	Label string
	// Logger gets the ends of connections; nil discards them.
	Logger *slog.Logger
}

// FromDiscovery fills a Config from a signed descriptor. A missing descriptor
// is ErrUnavailable: no daemon runs.
func FromDiscovery(path, keyHex string) (Config, error) {
	d, err := identity.ReadDescriptor(path, keyHex)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return Config{}, err
	}
	return Config{Endpoint: d.Endpoint, InstanceID: d.InstanceID, BrokerSHA256: d.BrokerSHA256}, nil
}

func (c *Config) validate() error {
	sum, err := hex.DecodeString(c.BrokerSHA256)
	switch {
	case !filepath.IsAbs(c.Endpoint):
		return errors.New("the endpoint is not an absolute path")
	case err != nil || len(sum) != 32:
		return errors.New("the broker's pin is not 64 hex digits")
	case !control.ValidID(c.InstanceID):
		return errors.New("no valid instance id")
	case !wire.ValidLabel(c.Label):
		return errors.New("the label is not 1 to 80 printable characters")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Conn is one pairing and, once it is approved, one session. It is safe for
// concurrent use.
type Conn struct {
	log     *slog.Logger
	waiting *wire.Enrolled
	opening sync.Once
	done    chan struct{}
	ending  sync.Once

	mu      sync.Mutex
	link    *wire.Link // nil until approved
	openErr error
	closed  bool
}

// Dial connects and asks for a pairing. The connection then waits for Await;
// ctx governs only Dial. A broker that takes no further pairing answers with
// its *control.Error.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("connecting to the broker: %w", err)
	}
	if err := checkSocket(cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("connecting to the broker: %w", err)
	}
	certificate, err := identity.NewCertificate(identity.HelperName)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", cfg.Endpoint)
	if err != nil {
		return nil, dialError(ctx, err)
	}
	waiting, err := wire.Enroll(ctx, conn, wire.Enrollment{InstanceID: cfg.InstanceID, Label: cfg.Label,
		Certificate: certificate, BrokerSHA256: cfg.BrokerSHA256})
	if err != nil {
		return nil, dialError(ctx, err)
	}
	return &Conn{log: cfg.Logger, waiting: waiting, done: make(chan struct{})}, nil
}

// dialError tells a broker that is not there from one that says no.
func dialError(ctx context.Context, err error) error {
	gone := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded)
	if gone && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("connecting to the broker: %w", err)
}

// checkSocket refuses a socket that somebody else can have put there.
func checkSocket(path string) error {
	var stat unix.Stat_t
	for _, part := range []struct {
		path       string
		kind, mode uint32
	}{
		{filepath.Dir(path), unix.S_IFDIR, 0o700},
		{path, unix.S_IFSOCK, 0o600},
	} {
		err := unix.Lstat(part.path, &stat)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s is not there", ErrUnavailable, part.path)
		case err != nil:
			return &fs.PathError{Op: "stat", Path: part.path, Err: err}
		case uint32(stat.Mode)&unix.S_IFMT != part.kind:
			return fmt.Errorf("%s is something else than the control socket or its folder", part.path)
		case int(stat.Uid) != os.Getuid():
			return fmt.Errorf("%s belongs to another user", part.path)
		case uint32(stat.Mode)&0o7777 != part.mode:
			return fmt.Errorf("the mode of %s is %04o, not %04o", part.path, stat.Mode&0o7777, part.mode)
		}
	}
	return nil
}

// PairingID is what a person sees and approves.
func (c *Conn) PairingID() string { return c.waiting.PairingID() }

// Await waits for the approval and secures the connection, at most 130 s. A
// later call gives the same answer. After an error the Conn is of no use:
// ErrRejected, ErrExpired, ErrUnavailable when the daemon went away, or that
// of ctx.
func (c *Conn) Await(ctx context.Context) error {
	c.opening.Do(func() { c.open(ctx) })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openErr
}

func (c *Conn) open(ctx context.Context) {
	link, err := c.waiting.Open(ctx)
	if errors.Is(err, wire.ErrLost) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.openErr = link, err
	if err != nil {
		c.end()
		return
	}
	if c.closed {
		c.link, c.openErr = nil, fmt.Errorf("%w: closed by its owner", ErrLost)
		link.Close()
		return
	}
	go func() { // ends with the link
		<-link.Done()
		c.log.Debug("session with the broker ended")
		c.end()
	}()
}

func (c *Conn) end() { c.ending.Do(func() { close(c.done) }) }

// Call sends one call and waits for its answer, at most CallTime. Further
// calls than 16 wait for a place. Before the approval it answers
// PAIRING_REQUIRED itself. What an error means for the effect of the call,
// Failure says.
func (c *Conn) Call(ctx context.Context, tool string, args json.RawMessage) (control.Reply, error) {
	c.mu.Lock()
	link := c.link
	c.mu.Unlock()
	if link == nil {
		return control.Failure(control.Errorf(control.PairingRequired,
			"approve pairing request %s in Lomi first", c.PairingID())), nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTime)
	defer cancel()
	return link.Call(ctx, tool, args)
}

// Done is closed when the session, or the wait for it, has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the session or gives the pairing up.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	link := c.link
	c.mu.Unlock()
	c.end()
	if link != nil {
		return link.Close()
	}
	return c.waiting.Close()
}

// Failure says what an error of Call means for the caller. A call that was
// sent and not answered has an unknown outcome, unless it only reads.
func Failure(err error, readOnly bool) *control.Error {
	if e, ok := control.AsError(err); ok {
		return e
	}
	harmless := readOnly || errors.Is(err, ErrNotSent)
	switch {
	case !harmless:
		return &control.Error{Code: control.OutcomeUnknown, Effect: control.EffectUnknown,
			Message: "no answer came after the call was sent; look at the real state, or read its receipt, before trying again"}
	case errors.Is(err, context.DeadlineExceeded):
		return control.Errorf(control.DeadlineExceeded, "Lomi did not answer in time; nothing was changed")
	case errors.Is(err, context.Canceled):
		return control.Errorf(control.AppUnavailable, "the call was cancelled; nothing was changed")
	}
	return control.Errorf(control.AppUnavailable, "the connection to Lomi is lost; nothing was changed")
}
