package catalog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog"
	"lomi/broker/control"
)

// decode reads one request as the broker does.
func decode(t *testing.T, name, args string) (any, error) {
	t.Helper()
	tool, ok := catalog.Find(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	request := tool.NewRequest()
	if err := control.Decode([]byte(args), request); err != nil {
		return nil, err
	}
	if v, ok := request.(control.Validator); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// The fields that most requests share.
const (
	keyed = `"workspaceId":"w","retryEpoch":"e","requestKey":"k"`
	mut   = keyed + `,"expectedRevision":"7"`
	shell = `"panelId":"p","terminalSessionId":"s"`
	page  = `"panelId":"p","browserGeneration":"g"`
	mark  = `"leaseId":"l","navigationId":"n","snapshotId":"s","elementRef":"e1"`
	sha   = `0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a`
	hash  = `0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a`
)

func TestRequestsAreRefused(t *testing.T) {
	rows := []struct{ tool, args, want string }{
		{"lomi_connect", `{"workspaceId":"a b"}`, "workspaceId: must be 1 to 128 characters of A-Z a-z 0-9 - _ : ."},
		{"lomi_connect", `{"workspaceId":""}`, "workspaceId: must be 1 to 128 characters of A-Z a-z 0-9 - _ : ."},
		{"lomi_workspace_list", `{"limit":501}`, "limit: must be at most 500"},
		{"lomi_workspace_list", `{"limit":0}`, "limit: must not be empty or 0; leave it out for the default"},
		{"lomi_operation_get", `{}`, "operationId: is required, or retryEpoch, requestKey and tool"},
		{"lomi_operation_get", `{"operationId":"o","tool":"t"}`, "operationId: not together with retryEpoch, requestKey, tool or projectId"},
		{"lomi_operation_get", `{"retryEpoch":"e","tool":"t"}`, "requestKey: is required without operationId"},
		{"lomi_operation_get", `{"operationId":"o","waitMs":15001}`, "waitMs: must be at most 15000"},
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":"a\nb"}`, "command: must be one line without control characters"},
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":"a\u001b]0;x\u0007"}`, "command: must be one line without control characters"},
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":"a\u0085b"}`, "command: must be one line without control characters"},
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":"` + strings.Repeat("a", 16385) + `"}`, "command: must have at most 16384 bytes"},
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":""}`, "command: must not be empty"},
		{"lomi_terminal_create", `{` + mut + `,"cwdRelative":"../x"}`, "cwdRelative: must have no empty, . or .. component"},
		{"lomi_terminal_create", `{"workspaceId":"w","retryEpoch":"e","requestKey":"k","expectedRevision":"07"}`, "expectedRevision: must be a decimal number in a string"},
		{"lomi_terminal_input", `{"workspaceId":"w",` + shell + `,"leaseId":"l","inputSequence":"0","input":{"type":"text","text":"a"}}`, "inputSequence: starts at 1"},
		{"lomi_terminal_input", `{"workspaceId":"w",` + shell + `,"leaseId":"l","inputSequence":"18446744073709551616","input":{"type":"text","text":"a"}}`, "inputSequence: must be a decimal number in a string"},
		{"lomi_terminal_input", `{"workspaceId":"w",` + shell + `,"leaseId":"l","inputSequence":"1","input":{"type":"key","key":"ctrl_1"}}`, "input.key: is none of the keys"},
		{"lomi_terminal_input", `{"workspaceId":"w",` + shell + `,"leaseId":"l","inputSequence":"1","input":{"type":"text","text":"` + strings.Repeat("a", 49153) + `"}}`, "input.text: must have at most 49152 bytes"},
		{"lomi_terminal_read", `{"workspaceId":"w",` + shell + `,"mode":"command"}`, "operationId: is required for mode command"},
		{"lomi_terminal_read", `{"workspaceId":"w",` + shell + `,"minimumParsedSequence":"1"}`, "minimumParsedSequence: goes with mode screen only"},
		{"lomi_browser_open", `{` + mut + `,"url":"file:///etc/passwd"}`, "url: must start with http:// or https://"},
		{"lomi_browser_open", `{` + mut + `,"url":"javascript:alert(1)"}`, "url: must start with http:// or https://"},
		{"lomi_browser_open", `{` + mut + `,"url":"http://"}`, "url: has no host"},
		{"lomi_browser_open", `{` + mut + `,"url":"http://a:b@host/"}`, "url: must hold no user name or password"},
		{"lomi_browser_navigate", `{` + keyed + `,` + page + `,"leaseId":"l"}`, "url: is required, or history"},
		{"lomi_browser_navigate", `{` + keyed + `,` + page + `,"leaseId":"l","url":"http://a","history":"back"}`, "history: not together with url"},
		{"lomi_browser_scroll", `{` + keyed + `,` + page + `,"leaseId":"l","navigationId":"n","snapshotId":"s","deltaX":0,"deltaY":10000.5}`, "deltaY: must be at most 10000"},
		{"lomi_browser_wait", `{"workspaceId":"w",` + page + `,"condition":{"type":"text","text":""}}`, "condition.text: must not be empty"},
		{"lomi_browser_upload", `{` + mut + `,` + page + `,` + mark + `,"frameId":"f","artifactId":"a","expectedSha256":"` + sha + `","fileName":"../x"}`, "fileName: must be a base name"},
		{"lomi_browser_download", `{` + mut + `,` + page + `,"navigationId":"n","url":"https://a/#b"}`, "url: must have no fragment"},
		{"lomi_artifact_import", `{` + mut + `,"relativePath":"a","kind":"file","expectedByteLength":4194305,"expectedSha256":"` + sha + `"}`, "expectedByteLength: must be at most 4194304 for file"},
		{"lomi_artifact_import", `{` + mut + `,"relativePath":"a","kind":"android_apk","expectedByteLength":3,"expectedSha256":"` + sha + `"}`, "expectedByteLength: must be at least 4 for android_apk"},
		{"lomi_artifact_import", `{` + mut + `,"relativePath":"a","kind":"file","expectedByteLength":1,"expectedSha256":"0A"}`, "expectedSha256: must be 64 lower-case hex digits"},
		{"lomi_workspace_update", `{` + mut + `}`, "name: is required, or action"},
		{"lomi_workspace_update", `{` + mut + `,"name":"a","action":"close"}`, "action: not together with name"},
		{"lomi_project_open", `{` + mut + `,"projectPath":"home/a"}`, "projectPath: must be an absolute path"},
		{"lomi_panel_control", `{` + keyed + `,"panelId":"p","action":"claim"}`, "terminalSessionId: is required, or deviceId, generation and expectedRevision"},
		{"lomi_panel_move", `{` + mut + `,"movement":{"type":"dock_tab","tabId":"a","targetTabId":"b"}}`, "movement.side: is required with type dock_tab"},
		{"lomi_panel_move", `{` + mut + `,"movement":{"type":"reorder_tab","tabId":"a","side":"left"}}`, "movement.side: does not go with type reorder_tab"},
		{"lomi_files_read", `{"workspaceId":"w","relativePath":"a","startUtf16":1}`, "expectedDiskRevision: is required when startUtf16 is more than 0"},
		{"lomi_files_read", `{"workspaceId":"w","relativePath":"a\\b"}`, "relativePath: must hold no backslash and no NUL"},
		{"lomi_files_read", `{"workspaceId":"w","relativePath":"/a"}`, "relativePath: must be relative to the project"},
		{"lomi_files_read", `{"workspaceId":"w","relativePath":"` + strings.Repeat("a/", 128) + `a"}`, "relativePath: must have at most 128 components"},
		{"lomi_files_mutate", `{` + mut + `,"operation":{"type":"rename","relativePath":"a","newName":"b/c","expectedDiskRevision":"r","expectedParentRevision":"r"}}`, "operation.newName: must be a base name"},
		{"lomi_editor_apply_edits", `{` + mut + `,"panelId":"p","relativePath":"a","documentId":"d","expectedBufferRevision":"b","expectedDiskRevision":"r","edits":[]}`, "edits: must have at least 1 items"},
		{"lomi_editor_apply_edits", `{` + mut + `,"panelId":"p","relativePath":"a","documentId":"d","expectedBufferRevision":"b","expectedDiskRevision":"r","edits":[{"fromUtf16":0,"toUtf16":5,"insert":""},{"fromUtf16":4,"toUtf16":4,"insert":""}]}`, "edits[1].fromUtf16: must not be before the end of the edit before"},
		{"lomi_editor_apply_edits", `{` + mut + `,"panelId":"p","relativePath":"a","documentId":"d","expectedBufferRevision":"b","expectedDiskRevision":"r","edits":[{"fromUtf16":0,"toUtf16":5,"insert":"a\r\n"}]}`, "edits[0].insert: must hold no CR and no NUL"},
		{"lomi_git_diff", `{"workspaceId":"w","relativePath":"a","comparison":"staged","commit":"` + hash + `"}`, "commit: goes with comparison commit only"},
		{"lomi_git_history", `{"workspaceId":"w","skip":1}`, "commit: is required when skip is more than 0"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"stage","paths":[]}`, "paths: is required for stage"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"stage","paths":["a","../b"]}`, "paths[1]: must have no empty, . or .. component"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"commit","paths":["a"]}`, "message: is required for commit"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"fetch","paths":["a"],"remote":"o","reference":"refs/heads/m"}`, "paths: does not go with fetch"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"fetch","paths":[],"remote":"o","reference":"refs/tags/m"}`, "reference: must start with refs/heads/"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"fetch","paths":[],"remote":"o","reference":"refs/heads/m","pullMode":"rebase"}`, "pullMode: does not go with fetch"},
		{"lomi_android_input", `{"workspaceId":"w","panelId":"p","deviceId":"d","generation":"g","leaseId":"l","inputSequence":"1","retryEpoch":"e","event":{"type":"rotate","quarterTurns":1}}`, "deviceId: must be a lower-case UUID"},
		{"lomi_android_input", `{"workspaceId":"w","panelId":"p","deviceId":"0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a","generation":"g","leaseId":"l","inputSequence":"9007199254740993","retryEpoch":"e","event":{"type":"rotate","quarterTurns":1}}`, "inputSequence: must be from 1 to 9007199254740992"},
		{"lomi_chat_list", `{"workspaceId":"w","offset":1}`, "expectedRevision: is required when offset is more than 0"},
		{"lomi_chat_read", `{"workspaceId":"w","conversationId":"a.b","part":{"type":"draft"}}`, "conversationId: must be 1 to 100 characters of A-Z a-z 0-9 - _"},
		{"lomi_chat_read", `{"workspaceId":"w","conversationId":"a","part":{"type":"draft","messageId":null}}`, "part.messageId: does not go with type draft"},
		{"lomi_settings_read", `{"workspaceId":"w","section":"editor","offset":1}`, "offset: goes with section keybinds only"},
		{"lomi_settings_update", `{` + mut + `,"expectedSettingsRevision":"r","patch":{"type":"terminal_field","field":"bell","value":[1]}}`, "patch.value: must be a text, a number, true, false or null"},
		{"lomi_settings_update", `{` + mut + `,"expectedSettingsRevision":"r","patch":{"type":"keybinding_set","action":"a"}}`, "patch.shortcut: is required with type keybinding_set"},
	}
	for _, row := range rows {
		_, err := decode(t, row.tool, row.args)
		if e, ok := control.AsError(err); !ok || e.Code != control.ResourceExhausted || e.Message != row.want {
			t.Errorf("%s %.80s: got %v, want %s", row.tool, row.args, err, row.want)
		}
	}
}

