package broker

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// A rule on command lines decides only that a person need not be asked. It
// never decides that something may run: that is the grant. So every doubt, in
// the parse, in a word, in a flag, ends in asking (S-63).

// simpleCommand is a line that is exactly one command of literal words.
type simpleCommand []string

// parseSimple reads a line. It reports false for anything that the shell, bash
// or zsh, could take for more than one command of these very words:
// separators, pipes, background, redirections, expansions, globs, assignments,
// comments, escapes, control and invisible characters.
func parseSimple(line string) (simpleCommand, bool) {
	if line == "" || len(line) > 4096 || strings.IndexFunc(line, confusing) >= 0 {
		return nil, false
	}
	// "!" is history in bash, "#" no comment in an interactive zsh, "`" a
	// substitution inside double quotes, "\" quotes differently in each place.
	if strings.ContainsAny(line, "!#`\\") {
		return nil, false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 || len(file.Last) > 0 {
		return nil, false
	}
	stmt := file.Stmts[0]
	if stmt.Negated || stmt.Background || stmt.Coprocess || stmt.Disown || stmt.Semicolon.IsValid() ||
		len(stmt.Redirs) > 0 || len(stmt.Comments) > 0 {
		return nil, false
	}
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	words := make(simpleCommand, 0, len(call.Args))
	for _, w := range call.Args {
		text, ok := literal(w)
		if !ok {
			return nil, false
		}
		words = append(words, text)
	}
	return words, true
}

// confusing reports characters that a person may not see, or see elsewhere
// than they are (S-61), and line ends.
func confusing(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) ||
		(r > unicode.MaxASCII && unicode.IsSpace(r))
}

// literal gives the text of a word that no shell expands.
func literal(w *syntax.Word) (string, bool) {
	var out strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			// "=ls" is a path in zsh, "~" a home, the rest are globs and braces.
			if strings.ContainsAny(p.Value, "*?[]{}~^$") || (i == 0 && strings.HasPrefix(p.Value, "=")) {
				return "", false
			}
			out.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || strings.Contains(lit.Value, "$") {
					return "", false
				}
				out.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return out.String(), true
}

// readsOnly reports whether a line is one of the few that never ask: they
// print, and no flag of theirs writes, runs or connects. File arguments stay
// inside the folder and away from names that hold secrets (broker spec 2.4).
func readsOnly(line string) bool {
	words, ok := parseSimple(line)
	if !ok {
		return false
	}
	flags, files, known := readOnlyProgram(words[0])
	if !known {
		return false
	}
	for _, w := range words[1:] {
		switch {
		case strings.HasPrefix(w, "-"):
			if !knownFlag(w, flags) {
				return false
			}
		case files == noFiles:
			return false
		case files == innerFiles && !innerPath(w):
			return false
		}
	}
	return true
}

// fileRule says what the operands of a read-only program may be.
type fileRule int

const (
	noFiles    fileRule = iota
	innerFiles          // paths below the current folder
	anyText             // printed as it is
)

// readOnlyProgram lists the programs and their one-letter flags that only read.
func readOnlyProgram(name string) (flags string, files fileRule, ok bool) {
	switch name {
	case "pwd":
		return "LP", noFiles, true
	case "whoami", "true", "false", "uptime":
		return "", noFiles, true
	case "uname":
		return "amnrsv", noFiles, true
	case "ls":
		return "1aAdFghlnoprRSt", innerFiles, true
	case "cat":
		return "bens", innerFiles, true
	case "head", "tail":
		return "qv", innerFiles, true // no -f: it would never end
	case "wc":
		return "clmw", innerFiles, true
	case "echo":
		return "n", anyText, true // no -e: escapes would drive the terminal
	}
	return "", noFiles, false
}

// knownFlag takes clusters of listed letters, and nothing long: long flags may
// be abbreviated, and one that starts alike may write.
func knownFlag(word, letters string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	return strings.IndexFunc(word[1:], func(r rune) bool { return !strings.ContainsRune(letters, r) }) < 0
}

// innerPath reports a relative path that stays below the folder and names
// nothing that usually holds secrets.
func innerPath(p string) bool {
	if p == "" || path.IsAbs(p) || len(p) > 1024 {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || secretName(part) {
			return false
		}
	}
	return true
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, ".env") {
		return true
	}
	switch name {
	case ".git", ".ssh", ".aws", ".azure", ".gnupg", ".codex", ".netrc", ".npmrc", ".pypirc",
		"credentials", "credentials.json", "id_rsa", "id_ed25519":
		return true
	}
	switch path.Ext(name) {
	case ".pem", ".key", ".p12", ".pfx", ".keystore", ".jks":
		return true
	}
	return false
}

