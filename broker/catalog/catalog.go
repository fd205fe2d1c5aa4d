// Package catalog is the list of the 74 tools of Control API 1.0. Each domain
// has a package of its own with its requests, results and definitions; this one
// puts them together.
package catalog

import (
	"slices"
	"strings"
	"sync"

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

// all is made once, so that each tool's schemas are made at most once.
var all = sync.OnceValue(func() []control.Tool {
	tools := slices.Concat(
		link.Tools(), workbench.Tools(), terminal.Tools(), browser.Tools(), artifact.Tools(), files.Tools(),
		editor.Tools(), git.Tools(), android.Tools(), chatshare.Tools(), settings.Tools(),
	)
	slices.SortFunc(tools, func(a, b control.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools
})

// All returns the tools, sorted by name. The slice is the caller's own.
func All() []control.Tool { return slices.Clone(all()) }

// Find returns the tool of a name, exactly as spelt.
func Find(name string) (control.Tool, bool) {
	tools := all()
	i, found := slices.BinarySearchFunc(tools, name, func(t control.Tool, name string) int {
		return strings.Compare(t.Name, name)
	})
	if !found {
		return control.Tool{}, false
	}
	return tools[i], true
}
