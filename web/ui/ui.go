// Package ui embeds the built page. The build writes web/ui/dist; a binary
// built without it serves a page that says how to build it.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built page with index.html at its root, and false when the
// binary was built without it.
func Files() (fs.FS, bool) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, false
	}
	_, err = fs.Stat(files, "index.html")
	return files, err == nil
}
