package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/coder/websocket"
)

// resize is the text message of a terminal socket.
type resize struct {
	Resize *struct {
		Columns int `json:"cols"`
		Rows    int `json:"rows"`
	} `json:"resize"`
}

// terminal serves /ws/terminal/{panel}: the terminal's bytes one way, the
// person's keys the other.
func (s *Server) terminal(sk sockets) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		panel := r.PathValue("panel")
		sk.serve(w, r, func(ctx context.Context, ws *websocket.Conn, first json.RawMessage) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			s.size(panel, first)
			done := make(chan struct{})
			go func() { // ends with the socket, which f's return closes
				defer close(done)
				cancel(s.typed(ctx, ws, panel))
			}()
			err := errEnded
			for data, failed := range s.cfg.Terminals.Attach(ctx, panel) {
				if err = failed; err == nil {
					err = write(ctx, ws, websocket.MessageBinary, data)
				}
				if err != nil {
					break
				}
				err = errEnded
			}
			cancel(err)
			ws.Close(closeCode(err), closeReason(err))
			<-done
			return err
		})
	}
}

// typed carries what the person types to the terminal until the socket ends.
func (s *Server) typed(ctx context.Context, ws *websocket.Conn, panel string) error {
	for {
		kind, data, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			s.size(panel, data)
			continue
		}
		if err := s.cfg.Terminals.Type(ctx, panel, data); err != nil {
			return err
		}
	}
}

// size applies the size that a message names. A size that does not fit is the
// terminal's to refuse; the picture stays as it was.
func (s *Server) size(panel string, message json.RawMessage) {
	var m resize
	if err := json.Unmarshal(message, &m); err != nil || m.Resize == nil {
		return
	}
	if err := s.cfg.Terminals.Resize(panel, m.Resize.Columns, m.Resize.Rows); err != nil {
		s.cfg.Logger.Debug("resizing a terminal", "err", err)
	}
}

// screenMeta is the text message before a picture whose facts changed.
type screenMeta struct {
	URL    string `json:"url"`
	Title  string `json:"title"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// screen serves /ws/screen/{panel}: pictures one way, the person's input the
// other.
func (s *Server) screen(sk sockets) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		panel := r.PathValue("panel")
		sk.serve(w, r, func(ctx context.Context, ws *websocket.Conn, first json.RawMessage) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			var want struct{ Width, Height int }
			if err := json.Unmarshal(first, &want); err != nil {
				return badRequest("The first message must name width and height.")
			}
			done := make(chan struct{})
			go func() { // ends with the socket, which f's return closes
				defer close(done)
				cancel(s.acted(ctx, ws, panel))
			}()
			err := s.show(ctx, ws, panel, want.Width, want.Height)
			cancel(err)
			ws.Close(closeCode(err), closeReason(err))
			<-done
			return err
		})
	}
}

func (s *Server) show(ctx context.Context, ws *websocket.Conn, panel string, width, height int) error {
	var last screenMeta
	for frame, err := range s.cfg.Screens.Watch(ctx, panel, width, height) {
		if err != nil {
			return err
		}
		if now := (screenMeta{frame.URL, frame.Title, frame.Width, frame.Height}); now != last {
			last = now
			if err := send(ctx, ws, map[string]screenMeta{"meta": now}); err != nil {
				return err
			}
		}
		if len(frame.JPEG) == 0 {
			continue
		}
		if err := write(ctx, ws, websocket.MessageBinary, frame.JPEG); err != nil {
			return err
		}
	}
	return errEnded
}

func (s *Server) acted(ctx context.Context, ws *websocket.Conn, panel string) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var input ScreenInput
		if err := json.Unmarshal(data, &input); err != nil {
			return badRequest("That is no input for a screen.")
		}
		if err := s.cfg.Screens.Act(ctx, panel, input); err != nil {
			if e, known := public(err); known && !errors.Is(ctx.Err(), context.Canceled) {
				if err := send(ctx, ws, map[string]string{"error": e.message}); err != nil {
					return err
				}
				continue
			}
			return err
		}
	}
}
