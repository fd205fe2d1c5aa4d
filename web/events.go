package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"lomi/chat"
)

// maxLogs is how many logs one socket follows: a page shows one conversation
// and the desk.
const maxLogs = 32

// subscribe is what a page says on the event socket.
type subscribe struct {
	// Answers says that somebody at this socket could answer a question. A
	// page always could; a command only when it has a terminal.
	Answers   bool `json:"answers"`
	Subscribe []struct {
		Log   string `json:"log"`
		After int64  `json:"after"`
	} `json:"subscribe"`
	Unsubscribe []string `json:"unsubscribe"`
}

// frame is what it is told. Log names the log; one of the others is set.
type frame struct {
	Log      string         `json:"log,omitempty"`
	Event    any            `json:"event,omitempty"`
	Snapshot *chat.Snapshot `json:"snapshot,omitempty"`
	Delta    any            `json:"delta,omitempty"`
	Progress any            `json:"progress,omitempty"`
	Status   any            `json:"status,omitempty"`
	Behind   bool           `json:"behind,omitempty"`
	Ping     bool           `json:"ping,omitempty"`
}

// events serves /ws/events: any number of logs over one socket, each from a
// sequence number on. Every event of a followed log is sent once and in order;
// deltas may drop. A page that does not read is cut off by the write timeout
// and comes back with its last numbers.
func (s *Server) events(sk sockets) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sk.serve(w, r, func(ctx context.Context, ws *websocket.Conn, first json.RawMessage) error {
			var greeted subscribe
			if !sk.door.admin || json.Unmarshal(first, &greeted) == nil && greeted.Answers {
				s.cfg.Presence.enter()
				defer s.cfg.Presence.leave()
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			f := &follower{server: s, ws: ws, ctx: ctx, fail: cancel, logs: map[string]context.CancelFunc{}}
			defer f.owned.Wait()
			defer cancel(nil)
			f.owned.Go(f.ping)
			for message := first; ; {
				if err := f.take(message); err != nil {
					return err
				}
				_, raw, err := ws.Read(ctx)
				if err != nil {
					return err
				}
				message = raw
			}
		})
	}
}

// follower is one event socket. Its context ends with the socket.
type follower struct {
	server *Server
	ws     *websocket.Conn
	ctx    context.Context // of the socket, as its goroutines need it
	fail   context.CancelCauseFunc
	owned  sync.WaitGroup
	logs   map[string]context.CancelFunc // touched by the socket's reader alone
}

func (f *follower) take(message json.RawMessage) error {
	var m subscribe
	if err := json.Unmarshal(message, &m); err != nil {
		return badRequest("That is no subscription.")
	}
	for _, name := range m.Unsubscribe {
		f.drop(name)
	}
	for _, one := range m.Subscribe {
		f.drop(one.Log)
		if len(f.logs) >= maxLogs {
			return badRequest("A socket follows at most 32 logs.")
		}
		ctx, cancel := context.WithCancel(f.ctx)
		f.logs[one.Log] = cancel
		f.owned.Go(func() { f.follow(ctx, one.Log, one.After) })
	}
	return nil
}

func (f *follower) drop(name string) {
	if cancel, ok := f.logs[name]; ok {
		cancel()
		delete(f.logs, name)
	}
}

func (f *follower) follow(ctx context.Context, name string, after int64) {
	var err error
	if id, ok := strings.CutPrefix(name, "conversation:"); ok {
		err = f.conversation(ctx, name, id, after)
	} else if name == "desk" {
		err = f.deskLog(ctx, after)
	}
	// The end of one log (a deleted conversation) is not the end of the socket;
	// a write that failed is.
	if err != nil && ctx.Err() == nil {
		f.fail(err)
	}
}

func (f *follower) deskLog(ctx context.Context, after int64) error {
	for e, ok := range f.server.desk.read(ctx, after) {
		out := frame{Log: "desk", Event: e}
		if !ok {
			out = frame{Log: "desk", Behind: true}
		}
		if err := send(f.ctx, f.ws, out); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) conversation(ctx context.Context, name, id string, after int64) error {
	log, err := f.server.cfg.Chat.Log(ctx, id)
	if err != nil {
		return send(f.ctx, f.ws, frame{Log: name, Behind: true})
	}
	for item, err := range log.Read(ctx, after) {
		if err != nil {
			return send(f.ctx, f.ws, frame{Log: name, Behind: true})
		}
		if err := send(f.ctx, f.ws, frameOf(name, item)); err != nil {
			return err
		}
	}
	return nil
}

// frameOf puts an item on the wire. Typed nil pointers must not become null
// fields, so each is looked at.
func frameOf(name string, item chat.Item) frame {
	out := frame{Log: name, Snapshot: item.Snapshot, Behind: item.Behind}
	if item.Event != nil {
		out.Event = item.Event
	}
	if item.Delta != nil {
		out.Delta = item.Delta
	}
	if item.Progress != nil {
		out.Progress = item.Progress
	}
	if item.Status != nil {
		out.Status = item.Status
	}
	return out
}

// ping lets the page see that the link lives; a page that hears nothing for
// two of them connects again.
func (f *follower) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
			if err := send(f.ctx, f.ws, frame{Ping: true}); err != nil {
				f.fail(err)
				return
			}
		}
	}
}
