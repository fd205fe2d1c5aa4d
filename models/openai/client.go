// Package openai speaks OpenAI's protocols: Responses to OpenAI itself, Chat
// Completions to any server that is compatible (vLLM, SGLang, llama.cpp, LM
// Studio). Requests are built and sent with openai-go; its stream decoder is not
// used, because it takes a stream without an end, JSON instead of a stream, a
// null error and an error that is a string for what they are not. Nothing is
// read from the environment, and nothing is sent twice.
package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"lomi/models"
	"lomi/models/internal/assemble"
	"lomi/models/internal/guard"
)

const (
	// hosted is where OpenAI itself answers.
	hosted = "https://api.openai.com/v1"

	maxURL       = 2048
	maxErrorBody = 64 << 10
	maxList      = 2 << 20
	maxModels    = 1000
	maxName      = 200
	maxOpaque    = 64 << 10
)

// telemetry are headers about this machine that the library adds.
var telemetry = [...]string{
	"X-Stainless-Arch", "X-Stainless-Lang", "X-Stainless-Os", "X-Stainless-Package-Version", "X-Stainless-Retry-Count",
	"X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Timeout",
}

// Limits are the longest waits of a request. Zero fields mean the defaults.
type Limits struct {
	// List is for the list of models: 30 s.
	List time.Duration
	// FirstToken and PerToken give the wait for the first token: 120 s, and for
	// each token of the prompt 50 ms on this machine's own servers.
	FirstToken, PerToken time.Duration
	// BetweenTokens is 120 s.
	BetweenTokens time.Duration
	// Line bounds one line of a stream, 8 MiB; Stream all of it, 64 MiB.
	Line, Stream int64
}

// Config says which server to talk to.
type Config struct {
	// BaseURL is the address up to and with /v1. Empty means OpenAI itself. Plain
	// http is for this machine only.
	BaseURL string
	// Key is sent as a bearer token. Empty sends none.
	Key string
	// Organization is OpenAI's, empty for none.
	Organization string
	// Responses asks for the Responses API at an address of one's own. OpenAI's
	// own address always gets it.
	Responses bool
	// Limits may be left empty.
	Limits Limits
	// Logger may be nil.
	Logger *slog.Logger
}

// Client is one server. It is safe for concurrent use and holds no connection
// that needs closing.
type Client struct {
	base      *url.URL
	responses bool
	sdk       sdk.Client
	limits    Limits
	log       *slog.Logger
}

var (
	_ models.Model  = (*Client)(nil)
	_ models.Lister = (*Client)(nil)
)

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	address := cfg.BaseURL
	if address == "" {
		address = hosted
	}
	base, err := parseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the model server: %w", err)
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key holds characters that no key has")
	}
	c := &Client{base: base, responses: cfg.Responses || base.Hostname() == "api.openai.com", limits: cfg.Limits.withDefaults(), log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	options := []option.RequestOption{
		option.WithBaseURL(base.String()),
		option.WithHTTPClient(guard.NewClient(guard.Transport{MaxBody: c.limits.Stream, Strip: telemetry[:]})),
		// A request is never sent twice on its own: the caller knows whether a
		// second one is wanted and paid for.
		option.WithMaxRetries(0),
		option.WithMiddleware(refuse),
		option.WithHeader("User-Agent", "lomi"),
	}
	if cfg.Key != "" {
		options = append(options, option.WithHeader("Authorization", "Bearer "+cfg.Key))
	}
	if cfg.Organization != "" {
		options = append(options, option.WithHeader("OpenAI-Organization", cfg.Organization))
	}
	// Not NewClient: it reads seven variables, keys and addresses among them. The
	// methods used here need nothing but the options.
	c.sdk = sdk.Client{Options: options}
	return c, nil
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&l.List, 30*time.Second)
	set(&l.FirstToken, 120*time.Second)
	set(&l.PerToken, 50*time.Millisecond)
	set(&l.BetweenTokens, 120*time.Second)
	if l.Line <= 0 {
		l.Line = 8 << 20
	}
	if l.Stream <= 0 {
		l.Stream = 64 << 20
	}
	return l
}

