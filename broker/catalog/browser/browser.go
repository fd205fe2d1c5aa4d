// Package browser defines the tools of browser panels: their requests, their
// results and the rules on both.
package browser

import (
	"net/url"
	"strings"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Panel names one run of one browser panel. It is embedded in requests beside
// the workspace.
type Panel struct {
	PanelID           string `json:"panelId" is:"id"`
	BrowserGeneration string `json:"browserGeneration" is:"id"`
}

// Element names one element of one snapshot. It is embedded in requests that
// act on it.
type Element struct {
	LeaseID      string `json:"leaseId" is:"id"`
	NavigationID string `json:"navigationId" is:"id"`
	SnapshotID   string `json:"snapshotId" is:"id"`
	ElementRef   string `json:"elementRef" is:"id"`
}

// OpenRequest is lomi_browser_open.
type OpenRequest struct {
	control.Mutation
	URL     string `json:"url" min:"1" max:"16384" doc:"http or https"`
	Visible *bool  `json:"visible,omitempty" default:"true"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	return checkURL("url", r.URL)
}

// NavigateRequest is lomi_browser_navigate: an address, or a step in the
// history of the page.
type NavigateRequest struct {
	control.Keyed
	Panel
	LeaseID   string `json:"leaseId" is:"id"`
	URL       string `json:"url,omitempty" max:"16384" doc:"Or history"`
	History   string `json:"history,omitempty" enum:"back,forward,reload" doc:"Instead of url"`
	WaitUntil string `json:"waitUntil,omitempty" default:"load" enum:"commit,load"`
}

// Validate implements control.Validator.
func (r *NavigateRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.URL != "" && r.History != "":
		return rule.Bad("history", "not together with url")
	case r.URL == "" && r.History == "":
		return rule.Bad("url", "is required, or history")
	case r.URL == "":
		return nil
	}
	return checkURL("url", r.URL)
}

// SnapshotRequest is lomi_browser_snapshot. Cursor goes on where an earlier
// snapshot of the same page was cut.
type SnapshotRequest struct {
	control.Scoped
	Panel
	MaxNodes int    `json:"maxNodes,omitempty" default:"100" min:"1" max:"500"`
	MaxBytes int    `json:"maxBytes,omitempty" default:"16384" min:"1024" max:"49152"`
	Cursor   string `json:"cursor,omitempty" is:"id" doc:"nextCursor of a cut snapshot"`
}

// Validate implements control.Validator.
func (r *SnapshotRequest) Validate() error { return rule.Check(r) }

// WaitRequest is lomi_browser_wait.
type WaitRequest struct {
	control.Scoped
	Panel
	Condition Condition `json:"condition"`
	TimeoutMS int       `json:"timeoutMs,omitempty" default:"5000" min:"1" max:"10000"`
}

// Condition is what lomi_browser_wait waits for.
type Condition struct {
	Type string `json:"type" oneof:"text,element,url,load"`
	Text string `json:"text,omitempty" in:"text" min:"1" max:"512"`
	Role string `json:"role,omitempty" in:"element" min:"1" max:"64"`
	Name string `json:"name,omitempty" in:"element" max:"512"`
	URL  string `json:"url,omitempty" in:"url" min:"1" max:"16384"`
}

// Validate implements control.Validator.
func (r *WaitRequest) Validate() error { return rule.Check(r) }

// ClickRequest is lomi_browser_click.
type ClickRequest struct {
	control.Keyed
	Panel
	Element
}

// Validate implements control.Validator.
func (r *ClickRequest) Validate() error { return rule.Check(r) }

// FillRequest is lomi_browser_fill. For a select, Text is the option's text;
// for a checkbox or radio it is "true" or "false".
type FillRequest struct {
	control.Keyed
	Panel
	Element
	Text string `json:"text" is:"text" max:"16384" doc:"Select: an option; checkbox, radio: true or false"`
}

// Validate implements control.Validator.
func (r *FillRequest) Validate() error { return rule.Check(r) }

// KeyRequest is lomi_browser_key.
type KeyRequest struct {
	control.Keyed
	Panel
	Element
	Key string `json:"key" enum:"Enter,Tab,Escape,Backspace,ArrowUp,ArrowDown,ArrowLeft,ArrowRight,Home,End"`
}

// Validate implements control.Validator.
func (r *KeyRequest) Validate() error { return rule.Check(r) }

// ScrollRequest is lomi_browser_scroll. JSON has no infinities, so the bounds
// keep the distances finite.
type ScrollRequest struct {
	control.Keyed
	Panel
	LeaseID      string  `json:"leaseId" is:"id"`
	NavigationID string  `json:"navigationId" is:"id"`
	SnapshotID   string  `json:"snapshotId" is:"id"`
	ViewportRef  string  `json:"viewportRef,omitempty" default:"viewport" is:"id"`
	DeltaX       float64 `json:"deltaX" min:"-10000" max:"10000"`
	DeltaY       float64 `json:"deltaY" min:"-10000" max:"10000"`
}

// Validate implements control.Validator.
func (r *ScrollRequest) Validate() error { return rule.Check(r) }

// ScreenshotRequest is lomi_browser_screenshot.
type ScreenshotRequest struct {
	control.Scoped
	Panel
	NavigationID string `json:"navigationId" is:"id"`
	MaxWidth     int    `json:"maxWidth,omitempty" default:"1280" min:"64" max:"1600"`
	MaxBytes     int    `json:"maxBytes,omitempty" default:"1048576" min:"16384" max:"3145728"`
}

// Validate implements control.Validator.
func (r *ScreenshotRequest) Validate() error { return rule.Check(r) }

// LogsRequest is lomi_browser_logs.
type LogsRequest struct {
	control.Scoped
	Panel
	LogKind string `json:"logKind,omitempty" default:"javascript_error" enum:"javascript_error,console,promise_rejection"`
	Cursor  string `json:"cursor,omitempty" is:"id" max:"160"`
	Limit   int    `json:"limit,omitempty" default:"50" min:"1" max:"64"`
}

// Validate implements control.Validator.
func (r *LogsRequest) Validate() error { return rule.Check(r) }

// UploadRequest is lomi_browser_upload.
type UploadRequest struct {
	control.Mutation
	Panel
	Element
	FrameID        string `json:"frameId" is:"id"`
	ArtifactID     string `json:"artifactId" is:"id"`
	ExpectedSHA256 string `json:"expectedSha256" is:"sha256"`
	FileName       string `json:"fileName" is:"line" min:"1" max:"255" doc:"Base name the page sees"`
}

// Validate implements control.Validator.
func (r *UploadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.FileName == "." || r.FileName == ".." || strings.ContainsAny(r.FileName, `/\`) {
		return rule.Bad("fileName", "must be a base name")
	}
	return nil
}

// DownloadRequest is lomi_browser_download.
type DownloadRequest struct {
	control.Mutation
	Panel
	NavigationID string `json:"navigationId" is:"id"`
	URL          string `json:"url" min:"1" max:"16384" doc:"Same origin as the page"`
	MaxBytes     int    `json:"maxBytes,omitempty" default:"4194304" min:"1" max:"4194304"`
}

// Validate implements control.Validator.
func (r *DownloadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if err := checkURL("url", r.URL); err != nil {
		return err
	}
	if strings.Contains(r.URL, "#") {
		return rule.Bad("url", "must have no fragment")
	}
	return nil
}

// checkURL holds the rule that every address of a page obeys. Origins are the
// grant's business, not the form's.
func checkURL(path, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return rule.Bad(path, "is no valid address")
	case u.Scheme != "http" && u.Scheme != "https":
		return rule.Bad(path, "must start with http:// or https://")
	case u.Hostname() == "":
		return rule.Bad(path, "has no host")
	case u.User != nil:
		return rule.Bad(path, "must hold no user name or password")
	}
	return nil
}
