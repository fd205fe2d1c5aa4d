package android

import (
	"encoding/json"

	"lomi/broker/control"
)

// Devices is the data kind "android_devices".
type Devices struct {
	Kind        string     `json:"kind" enum:"android_devices"`
	WorkspaceID string     `json:"workspaceId"`
	Devices     DeviceList `json:"devices"`
}

// DeviceList is the granted devices at one revision.
type DeviceList struct {
	DevicesRevision string               `json:"devicesRevision"`
	HostQualified   bool                 `json:"hostQualified"`
	Items           control.List[Device] `json:"items"`
}

// Device is one device. Display is width and height.
type Device struct {
	DeviceID     string `json:"deviceId"`
	Name         string `json:"name"`
	Generation   string `json:"generation,omitempty"`
	Phase        string `json:"phase" enum:"stopped,starting,booting,running,stopping,failed"`
	ProcessAlive bool   `json:"processAlive"`
	Display      []int  `json:"display,omitempty"`
}

// Panel is the data kind "android_panel".
type Panel struct {
	Kind        string `json:"kind" enum:"android_panel"`
	WorkspaceID string `json:"workspaceId"`
	PanelID     string `json:"panelId"`
	DeviceID    string `json:"deviceId"`
}

// Runtime is the data kind "android_runtime".
type Runtime struct {
	Kind        string `json:"kind" enum:"android_runtime"`
	WorkspaceID string `json:"workspaceId"`
	DeviceID    string `json:"deviceId"`
	Generation  string `json:"generation"`
	Ready       bool   `json:"ready"`
	Stopped     bool   `json:"stopped"`
}

// InputDone is the data kind "android_input".
type InputDone struct {
	Kind          string `json:"kind" enum:"android_input"`
	WorkspaceID   string `json:"workspaceId"`
	DeviceID      string `json:"deviceId"`
	Generation    string `json:"generation"`
	InputSequence string `json:"inputSequence"`
}

// Snapshot is the data kind "android_snapshot". HardwareDisplay is width and
// height, Rotation counts quarter turns, CoordinateSpace is "rotated_display".
type Snapshot struct {
	Kind             string               `json:"kind" enum:"android_snapshot"`
	WorkspaceID      string               `json:"workspaceId"`
	PanelID          string               `json:"panelId"`
	DeviceID         string               `json:"deviceId"`
	Generation       string               `json:"generation"`
	SnapshotID       string               `json:"snapshotId"`
	CapturedAtMillis int64                `json:"capturedAtMillis"`
	HardwareDisplay  control.List[int]    `json:"hardwareDisplay"`
	Rotation         int                  `json:"rotation"`
	CoordinateSpace  string               `json:"coordinateSpace"`
	Nodes            control.List[Node]   `json:"nodes"`
	Truncated        bool                 `json:"truncated"`
	Limitations      control.List[string] `json:"limitations"`
}

// Node is one view on the device's screen. Bounds is left, top, right, bottom.
type Node struct {
	ID           int    `json:"id"`
	Parent       *int   `json:"parent,omitempty"`
	Class        string `json:"class"`
	ResourceID   string `json:"resourceId"`
	Package      string `json:"package"`
	Description  string `json:"description"`
	Text         string `json:"text"`
	Bounds       []int  `json:"bounds,omitempty"`
	Enabled      bool   `json:"enabled"`
	Clickable    bool   `json:"clickable"`
	Focused      bool   `json:"focused"`
	Scrollable   bool   `json:"scrollable"`
	Checked      bool   `json:"checked"`
	ValueOmitted bool   `json:"valueOmitted"`
}

// Installed is the data kind "android_install".
type Installed struct {
	Kind             string `json:"kind" enum:"android_install"`
	WorkspaceID      string `json:"workspaceId"`
	DeviceID         string `json:"deviceId"`
	Generation       string `json:"generation"`
	Installed        bool   `json:"installed"`
	PackageName      string `json:"packageName,omitempty"`
	PreviousVersion  string `json:"previousVersion,omitempty"`
	NewVersion       string `json:"newVersion,omitempty"`
	InstallerFailure string `json:"installerFailure,omitempty"`
}

// Launched is the data kind "android_launch".
type Launched struct {
	Kind            string `json:"kind" enum:"android_launch"`
	WorkspaceID     string `json:"workspaceId"`
	DeviceID        string `json:"deviceId"`
	Generation      string `json:"generation"`
	PackageName     string `json:"packageName"`
	Activity        string `json:"activity"`
	IntentDelivered bool   `json:"intentDelivered"`
}

// Logcat is the data kind "android_logcat". Complete is false, Gap "unknown"
// and Scope "main_process_main_buffer_recent_snapshot": the buffer is a ring
// that others write.
type Logcat struct {
	Kind        string               `json:"kind" enum:"android_logcat"`
	WorkspaceID string               `json:"workspaceId"`
	DeviceID    string               `json:"deviceId"`
	Generation  string               `json:"generation"`
	PackageName string               `json:"packageName"`
	ProcessID   int                  `json:"processId"`
	Lines       control.List[string] `json:"lines"`
	NextCursor  string               `json:"nextCursor,omitempty"`
	Truncated   bool                 `json:"truncated"`
	Complete    bool                 `json:"complete"`
	Scope       string               `json:"scope"`
	Gap         string               `json:"gap"`
}

// Setup is the data kind "android_setup". Body holds what the action asked for:
// its shape is the SDK's and changes with it.
type Setup struct {
	Kind        string          `json:"kind" enum:"android_setup"`
	WorkspaceID string          `json:"workspaceId"`
	Action      string          `json:"action" enum:"inventory,catalog,prepared"`
	Body        json.RawMessage `json:"body"`
}

// Management is the data kind "android_management".
type Management struct {
	Kind              string `json:"kind" enum:"android_management"`
	WorkspaceID       string `json:"workspaceId"`
	NativeOperationID string `json:"nativeOperationId"`
	DeviceID          string `json:"deviceId,omitempty"`
	DevicesRevision   string `json:"devicesRevision,omitempty"`
	ManifestRevision  string `json:"manifestRevision,omitempty"`
}
