package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lomi/agent"
	"lomi/models"
)

// conversation is one that is held in memory. turn, gone, unclosed and used are
// guarded by the Service's mu; window and windowFor belong to the running turn;
// session guards itself.
type conversation struct {
	id      string
	log     *Log
	session *Session // nil without a broker

	turn *running
	gone bool
	used time.Time
	// unclosed is set when the end of a turn could not be stored.
	unclosed bool

	window    *agent.Window
	windowFor windowKey
}

// windowKey says what a window was made for. Another model or system prompt
// needs another one.
type windowKey struct {
	model  string
	system string
	tokens int
	vision bool
}

// running is a turn under way. stopping, question are guarded by the Service's
// mu.
type running struct {
	id     string
	ctx    context.Context // life of the turn: ends with a cause, or when released
	cancel context.CancelCauseFunc
	done   chan struct{}

	stopping bool
	question string      // the open one
	answer   chan string // of the open question, with room for one
}

// open returns a conversation, read into memory if it is not.
func (s *Service) open(ctx context.Context, id string) (*conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.infos[id]
	switch c := s.live[id]; {
	case s.closed:
		return nil, ErrClosed
	case !ok:
		return nil, ErrNotFound
	case c != nil:
		c.used = s.cfg.Now()
		return c, nil
	}
	c := &conversation{id: id, used: s.cfg.Now(), log: newLog(id, s.cfg.Store, info.LastSeq, s.cfg.Now, s.cfg.Logger)}
	if s.cfg.Broker != nil {
		session, err := NewSession(SessionConfig{Broker: s.cfg.Broker, Conversation: id, WorkspaceID: info.WorkspaceID,
			Project: info.ProjectPath, Policy: func() string { return s.policyOf(id) }, Logger: s.cfg.Logger})
		if err != nil {
			return nil, err
		}
		c.session = session
	}
	s.live[id] = c
	return c, nil
}

func (s *Service) policyOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infos[id].Policy
}

// evict closes the conversations that were idle longest, until no more than
// maxConversations are kept.
func (s *Service) evict() {
	for {
		s.mu.Lock()
		var oldest *conversation
		if len(s.live) > maxConversations {
			for _, c := range s.live {
				if c.turn == nil && !c.unclosed && c.log.idle() && (oldest == nil || c.used.Before(oldest.used)) {
					oldest = c
				}
			}
		}
		if oldest != nil {
			delete(s.live, oldest.id)
		}
		s.mu.Unlock()
		if oldest == nil {
			return
		}
		oldest.close()
	}
}

// disconnect ends the connections of the sessions that were idle longest, until
// no more than maxConnected are kept. Their conversations stay, and pair anew
// at their next call.
func (s *Service) disconnect() {
	s.mu.Lock()
	var idle []*conversation
	for _, c := range s.live {
		if c.turn == nil && c.session != nil && c.session.connected() {
			idle = append(idle, c)
		}
	}
	slices.SortFunc(idle, func(a, b *conversation) int { return b.used.Compare(a.used) })
	var ended []func()
	for _, c := range idle[min(len(idle), maxConnected):] {
		// Taken while no turn can begin, ended when nobody waits for it.
		ended = append(ended, c.session.release())
	}
	s.mu.Unlock()
	for _, end := range ended {
		end()
	}
}

func (c *conversation) close() {
	if c.session != nil {
		c.session.Close()
	}
	c.log.close()
}

func userMessage(text string) models.Message {
	return models.Message{Role: models.RoleUser, Parts: []models.Part{{Kind: models.PartText, Text: text}}}
}

// run carries a turn through and records its end, whatever happens.
func (s *Service) run(turn *running, c *conversation, message models.Message) {
	info, err := s.Get(c.id)
	if err != nil {
		return
	}
	ended := s.think(turn, c, info, message)
	if ended.Err != nil {
		s.cfg.Logger.WarnContext(turn.ctx, "turn failed", "conv", c.id, "turn", turn.id, "model", info.Model, "err", ended.Err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(turn.ctx), storeTimeout)
	defer cancel()
	err = c.log.append(ctx, fact{TurnEnded, turnEndedData{Turn: turn.id, StopReason: ended.Stop, Error: ended.Reason, Usage: ended.Usage}})
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "end of turn not stored", "conv", c.id, "turn", turn.id, "err", err)
		c.window = nil
		s.mu.Lock()
		c.unclosed = true
		s.mu.Unlock()
	}
}

func (s *Service) think(turn *running, c *conversation, info Conversation, message models.Message) agent.Ended {
	rec := &recorder{log: c.log, turn: turn.id}
	engine, about, err := s.cfg.Models.Resolve(turn.ctx, info.Model)
	if err != nil {
		return notResolved(turn.ctx, info.Model, err)
	}
	window, err := s.windowOf(turn.ctx, c, info, about, message)
	if err != nil {
		return agent.Ended{Stop: agent.StopFailed, Reason: "The conversation could not be read.", Err: err}
	}
	cfg := agent.Config{Model: engine, Name: about.Name, Window: window, Recorder: rec, NewID: newID, Limits: s.cfg.Limits, Logger: s.cfg.Logger}
	if about.Tools {
		cfg.Tools = s.toolbox(turn, c, info, about)
	}
	t, err := agent.New(cfg)
	if err != nil {
		return agent.Ended{Stop: agent.StopFailed, Reason: "The turn could not be started.", Err: err}
	}
	return t.Run(turn.ctx)
}

func notResolved(ctx context.Context, name string, err error) agent.Ended {
	switch {
	case errors.Is(context.Cause(ctx), agent.ErrInterrupted):
		return agent.Ended{Stop: agent.StopInterrupted, Reason: "Lomi was stopped."}
	case ctx.Err() != nil:
		return agent.Ended{Stop: agent.StopCancelled}
	case name == "":
		return agent.Ended{Stop: agent.StopFailed, Reason: "No model is chosen. Pick one in the model list.", Err: err}
	}
	ended := agent.Ended{Stop: agent.StopFailed, Reason: "The model " + clip(name, 100) + " could not be used.", Err: err}
	for _, known := range []error{models.ErrUnreachable, models.ErrAuth, models.ErrNoModel, models.ErrTimeout, models.ErrProtocol, models.ErrUnsupported} {
		if errors.Is(err, known) {
			ended.Reason = err.Error() // written for people
		}
	}
	return ended
}

// windowOf gives the window of the last turn back, so that the engine's cache
// holds, or builds one from the log.
func (s *Service) windowOf(ctx context.Context, c *conversation, info Conversation, about models.Info, message models.Message) (*agent.Window, error) {
	key := windowKey{model: info.Model, system: systemPrompt(info, s.cfg.Host), tokens: about.Window, vision: about.Vision}
	if c.window != nil && c.windowFor == key {
		c.window.Add(message)
		return c.window, nil
	}
	f, err := readFold(ctx, s.cfg.Store, c.id)
	if err != nil {
		return nil, fmt.Errorf("building the prompt: %w", err)
	}
	c.windowFor = key
	c.window = f.window(agent.WindowConfig{System: key.system, Tokens: about.Window, Vision: about.Vision})
	if c.session != nil {
		c.session.countFrom(f.elements)
	}
	return c.window, nil
}
