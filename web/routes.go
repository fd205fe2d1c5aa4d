package web

import (
	"context"
	"net/http"

	"lomi/broker"
	"lomi/broker/control"
	"lomi/chat"
)

// roomErrors maps the sentinels of the rooms to what a person reads. A test
// ranges over all of them.
var roomErrors = []struct {
	is     error
	status int
	code   string
	text   string // "" shows the error's own words, which its room wrote for people
	hint   string
}{
	{chat.ErrNotFound, http.StatusNotFound, "not_found", "There is no such conversation.", ""},
	{chat.ErrNoQuestion, http.StatusConflict, "settled", "This question is not open any more.", ""},
	{chat.ErrBusy, http.StatusConflict, "busy", "This conversation is working.", "Stop it first, or wait for it to end."},
	{chat.ErrTooMany, http.StatusTooManyRequests, "too_many", "Four conversations are working.", "Wait for one to end."},
	{chat.ErrInvalid, http.StatusBadRequest, "bad_request", "", ""},
	{chat.ErrClosed, http.StatusServiceUnavailable, "closing", "Lomi is shutting down.", ""},
	{ErrInvalid, http.StatusBadRequest, "bad_request", "", ""},
	{broker.ErrBehind, http.StatusServiceUnavailable, "behind", "This page fell behind.", "Reload it."},
	{broker.ErrClosed, http.StatusServiceUnavailable, "closing", "Lomi is shutting down.", ""},
}

// routes is everything that the doors serve, in one table.
func (s *Server) routes(rs routes) {
	sk := sockets{rs.door, &s.open}
	handle(rs, "POST /api/login", strangers, s.login)
	handle(rs, "POST /api/login-links", command, s.loginLink)
	handle(rs, "POST /api/logins/revoke", anyone, s.revokeLogins)
	handle(rs, "GET /api/state", anyone, s.state)
	handle(rs, "GET /api/doctor", anyone, s.doctor)

	handle(rs, "GET /api/conversations", anyone, s.conversations)
	handle(rs, "POST /api/conversations", anyone, s.createConversation)
	handle(rs, "GET /api/conversations/{id}", anyone, s.conversation)
	handle(rs, "DELETE /api/conversations/{id}", decides, s.deleteConversation)
	handle(rs, "GET /api/conversations/{id}/events", anyone, s.conversationEvents)
	handle(rs, "POST /api/conversations/{id}/messages", decides, s.sendMessage)
	handle(rs, "POST /api/conversations/{id}/stop", anyone, s.stopTurn)
	handle(rs, "POST /api/conversations/{id}/settings", decides, s.changeConversation)
	handle(rs, "POST /api/conversations/{id}/answers", decides, s.answerQuestion)
	handle(rs, "GET /api/search", anyone, s.search)
	handle(rs, "POST /api/projects", decides, s.openProject)

	handle(rs, "GET /api/pairings", anyone, s.pairings)
	handle(rs, "POST /api/pairings/{id}/approve", decides, s.approvePairing)
	handle(rs, "POST /api/pairings/{id}/reject", anyone, s.rejectPairing)
	handle(rs, "GET /api/approvals", anyone, s.approvals)
	handle(rs, "POST /api/approvals/{id}", decides, s.decide)
	handle(rs, "GET /api/sessions", anyone, s.sessions)
	handle(rs, "POST /api/sessions/{id}/revoke", anyone, s.revokeSession)
	handle(rs, "POST /api/sessions/{id}/policy", decides, s.changePolicy)
	handle(rs, "POST /api/control/stop", anyone, s.stopControl)
	handle(rs, "POST /api/control/resume", decides, s.resumeControl)
	handle(rs, "GET /api/receipts", anyone, s.receipts)
	handle(rs, "GET /api/receipts/{id}", anyone, s.receipt)

	handle(rs, "GET /api/models", anyone, s.models)
	handle(rs, "GET /api/models/show", anyone, s.showModel)
	handle(rs, "POST /api/models/connect", decides, s.connectModel)
	handle(rs, "DELETE /api/models/connections/{name}", decides, s.disconnectModel)

	handle(rs, "POST /api/terminals", decides, s.newTerminal)
	handle(rs, "POST /api/panels/{id}/takeover", decides, s.takeOver)
	handle(rs, "POST /api/panels/{id}/close", decides, s.closePanel)

	rs.add("GET /api/artifacts/{id}", s.artifact(rs.door))
	rs.add("GET /ws/events", s.events(sk))
	if !rs.door.admin { // what a person sees and touches is the page's
		rs.add("GET /ws/terminal/{panel}", s.terminal(sk))
		rs.add("GET /ws/screen/{panel}", s.screen(sk))
	}
}

type loginRequest struct {
	Code string `json:"code"`
}

type loginAnswer struct {
	Key string `json:"key"`
}

func (s *Server) login(_ context.Context, c call[loginRequest]) (loginAnswer, error) {
	cookie, key, err := s.logins.redeem(c.body.Code)
	if err != nil {
		return loginAnswer{}, err
	}
	c.header.Set("Set-Cookie", (&http.Cookie{
		Name: cookieName, Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(loginLife.Seconds()),
	}).String())
	return loginAnswer{key}, nil
}

type linkAnswer struct {
	URL string `json:"url"`
}

func (s *Server) loginLink(context.Context, call[none]) (linkAnswer, error) {
	return linkAnswer{s.LoginLink()}, nil
}

// revokeLogins ends the login of every page, this one's too.
func (s *Server) revokeLogins(context.Context, call[none]) (none, error) {
	return none{}, s.logins.revokeAll()
}

// stateAnswer is everything that a page needs to begin, and the number of the
// desk's event up to which it holds.
type stateAnswer struct {
	Version       string               `json:"version"`
	Instance      string               `json:"instance"`
	YOLO          bool                 `json:"yolo"`
	Stopped       bool                 `json:"controlStopped"`
	Storage       string               `json:"storage,omitempty"`
	Home          string               `json:"cwd"`
	DeskSeq       int64                `json:"deskSeq"`
	Workspaces    []control.Workspace  `json:"workspaces"`
	Panels        []control.Panel      `json:"panels"`
	Connections   []connectionInfo     `json:"connections"`
	Conversations []chat.Conversation  `json:"conversations"`
	Pairings      []broker.Pairing     `json:"pairings"`
	Approvals     []broker.Approval    `json:"approvals"`
	Sessions      []broker.SessionInfo `json:"sessions"`
}

func (s *Server) state(ctx context.Context, _ call[none]) (stateAnswer, error) {
	// The number first: what happens meanwhile is told twice, not lost.
	seq := s.desk.seq()
	about := s.cfg.Broker.Control()
	answer := stateAnswer{
		Version: s.cfg.Version, Instance: s.cfg.Instance, YOLO: about.YOLO, Stopped: about.Stopped, Storage: about.Storage,
		Home: s.cfg.Home, DeskSeq: seq, Workspaces: s.cfg.Desk.Workspaces(), Panels: []control.Panel{},
		Conversations: s.cfg.Chat.List(), Pairings: s.cfg.Broker.Pairings(), Approvals: s.cfg.Broker.Approvals(),
		Sessions: s.cfg.Broker.Sessions(),
	}
	for _, w := range answer.Workspaces {
		answer.Panels = append(answer.Panels, s.cfg.Desk.Panels(w.ID)...)
	}
	var err error
	answer.Connections, err = s.connections(ctx)
	return answer, err
}

func (s *Server) doctor(ctx context.Context, _ call[none]) (any, error) {
	return s.cfg.Doctor(ctx), nil
}