// parseAddress accepts https anywhere and http on this machine.
func parseAddress(address string) (*url.URL, error) {
	if len(address) > maxURL {
		return nil, fmt.Errorf("the address is longer than %d characters", maxURL)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("the address is not a URL such as http://127.0.0.1:8080/v1")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the address must not hold a user, a query or a fragment")
	case u.Scheme == "https":
	case u.Scheme != "http":
		return nil, errors.New("the address must begin with https://, or http:// on this machine")
	case !onLoopback(u):
		return nil, errors.New("plain http is for servers on this machine, use https")
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/" // the library resolves against it
	return u, nil
}

func onLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || (ip != nil && ip.IsLoopback())
}

// Address returns where the client connects to.
func (c *Client) Address() string { return strings.TrimSuffix(c.base.String(), "/") }

// refuse turns an answer that is none into an error before the library sees it:
// it loses the status when the body has another form than OpenAI's.
func refuse(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return nil, err
	}
	return nil, guard.Answer(resp, errorText(body))
}

// errorText finds the words in the bodies that servers send for an error: an
// object with an object, with a string, with a message, or no JSON.
func errorText(body []byte) string {
	var v struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &v) != nil {
		return guard.Snippet(body)
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
	}
	var text string
	switch {
	case json.Unmarshal(v.Error, &text) == nil && text != "":
	case json.Unmarshal(v.Error, &inner) == nil && inner.Message != "":
		text = inner.Message
		if code, ok := inner.Code.(string); ok {
			text += " (" + code + ")"
		}
	case v.Message != "":
		text = v.Message
	default:
		text = string(body)
	}
	return guard.Snippet([]byte(text))
}

// errStopped ends a reply whose reader has gone.
var errStopped = errors.New("the reader stopped")

