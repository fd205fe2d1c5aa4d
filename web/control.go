package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"lomi/broker"
	"lomi/broker/control"
)

type pairingsAnswer struct {
	Pairings []broker.Pairing `json:"pairings"`
}

func (s *Server) pairings(context.Context, call[none]) (pairingsAnswer, error) {
	return pairingsAnswer{s.cfg.Broker.Pairings()}, nil
}

// approveRequest is a grant as a person gives it: scopes by name, or the
// presets of whole domains, or both.
type approveRequest struct {
	Scopes     []control.Scope `json:"scopes,omitempty"`
	Domains    []string        `json:"domains,omitempty"`
	Workspaces []string        `json:"workspaces,omitempty"` // all of the first project when empty
	Origins    []string        `json:"origins,omitempty"`
	Policy     broker.Policy   `json:"policy,omitempty"`
}

func (r approveRequest) spec(all []control.Workspace) (broker.GrantSpec, error) {
	spec := broker.GrantSpec{Scopes: r.Scopes, Workspaces: r.Workspaces, Origins: r.Origins, Policy: r.Policy}
	for _, domain := range r.Domains {
		scopes := broker.DomainScopes(domain)
		if scopes == nil {
			return spec, badRequest("domains: there is no domain of that name that can be granted as a whole.")
		}
		spec.Scopes = append(spec.Scopes, scopes...)
	}
	slices.Sort(spec.Scopes)
	spec.Scopes = slices.Compact(spec.Scopes)
	if len(spec.Scopes) == 0 {
		return spec, badRequest("Name the scopes or the domains to allow.")
	}
	if len(spec.Workspaces) == 0 && len(all) > 0 {
		spec.Workspaces = []string{all[0].ID}
	}
	return spec, nil
}

func (s *Server) approvePairing(ctx context.Context, c call[approveRequest]) (none, error) {
	id := c.path("id")
	subject := 0
	for _, p := range s.cfg.Broker.Pairings() {
		if p.ID == id {
			subject = p.PID
		}
	}
	if err := c.caller.mayDecide(subject); err != nil {
		return none{}, err
	}
	spec, err := c.body.spec(s.cfg.Desk.Workspaces())
	if err != nil {
		return none{}, err
	}
	return none{}, s.cfg.Broker.Approve(ctx, id, spec)
}

func (s *Server) rejectPairing(_ context.Context, c call[none]) (none, error) {
	return none{}, s.cfg.Broker.Reject(c.path("id"))
}

type approvalsAnswer struct {
	Approvals []broker.Approval `json:"approvals"`
}

func (s *Server) approvals(context.Context, call[none]) (approvalsAnswer, error) {
	return approvalsAnswer{s.cfg.Broker.Approvals()}, nil
}

type decideRequest struct {
	Answer   string `json:"answer"`             // "yes" or "no"
	Remember bool   `json:"remember,omitempty"` // do not ask again for this program and subcommand
}

func (s *Server) decide(ctx context.Context, c call[decideRequest]) (none, error) {
	switch {
	case c.body.Answer == "yes" && c.body.Remember:
		return none{}, s.cfg.Broker.DecideAndRemember(ctx, c.path("id"))
	case c.body.Answer == "yes", c.body.Answer == "no":
		return none{}, s.cfg.Broker.Decide(ctx, c.path("id"), c.body.Answer == "yes")
	}
	return none{}, badRequest("answer must be yes or no.")
}

type sessionsAnswer struct {
	Sessions []broker.SessionInfo `json:"sessions"`
}

func (s *Server) sessions(context.Context, call[none]) (sessionsAnswer, error) {
	return sessionsAnswer{s.cfg.Broker.Sessions()}, nil
}

func (s *Server) revokeSession(_ context.Context, c call[none]) (none, error) {
	return none{}, s.cfg.Broker.Revoke(c.path("id"))
}

type policyRequest struct {
	Policy broker.Policy `json:"policy"`
}

func (s *Server) changePolicy(_ context.Context, c call[policyRequest]) (none, error) {
	return none{}, s.cfg.Broker.SetPolicy(c.path("id"), c.body.Policy)
}

func (s *Server) stopControl(context.Context, call[none]) (none, error) {
	s.cfg.Broker.Stop()
	return none{}, nil
}

func (s *Server) resumeControl(context.Context, call[none]) (none, error) {
	s.cfg.Broker.Resume()
	return none{}, nil
}

type receiptsAnswer struct {
	Receipts []broker.ReceiptInfo `json:"receipts"`
}

func (s *Server) receipts(ctx context.Context, c call[none]) (receiptsAnswer, error) {
	limit, err := number(c.query("limit"), 100)
	if err != nil || limit < 1 || limit > 500 {
		return receiptsAnswer{}, badRequest("limit must be a number from 1 to 500.")
	}
	list, err := s.cfg.Broker.Receipts(ctx, broker.ReceiptFilter{
		Session: c.query("session"), State: control.State(c.query("state")), Before: c.query("before"), Limit: int(limit),
	})
	return receiptsAnswer{list}, err
}

func (s *Server) receipt(ctx context.Context, c call[none]) (broker.ReceiptInfo, error) {
	return s.cfg.Broker.Receipt(ctx, c.path("id"))
}

// artifact serves a stored picture to a page that holds its key.
func (s *Server) artifact(d *door) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := d.who(r, r.Header.Get(keyHeader)); err != nil {
			d.fail(w, r, err)
			return
		}
		image, err := s.cfg.Panels.Artifact(r.Context(), r.PathValue("id"))
		if err != nil {
			d.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", image.MediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(image.Data)))
		w.Write(image.Data)
	}
}

type terminalRequest struct {
	WorkspaceID string `json:"workspaceId"`
	Title       string `json:"title,omitempty"`
}

func (s *Server) newTerminal(ctx context.Context, c call[terminalRequest]) (control.Panel, error) {
	w, err := s.workspace(c.body.WorkspaceID)
	if err != nil {
		return control.Panel{}, err
	}
	return s.cfg.Panels.NewTerminal(ctx, w, c.body.Title)
}

func (s *Server) panel(id string) (control.Panel, error) {
	for _, w := range s.cfg.Desk.Workspaces() {
		for _, p := range s.cfg.Desk.Panels(w.ID) {
			if p.ID == id {
				return p, nil
			}
		}
	}
	return control.Panel{}, errNoTerminal
}

func (s *Server) takeOver(_ context.Context, c call[none]) (none, error) {
	p, err := s.panel(c.path("id"))
	if err != nil {
		return none{}, err
	}
	s.cfg.Broker.TakeOver(p.Resource())
	return none{}, nil
}

func (s *Server) closePanel(ctx context.Context, c call[none]) (none, error) {
	p, err := s.panel(c.path("id"))
	if err != nil {
		return none{}, err
	}
	return none{}, s.cfg.Panels.Close(ctx, p)
}
