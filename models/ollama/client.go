// Package ollama speaks Ollama's native API: the only one of its two that takes
// a window, refuses to shorten a prompt in silence and says how long to keep a
// model loaded. The wire types are github.com/ollama/ollama/api's. Its client
// answers nil for a truncated stream, a passed deadline, an endless line and an
// empty 500, so short calls go through it over a guarded transport, and streams
// are read here line by line.
package ollama

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/ollama/ollama/api"

	"lomi/models"
	"lomi/models/internal/guard"
)

const (
	// maxShort bounds the answers that are read whole: a list, a model's facts.
	maxShort = 8 << 20
	// maxErrorBody is as much of an error as is looked at.
	maxErrorBody = 64 << 10
	// keepAlive holds the model in memory while a conversation is open. Ollama's
	// own 5 minutes are shorter than a person's thought.
	keepAlive = 30 * time.Minute
)

// Limits are the longest waits of a request. Zero fields mean the defaults.
type Limits struct {
	// Short is for the calls that only ask: 30 s.
	Short time.Duration
	// Load is for reading the weights into memory: 10 min.
	Load time.Duration
	// FirstToken and PerToken give the wait for the first token: 60 s, and for
	// each token of the prompt 50 ms, which is the pace of a slow laptop.
	FirstToken, PerToken time.Duration
	// BetweenTokens is 120 s.
	BetweenTokens time.Duration
	// Pull is the longest silence of a download: 5 min.
	Pull time.Duration
	// Line bounds one line of a stream, 8 MiB; Stream all of it, 64 MiB.
	Line, Stream int64
}

// Config says which Ollama to talk to and how long to wait for it.
type Config struct {
	// Address is http://HOST:PORT. Empty means what OLLAMA_HOST says, else
	// http://127.0.0.1:11434.
	Address string
	// Limits may be left empty.
	Limits Limits
	// Memory is the memory in bytes that windows are chosen for. Zero means this
	// machine's, or 8 GiB when the address is another machine's.
	Memory uint64
	// Logger may be nil.
	Logger *slog.Logger
}

// Client is one Ollama server. It is safe for concurrent use and holds no
// connection that needs closing; idle ones end by themselves.
type Client struct {
	base   *url.URL
	api    *api.Client  // short calls
	stream *http.Client // replies and downloads
	limits Limits
	memory uint64
	log    *slog.Logger

	mu     sync.Mutex
	facts  map[string]Details // by model name; forgotten when the model is pulled
	loaded map[string]int     // model name and wanted window: the window Ollama gave
	warm   warmth             // the last reply that came to its end
}

var (
	_ models.Model  = (*Client)(nil)
	_ models.Lister = (*Client)(nil)
)

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	address := cfg.Address
	if address == "" {
		address = AddressFromEnv(getenv)
	}
	base, err := parseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of Ollama: %w", err)
	}
	c := &Client{
		base: base, limits: cfg.Limits.withDefaults(), memory: cfg.Memory, log: cfg.Logger,
		facts: map[string]Details{}, loaded: map[string]int{},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.memory == 0 {
		c.memory = defaultMemory
		if total := machineMemory(); total > 0 && onLoopback(base) {
			c.memory = total
		}
	}
	// With OLLAMA_AUTH set, the library signs requests with the person's
	// ollama.com key. Nobody asked Lomi to, so the header does not leave.
	strip := []string{"Authorization"}
	c.api = api.NewClient(base, guard.NewClient(guard.Transport{MaxBody: maxShort, Strip: strip}))
	c.stream = guard.NewClient(guard.Transport{MaxBody: c.limits.Stream, Strip: strip})
	return c, nil
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&l.Short, 30*time.Second)
	set(&l.Load, 10*time.Minute)
	set(&l.FirstToken, 60*time.Second)
	set(&l.PerToken, 50*time.Millisecond)
	set(&l.BetweenTokens, 120*time.Second)
	set(&l.Pull, 5*time.Minute)
	if l.Line <= 0 {
		l.Line = 8 << 20
	}
	if l.Stream <= 0 {
		l.Stream = 64 << 20
	}
	return l
}

// Address returns where the client connects to.
func (c *Client) Address() string { return c.base.String() }

// short runs one call of the library under the limit for short calls.
func (c *Client) short(ctx context.Context, what string, call func(context.Context) error) error {
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	idle.Expect(c.limits.Short, what)
	err := call(idle.Context())
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s from Ollama at %s: %w", what, c.base, c.explain(idle, err))
}

// explain maps the errors of the library.
func (c *Client) explain(idle *guard.Idle, err error) error {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return guard.Status(status.StatusCode, status.ErrorMessage)
	}
	if denied, ok := errors.AsType[api.AuthorizationError](err); ok {
		return guard.Status(denied.StatusCode, "Ollama asks for a sign-in")
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("no JSON in the answer: %w", models.ErrProtocol)
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("the answer has another form: %w", models.ErrProtocol)
	}
	return idle.Explain(err)
}

// post sends a request whose answer is lines, and returns them for reading. An
// answer that is an error already is returned as one.
func (c *Client) post(idle *guard.Idle, path string, body any) (*lines, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	req, err := http.NewRequestWithContext(idle.Context(), http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := c.stream.Do(req)
	if err != nil {
		return nil, idle.Explain(err)
	}
	if resp.StatusCode == http.StatusOK {
		return &lines{idle: idle, body: resp.Body, r: bufio.NewReaderSize(resp.Body, 16<<10), limit: int(c.limits.Line)}, nil
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(said) == 0 {
		return nil, idle.Explain(err)
	}
	var v struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(said, &v) == nil && v.Error != "" {
		said = []byte(v.Error)
	}
	return nil, guard.Answer(resp, string(said))
}

// lines reads the JSON lines of one answer.
type lines struct {
	idle  *guard.Idle
	body  io.ReadCloser
	r     *bufio.Reader
	limit int
}

func (l *lines) close() { l.body.Close() }

// next decodes the next line into v, which must be empty. The end of the
// answer is io.EOF; whether it was allowed to end there is the caller's to say.
func (l *lines) next(v any) error {
	for {
		line, err := guard.ReadLine(l.r, l.limit)
		if err != nil && !errors.Is(err, io.EOF) {
			return l.idle.Explain(err)
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == ':' { // a blank or a comment keeps a connection alive
			if err != nil {
				return io.EOF
			}
			continue
		}
		if bad := json.Unmarshal(line, v); bad != nil {
			if err != nil {
				return fmt.Errorf("the last line is cut: %w", models.ErrCutOff)
			}
			return fmt.Errorf("a line is not a reply: %s: %w", guard.Snippet(line), models.ErrProtocol)
		}
		return nil
	}
}
