package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// maxAnswer bounds an answer of the daemon, a long conversation included.
const maxAnswer = 64 << 20

// admin talks to the daemon of a data folder through its admin socket.
type admin struct {
	http *http.Client
}

func newAdmin(data string) *admin {
	socket := filepath.Join(data, "admin.sock")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
	}
	return &admin{&http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// call sends one request and decodes its answer into out, when that is not nil.
func (a *admin) call(ctx context.Context, method, path string, body, out any) error {
	var reader io.Reader
	if method != http.MethodGet {
		if body == nil {
			body = struct{}{}
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lomi"+path, reader)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	if reader != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return noDaemon(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return noDaemon(err)
	}
	if resp.StatusCode >= 300 {
		return refusal(resp.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return nil
}

// refusal turns the daemon's error body into ours.
func refusal(status int, raw []byte) error {
	var body struct {
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Error.Message == "" {
		return failf("the daemon answered with status %d", status)
	}
	f := failf("%s", body.Error.Message)
	f.status = status
	if status == http.StatusForbidden {
		f.code = exitDenied
	}
	if body.Error.Hint != "" {
		f.withHint(body.Error.Hint)
	}
	return f
}

// noDaemon tells an absent daemon from other failures.
func noDaemon(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return (&failure{code: exitNoDaemon, text: "no Lomi daemon is running on this data folder"}).
			withHint("start one with lomi serve")
	}
	if errors.Is(err, context.Canceled) {
		return failf("interrupted")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return &failure{code: exitNoDaemon, text: "the daemon went away"}
	}
	return fmt.Errorf("talking to the daemon: %w", err)
}

// socket opens the daemon's event socket.
func (a *admin) socket(ctx context.Context) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, "ws://lomi/ws/events", &websocket.DialOptions{HTTPClient: a.http})
	if err != nil {
		return nil, noDaemon(err)
	}
	ws.SetReadLimit(maxAnswer)
	return ws, nil
}
