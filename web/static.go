package web

import (
	"io/fs"
	"net/http"
	"path"
	"strings"

	"lomi/web/ui"
)

// static serves the built page. It holds no secret: what a page may do depends
// on its key.
func (s *Server) static() http.Handler {
	files, built := ui.Files()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/ws/") {
			http.NotFound(w, r)
			return
		}
		if !built {
			http.Error(w, "This binary was built without its page. Build it with: make build", http.StatusNotImplemented)
			return
		}
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if name == "" || name == "." {
			name = "index.html"
		}
		if info, err := fs.Stat(files, name); err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			// Named after their content by the build.
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		http.ServeFileFS(w, r, files, name)
	})
}