func TestErrorsNeverRepeatValues(t *testing.T) {
	const secret = "hunter2-secret"
	for _, args := range []string{
		`{"workspaceId":"` + secret + ` "}`, `{"workspaceId":{"a":"` + secret + `"}}`, `{"workspaceId":"` + secret + `","workspaceId":"` + secret + `"}`,
	} {
		if _, err := decode(t, "lomi_connect", args); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want an error without the value", args, err)
		}
	}
}

func TestDefaultsAreFilled(t *testing.T) {
	rows := []struct{ tool, args, want string }{
		{"lomi_terminal_read", `{"workspaceId":"w",` + shell + `}`, `mode=output maxBytes=16384`},
		{"lomi_browser_open", `{` + mut + `,"url":"http://a"}`, `visible=true`},
		{"lomi_browser_open", `{` + mut + `,"url":"http://a","visible":false}`, `visible=false`},
		{"lomi_browser_snapshot", `{"workspaceId":"w",` + page + `}`, `maxNodes=100 maxBytes=16384`},
		{"lomi_browser_navigate", `{` + keyed + `,` + page + `,"leaseId":"l","history":"back"}`, `waitUntil=load`},
		{"lomi_workspace_list", `{}`, `limit=100`},
	}
	for _, row := range rows {
		request, err := decode(t, row.tool, row.args)
		if err != nil {
			t.Errorf("%s: %v", row.tool, err)
			continue
		}
		fields := plain(t, request).(map[string]any)
		for pair := range strings.FieldsSeq(row.want) {
			name, want, _ := strings.Cut(pair, "=")
			if got := fmt.Sprint(fields[name]); got != want {
				t.Errorf("%s: %s is %s, want %s", row.tool, name, got, want)
			}
		}
	}
}

