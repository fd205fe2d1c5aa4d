package android

import (
	"lomi/broker/catalog/artifact"
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

func define(tool control.Tool, results ...any) control.Tool {
	tool.Domain = "android"
	return rule.Define(tool, results...)
}

// Tools returns the thirteen tools of this domain.
func Tools() []control.Tool {
	return append(append(devices(), apps()...), management()...)
}

// devices are the tools of running devices.
func devices() []control.Tool {
	run := []control.Scope{control.AndroidRead, control.AndroidControl}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_android_list", Title: "List devices",
			Description: "List the Android devices that the grant allows.",
			ReadOnly:    true, Scopes: []control.Scope{control.AndroidRead},
			NewRequest: rule.Request[ListRequest](),
		}, Devices{}),
		define(control.Tool{
			Name: "lomi_android_open", Title: "Open a device panel",
			Description: "Open the panel of a device; boots nothing. Answers with an operation receipt.",
			Operation:   true, Scopes: []control.Scope{control.PanelCreate, control.AndroidRead},
			NewRequest: rule.Request[OpenRequest](),
		}, Panel{}),
		define(control.Tool{
			Name: "lomi_android_start", Title: "Boot a device",
			Description: "Boot a device. Answers with an operation receipt.",
			Operation:   true, Scopes: run, NewRequest: rule.Request[StartRequest](),
		}, Runtime{}),
		define(control.Tool{
			Name: "lomi_android_stop", Title: "Stop a device",
			Description: "Stop one run of a device. Answers with an operation receipt.",
			Destructive: true, Operation: true, Scopes: run, NewRequest: rule.Request[StopRequest](),
		}, Runtime{}),
		define(control.Tool{
			Name: "lomi_android_input", Title: "Touch and type on a device",
			Description: "Touch, type, press a key, rotate or navigate on a device. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true, Lease: true,
			Scopes:     append(run[:2:2], control.AndroidInteract),
			NewRequest: rule.Request[InputRequest](),
		}, InputDone{}),
		define(control.Tool{
			Name: "lomi_android_snapshot", Title: "List the views on a screen",
			Description: "List the views on a device's screen, with their places.",
			ReadOnly:    true, Scopes: append(run[:2:2], control.AndroidObserve),
			NewRequest: rule.Request[SnapshotRequest](),
		}, Snapshot{}),
		define(control.Tool{
			Name: "lomi_android_screenshot", Title: "Take a picture of a screen",
			Description: "Take a PNG picture of a device's whole display.",
			ReadOnly:    true, Scopes: []control.Scope{control.AndroidCapture},
			NewRequest: rule.Request[ScreenshotRequest](),
		}, artifact.Artifact{}),
	}
}

// apps are the tools of one app on a device.
func apps() []control.Tool {
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_android_install_apk", Title: "Install an app",
			Description: "Install an APK from lomi_artifact_import; a person is asked. Answers with an operation receipt.",
			Destructive: true, Operation: true,
			Scopes: []control.Scope{control.AndroidInstall, control.AndroidControl, control.AndroidRead,
				control.FilesRead},
			NewRequest: rule.Request[InstallAPKRequest](),
		}, Installed{}),
		define(control.Tool{
			Name: "lomi_android_launch", Title: "Launch an app",
			Description: "Launch a granted app. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.AndroidLaunch},
			NewRequest: rule.Request[LaunchRequest](),
		}, Launched{}),
		define(control.Tool{
			Name: "lomi_android_logcat", Title: "Read an app's log",
			Description: "Read recent log lines of a granted app's main process.",
			ReadOnly:    true, Scopes: []control.Scope{control.AndroidLogs},
			NewRequest: rule.Request[LogcatRequest](),
		}, Logcat{}),
	}
}

// management are the tools that make devices and what they need.
func management() []control.Tool {
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_android_setup_plan", Title: "Plan the Android set-up",
			Description: "Read what is installed, what can be, or prepare a plan with licences and sizes.",
			ReadOnly:    true, OpenWorld: true, Scopes: []control.Scope{control.AndroidRead},
			NewRequest: rule.Request[SetupPlanRequest](),
		}, Setup{}),
		define(control.Tool{
			Name: "lomi_android_setup_apply", Title: "Carry out a set-up plan",
			Description: "Carry out a prepared plan; a person decides within 10 min. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.AndroidRead, control.AndroidSetup},
			NewRequest: rule.Request[SetupApplyRequest](),
		}, Management{}),
		define(control.Tool{
			Name: "lomi_android_device_manage", Title: "Manage devices",
			Description: "Create, change, wipe, delete or repair devices and packages; a person decides within 10 min. Answers with an operation receipt.",
			Destructive: true, Operation: true, Scopes: []control.Scope{control.AndroidRead},
			NewRequest: rule.Request[DeviceManageRequest](),
		}, Management{}),
	}
}
