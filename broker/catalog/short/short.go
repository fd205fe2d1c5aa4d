// Package short is the catalog as the model of the built-in chat sees it: few
// tools, few fields, no ids to carry. The conversation's session makes full
// calls of them. The texts stand in forms.json.
package short

import (
	"bytes"
	_ "embed" // for forms.json
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"lomi/broker/control"
)

// Form is one short form. Parameters is a JSON Schema of the keywords that
// every engine passes on: type, properties, items, required, anyOf, description
// and enum.
type Form struct {
	Name        string          `json:"name"`
	Description string          `json:"description"` // at most 40 words, ends with an example
	Parameters  json.RawMessage `json:"parameters"`
	Domain      string          `json:"domain"` // "" is offered in every conversation
	Scopes      []control.Scope `json:"scopes"` // what the full calls behind it need at least
}

//go:embed forms.json
var source []byte

var forms = sync.OnceValues(func() ([]Form, error) {
	var all []Form
	if err := json.Unmarshal(source, &all); err != nil {
		return nil, fmt.Errorf("reading the embedded short forms: %w", err)
	}
	for i := range all {
		var b bytes.Buffer
		if err := json.Compact(&b, all[i].Parameters); err != nil {
			return nil, fmt.Errorf("reading the parameters of %s: %w", all[i].Name, err)
		}
		all[i].Parameters = b.Bytes()
	}
	return all, nil
})

// All returns the short forms in a fixed order, domain by domain. The slice is
// the caller's own.
func All() []Form {
	all, err := forms()
	if err != nil {
		return nil // the file is part of the program, and a test reads it
	}
	return slices.Clone(all)
}

// For returns what a model may be offered: the forms of the domains that are
// switched on, and of none, as far as has grants every scope of them. The order
// is that of All, so that a prompt that did not change stays the same bytes.
func For(domains []string, has func(control.Scope) bool) []Form {
	return slices.DeleteFunc(All(), func(f Form) bool {
		on := f.Domain == "" || slices.Contains(domains, f.Domain)
		return !on || slices.ContainsFunc(f.Scopes, func(s control.Scope) bool { return !has(s) })
	})
}

// Find returns the short form of a name.
func Find(name string) (Form, bool) {
	all := All()
	i := slices.IndexFunc(all, func(f Form) bool { return f.Name == name })
	if i < 0 {
		return Form{}, false
	}
	return all[i], true
}
