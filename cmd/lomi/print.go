package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON prints v for a program: indented, one value.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// table prints rows for a person. Cells are data of others, so control
// characters in them are shown, not obeyed.
func table(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// plain makes text of others safe for a terminal: control characters become
// visible, the C1 range and direction overrides included.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < 0x20, r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}

// exact shows a command whole: nothing is cut, and what hides by being far away
// is named. A person who approves must see the end of the line.
func exact(s string) string {
	const hides = 4
	var b strings.Builder
	spaces := 0
	flush := func() {
		if spaces >= hides {
			fmt.Fprintf(&b, " ⟨%d spaces⟩ ", spaces)
		} else {
			b.WriteString(strings.Repeat(" ", spaces))
		}
		spaces = 0
	}
	for _, r := range plain(s) {
		if r == ' ' {
			spaces++
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	return b.String()
}

// plainText is plain for text of several lines.
func plainText(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		body, newline := strings.CutSuffix(line, "\n")
		b.WriteString(strings.ReplaceAll(plain(strings.ReplaceAll(body, "\t", "    ")), "\r", ""))
		if newline {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// when prints a time as a person says it.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
