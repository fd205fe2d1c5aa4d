package chat

import (
	"fmt"
	"strings"

	"lomi/broker/catalog/browser"
)

// elementBook gives the elements of pages their numbers. A number never means
// another element later: it is given once in a conversation, and kept only for
// what is plainly the same element of the same document.
type elementBook struct {
	last int
	live map[int]*pageState // by number, the page on which it stands now
}

// forget makes all numbers stale; those to come still differ from them.
func (b *elementBook) forget() { b.live = nil }

func (b *elementBook) next(p *pageState) int {
	b.last++
	b.claim(b.last, p)
	return b.last
}

func (b *elementBook) claim(n int, p *pageState) {
	if b.live == nil {
		b.live = map[int]*pageState{}
	}
	b.live[n] = p
}

// node is one entry of a page, with its number if it can be used.
type node struct {
	browser.Node
	number int
}

// Lengths in a snapshot, in bytes: names are cut to what tells elements apart.
const (
	nameLength   = 120
	textLength   = 300
	valueLength  = 80
	optionsTotal = 160
)

// key tells elements apart as far as their looks go.
func (n node) key() string { return n.FrameID + "\x00" + n.Role + "\x00" + n.Name }

// line shows a node in a few tokens.
func (n node) line() string {
	var b strings.Builder
	name, role := clip(n.Name, nameLength), roleWord(n.Role)
	if n.number == 0 {
		switch {
		case n.Role == "text" || n.Role == "":
			return asText(clip(n.Name, textLength))
		case n.Role == "heading":
			return strings.Repeat("#", min(max(n.Level, 1), 6)) + " " + name
		case name == "":
			return role + ":"
		}
		return fmt.Sprintf("%s %q:", role, name)
	}
	fmt.Fprintf(&b, "[%d] %s", n.number, role)
	if name != "" {
		fmt.Fprintf(&b, " %q", name)
	}
	if n.Value != nil && *n.Value != "" {
		fmt.Fprintf(&b, " = %q", clip(*n.Value, valueLength))
	} else if n.Value == nil && n.ValueLength != nil && *n.ValueLength > 0 {
		b.WriteString(" (filled)")
	}
	switch {
	case n.Checked != nil && *n.Checked:
		b.WriteString(" checked")
	case n.Checked != nil && (n.Role == "checkbox" || n.Role == "radio" || n.Role == "switch"):
		b.WriteString(" unchecked")
	}
	if n.Expanded != nil && *n.Expanded {
		b.WriteString(" expanded")
	}
	if !n.Enabled {
		b.WriteString(" disabled")
	}
	if len(n.Options) > 0 {
		b.WriteString(" {" + optionList(n.Options) + "}")
	}
	return b.String()
}

// roleWord is a role as one word of letters: pages may write what they like there.
func roleWord(role string) string {
	word := strings.Map(func(r rune) rune {
		if r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, role)
	return word[:min(len(word), 40)]
}

// asText shows text of a page so that it cannot be taken for an element, a mark
// or a note of the listing: what begins like one is quoted.
func asText(text string) string {
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "+ ") ||
		strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "~ ") || strings.Contains(text, ":") && listingWord(text) {
		return fmt.Sprintf("text %q", text)
	}
	return text
}

func listingWord(text string) bool {
	word, _, _ := strings.Cut(text, ":")
	word, _, _ = strings.Cut(word, " ")
	switch strings.ToLower(word) {
	case "note", "frame", "title", "address":
		return true
	}
	return false
}

func optionList(options []browser.Option) string {
	var b strings.Builder
	for i, o := range options {
		label := clip(o.Label, nameLength)
		if b.Len()+len(label) > optionsTotal {
			fmt.Fprintf(&b, "|… %d more", len(options)-i)
			break
		}
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(label)
	}
	return b.String()
}

// number gives the elements of a new snapshot their numbers: those that were on
// the same document before keep theirs.
func (b *elementBook) number(p *pageState, before []node, elements []browser.Node) []node {
	now := make([]node, len(elements))
	for i, e := range elements {
		now[i] = node{Node: e}
	}
	kept := matching(before, now)
	for i := range now {
		switch {
		case now[i].ElementRef == "":
		case kept[i] != 0:
			now[i].number = kept[i]
			b.claim(kept[i], p)
		default:
			now[i].number = b.next(p)
		}
	}
	return now
}

// matching finds the elements that are plainly still there: the only one of its
// looks, or one of several whose neighbours are the same as well. Anything less
// would let a number of a deleted row stand for the row that moved up.
func matching(before, now []node) map[int]int {
	places := func(nodes []node) map[string][]int {
		at := map[string][]int{}
		for i, n := range nodes {
			if n.ElementRef != "" {
				at[n.key()] = append(at[n.key()], i)
			}
		}
		return at
	}
	old, kept := places(before), map[int]int{}
	for key, is := range places(now) {
		js := old[key]
		if len(is) != len(js) {
			continue
		}
		for k, i := range is {
			if len(is) == 1 || sameNeighbours(before, js[k], now, i) {
				kept[i] = before[js[k]].number
			}
		}
	}
	return kept
}

func sameNeighbours(a []node, i int, b []node, j int) bool {
	const reach = 3
	for d := -reach; d <= reach; d++ {
		inA, inB := i+d >= 0 && i+d < len(a), j+d >= 0 && j+d < len(b)
		if inA != inB || inA && a[i+d].key() != b[j+d].key() {
			return false
		}
	}
	return true
}

// listing shows nodes from one on, as many as fit into room bytes, and says
// which was the first that did not.
func listing(nodes []node, from, room int) (text string, next int) {
	var b strings.Builder
	frame := ""
	if len(nodes) > 0 {
		frame = nodes[0].FrameID
	}
	for i := from; i < len(nodes); i++ {
		line := nodes[i].line()
		if nodes[i].FrameID != frame {
			frame = nodes[i].FrameID
			line = "frame " + frame + ":\n" + line
		}
		if b.Len()+len(line)+1 > room && i > from {
			return b.String(), i
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String(), len(nodes)
}

// changes lists what differs between two looks at one document: "+" came, "-"
// went, "~" changed.
func changes(before, now []node) []string {
	old := map[string]int{}
	was := map[int]string{}
	for _, n := range before {
		old[n.line()]++
		if n.number != 0 {
			was[n.number] = n.line()
		}
	}
	var out []string
	for _, n := range now {
		line := n.line()
		if old[line] > 0 {
			old[line]--
			continue
		}
		mark := "+ "
		if previous, ok := was[n.number]; ok && n.number != 0 {
			mark = "~ "
			old[previous]--
		}
		out = append(out, mark+line)
	}
	for _, n := range before {
		line := n.line()
		if old[line] > 0 {
			old[line]--
			out = append(out, "- "+line)
		}
	}
	return out
}