// commandRule is what a person's "do not ask again" leaves behind for a line:
// the program and its subcommand with the flags that were shown, or, for
// programs without subcommands known to be harmless with other operands, the
// very line. ok is false when no rule may be made from it.
func commandRule(line string) (rule string, ok bool) {
	words, ok := parseSimple(line)
	if !ok || neverRemembered(words[0]) {
		return "", false
	}
	if n := subcommandLength(words); n > 0 {
		return strings.Join(append(slices.Clone(words[:n]), flagsOf(words[n:])...), " "), true
	}
	return exactPrefix + strings.Join(quoteAll(words), " "), true
}

// exactPrefix marks rules that hold for one line only. No program is called
// that: it holds a space.
const exactPrefix = "exactly "

// ruleCovers reports whether a rule that a person left behind answers for a
// line. The line makes its own rule: equal rules mean the same program,
// subcommand and flags.
func ruleCovers(rules []string, line string) bool {
	if len(rules) == 0 {
		return false
	}
	rule, ok := commandRule(line)
	return ok && slices.Contains(rules, rule)
}

// subcommandLength is how many words name what runs, for programs whose
// further operands choose only what it is run on. 0 means that they could
// choose more.
func subcommandLength(words simpleCommand) int {
	if len(words) < 2 || strings.HasPrefix(words[1], "-") {
		return 0
	}
	sub := words[1]
	switch words[0] {
	case "npm", "pnpm", "yarn", "bun":
		switch {
		case sub == "test":
			return 2
		case sub == "run" && len(words) > 2 && !strings.HasPrefix(words[2], "-"):
			return 3
		}
	case "go":
		if sub == "test" || sub == "build" || sub == "vet" {
			return 2
		}
	case "cargo":
		if sub == "test" || sub == "build" || sub == "check" || sub == "clippy" {
			return 2
		}
	case "make":
		// Only one target: "make test" must not cover "make test deploy".
		if len(words) == 2 && !strings.Contains(sub, "=") {
			return 2
		}
	}
	return 0
}

// flagsOf keeps every flag whole, and every word after one, because it may be
// the flag's value: "-exec prog" must not pass under a rule made from "-exec".
func flagsOf(operands []string) []string {
	var kept []string
	for i, w := range operands {
		if strings.HasPrefix(w, "-") || (i > 0 && strings.HasPrefix(operands[i-1], "-")) {
			kept = append(kept, quote(w))
		}
	}
	return kept
}

// quote writes a word so that the shell reads it back: people see rules as
// commands, and "a b" is not "a" and "b".
func quote(w string) string {
	plain := w != "" && strings.IndexFunc(w, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_./:,@%+-=", r)
	}) < 0
	// Unquoted, "a=b" may be an assignment and "=a" a path.
	if plain && (strings.HasPrefix(w, "-") || !strings.Contains(w, "=")) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", "'\"'\"'") + "'"
}

func quoteAll(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return out
}

// neverRemembered lists programs for which an answer holds once: they run
// other programs, send data away, or destroy what cannot be had again.
func neverRemembered(program string) bool {
	switch path.Base(program) {
	// Wrappers.
	case "env", "sudo", "doas", "su", "pkexec", "runuser", "xargs", "parallel", "nice", "ionice", "nohup", "time",
		"timeout", "setsid", "stdbuf", "unbuffer", "script", "expect", "watch", "flock", "taskset", "chrt", "strace",
		"ltrace", "gdb", "chroot", "unshare", "nsenter", "proot", "fakeroot", "busybox", "toybox", "systemd-run", "at",
		"batch", "crontab", "tmux", "screen", "find", "npx", "bunx", "pnpx", "uvx", "pipx", "direnv":
		return true
	// Builtins that run or redefine.
	case "exec", "command", "builtin", "eval", "source", ".", "alias", "unalias", "export", "set", "trap", "function",
		"coproc", "hash", "enable", "bind", "fc", "declare", "typeset", "local", "readonly", "noglob", "nocorrect":
		return true
	// Words of the shell's grammar, quoted or not.
	case "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "select", "[[", "]]":
		return true
	// Shells and interpreters, editors and pagers with a shell inside.
	case "bash", "sh", "zsh", "dash", "ksh", "fish", "python", "python3", "node", "deno", "perl", "ruby", "php", "lua",
		"tclsh", "osascript", "awk", "gawk", "mawk", "sed", "vi", "vim", "nvim", "nano", "emacs", "ed", "less", "more", "man":
		return true
	// Away from the machine, or into another one.
	case "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "socat", "telnet", "ftp", "ping", "nslookup",
		"dig", "host", "docker", "podman", "kubectl", "aws", "gcloud", "az", "gh":
		return true
	// Not to be undone.
	case "rm", "rmdir", "mv", "dd", "shred", "truncate", "chmod", "chown", "chgrp", "ln", "mkfs", "mount", "umount",
		"kill", "killall", "pkill", "reboot", "shutdown", "halt", "poweroff", "tar", "unzip", "tee", "install":
		return true
	}
	return strings.HasPrefix(path.Base(program), "python3.")
}