// TestScopesDependOnTheRequest holds what a request adds to its tool's scopes.
func TestScopesDependOnTheRequest(t *testing.T) {
	rows := []struct{ tool, args, want string }{
		{"lomi_terminal_run", `{` + keyed + `,` + shell + `,"leaseId":"l","command":"a"}`, "terminal.execute"},
		{"lomi_browser_open", `{` + mut + `,"url":"http://a"}`, "browser.navigate panel.create"},
		{"lomi_browser_screenshot", `{"workspaceId":"w",` + page + `,"navigationId":"n"}`, "browser.capture_composite"},
		{"lomi_workspace_update", `{` + mut + `,"name":"a"}`, "workspace.write"},
		{"lomi_workspace_update", `{` + mut + `,"action":"select"}`, "panel.focus workspace.write"},
		{"lomi_workspace_update", `{` + mut + `,"action":"close"}`, "panel.close workspace.close workspace.write"},
		{"lomi_panel_close", `{` + mut + `,"panelId":"p","terminalSessionId":"s"}`, "panel.close panel.create terminal.execute"},
		{"lomi_panel_move", `{` + mut + `,"movement":{"type":"reorder_tab","tabId":"a"}}`, "panel.move workspace.write"},
		{"lomi_panel_move", `{` + mut + `,"movement":{"type":"move_pane","panelId":"a","targetPanelId":"b","side":"left"}}`, "panel.focus panel.move workspace.write"},
		{"lomi_panel_control", `{` + keyed + `,"panelId":"p","action":"claim","terminalSessionId":"s"}`, "terminal.execute"},
		{"lomi_panel_control", `{` + mut + `,"panelId":"p","action":"claim","deviceId":"0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a","generation":"g"}`, "android.control android.interact android.read"},
		{"lomi_artifact_import", `{` + mut + `,"relativePath":"a","kind":"file","expectedByteLength":1,"expectedSha256":"` + sha + `"}`, "artifact.import_file files.read"},
		{"lomi_files_mutate", `{` + mut + `,"operation":{"type":"trash","relativePath":"a","kind":"file","expectedEntryRevision":"r","expectedParentRevision":"r"}}`, "files.mutate files.read files.trash"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"stage","paths":["a"]}`, "files.read git.execute git.read git.write"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"push","paths":[],"remote":"o","reference":"refs/heads/m","sourceCommit":"` + hash + `"}`, "files.read git.execute git.network git.push git.read git.write"},
		{"lomi_git_mutate", `{` + mut + `,"operation":"discard","paths":["a"]}`, "files.read git.discard git.execute git.read git.write"},
		{"lomi_chat_open", `{` + mut + `,"target":{"type":"new"}}`, "chat.create chat.open chat.read panel.create panel.focus"},
		{"lomi_chat_read", `{"workspaceId":"w","conversationId":"c","part":{"type":"message"},"includeSendTarget":true}`, "chat.read chat.send"},
		{"lomi_android_setup_plan", `{"workspaceId":"w","action":{"type":"catalog"}}`, "android.read android.setup"},
		{"lomi_android_device_manage", `{` + keyed + `,"action":{"type":"recover"}}`, "android.manage android.read"},
	}
	for _, row := range rows {
		request, err := decode(t, row.tool, row.args)
		if err != nil {
			t.Errorf("%s: %v", row.tool, err)
			continue
		}
		tool, _ := catalog.Find(row.tool)
		var got []string
		for _, s := range tool.Scopes {
			got = append(got, string(s))
		}
		if s, ok := request.(control.Scoper); ok {
			for _, s := range s.NeedsScopes() {
				got = append(got, string(s))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(row.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", row.tool, row.args, diff)
		}
	}
}

// TestInputKeysComeFromTheLease: input has no request key; the same sequence
// number of the same lease is the same request.
func TestInputKeysComeFromTheLease(t *testing.T) {
	key := func(lease, sequence string) string {
		request, err := decode(t, "lomi_terminal_input", `{"workspaceId":"w",`+shell+`,"leaseId":"`+lease+`","inputSequence":"`+sequence+
			`","input":{"type":"key","key":"ctrl_c"}}`)
		if err != nil {
			t.Fatal(err)
		}
		epoch, key, revision := request.(control.Retryable).Retry()
		if epoch != "" || revision != "" || !control.ValidID(key) {
			t.Errorf("got epoch %q, key %q, revision %q", epoch, key, revision)
		}
		return key
	}
	first := key("l", "1")
	if again := key("l", "1"); again != first {
		t.Errorf("the same input has the keys %q and %q", first, again)
	}
	for _, other := range []string{key("l", "2"), key("m", "1")} {
		if other == first {
			t.Errorf("another input has the same key %q", other)
		}
	}
}

// FuzzRequests: whatever arrives for whatever tool is decoded or refused with
// an error that its caller may read (S-72).
func FuzzRequests(f *testing.F) {
	tools := catalog.All()
	for i, tool := range tools {
		for _, args := range cases(tool) {
			raw, err := json.Marshal(args)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), raw)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		tool := tools[int(i)%len(tools)]
		request, err := decode(t, tool.Name, string(raw))
		if err != nil {
			if e, ok := control.AsError(err); !ok || e.Code != control.ResourceExhausted {
				t.Fatalf("%s: %v", tool.Name, err)
			}
			return
		}
		if s, ok := request.(control.Scoper); ok {
			s.NeedsScopes()
		}
		again, err := json.Marshal(request)
		if err != nil {
			t.Fatalf("%s: encoding again: %v", tool.Name, err)
		}
		if _, err := decode(t, tool.Name, string(again)); err != nil && len(again) <= control.MaxArguments && !dropsEmpty(err) {
			t.Fatalf("%s: its own JSON is refused: %v\n%s", tool.Name, err, again)
		}
	})
}

// dropsEmpty reports whether a request was refused for a field of a union that
// encoding/json leaves out when it is empty, false, 0 or null.
func dropsEmpty(err error) bool { return strings.Contains(err.Error(), "is required with") }

func BenchmarkDecodeAndValidate(b *testing.B) {
	tool, _ := catalog.Find("lomi_terminal_run")
	in := []byte(`{` + keyed + `,` + shell + `,"leaseId":"l","command":"npm test"}`)
	b.ReportAllocs()
	for b.Loop() {
		request := tool.NewRequest()
		if err := control.Decode(in, request); err != nil {
			b.Fatal(err)
		}
		if err := request.(control.Validator).Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
