package client

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"lomi/broker/wire"
)

// CleanLabel makes a label of what an MCP host calls itself: without control
// and format characters, at most 80 characters, fallback when nothing is left.
func CleanLabel(name, fallback string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !wire.ValidLabel(string(r)):
			return -1
		}
		return r
	}, name)
	clean = strings.Join(strings.Fields(clean), " ")
	if runes := []rune(clean); len(runes) > 80 {
		clean = strings.TrimSpace(string(runes[:80]))
	}
	if !wire.ValidLabel(clean) {
		return fallback
	}
	return clean
}
