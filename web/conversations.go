package web

import (
	"context"
	"net/http"
	"strconv"

	"lomi/broker/control"
	"lomi/chat"
)

// maxEvents bounds one page of a log.
const maxEvents = 1000

type conversationsAnswer struct {
	Conversations []chat.Conversation `json:"conversations"`
}

func (s *Server) conversations(context.Context, call[none]) (conversationsAnswer, error) {
	return conversationsAnswer{s.cfg.Chat.List()}, nil
}

type createRequest struct {
	Title       string   `json:"title,omitempty"`
	WorkspaceID string   `json:"workspaceId"`
	Model       string   `json:"model,omitempty"`
	Domains     []string `json:"domains,omitempty"`
	Policy      string   `json:"policy,omitempty"`
}

func (s *Server) createConversation(ctx context.Context, c call[createRequest]) (chat.Conversation, error) {
	w, err := s.workspace(c.body.WorkspaceID)
	if err != nil {
		return chat.Conversation{}, err
	}
	return s.cfg.Chat.Create(ctx, chat.CreateRequest{
		Title: c.body.Title, Model: c.body.Model, Domains: c.body.Domains, Policy: c.body.Policy,
		WorkspaceID: w.ID, ProjectID: w.ProjectID, ProjectPath: w.ProjectPath,
	})
}

func (s *Server) workspace(id string) (control.Workspace, error) {
	for _, w := range s.cfg.Desk.Workspaces() {
		if w.ID == id {
			return w, nil
		}
	}
	return control.Workspace{}, control.Errorf(control.TargetNotFound, "There is no such workspace.")
}

func (s *Server) conversation(_ context.Context, c call[none]) (chat.Conversation, error) {
	return s.cfg.Chat.Get(c.path("id"))
}

func (s *Server) deleteConversation(ctx context.Context, c call[none]) (none, error) {
	return none{}, s.cfg.Chat.Delete(ctx, c.path("id"))
}

type eventsAnswer struct {
	Events []chat.Event `json:"events"`
}

func (s *Server) conversationEvents(ctx context.Context, c call[none]) (eventsAnswer, error) {
	after, err := number(c.query("after"), 0)
	if err != nil {
		return eventsAnswer{}, badRequest("after must be a sequence number.")
	}
	limit, err := number(c.query("limit"), maxEvents)
	if err != nil || limit < 1 || limit > maxEvents {
		return eventsAnswer{}, badRequest("limit must be a number from 1 to 1000.")
	}
	events, err := s.cfg.Chat.Events(ctx, c.path("id"), after, int(limit))
	return eventsAnswer{events}, err
}

func number(text string, otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// accepted says that a turn began; what comes of it is told by the log.
type accepted struct{ chat.Sent }

func (accepted) status() int { return http.StatusAccepted }

func (s *Server) sendMessage(ctx context.Context, c call[chat.SendRequest]) (accepted, error) {
	sent, err := s.cfg.Chat.Send(ctx, c.path("id"), c.body)
	return accepted{sent}, err
}

type stopRequest struct {
	Turn string `json:"turn,omitempty"`
}

type stopAnswer struct {
	Stopped bool `json:"stopped"`
}

func (s *Server) stopTurn(_ context.Context, c call[stopRequest]) (stopAnswer, error) {
	stopped, err := s.cfg.Chat.Stop(c.path("id"), c.body.Turn)
	return stopAnswer{stopped}, err
}

func (s *Server) changeConversation(ctx context.Context, c call[chat.SettingsRequest]) (chat.Conversation, error) {
	return s.cfg.Chat.Settings(ctx, c.path("id"), c.body)
}

type answerRequest struct {
	ID     string `json:"id"`
	Answer string `json:"answer"`
}

func (s *Server) answerQuestion(_ context.Context, c call[answerRequest]) (none, error) {
	return none{}, s.cfg.Chat.Answer(c.path("id"), c.body.ID, c.body.Answer)
}

type projectRequest struct {
	Path string `json:"path"`
	Name string `json:"name,omitempty"`
}

func (s *Server) openProject(ctx context.Context, c call[projectRequest]) (control.Workspace, error) {
	return s.cfg.Desk.OpenProject(ctx, c.body.Path, c.body.Name)
}
