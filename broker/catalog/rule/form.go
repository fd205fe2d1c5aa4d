package rule

import (
	"strconv"
	"strings"
	"unicode"

	"lomi/broker/control"
)

// Bounds of a project-relative path (broker spec 2.4).
const (
	maxPathBytes      = 4096
	maxPathComponents = 128
	maxChatID         = 100
)

// forms maps the tag "is" to the check of a text; the check names the broken
// rule.
func forms() map[string]func(string) string {
	return map[string]func(string) string{
		"id": func(s string) string {
			return unless(control.ValidID(s), "must be 1 to 128 characters of A-Z a-z 0-9 - _ : .")
		},
		"decimal": func(s string) string {
			return unless(validDecimal(s), "must be a decimal number in a string")
		},
		"sha256": func(s string) string {
			return unless(len(s) == 64 && isHex(s), "must be 64 lower-case hex digits")
		},
		"commit": func(s string) string {
			return unless((len(s) == 40 || len(s) == 64) && isHex(s), "must be 40 or 64 lower-case hex digits")
		},
		"uuid": func(s string) string { return unless(validUUID(s), "must be a lower-case UUID") },
		"chat": func(s string) string {
			return unless(len(s) <= maxChatID && control.ValidID(s) && !strings.ContainsAny(s, ":."),
				"must be 1 to 100 characters of A-Z a-z 0-9 - _")
		},
		"line": func(s string) string {
			return unless(strings.IndexFunc(s, unicode.IsControl) < 0, "must be one line without control characters")
		},
		"text": func(s string) string { return unless(!strings.Contains(s, "\x00"), "must hold no NUL") },
		"lf": func(s string) string {
			return unless(!strings.ContainsAny(s, "\r\x00"), "must hold no CR and no NUL")
		},
		"path": pathForm,
		"absolute": func(s string) string {
			return unless(strings.HasPrefix(s, "/") && !strings.Contains(s, "\x00"), "must be an absolute path")
		},
	}
}

func unless(ok bool, rule string) string {
	if ok {
		return ""
	}
	return rule
}

// pathForm holds the form of a path relative to the project; "" is its root.
// Which names are closed to agents is the adapters' business.
func pathForm(s string) string {
	switch {
	case s == "":
		return ""
	case len(s) > maxPathBytes:
		return "must have at most 4096 bytes"
	case strings.HasPrefix(s, "/"):
		return "must be relative to the project"
	case strings.ContainsAny(s, "\\\x00"):
		return "must hold no backslash and no NUL"
	case strings.Count(s, "/") >= maxPathComponents:
		return "must have at most 128 components"
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part == "." || part == ".." {
			return "must have no empty, . or .. component"
		}
	}
	return ""
}

// validDecimal takes one spelling per number: cursors and revisions are
// compared as texts.
func validDecimal(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' || (s[0] == '0' && s != "0") {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

func isHex(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i : i+1]) {
				return false
			}
		}
	}
	return true
}
