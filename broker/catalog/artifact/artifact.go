// Package artifact defines the tools of stored outputs: pictures, downloads and
// imported files that never change.
package artifact

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// ImportRequest is lomi_artifact_import.
type ImportRequest struct {
	control.Mutation
	RelativePath       string `json:"relativePath" is:"path" max:"4096"`
	Kind               string `json:"kind" enum:"android_apk,file"`
	ExpectedByteLength int64  `json:"expectedByteLength" min:"0" max:"536870912"`
	ExpectedSHA256     string `json:"expectedSha256" is:"sha256"`
}

// Bounds of an import, by kind. The larger one stands in the field's tag.
const (
	minAPKBytes  = 4
	maxFileBytes = 4 << 20
)

// Validate implements control.Validator.
func (r *ImportRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.RelativePath == "":
		return rule.Bad("relativePath", "must not be empty")
	case r.Kind == "android_apk" && r.ExpectedByteLength < minAPKBytes:
		return rule.Bad("expectedByteLength", "must be at least 4 for android_apk")
	case r.Kind == "file" && r.ExpectedByteLength > maxFileBytes:
		return rule.Bad("expectedByteLength", "must be at most 4194304 for file")
	}
	return nil
}

// NeedsScopes implements control.Scoper.
func (r *ImportRequest) NeedsScopes() []control.Scope {
	if r.Kind == "file" {
		return []control.Scope{control.ArtifactImportFile}
	}
	return []control.Scope{control.ArtifactImport}
}

// ReadRequest is lomi_artifact_read.
type ReadRequest struct {
	control.Scoped
	ArtifactID string `json:"artifactId" is:"id"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error { return rule.Check(r) }

// ExportRequest is lomi_artifact_export.
type ExportRequest struct {
	control.Mutation
	ArtifactID             string `json:"artifactId" is:"id"`
	ExpectedSHA256         string `json:"expectedSha256" is:"sha256"`
	RelativePath           string `json:"relativePath" is:"path" min:"1" max:"4096" doc:"New file in the project"`
	ExpectedParentRevision string `json:"expectedParentRevision" is:"id"`
}

// Validate implements control.Validator.
func (r *ExportRequest) Validate() error { return rule.Check(r) }

// Artifact is the data kind "artifact": one stored output. It is the result of
// screenshots too.
type Artifact struct {
	Kind             string `json:"kind" enum:"artifact"`
	ID               string `json:"id"`
	MediaType        string `json:"mediaType"`
	ByteLength       int64  `json:"byteLength"`
	SHA256           string `json:"sha256"`
	CreatedAtSeconds int64  `json:"createdAtSeconds"`
	ExpiresAtSeconds int64  `json:"expiresAtSeconds"`
	Source           Source `json:"source"`
	Image            *Image `json:"image,omitempty"`
}

// Source says where an artifact came from, and which scope reading it needs.
// Type is "browser", "android" or "project"; the other fields go with it.
type Source struct {
	Type              string        `json:"type" enum:"browser,android,project"`
	Kind              string        `json:"kind,omitempty"` // of a project file: android_apk or file
	WorkspaceID       string        `json:"workspaceId"`
	PanelID           string        `json:"panelId,omitempty"`
	BrowserGeneration string        `json:"browserGeneration,omitempty"`
	ProfileID         string        `json:"profileId,omitempty"`
	NavigationID      string        `json:"navigationId,omitempty"`
	Origin            string        `json:"origin,omitempty"`
	DeviceID          string        `json:"deviceId,omitempty"`
	Generation        string        `json:"generation,omitempty"`
	RelativePath      string        `json:"relativePath,omitempty"`
	RequiredScope     control.Scope `json:"requiredScope"`
}

// Image is the geometry of a picture: the fields of a page's viewport or those
// of a device's display.
type Image struct {
	PixelWidth       int     `json:"pixelWidth"`
	PixelHeight      int     `json:"pixelHeight"`
	Crop             string  `json:"crop" enum:"viewport,full_display"`
	CapturedAtMillis int64   `json:"capturedAtMillis,omitempty"`
	CSSWidth         float64 `json:"cssWidth,omitempty"`
	CSSHeight        float64 `json:"cssHeight,omitempty"`

	DeviceScaleFactor float64 `json:"deviceScaleFactor,omitempty"`
	CaptureScaleX     float64 `json:"captureScaleX,omitempty"`
	CaptureScaleY     float64 `json:"captureScaleY,omitempty"`
	PageZoom          float64 `json:"pageZoom,omitempty"`
	ScrollX           float64 `json:"scrollX,omitempty"`
	ScrollY           float64 `json:"scrollY,omitempty"`

	HardwareDisplay []int     `json:"hardwareDisplay,omitempty"` // width, height
	Rotation        int       `json:"rotation,omitempty"`        // quarter turns
	CaptureScale    float64   `json:"captureScale,omitempty"`
	ImageToHardware []float64 `json:"imageToHardware,omitempty"` // affine, six numbers
	CoordinateSpace string    `json:"coordinateSpace,omitempty"`
}

// Imported is the data kind "artifact_imported".
type Imported struct {
	Kind        string `json:"kind" enum:"artifact_imported"`
	WorkspaceID string `json:"workspaceId"`
	ArtifactID  string `json:"artifactId"`
	SHA256      string `json:"sha256"`
	ByteLength  int64  `json:"byteLength"`
}

// Exported is the data kind "artifact_exported".
type Exported struct {
	Kind         string   `json:"kind" enum:"artifact_exported"`
	WorkspaceID  string   `json:"workspaceId"`
	RelativePath string   `json:"relativePath"`
	Artifact     Artifact `json:"artifact"`
}
