package broker

import (
	"testing"

	"lomi/broker/control"
)

func TestExactOrigin(t *testing.T) {
	internal := func(host, port string) bool { return port == "7777" && (host == "127.0.0.1" || host == "localhost") }
	for _, row := range []struct{ raw, want, why string }{
		{"https://example.com", "https://example.com:443", "the effective port"},
		{"http://Example.COM/", "http://example.com:80", "case of the host"},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", "a local server"},
		{"http://[::ffff:127.0.0.1]:80", "http://127.0.0.1:80", "S-51: a mapped address is the address"},
		{"http://[::1]:3000", "http://[::1]:3000", "IPv6"},
		{"https://xn--bcher-kva.example", "https://xn--bcher-kva.example:443", "punycode"},

		{"http://allowed.test@127.0.0.1/", "", "S-100: user info"},
		{"http://allowed.test:x@evil.test/", "", "S-100: user info with a password"},
		{`http://allowed.test\@evil.test`, "", "S-100: backslash"},
		{"http://127.1", "", "S-53: short address"},
		{"http://0177.0.0.1", "", "S-53: octal address"},
		{"http://2130706433", "", "S-53: one number"},
		{"http://0x7f.1", "", "S-53: hexadecimal"},
		{"http://127.0.0.1.", "", "S-53: trailing dot"},
		{"http://example.com.", "", "trailing dot"},
		{"http://[fe80::1%25lo]", "", "S-51: a zone"},
		{"http://bücher.example", "", "a host that is not ASCII"},
		{"http://*.example.com", "", "a wildcard"},
		{"https://example.com/path", "", "a path"},
		{"https://example.com?x", "", "a query"},
		{"https://example.com:0", "", "port 0"},
		{"https://example.com:99999", "", "a port past the end"},
		{"https://example.com:", "", "an empty port"},
		{"file:///etc/passwd", "", "S-102: file"},
		{"javascript:alert(1)", "", "S-102: javascript"},
		{"ftp://example.com", "", "another scheme"},
		{"", "", "nothing"},
		{"example.com", "", "no scheme"},
		{"http://tauri.localhost", "", "an internal host"},
		{"http://ipc.localhost", "", "an internal host"},
		{"https://x.lomi.invalid", "", "a name of the handshake"},
		{"http://127.0.0.1:7777", "", "S-103: the daemon's own page"},
		{"http://localhost:7777", "", "S-103: the daemon's own page by name"},
		{"http://[::ffff:127.0.0.1]:7777", "", "S-103: the daemon's own page, mapped"},
	} {
		got, err := exactOrigin(row.raw, internal)
		if got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("exactOrigin(%q) = %q, %v, want %q: %s", row.raw, got, err, row.want, row.why)
		}
	}
}

func TestCheckScopes(t *testing.T) {
	read := control.WorkspaceRead
	for _, row := range []struct {
		scopes []control.Scope
		want   string
	}{
		{DomainScopes("terminal"), ""},
		{DomainScopes("browser"), ""},
		{control.Scopes(), ""},
		{[]control.Scope{read, "mcp.github"}, ""},
		{nil, "SCOPE_DENIED: scopes: workspace.read is needed in every grant"},
		{[]control.Scope{control.TerminalRead}, "SCOPE_DENIED: scopes: workspace.read is needed in every grant"},
		{[]control.Scope{read, "terminal.*"}, "RESOURCE_EXHAUSTED: scopes[1]: is no scope"},
		{[]control.Scope{read, "mcp.../x"}, "RESOURCE_EXHAUSTED: scopes[1]: is no scope"},
		{[]control.Scope{read, control.ChatOpen, control.ChatRead, control.PanelCreate}, "SCOPE_DENIED: scopes: chat.open needs panel.focus"},
		{[]control.Scope{read, control.ChatCreate}, "SCOPE_DENIED: scopes: chat.create needs chat.open"},
		{[]control.Scope{read, control.SettingsWrite}, "SCOPE_DENIED: scopes: settings.write needs settings.read"},
		{[]control.Scope{read, control.FilesTrash, control.FilesRead}, "SCOPE_DENIED: scopes: files.trash needs files.mutate"},
		{[]control.Scope{read, control.EditorWrite, control.FilesRead}, "SCOPE_DENIED: scopes: editor.write needs editor.read"},
		{[]control.Scope{read, control.GitRead}, "SCOPE_DENIED: scopes: git.read needs files.read"},
		{[]control.Scope{read, control.FilesRead, control.GitRead, control.GitWrite}, "SCOPE_DENIED: scopes: git.write needs git.execute"},
		{[]control.Scope{read, control.FilesRead, control.GitRead, control.GitWrite, control.GitExecute, control.GitPush}, "SCOPE_DENIED: scopes: git.push needs git.network"},
		{[]control.Scope{read, control.ArtifactExport, control.FilesRead, control.FilesMutate}, "SCOPE_DENIED: scopes: artifact.export needs files.create"},
		{[]control.Scope{read, control.AndroidInstall, control.AndroidControl, control.AndroidRead}, "SCOPE_DENIED: scopes: android.install needs files.read"},
		{[]control.Scope{read, control.AndroidCapture, control.AndroidRead}, "SCOPE_DENIED: scopes: android.capture needs android.control"},
		{[]control.Scope{read, control.PanelMove}, "SCOPE_DENIED: scopes: panel.move needs workspace.write"},
		{[]control.Scope{read, control.WorkspaceWrite, control.WorkspaceClose}, "SCOPE_DENIED: scopes: workspace.close needs panel.close"},
		{[]control.Scope{read, control.ProjectClose}, "SCOPE_DENIED: scopes: project.close needs workspace.close"},
		{[]control.Scope{read, control.ProjectOpen, control.PanelCreate}, "SCOPE_DENIED: scopes: project.open needs workspace.write"},
		{[]control.Scope{read, control.BrowserUpload, control.BrowserRead}, "SCOPE_DENIED: scopes: browser.upload needs browser.interact"},
		{[]control.Scope{read, control.BrowserDownload}, "SCOPE_DENIED: scopes: browser.download needs browser.read"},
		{make([]control.Scope, 65), "RESOURCE_EXHAUSTED: scopes: at most 64"},
	} {
		err := CheckScopes(row.scopes)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("CheckScopes(%v) = %q, want %q", row.scopes, got, row.want)
		}
	}
}
