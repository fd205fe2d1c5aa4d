// Package android defines the tools of Android devices and of the emulator that
// runs them.
package android

import (
	"strconv"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Running names one run of one device in one panel. It is embedded in requests.
type Running struct {
	PanelID    string `json:"panelId" is:"id"`
	DeviceID   string `json:"deviceId" is:"uuid"`
	Generation string `json:"generation" is:"id"`
}

// ListRequest is lomi_android_list.
type ListRequest struct {
	control.Scoped
}

// Validate implements control.Validator.
func (r *ListRequest) Validate() error { return rule.Check(r) }

// OpenRequest is lomi_android_open.
type OpenRequest struct {
	control.Mutation
	DeviceID string `json:"deviceId" is:"uuid"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error { return rule.Check(r) }

// StartRequest is lomi_android_start.
type StartRequest struct {
	control.Mutation
	PanelID  string `json:"panelId" is:"id"`
	DeviceID string `json:"deviceId" is:"uuid"`
}

// Validate implements control.Validator.
func (r *StartRequest) Validate() error { return rule.Check(r) }

// StopRequest is lomi_android_stop.
type StopRequest struct {
	control.Mutation
	Running
}

// Validate implements control.Validator.
func (r *StopRequest) Validate() error { return rule.Check(r) }

// maxSequence is the largest whole number that every JSON reader keeps.
const maxSequence = 1 << 53

// InputRequest is lomi_android_input. Lease and sequence number together are
// the key of its receipt.
type InputRequest struct {
	control.Scoped
	Running
	LeaseID       string `json:"leaseId" is:"id" max:"64"` // so that the key made of it is an id
	InputSequence string `json:"inputSequence" is:"decimal" doc:"From 1"`
	RetryEpoch    string `json:"retryEpoch" is:"id"`
	Event         Event  `json:"event"`
}

// Event is one input to a device.
type Event struct {
	Type         string `json:"type" oneof:"rotate,text,key,navigation,touch"`
	QuarterTurns int    `json:"quarterTurns,omitempty" in:"rotate" min:"0" max:"3"`
	Text         string `json:"text,omitempty" in:"text" is:"text" min:"1" max:"16384"`
	Key          string `json:"key,omitempty" in:"key" is:"line" min:"1" max:"32"`
	Down         bool   `json:"down,omitempty" in:"key"`
	Button       string `json:"button,omitempty" in:"navigation" enum:"back,home,overview,power"`
	Space        string `json:"space,omitempty" in:"touch" enum:"hardware_display"`
	Identifier   int    `json:"identifier,omitempty" in:"touch" min:"0" max:"1"`
	X            int    `json:"x,omitempty" in:"touch" min:"0" max:"32767"`
	Y            int    `json:"y,omitempty" in:"touch" min:"0" max:"32767"`
	Phase        string `json:"phase,omitempty" in:"touch" enum:"down,move,up"`
}

// Validate implements control.Validator.
func (r *InputRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	n, err := strconv.ParseUint(r.InputSequence, 10, 64)
	if err != nil || n < 1 || n > maxSequence {
		return rule.Bad("inputSequence", "must be from 1 to 9007199254740992")
	}
	return nil
}

// Retry implements control.Retryable.
func (r InputRequest) Retry() (epoch, key, revision string) {
	return r.RetryEpoch, "input:" + r.LeaseID + ":" + r.InputSequence, ""
}

// SnapshotRequest is lomi_android_snapshot.
type SnapshotRequest struct {
	control.Scoped
	Running
	MaxNodes int `json:"maxNodes,omitempty" default:"250" min:"1" max:"500"`
	MaxBytes int `json:"maxBytes,omitempty" default:"32768" min:"1024" max:"49152"`
}

// Validate implements control.Validator.
func (r *SnapshotRequest) Validate() error { return rule.Check(r) }

// ScreenshotRequest is lomi_android_screenshot.
type ScreenshotRequest struct {
	control.Scoped
	Running
	MaxEdge  int `json:"maxEdge,omitempty" default:"1280" min:"64" max:"1600"`
	MaxBytes int `json:"maxBytes,omitempty" default:"1048576" min:"16384" max:"3145728"`
}

// Validate implements control.Validator.
func (r *ScreenshotRequest) Validate() error { return rule.Check(r) }

// InstallAPKRequest is lomi_android_install_apk.
type InstallAPKRequest struct {
	control.Keyed
	Running
	ArtifactID string `json:"artifactId" is:"id"`
	SHA256     string `json:"sha256" is:"sha256"`
}

// Validate implements control.Validator.
func (r *InstallAPKRequest) Validate() error { return rule.Check(r) }

// LaunchRequest is lomi_android_launch.
type LaunchRequest struct {
	control.Mutation
	Running
	PackageName string `json:"packageName" is:"id"`
	Activity    string `json:"activity,omitempty" is:"line" max:"256"`
}

// Validate implements control.Validator.
func (r *LaunchRequest) Validate() error { return rule.Check(r) }

// LogcatRequest is lomi_android_logcat.
type LogcatRequest struct {
	control.Scoped
	Running
	PackageName string `json:"packageName" is:"id"`
	MinPriority string `json:"minPriority,omitempty" default:"V" enum:"V,D,I,W,E,F"`
	Limit       int    `json:"limit" min:"1" max:"64"`
	Cursor      string `json:"cursor,omitempty" is:"id"`
}

// Validate implements control.Validator.
func (r *LogcatRequest) Validate() error { return rule.Check(r) }
