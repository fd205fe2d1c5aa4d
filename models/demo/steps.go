package demo

import (
	"regexp"
	"strconv"
	"strings"
)

// step is one phrase. Verb is empty for a phrase that is none.
type step struct {
	verb   string
	object string // command, address, name, path or words
	text   string // what to type
}

// parse cuts a question into steps. A command takes everything up to " then ".
func parse(question string) []step {
	var out []step
	for phrase := range strings.SplitSeq(question, " then ") {
		if phrase = strings.TrimSpace(phrase); phrase != "" {
			out = append(out, parseStep(phrase))
		}
	}
	return out
}

func parseStep(phrase string) step {
	verb, rest, _ := strings.Cut(phrase, " ")
	rest = strings.TrimSpace(rest)
	switch verb = strings.ToLower(verb); verb {
	case "run", "open", "read", "click", "say":
		if rest == "" {
			break
		}
		if verb == "click" {
			rest = name(rest)
		}
		return step{verb: verb, object: rest}
	case "type":
		// The last "into", because the text may hold the word.
		if at := strings.LastIndex(rest, " into "); at > 0 {
			return step{verb: verb, text: unquote(rest[:at]), object: name(rest[at+len(" into "):])}
		}
	case "show":
		if what := strings.ToLower(rest); what == "screen" || what == "the screen" {
			return step{verb: "screen"}
		}
	}
	return step{object: phrase}
}

// name takes the words around the name of an element away.
func name(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "the "); ok {
		s = rest
	}
	return unquote(s)
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// next tells what a step needs, given every result so far. Snapped says that
// this step has taken a snapshot already.
func (s step) next(seen []done, snapped bool) action {
	switch s.verb {
	case "run":
		return action{tool: "terminal_run", arguments: map[string]any{"command": s.object}, text: "I run `" + s.object + "` in the terminal."}
	case "open":
		return action{tool: "browser_open", arguments: map[string]any{"url": address(s.object)}, text: "I open " + address(s.object) + "."}
	case "read":
		return action{tool: "files_read", arguments: map[string]any{"path": s.object}, text: "I read " + s.object + "."}
	case "screen":
		return action{tool: "terminal_screen", arguments: map[string]any{}, text: "I look at the screen of the terminal."}
	case "say":
		return action{text: s.object}
	case "click", "type":
		return s.onElement(seen, snapped)
	}
	return action{text: "I do not understand “" + s.object + "”, so I stop here. Say anything else for a tour of what I can do.", stop: true}
}

func (s step) onElement(seen []done, snapped bool) action {
	number, ok := find(seen, s.object, s.verb == "type")
	switch {
	case !ok && !snapped:
		return action{tool: "browser_snapshot", arguments: map[string]any{}, text: "I look at the page for “" + s.object + "”."}
	case !ok:
		return action{text: "The page has no element named “" + s.object + "”. I stop here.", stop: true}
	case s.verb == "click":
		return action{tool: "browser_click", arguments: map[string]any{"element": number}, text: "I click “" + s.object + "”."}
	}
	return action{tool: "browser_fill", arguments: map[string]any{"element": number, "text": s.text}, text: "I type into “" + s.object + "”."}
}

// address completes what a person types for an address.
func address(s string) string {
	if strings.Contains(s, "://") {
		return s
	}
	host, _, _ := strings.Cut(s, "/")
	host, _, _ = strings.Cut(host, ":")
	if host == "localhost" || strings.HasPrefix(host, "127.") {
		return "http://" + s
	}
	return "https://" + s
}

// element is a line of a snapshot: [12] button "Save".
var element = regexp.MustCompile(`\[(\d{1,9})\] (\S+) "((?:[^"\\]|\\.)*)"`)

// find gives the number of the element with a name, from the newest result that
// shows it. It looks no further back than the page was opened. A field is
// preferred for typing, something else for clicking.
func find(seen []done, wanted string, field bool) (number int, ok bool) {
	for i := len(seen) - 1; i >= 0; i-- {
		if !strings.HasPrefix(seen[i].tool, "browser_") {
			continue
		}
		best := 0
		for _, m := range element.FindAllStringSubmatch(seen[i].result.Text, -1) {
			if score := match(wanted, m[2], m[3], field); score > best {
				best = score
				number, _ = strconv.Atoi(m[1]) // the pattern has only digits
			}
		}
		if best > 0 {
			return number, true
		}
		if t := seen[i].tool; !seen[i].result.IsError && (t == "browser_open" || t == "browser_navigate") {
			break
		}
	}
	return 0, false
}

// match scores an element: a whole name before a part of one, then the kind of
// element that the step needs.
func match(wanted, role, label string, field bool) int {
	wanted, label = strings.ToLower(wanted), strings.ToLower(strings.ReplaceAll(label, `\"`, `"`))
	score := 0
	switch {
	case label == wanted, role+" "+label == wanted:
		score = 4
	case wanted != "" && strings.Contains(label, wanted):
		score = 1
	default:
		return 0
	}
	isField := strings.Contains(role, "text") || strings.Contains(role, "search") || strings.Contains(role, "combo") || strings.Contains(role, "spin")
	if isField == field && role != "text" && role != "heading" {
		score += 2
	}
	return score
}
