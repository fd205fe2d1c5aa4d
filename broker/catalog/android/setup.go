package android

import (
	"encoding/json"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// SetupPlanRequest is lomi_android_setup_plan.
type SetupPlanRequest struct {
	control.Scoped
	Action PlanAction `json:"action"`
}

// PlanAction asks for what is there, what could be, or a plan to get it.
type PlanAction struct {
	Type                    string            `json:"type" oneof:"inventory,catalog,prepare"`
	Refresh                 bool              `json:"refresh,omitempty" in:"catalog?"`
	Offset                  int               `json:"offset,omitempty" in:"catalog?" min:"0" max:"4096"`
	Limit                   int               `json:"limit,omitempty" in:"catalog?" default:"32" min:"1" max:"32"`
	ExpectedCatalogRevision string            `json:"expectedCatalogRevision,omitempty" in:"catalog?" is:"id"`
	CatalogRevision         string            `json:"catalogRevision,omitempty" in:"prepare" is:"id"`
	Packages                []PackageRevision `json:"packages,omitempty" in:"prepare" max:"32"`
	PrepareTools            bool              `json:"prepareTools,omitempty" in:"prepare?"`
}

// PackageRevision is one SDK package at one revision.
type PackageRevision struct {
	ID       string `json:"id" is:"line" min:"1" max:"256"`
	Revision string `json:"revision" is:"id"`
}

// Validate implements control.Validator.
func (r *SetupPlanRequest) Validate() error { return rule.Check(r) }

// NeedsScopes implements control.Scoper. An inventory is open to android.manage
// as well as to android.setup, which a list of scopes cannot say: its adapter
// asks for one of the two.
func (r *SetupPlanRequest) NeedsScopes() []control.Scope {
	if r.Action.Type == "inventory" {
		return nil
	}
	return []control.Scope{control.AndroidSetup}
}

// SetupApplyRequest is lomi_android_setup_apply.
type SetupApplyRequest struct {
	control.Keyed
	PlanID       string `json:"planId" is:"id"`
	PlanRevision string `json:"planRevision" is:"id"`
}

// Validate implements control.Validator.
func (r *SetupApplyRequest) Validate() error { return rule.Check(r) }

// DeviceManageRequest is lomi_android_device_manage.
type DeviceManageRequest struct {
	control.Keyed
	Action ManageAction `json:"action"`
}

// maxManageBytes bounds what a person has to read before deciding.
const maxManageBytes = 8192

// ManageAction is one change of a device, or of what devices need.
type ManageAction struct {
	Type                     string    `json:"type" oneof:"create,modify,wipe,delete,recover,cleanup,restore_metadata,remove_package,rollback_package"`
	ExpectedDevicesRevision  string    `json:"expectedDevicesRevision,omitempty" in:"create,modify,wipe,delete" is:"id"`
	DeviceID                 string    `json:"deviceId,omitempty" in:"modify,wipe,delete" is:"uuid"`
	Generation               string    `json:"generation,omitempty" in:"modify?" is:"id"`
	Name                     string    `json:"name,omitempty" in:"create,modify" is:"line" min:"1" max:"256"`
	Image                    string    `json:"image,omitempty" in:"create" is:"line" min:"1" max:"256"`
	Profile                  string    `json:"profile,omitempty" in:"create,modify" is:"line" min:"1" max:"256"`
	Hardware                 *Hardware `json:"hardware,omitempty" in:"create,modify"`
	Confirmation             string    `json:"confirmation,omitempty" in:"wipe,delete" is:"line" min:"1" max:"256" doc:"The device's name"`
	File                     string    `json:"file,omitempty" in:"restore_metadata" enum:"devices,preferences"`
	Digest                   string    `json:"digest,omitempty" in:"restore_metadata" is:"id"`
	Reset                    bool      `json:"reset,omitempty" in:"restore_metadata?"`
	PackageID                string    `json:"packageId,omitempty" in:"remove_package,rollback_package" is:"line" min:"1" max:"256"`
	ExpectedManifestRevision string    `json:"expectedManifestRevision,omitempty" in:"remove_package,rollback_package" is:"id"`
}

// Hardware is what a device has.
type Hardware struct {
	RAMMiB    int    `json:"ramMib" min:"512" max:"65536"`
	CPUCount  int    `json:"cpuCount" min:"1" max:"64"`
	DataGiB   int    `json:"dataGib" min:"1" max:"1024"`
	GPU       string `json:"gpu" enum:"auto,host,software"`
	QuickBoot bool   `json:"quickBoot"`
}

// Validate implements control.Validator.
func (r *DeviceManageRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	raw, err := json.Marshal(r.Action)
	if err != nil || len(raw) > maxManageBytes {
		return rule.Bad("action", "must have at most 8192 bytes")
	}
	return nil
}

// NeedsScopes implements control.Scoper: packages are the set-up's, devices the
// management's.
func (r *DeviceManageRequest) NeedsScopes() []control.Scope {
	switch r.Action.Type {
	case "remove_package", "rollback_package":
		return []control.Scope{control.AndroidSetup}
	}
	return []control.Scope{control.AndroidManage}
}