// Stream implements models.Model.
func (c *Client) Stream(ctx context.Context, req models.Request) iter.Seq2[models.Delta, error] {
	return func(yield func(models.Delta, error) bool) {
		err := c.reply(ctx, req, func(d models.Delta) bool { return yield(d, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(models.Delta{}, fmt.Errorf("asking %s at %s: %w", req.Model, c.Address(), err))
		}
	}
}

// protocol reads the events of one API.
type protocol interface {
	// event takes the data of one event and gives what can be shown.
	event(data []byte) ([]models.Delta, error)
	// done reports that nothing that matters can follow.
	done() bool
	// reason and usage are what the stream said about itself, reason empty when
	// it never said that the reply is complete.
	reason() (models.FinishReason, *models.Usage)
}

func (c *Client) reply(ctx context.Context, req models.Request, give func(models.Delta) bool) error {
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	assembler := assemble.New(req.Tools)
	var path string
	var body any
	var p protocol
	var extra []option.RequestOption
	if c.responses {
		path, p = "responses", &responsesReader{assembler: assembler}
		body = responsesRequest(req)
	} else {
		path, p = "chat/completions", &chatReader{assembler: assembler}
		body = chatRequest(req)
		if req.Thinking != models.ThinkingAuto {
			// Where qwen's switch is in the servers that run it; others ignore it.
			extra = append(extra, option.WithJSONSet("chat_template_kwargs.enable_thinking", req.Thinking == models.ThinkingOn))
		}
	}
	extra = append(extra, option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream"))
	if !give(models.Delta{Kind: models.DeltaProgress, Progress: "reading the prompt"}) {
		return errStopped
	}
	idle.Expect(c.firstToken(req), "waiting for the first token")
	var resp *http.Response
	if err := c.sdk.Post(idle.Context(), path, body, &resp, extra...); err != nil {
		return idle.Explain(err)
	}
	defer resp.Body.Close()
	s := stream{client: c, idle: idle, assembler: assembler, give: give, protocol: p}
	return s.run(resp)
}

// firstToken is the wait for the first token of a prompt of this size.
func (c *Client) firstToken(req models.Request) time.Duration {
	if !onLoopback(c.base) {
		return c.limits.FirstToken
	}
	size := 0
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			size += len(p.Text)
			if p.Result != nil {
				size += len(p.Result.Text)
			}
		}
	}
	for _, t := range req.Tools {
		size += len(t.Parameters)
	}
	return c.limits.FirstToken + time.Duration(size/3)*c.limits.PerToken
}

// stream reads the server-sent events of one reply.
type stream struct {
	client    *Client
	idle      *guard.Idle
	assembler *assemble.Assembler
	give      func(models.Delta) bool
	protocol  protocol
}

func (s *stream) run(resp *http.Response) error {
	err := s.read(resp)
	s.idle.Pause()
	if errors.Is(err, errStopped) {
		return err
	}
	if err == nil {
		if reason, _ := s.protocol.reason(); reason != "" {
			return s.finish()
		}
		err = fmt.Errorf("the stream ended without saying that the reply is complete: %w", models.ErrCutOff)
	}
	// What was held back is text that the model wrote: it is not lost.
	if !s.pass(s.assembler.Abort()) {
		return errStopped
	}
	return err
}

func (s *stream) finish() error {
	reason, usage := s.protocol.reason()
	deltas, err := s.assembler.Finish(reason)
	if usage != nil {
		at := len(deltas)
		if at > 0 && deltas[at-1].Kind == models.DeltaFinish {
			at--
		}
		deltas = append(deltas[:at:at], append([]models.Delta{{Kind: models.DeltaUsage, Usage: usage}}, deltas[at:]...)...)
	}
	if !s.pass(deltas) {
		return errStopped
	}
	return err
}

func (s *stream) pass(deltas []models.Delta) bool {
	for _, d := range deltas {
		if !s.give(d) {
			return false
		}
	}
	return true
}

// read takes events until the stream says that it is at its end.
func (s *stream) read(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	r := bufio.NewReaderSize(resp.Body, 16<<10)
	if kind == "application/json" { // a server that does not stream answers whole
		data, err := io.ReadAll(r)
		if err != nil {
			return s.idle.Explain(err)
		}
		return s.take(data)
	}
	var data []byte
	for {
		line, err := guard.ReadLine(r, int(s.client.limits.Line))
		if err != nil && !errors.Is(err, io.EOF) {
			return s.idle.Explain(err)
		}
		value, isData := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case isData:
			if len(data)+len(value) > int(s.client.limits.Line) {
				return fmt.Errorf("an event of more than %d bytes: %w", s.client.limits.Line, models.ErrProtocol)
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		case len(line) > 0 && line[0] == '<':
			return fmt.Errorf("%s: %w", guard.Snippet(line), models.ErrProtocol)
		case len(line) > 0 && line[0] == '{' && len(data) == 0:
			return guard.Status(0, errorText(line)) // an error without its frame
		}
		if len(line) == 0 && len(data) > 0 { // a blank line ends an event; comments and names are not looked at
			if string(bytes.TrimSpace(data)) == "[DONE]" || s.protocol.done() {
				return nil
			}
			if err := s.take(data); err != nil {
				return err
			}
			if data = data[:0]; s.protocol.done() {
				return nil
			}
			s.idle.Expect(s.client.limits.BetweenTokens, "waiting for the next token")
		}
		if err != nil {
			if string(bytes.TrimSpace(data)) == "[DONE]" {
				return nil
			}
			return fmt.Errorf("the stream ended without its last event: %w", models.ErrCutOff)
		}
	}
}

func (s *stream) take(data []byte) error {
	s.idle.Pause() // the reader may take its time
	deltas, err := s.protocol.event(data)
	if !s.pass(deltas) {
		return errStopped
	}
	return err
}

// List implements models.Lister.
func (c *Client) List(ctx context.Context) ([]models.Info, error) {
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	idle.Expect(c.limits.List, "reading the list of models")
	var resp *http.Response
	fail := func(err error) ([]models.Info, error) {
		return nil, fmt.Errorf("reading the list of models from %s: %w", c.Address(), err)
	}
	if err := c.sdk.Get(idle.Context(), "models", nil, &resp); err != nil {
		return fail(idle.Explain(err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err != nil {
		return fail(idle.Explain(err))
	}
	if len(data) > maxList {
		return fail(guard.ErrTooLarge)
	}
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			Window int    `json:"max_model_len"` // vLLM
			Length int    `json:"context_length"`
			Meta   struct {
				Trained int `json:"n_ctx_train"` // llama.cpp
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &list); err != nil || list.Data == nil {
		return fail(fmt.Errorf("the answer is no list: %s: %w", guard.Snippet(data), models.ErrProtocol))
	}
	out := []models.Info{}
	for _, m := range list.Data[:min(len(list.Data), maxModels)] {
		if m.ID == "" || len(m.ID) > maxName {
			continue
		}
		out = append(out, models.Info{
			Name: m.ID, Window: max(0, m.Window, m.Length, m.Meta.Trained), Tools: true,
			Vision: c.base.Hostname() == "api.openai.com", Remote: !onLoopback(c.base),
		})
	}
	return out, nil
}
