package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// A page that logs in says so at once; anything slower is no page of ours.
	greetingTimeout = 5 * time.Second
	// A page that does not take a message for this long is gone or stuck, and
	// reads again from its last number when it comes back.
	writeTimeout = 10 * time.Second
	// Half the time after which a page thinks the link dead.
	pingEvery   = 15 * time.Second
	socketLimit = 1 << 20
	maxSockets  = 256
)

// greeting is the first message of every socket: the key proves the page, for
// a cookie alone would open it to any server on this host.
type greeting struct {
	Key string `json:"key"`
}

// sockets upgrades requests to sockets of logged-in callers.
type sockets struct {
	door *door
	open *atomic.Int64
}

// serve upgrades one request, takes its greeting, and runs f until either side
// ends. f gets the greeting's raw text for what else it says.
func (s sockets) serve(w http.ResponseWriter, r *http.Request, f func(context.Context, *websocket.Conn, json.RawMessage) error) {
	// At the page's door an upgrade without an Origin is no page of ours.
	if !s.door.admin && !s.door.ownOrigin(r.Header.Get("Origin")) {
		s.door.fail(w, r, errForeign)
		return
	}
	if s.open.Add(1) > maxSockets {
		s.open.Add(-1)
		s.door.fail(w, r, errBusy)
		return
	}
	defer s.open.Add(-1)
	// The origin was checked above against the exact list; the library's own
	// check compares with Host, which a rebound name can choose.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(socketLimit)
	// A socket outlives the request's own deadline, not the connection.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	first, err := s.greet(ctx, ws, r)
	if err != nil {
		ws.Close(websocket.StatusPolicyViolation, "login required")
		return
	}
	err = f(ctx, ws, first)
	ws.Close(closeCode(err), closeReason(err))
}

func (s sockets) greet(ctx context.Context, ws *websocket.Conn, r *http.Request) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	_, raw, err := ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	var g greeting
	if err := json.Unmarshal(raw, &g); err != nil {
		return nil, err
	}
	_, err = s.door.who(r, g.Key)
	return raw, err
}

// errEnded says that the thing a socket shows has ended.
var errEnded = errors.New("ended")

func closeCode(err error) websocket.StatusCode {
	e, known := public(err)
	switch {
	case err == nil, errors.Is(err, errEnded):
		return websocket.StatusNormalClosure
	case errors.Is(err, context.Canceled):
		return websocket.StatusGoingAway
	case known && e.status == http.StatusNotFound:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusInternalError
}

func closeReason(err error) string {
	if err == nil {
		return ""
	}
	e, _ := public(err)
	return e.code
}

// send writes one JSON message within the time that a living page needs.
func send(ctx context.Context, ws *websocket.Conn, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(ctx, ws, websocket.MessageText, raw)
}

func write(ctx context.Context, ws *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return ws.Write(ctx, kind, data)
}
