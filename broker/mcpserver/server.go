// Package mcpserver shows the broker to MCP hosts on stdio: the 74 tools of the
// catalog in their full form, for protocol 2025-11-25 and its elders and for
// 2026-07-28. It answers what the protocol asks without the daemon, asks for a
// pairing at the first call of a tool, and forwards calls to the session that a
// person approved. Every call is answered within 20 s; none waits for a person.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lomi/broker/catalog"
	"lomi/broker/client"
	"lomi/broker/control"
)

const (
	// callTime leaves a second of the 20 for the way back.
	callTime = 19 * time.Second
	// exitTime is how long Run waits for the rest when the session is over.
	exitTime = time.Second
	// maxCalls is how many tool calls may run or wait for a place; the broker
	// runs 16 of them at a time.
	maxCalls = 64
	// serverName is what hosts have known this server by from the start.
	serverName    = "lomi-mcp"
	fallbackLabel = "MCP host"
)

const instructions = `Lomi runs terminals, browser pages and files on this computer for you, in front of a person.
Start with lomi_status. PAIRING_REQUIRED names a request that the person approves in Lomi; then call again.
Then lomi_workspace_list, lomi_connect (retryEpoch) and the tool you need. Mutations take a requestKey of your choice: the same key never acts twice.
On OUTCOME_UNKNOWN look at the real state; never repeat the call with a new key blindly.`

// Config is what Run needs. Stdin, Stdout and Connect are required.
type Config struct {
	// Stdin and Stdout speak MCP with the host. Nothing else is written to
	// Stdout. If Stdin can be closed, it is closed when Run ends.
	Stdin  io.Reader
	Stdout io.Writer
	// Connect finds the daemon and asks for a pairing, as Discover does. It is
	// called again after each end of a session.
	Connect func(ctx context.Context, label string) (Connection, error)
	// Label is what the approving person reads; empty: what the host calls
	// itself.
	Label string
	// Version of the program, for the host.
	Version string
	// Logger must not write to Stdout; nil discards.
	Logger *slog.Logger
	// Tools to offer; nil for the whole catalog.
	Tools []control.Tool
}

func (c *Config) validate() error {
	if c.Stdin == nil || c.Stdout == nil || c.Connect == nil {
		return errors.New("an input, an output and a way to connect are needed")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Tools == nil {
		c.Tools = catalog.All()
	}
	return nil
}

// face is one run.
type face struct {
	Config
	pairing *pairing
	calls   atomic.Int32
}

// Run serves one host until its input ends or ctx does, and returns within two
// seconds of that. Calls that run then are cancelled, not answered.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &face{Config: cfg, pairing: &pairing{life: ctx, connect: cfg.Connect}}
	pipe := newStdio(cfg.Stdin, cfg.Stdout, cfg.Logger)
	session, err := f.server().Connect(ctx, pipe, nil)
	if err != nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	go pipe.pump() // ends with the input, which this process does not outlive
	over := make(chan struct{})
	go func() { // ends with the session
		if err := session.Wait(); err != nil {
			cfg.Logger.Debug("session with the host ended", "err", err)
		}
		close(over)
	}()
	select {
	case <-pipe.ended:
	case <-over:
	case <-ctx.Done():
	}
	cancel() // ends calls and the pairing
	pipe.Close()
	if closer, ok := cfg.Stdin.(io.Closer); ok {
		closer.Close()
	}
	f.wait(over)
	return nil
}

// wait gives what was started a moment to end. A host that no longer reads can
// hold a write for ever; the end of the process ends that.
func (f *face) wait(over <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		<-over
		f.pairing.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		f.Logger.Warn("calls were still running at the end of the session")
	}
}

func (f *face) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: serverName, Title: "Lomi", Version: f.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs, c.CacheScope = 0, "private" },
	})
	server.AddReceivingMiddleware(f.guard)
	for _, tool := range f.Tools {
		server.AddTool(described(tool), f.handler(tool))
	}
	return server
}

// described is a tool in the words of MCP.
func described(tool control.Tool) *mcp.Tool {
	t := &mcp.Tool{
		Name: tool.Name, Title: tool.Title, Description: tool.Description,
		InputSchema: tool.Input(),
		Annotations: &mcp.ToolAnnotations{Title: tool.Title, ReadOnlyHint: tool.ReadOnly, IdempotentHint: true,
			DestructiveHint: &tool.Destructive, OpenWorldHint: &tool.OpenWorld},
	}
	if tool.Output != nil {
		t.OutputSchema = tool.Output()
	}
	return t
}

func (f *face) handler(tool control.Tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer f.calls.Add(-1)
		if f.calls.Add(1) > maxCalls {
			return result(control.Failure(control.Errorf(control.ResourceExhausted, "%d calls run already", maxCalls))), nil
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return result(f.answer(ctx, tool, req.Params.Arguments, f.label(req))), nil
	}
}

func (f *face) label(req *mcp.CallToolRequest) string {
	if f.Label != "" {
		return client.CleanLabel(f.Label, fallbackLabel)
	}
	if info := req.ClientInfo(); info != nil {
		return client.CleanLabel(info.Name, fallbackLabel)
	}
	return fallbackLabel
}

// guard keeps what the SDK does not: a panic of a handler ends the process, a
// nil result crashes it for protocol 2026-07-28, and an error without a code of
// its own goes out as code 0 (go-sdk v1.8.0; its pull request 1180 leaves
// recovering to users).
func (f *face) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				f.Logger.Error("a request of the host panicked", "method", method, "panic", fmt.Sprint(p))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
				return
			}
			if v := reflect.ValueOf(res); err == nil && res != nil && v.Kind() == reflect.Pointer && v.IsNil() {
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no result"}
			}
		}()
		if list, ok := req.(*mcp.ListToolsRequest); ok && list.Params != nil && list.Params.Cursor != "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the list of tools is one page; there is no cursor"}
		}
		return next(ctx, method, req)
	}
}
