package catalog_test

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lomi/broker/catalog"
	"lomi/broker/catalog/android"
	"lomi/broker/catalog/artifact"
	"lomi/broker/catalog/browser"
	"lomi/broker/catalog/chatshare"
	"lomi/broker/catalog/editor"
	"lomi/broker/catalog/files"
	"lomi/broker/catalog/git"
	"lomi/broker/catalog/link"
	"lomi/broker/catalog/settings"
	"lomi/broker/catalog/terminal"
	"lomi/broker/catalog/workbench"
	"lomi/broker/control"
)

// results is one value of every data kind, by kind.
func results() map[string]any {
	out := map[string]any{}
	for _, r := range []any{
		control.Operation{},
		link.Status{}, link.Diagnostics{}, link.Connected{}, link.Events{},
		workbench.Workspaces{}, workbench.Panels{}, workbench.Workspace{}, workbench.WorkspaceClosure{},
		workbench.ProjectOpened{}, workbench.ProjectClosure{}, workbench.Panel{}, workbench.PanelMoved{},
		workbench.TerminalControl{}, workbench.AndroidControl{},
		terminal.Created{}, terminal.Command{}, terminal.InputAck{}, terminal.Interrupted{}, terminal.Output{},
		terminal.Raw{}, terminal.Screen{},
		browser.Opened{}, browser.Navigated{}, browser.Snapshot{}, browser.Waited{}, browser.Interaction{},
		browser.Logs{}, browser.Uploaded{}, browser.Downloaded{},
		artifact.Artifact{}, artifact.Imported{}, artifact.Exported{},
		files.Listing{}, files.Text{}, files.Found{}, files.Mutated{},
		editor.Opened{}, editor.Previewed{}, editor.Text{}, editor.Edited{}, editor.Saved{},
		git.Status{}, git.Diff{}, git.History{}, git.Commit{}, git.Remotes{}, git.Opened{}, git.Mutated{},
		android.Devices{}, android.Panel{}, android.Runtime{}, android.InputDone{}, android.Snapshot{},
		android.Installed{}, android.Launched{}, android.Logcat{}, android.Setup{}, android.Management{},
		chatshare.List{}, chatshare.Slice{}, chatshare.Opened{}, chatshare.DraftUpdated{}, chatshare.Sent{},
		chatshare.Stopped{}, chatshare.Exported{},
		settings.Opened{}, settings.Snapshot{}, settings.Updated{},
	} {
		f, _ := reflect.TypeOf(r).FieldByName("Kind")
		out[f.Tag.Get("enum")] = r
	}
	return out
}

// TestResultsFitTheirSchemas is bug 65: a structured result must match the
// schema that its own tool announces, empty as well as with everything set.
func TestResultsFitTheirSchemas(t *testing.T) {
	kinds, used := results(), map[string]bool{}
	for _, tool := range catalog.All() {
		schema := resolve(t, tool.Output())
		fits := func(what string, data any) {
			t.Helper()
			reply, err := control.OK(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(plain(t, reply)); err != nil {
				t.Errorf("%s: %s does not fit: %v", tool.Name, what, err)
			}
		}
		for _, kind := range tool.Results {
			used[kind] = true
			for _, full := range []bool{false, true} {
				data := filled(t, kinds[kind], full)
				if tool.Operation {
					data = receipt(t, data, full)
				}
				fits(kind, data)
			}
		}
		if !tool.ReadOnly {
			fits("a receipt without result", receipt(t, nil, false))
		}
		failure := control.Failure(control.Errorf(control.ScopeDenied, "no"))
		if err := schema.Validate(plain(t, failure)); err != nil {
			t.Errorf("%s: a failure does not fit: %v", tool.Name, err)
		}
		foreign, err := control.OK(map[string]any{"kind": "another"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(plain(t, foreign)) == nil {
			t.Errorf("%s: its schema takes another data kind", tool.Name)
		}
	}
	for kind := range kinds {
		if !used[kind] {
			t.Errorf("no tool answers with %q", kind)
		}
	}
}

func plain(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func receipt(t *testing.T, result any, full bool) control.Operation {
	t.Helper()
	op := control.Operation{Kind: "operation", OperationID: "a", Tool: "a", State: control.StateAwaitingUser, EffectState: control.EffectNone}
	if result != nil {
		raw, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		op.State, op.EffectState, op.Result = control.StateSucceeded, control.EffectComplete, raw
	}
	if full {
		op.WorkspaceID, op.Code, op.Message = "a", control.OutcomeUnknown, "a"
	}
	return op
}

// filled is a result with every field set, or only with what must be: texts of
// an enum, and raw values.
func filled(t *testing.T, of any, full bool) any {
	t.Helper()
	if of == nil {
		t.Fatal("a data kind has no type")
	}
	v := reflect.New(reflect.TypeOf(of)).Elem()
	fill(v, "", full)
	return v.Interface()
}

func fill(v reflect.Value, enum string, full bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			wanted := full || !strings.Contains(f.Tag.Get("json"), "omitempty")
			if in := f.Tag.Get("in"); in != "" {
				chosen := v.Field(0).String() // of a union the discriminator comes first
				wanted = slices.Contains(strings.Split(in, ","), chosen)
			}
			if wanted {
				fill(v.Field(i), f.Tag.Get("enum")+f.Tag.Get("oneof"), full)
			}
		}
	case reflect.String:
		first, _, _ := strings.Cut(enum, ",")
		v.SetString(cmp.Or(first, "a"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), enum, full)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"kind":"a"}`))
		} else if full {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), "", full)
		}
	case reflect.Bool:
		v.SetBool(full)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}
