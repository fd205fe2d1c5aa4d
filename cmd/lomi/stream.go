package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/coder/websocket"
)

// event is one line of a log.
type event struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// piece is a stretch of a message's text, at a byte offset of its part.
type piece struct {
	Message string `json:"message"`
	Part    int    `json:"part"`
	Kind    string `json:"kind"`
	Offset  int    `json:"offset"`
	Text    string `json:"text"`
}

// frame is one message of the event socket.
type frame struct {
	Log      string `json:"log"`
	Event    *event `json:"event"`
	Delta    *piece `json:"delta"`
	Snapshot *struct {
		Parts []piece `json:"parts"`
	} `json:"snapshot"`
	Progress *progress `json:"progress"`
	Status   *struct {
		State string `json:"state"`
	} `json:"status"`
	Behind bool `json:"behind"`
}

// progress says how far a running call is.
type progress struct {
	Call      string `json:"call"`
	State     string `json:"state"`
	ElapsedMs int64  `json:"elapsedMs"`
	Tail      string `json:"tail"`
}

// follow reads a conversation's log after a number and hands on every frame,
// each event once and in order. When the daemon says that this reader fell
// behind, it asks again from the last event it has.
// answers says whether a person is there to answer questions.
func follow(ctx context.Context, a *admin, conversation string, after int64, answers bool, each func(frame) (done bool, err error)) error {
	log := "conversation:" + conversation
	ws, err := a.socket(ctx)
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	subscribe := func() error {
		raw, err := json.Marshal(map[string]any{"answers": answers, "subscribe": []map[string]any{{"log": log, "after": after}}})
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, raw)
	}
	if err := subscribe(); err != nil {
		return noDaemon(err)
	}
	for {
		_, raw, err := ws.Read(ctx)
		if err != nil {
			return noDaemon(err)
		}
		var f frame
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("reading an event: %w", err)
		}
		if f.Log != log {
			continue
		}
		if f.Behind {
			if err := subscribe(); err != nil {
				return noDaemon(err)
			}
			continue
		}
		if f.Event != nil {
			if f.Event.Seq <= after {
				continue
			}
			after = f.Event.Seq
		}
		done, err := each(f)
		if done || err != nil {
			return err
		}
	}
}

// texts turns pieces that may be missing, doubled or late into a text that
// adds up: what is printed of each part is always a prefix of it.
type texts struct {
	have map[partKey]int // bytes printed
}

type partKey struct {
	message string
	part    int
}

// next returns what a piece adds, "" when it adds nothing yet. A piece beyond
// what is there leaves a gap; a later checkpoint or the whole part fills it.
func (t *texts) next(p piece) string {
	if t.have == nil {
		t.have = map[partKey]int{}
	}
	k := partKey{p.Message, p.Part}
	have := t.have[k]
	if p.Offset > have || p.Offset+len(p.Text) <= have {
		return ""
	}
	t.have[k] = p.Offset + len(p.Text)
	return p.Text[have-p.Offset:]
}
