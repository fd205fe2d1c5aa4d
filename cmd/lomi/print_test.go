package main

import (
	"strings"
	"testing"
)

// S-61: what hides in a line that a person approves is shown.
func TestExactHidesNothing(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain", "npm test", "npm test"},
		{"S-61 far to the right", "ls" + strings.Repeat(" ", 5000) + "; touch MARK", "ls ⟨5000 spaces⟩ ; touch MARK"},
		{"S-61 a carriage return", "touch MARK\rls", "touch MARK\uFFFDls"},
		{"S-61 right to left", "ls \u202etouch", "ls \uFFFDtouch"},
		{"S-61 escapes", "\x1b[2Kls", "\uFFFD[2Kls"},
		{"tabs", "a\t\t\t\tb", "a ⟨4 spaces⟩ b"},
		{"at the end", "ls" + strings.Repeat(" ", 9), "ls ⟨9 spaces⟩ "},
	} {
		if got := exact(row.in); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	long := strings.Repeat("x", 10_000)
	if got := exact(long); got != long {
		t.Error("a long command is cut")
	}
}

func TestDeltasAddUpToTheMessage(t *testing.T) {
	var all texts
	got := ""
	for _, p := range []piece{
		{Message: "m", Offset: 0, Text: "Hä"},
		{Message: "m", Offset: 6, Text: "late"},   // a gap: waits for the checkpoint
		{Message: "m", Offset: 0, Text: "Hä"},     // told twice
		{Message: "m", Offset: 0, Text: "Hällo "}, // the checkpoint fills it, cut inside no character
		{Message: "m", Offset: 7, Text: "wo"},
		{Message: "m", Offset: 0, Text: "Hällo world"}, // the whole part at the end
	} {
		got += all.next(p)
	}
	if got != "Hällo world" {
		t.Errorf("got %q", got)
	}
}
