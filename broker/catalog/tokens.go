package catalog

import (
	_ "embed" // for tokens.json
	"encoding/json"
)

// Count is what one form, or a set of forms, costs a qwen3 model: counted in
// the layout of the Hugging Face chat template, JSON with a space after each
// colon and comma. A set includes the words that the template puts around any
// list of tools; a single form does not.
type Count struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
}

// The table is made by this package's tests with the real tokenizer, which the
// program does not carry.
//
//go:embed tokens.json
var tokens []byte

// Tokens returns the counts: first the sets that have a budget, then each short
// form, then each tool.
func Tokens() []Count {
	var table []Count
	if err := json.Unmarshal(tokens, &table); err != nil {
		return nil // the file is part of the program, and a test reads it
	}
	return table
}
