package catalog_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"lomi/broker/catalog"
	"lomi/broker/control"
)

func TestThereAre74Tools(t *testing.T) {
	families := map[string]int{}
	var names []string
	for _, tool := range catalog.All() {
		names = append(names, tool.Name)
		families[strings.Split(tool.Name, "_")[1]]++
	}
	if len(names) != 74 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 74 {
		t.Errorf("got %d tools, want 74 different ones in order: %v", len(names), names)
	}
	want := map[string]int{"status": 1, "diagnostics": 1, "connect": 1, "operation": 2, "events": 1, "workspace": 3,
		"project": 2, "panel": 5, "terminal": 5, "browser": 12, "artifact": 3, "files": 4, "editor": 4, "git": 7,
		"android": 13, "chat": 7, "settings": 3}
	if diff := cmp.Diff(want, families); diff != "" {
		t.Errorf("families (-want +got):\n%s", diff)
	}
}

func TestFindIsExact(t *testing.T) {
	for _, tool := range catalog.All() {
		if got, ok := catalog.Find(tool.Name); !ok || got.Name != tool.Name {
			t.Errorf("Find(%q) = %q, %v", tool.Name, got.Name, ok)
		}
	}
	for _, name := range []string{"", "lomi_Status", "LOMI_STATUS", "lomi_status ", "status", "lomi_zzz", "mcp__lomi__lomi_status"} {
		if got, ok := catalog.Find(name); ok {
			t.Errorf("Find(%q) = %q, want none", name, got.Name)
		}
	}
}

// TestHints holds the marks of catalog spec 1: R, M, D and O.
func TestHints(t *testing.T) {
	marks := map[string]string{}
	for _, tool := range catalog.All() {
		mark := "M"
		if tool.ReadOnly {
			mark = "R"
		}
		if tool.Destructive {
			mark += "D"
		}
		if tool.OpenWorld {
			mark += "O"
		}
		marks[strings.TrimPrefix(tool.Name, "lomi_")] = mark
	}
	want := map[string]string{}
	for mark, names := range map[string]string{
		"R": `status diagnostics connect operation_get events_read workspace_list panel_list terminal_read browser_snapshot browser_wait
 browser_screenshot browser_logs artifact_read files_list files_read files_search editor_read git_status git_diff git_history git_commit
 git_remotes android_list android_snapshot android_screenshot android_logcat chat_list chat_read chat_export settings_read`,
		"RO": `android_setup_plan`,
		"M": `operation_cancel workspace_create project_open panel_focus panel_move panel_control artifact_import editor_open git_open
 android_open android_start chat_open settings_open settings_update`,
		"MO": `browser_open browser_navigate browser_download artifact_export chat_send`,
		"MD": `workspace_update project_close panel_close android_stop android_install_apk android_device_manage chat_draft chat_stop`,
		"MDO": `terminal_create terminal_run terminal_input terminal_interrupt browser_click browser_fill browser_key browser_scroll
 browser_upload files_mutate editor_apply_edits editor_save git_mutate android_input android_launch android_setup_apply`,
	} {
		for _, name := range strings.Fields(names) {
			want[name] = mark
		}
	}
	if diff := cmp.Diff(want, marks); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}

func TestEntriesAreWhole(t *testing.T) {
	known := map[control.Scope]bool{}
	for _, s := range control.Scopes() {
		known[s] = true
	}
	for _, tool := range catalog.All() {
		if n := len(strings.Fields(tool.Description)); n == 0 || n > 40 {
			t.Errorf("%s: a description of %d words, want 1 to 40", tool.Name, n)
		}
		if tool.Title == "" || tool.Domain == "" || len(tool.Results) == 0 || slices.Contains(tool.Results, "") {
			t.Errorf("%s: title %q, domain %q, results %q", tool.Name, tool.Title, tool.Domain, tool.Results)
		}
		for _, s := range tool.Scopes {
			if !known[s] {
				t.Errorf("%s: unknown scope %q", tool.Name, s)
			}
		}
		unpaired := tool.Name == "lomi_status" || tool.Name == "lomi_diagnostics"
		if tool.Unpaired != unpaired {
			t.Errorf("%s: unpaired %v, want %v", tool.Name, tool.Unpaired, unpaired)
		}
		request := tool.NewRequest()
		_, retryable := request.(control.Retryable)
		// A cancellation is idempotent by itself and has no key.
		if mutates := !tool.ReadOnly && tool.Name != "lomi_operation_cancel"; retryable != mutates {
			t.Errorf("%s: has a retry key %v, want %v", tool.Name, retryable, mutates)
		}
		if direct := tool.Name == "lomi_terminal_input" || tool.Name == "lomi_operation_cancel"; !tool.ReadOnly && tool.Operation == direct {
			t.Errorf("%s: operation %v, want %v", tool.Name, tool.Operation, !direct)
		}
		if lease := reflect.ValueOf(request).Elem().FieldByName("LeaseID").IsValid(); lease != tool.Lease {
			t.Errorf("%s: takes a leaseId %v, but is marked %v", tool.Name, lease, tool.Lease)
		}
	}
}

func TestSchemasResolveAndAreClosed(t *testing.T) {
	total := 0
	for _, tool := range catalog.All() {
		input, output := tool.Input(), tool.Output()
		total += len(input) + len(output) + len(tool.Name) + len(tool.Title) + len(tool.Description)
		for name, raw := range map[string]json.RawMessage{"input": input, "output": output} {
			var s jsonschema.Schema
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatalf("%s %s: %v", tool.Name, name, err)
			}
			if _, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
				t.Errorf("%s %s: %v", tool.Name, name, err)
			}
			if s.Type != "object" || strings.Contains(s.Description, "no schema") {
				t.Errorf("%s %s: type %q, %s", tool.Name, name, s.Type, s.Description)
			}
		}
		checkClosed(t, tool.Name, input)
		for _, forbidden := range []string{`"$ref"`, `"pattern":"`} {
			if bytes.Contains(input, []byte(forbidden)) || bytes.Contains(output, []byte(forbidden)) {
				t.Errorf("%s: a schema holds %s", tool.Name, forbidden)
			}
		}
	}
	if total >= 700_000 {
		t.Errorf("the catalog has %d characters, want fewer than 700,000", total)
	}
	t.Logf("the catalog has %d characters", total)
}

// checkClosed walks a schema: every object with properties refuses others.
func checkClosed(t *testing.T, where string, raw json.RawMessage) {
	t.Helper()
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil {
		return
	}
	if props, ok := s["properties"]; ok {
		if string(s["additionalProperties"]) != "false" {
			t.Errorf("%s: an open object", where)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(props, &fields); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		for name, field := range fields {
			checkClosed(t, where+"."+name, field)
		}
	}
	checkClosed(t, where+"[]", s["items"])
	var variants []json.RawMessage
	if json.Unmarshal(s["oneOf"], &variants) == nil {
		for i, v := range variants {
			checkClosed(t, where+"|"+strconv.Itoa(i), v)
		}
	}
}

func TestSchemasAreDeterministic(t *testing.T) {
	first := catalog.All()
	for i, tool := range catalog.All() {
		if !bytes.Equal(tool.Input(), first[i].Input()) || !bytes.Equal(tool.Output(), first[i].Output()) {
			t.Errorf("%s: another schema at the second call", tool.Name)
		}
	}
}

func TestAllIsTheCallersOwn(t *testing.T) {
	catalog.All()[0].Name = "changed"
	if got := catalog.All()[0].Name; got != "lomi_android_device_manage" {
		t.Errorf("got %q after a caller changed its slice", got)
	}
}
