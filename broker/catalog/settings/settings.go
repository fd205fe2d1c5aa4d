// Package settings defines the tools of Lomi's own settings, as far as an agent
// may see and change them.
package settings

import (
	"encoding/json"
	"strings"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// OpenRequest is lomi_settings_open.
type OpenRequest struct {
	control.Mutation
	Page string `json:"page" enum:"keybinds,themes,plugins,terminal,about,chat-ai,android,agent-control"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error { return rule.Check(r) }

// ReadRequest is lomi_settings_read.
type ReadRequest struct {
	control.Scoped
	Section          string `json:"section" enum:"editor,terminal,keybinds,themes"`
	Offset           int    `json:"offset,omitempty" min:"0" max:"4096" doc:"keybinds only"`
	Limit            int    `json:"limit,omitempty" default:"100" min:"1" max:"200"`
	ExpectedRevision string `json:"expectedRevision,omitempty" is:"id"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.Offset > 0 && r.Section != "keybinds" {
		return rule.Bad("offset", "goes with section keybinds only")
	}
	return nil
}

// UpdateRequest is lomi_settings_update.
type UpdateRequest struct {
	control.Mutation
	ExpectedSettingsRevision string `json:"expectedSettingsRevision" is:"id"`
	Patch                    Patch  `json:"patch"`
}

// Patch is one change of one setting. TabSize, Enabled, Theme and Appearance
// are each the value of one type.
type Patch struct {
	Type       string          `json:"type" oneof:"editor_tab_size,editor_insert_spaces,terminal_field,keybinding_set,keybinding_reset,keybinds_focus_follows_pointer,theme_builtin,theme_appearance"`
	TabSize    int             `json:"tabSize,omitempty" in:"editor_tab_size" min:"1" max:"16"`
	Enabled    bool            `json:"enabled,omitempty" in:"editor_insert_spaces,keybinds_focus_follows_pointer"`
	Field      string          `json:"field,omitempty" in:"terminal_field" enum:"fontFamily,fontSize,lineHeight,cursorStyle,cursorBlink,scrollback,copyOnSelect,confirmClose,bell,agentNotifications,alwaysShowTitles"`
	Value      json.RawMessage `json:"value,omitempty" in:"terminal_field" doc:"A text, a number, true, false, or null for the default"`
	Action     string          `json:"action,omitempty" in:"keybinding_set,keybinding_reset" is:"line" min:"1" max:"160"`
	Shortcut   *string         `json:"shortcut,omitempty" in:"keybinding_set" is:"line" max:"64" null:"yes" doc:"null: none"`
	Theme      string          `json:"theme,omitempty" in:"theme_builtin" enum:"lomi,deepmono"`
	Appearance string          `json:"appearance,omitempty" in:"theme_appearance" enum:"system,light,dark"`
}

// Validate implements control.Validator.
func (r *UpdateRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if v := strings.TrimSpace(string(r.Patch.Value)); v != "" && (v[0] == '{' || v[0] == '[') {
		return rule.Bad("patch.value", "must be a text, a number, true, false or null")
	}
	return nil
}

// Opened is the data kind "settings_opened".
type Opened struct {
	Kind        string `json:"kind" enum:"settings_opened"`
	WorkspaceID string `json:"workspaceId"`
	Page        string `json:"page"`
	Requested   bool   `json:"requested"`
}

// Snapshot is the data kind "settings_snapshot". Values is an Editor, Terminal,
// Keybinds or Themes.
type Snapshot struct {
	Kind        string          `json:"kind" enum:"settings_snapshot"`
	WorkspaceID string          `json:"workspaceId"`
	Section     string          `json:"section" enum:"editor,terminal,keybinds,themes"`
	Revision    string          `json:"revision"`
	Readiness   string          `json:"readiness" enum:"ready,recovery_required"`
	Values      json.RawMessage `json:"values"`
}

// Editor is the section "editor".
type Editor struct {
	TabSize      int  `json:"tabSize"`
	InsertSpaces bool `json:"insertSpaces"`
}

// Terminal is the section "terminal".
type Terminal struct {
	AppearanceOverrides map[string]any `json:"appearanceOverrides"`
	Behavior            map[string]any `json:"behavior"`
	WindowsShell        string         `json:"windowsShell"`
	AgentNotifications  bool           `json:"agentNotifications"`
	AlwaysShowTitles    bool           `json:"alwaysShowTitles"`
}

// Keybinds is the section "keybinds".
type Keybinds struct {
	FocusFollowsPointer bool                     `json:"focusFollowsPointer"`
	Items               control.List[Keybinding] `json:"items"`
	Total               int                      `json:"total"`
	Offset              int                      `json:"offset"`
	NextOffset          *int                     `json:"nextOffset,omitempty"`
}

// Keybinding is one action and its keys.
type Keybinding struct {
	Action          string `json:"action"`
	Shortcut        string `json:"shortcut,omitempty"`
	DefaultShortcut string `json:"defaultShortcut,omitempty"`
}

// Themes is the section "themes".
type Themes struct {
	Active              string `json:"active,omitempty"`
	FileIcons           string `json:"fileIcons,omitempty"`
	ProductIcons        string `json:"productIcons,omitempty"`
	Appearance          string `json:"appearance"`
	EffectiveAppearance string `json:"effectiveAppearance"`
	SafeMode            bool   `json:"safeMode"`
}

// Updated is the data kind "settings_updated".
type Updated struct {
	Kind                   string `json:"kind" enum:"settings_updated"`
	WorkspaceID            string `json:"workspaceId"`
	Section                string `json:"section"`
	PreviousStoredRevision string `json:"previousStoredRevision,omitempty"`
	StoredRevision         string `json:"storedRevision"`
	Applied                bool   `json:"applied"`
}

// Tools returns the three tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "settings"
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_settings_open", Title: "Show settings",
			Description: "Show a page of Lomi's settings. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.SettingsOpen},
			NewRequest:  rule.Request[OpenRequest](),
		}, Opened{}),
		define(control.Tool{
			Name: "lomi_settings_read", Title: "Read settings",
			Description: "Read one section of Lomi's settings, with its revision.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.SettingsRead},
			NewRequest:  rule.Request[ReadRequest](),
		}, Snapshot{}),
		define(control.Tool{
			Name: "lomi_settings_update", Title: "Change a setting",
			Description: "Change one setting; a person is asked. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.SettingsRead, control.SettingsWrite},
			NewRequest:  rule.Request[UpdateRequest](),
		}, Updated{}),
	}
}
