package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"lomi/models"
	"lomi/models/connect"
)

// listTimeout bounds how long the page waits for engines that do not answer:
// the rest of its state must not wait with them.
const listTimeout = 3 * time.Second

// connectionInfo is a connection with its models, as the page reads it.
type connectionInfo = connect.Listing

func (s *Server) connections(ctx context.Context) ([]connectionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return s.cfg.Models.List(ctx), nil
}

type modelsAnswer struct {
	Connections []connectionInfo `json:"connections"`
}

func (s *Server) models(ctx context.Context, _ call[none]) (modelsAnswer, error) {
	list, err := s.connections(ctx)
	return modelsAnswer{list}, err
}

type connectRequest struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	BaseURL      string   `json:"baseURL,omitempty"`
	Key          string   `json:"key,omitempty"`
	KeyMode      string   `json:"keyMode,omitempty"` // session or system; the key store where there is one
	Organization string   `json:"organization,omitempty"`
	Models       []string `json:"models,omitempty"`
}

type connectAnswer struct {
	KeyMode string `json:"keyMode"` // where the key is now
}

func (s *Server) connectModel(ctx context.Context, c call[connectRequest]) (connectAnswer, error) {
	r := c.body
	var key connect.Secret // zero for a server that asks for none
	if r.Key != "" {
		var err error
		if key, err = connect.NewSecret(r.Key); err != nil {
			return connectAnswer{}, badRequest("key: " + err.Error())
		}
	}
	put := connect.Connection{Name: r.Name, Kind: connect.Kind(r.Kind), BaseURL: r.BaseURL, KeyMode: connect.KeyNone,
		Organization: r.Organization, Models: r.Models}
	if err := s.cfg.Models.Put(ctx, put); err != nil {
		return connectAnswer{}, badRequest(err.Error())
	}
	s.desk.append("models.changed", none{})
	if key.IsZero() {
		return connectAnswer{string(connect.KeyNone)}, nil
	}
	mode := connect.KeyMode(r.KeyMode)
	if mode == "" {
		mode = connect.KeySystem
		if s.cfg.Models.KeystoreError(ctx) != nil {
			mode = connect.KeySession
		}
	}
	if err := s.cfg.Models.SetKey(ctx, r.Name, mode, key); err != nil {
		return connectAnswer{}, badRequest(err.Error())
	}
	return connectAnswer{string(mode)}, nil
}

func (s *Server) disconnectModel(ctx context.Context, c call[none]) (none, error) {
	err := s.cfg.Models.Remove(ctx, c.path("name"))
	if errors.Is(err, connect.ErrNotFound) {
		return none{}, &apiError{http.StatusNotFound, "not_found", "There is no such connection.", "lomi model list names them."}
	}
	s.desk.append("models.changed", none{})
	return none{}, err
}

type shownModel struct {
	Model string      `json:"model"`
	Info  models.Info `json:"info"`
}

func (s *Server) showModel(ctx context.Context, c call[none]) (shownModel, error) {
	name := c.query("name")
	_, _, info, err := s.cfg.Models.Open(ctx, name)
	if err != nil {
		return shownModel{}, &apiError{http.StatusNotFound, "no_model", err.Error(), "lomi model list names the models."}
	}
	return shownModel{name, info}, nil
}
