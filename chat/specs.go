package chat

import (
	"slices"

	"lomi/broker/catalog/short"
	"lomi/broker/control"
	"lomi/models"
)

// Specs gives what the model may be offered: the short forms of the domains
// that are switched on, once a grant is known only those that it allows, and
// only those that this session can carry out.
func (s *Session) Specs(domains []string) []models.ToolSpec {
	s.mu.Lock()
	scopes := s.scopes
	s.mu.Unlock()
	has := func(scope control.Scope) bool { return scopes == nil || scopes[scope] }
	var specs []models.ToolSpec
	for _, f := range short.For(slices.Compact(slices.Clone(domains)), has) {
		if handlerOf(f.Name) != nil {
			specs = append(specs, specOf(f))
		}
	}
	return specs
}

func specOf(f short.Form) models.ToolSpec {
	return models.ToolSpec{Name: f.Name, Description: f.Description, Parameters: f.Parameters}
}

// askSpec is the one tool that needs no session.
func askSpec() models.ToolSpec {
	if f, ok := short.Find(askTool); ok {
		return specOf(f)
	}
	return models.ToolSpec{Name: askTool, Description: "Ask the person and wait for the answer.",
		Parameters: []byte(`{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}},"required":["question"]}`)}
}
