package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"lomi/broker/catalog"
	"lomi/broker/catalog/short"
	"lomi/tools/browser"
)

// versionInfo is what `lomi version` says.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Commit   string `json:"commit,omitempty"`
}

func versionCommand(_ context.Context, e env, args []string) error {
	fs, o := flags("version", e)
	if _, err := parse(fs, o, e, args); err != nil {
		return err
	}
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	if o.json {
		return printJSON(e.stdout, v)
	}
	fmt.Fprintf(e.stdout, "lomi %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return nil
}

// catalogRow is one tool of the list.
type catalogRow struct {
	Name        string   `json:"name"`
	Domain      string   `json:"domain"`
	Description string   `json:"description"`
	ReadOnly    bool     `json:"readOnly"`
	Destructive bool     `json:"destructive"`
	OpenWorld   bool     `json:"openWorld"`
	Scopes      []string `json:"scopes"`
}

func catalogCommand(_ context.Context, e env, args []string) error {
	fs, o := flags("catalog", e)
	inShort := fs.Bool("short", false, "the forms that the built-in chat's model sees")
	tokens := fs.Bool("tokens", false, "what the forms cost a qwen model")
	if _, err := parse(fs, o, e, args); err != nil {
		return err
	}
	s := sub{options: o, env: e}
	if *tokens {
		counts := catalog.Tokens()
		return s.show(counts, len(counts), "", []string{"FORM", "TOKENS"}, func(i int) []string {
			return []string{counts[i].Name, strconv.Itoa(counts[i].Tokens)}
		})
	}
	if *inShort {
		forms := short.All()
		return s.show(forms, len(forms), "", []string{"NAME", "DOMAIN", "WHAT"}, func(i int) []string {
			return []string{forms[i].Name, forms[i].Domain, forms[i].Description}
		})
	}
	var rows []catalogRow
	for _, t := range catalog.All() {
		row := catalogRow{t.Name, t.Domain, t.Description, t.ReadOnly, t.Destructive, t.OpenWorld, []string{}}
		for _, scope := range t.Scopes {
			row.Scopes = append(row.Scopes, string(scope))
		}
		rows = append(rows, row)
	}
	return s.show(rows, len(rows), "", []string{"NAME", "HINTS", "SCOPES", "WHAT"}, func(i int) []string {
		hints := ""
		for mark, on := range map[string]bool{"R": rows[i].ReadOnly, "D": rows[i].Destructive, "O": rows[i].OpenWorld} {
			if on {
				hints += mark
			}
		}
		return []string{rows[i].Name, hints, strings.Join(rows[i].Scopes, " "), rows[i].Description}
	})
}

// finding is one line of the doctor's report. State is ok, missing or warning.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// probeTimeout bounds each thing that the doctor asks.
const probeTimeout = 5 * time.Second

// examine looks at what this machine has. It changes nothing.
func examine(ctx context.Context) []finding {
	chromium, err := browser.FindChromium()
	if err != nil {
		chromium = "" // program says that it is missing
	}
	return []finding{
		program(ctx, "chromium", chromium, "--version", "the browser tools need it: sudo apt-get install chromium"),
		program(ctx, "git", look("git"), "--version", "the git tools need it: sudo apt-get install git"),
		program(ctx, "bash", look("bash"), "--version", "terminals use the shell in SHELL, else bash"),
		program(ctx, "adb", look("adb"), "--version", "the Android tools need the SDK's platform tools"),
	}
}

func look(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func program(ctx context.Context, name, path, flag, fix string) finding {
	if path == "" {
		return finding{name, "missing", "not found", fix}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, flag).Output()
	if err != nil {
		return finding{name, "warning", path + " does not answer " + flag, fix}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return finding{name, "ok", first + " at " + path, ""}
}

func doctor(ctx context.Context, e env, args []string) error {
	fs, o := flags("doctor", e)
	if _, err := parse(fs, o, e, args); err != nil {
		return err
	}
	findings := examine(ctx)
	var state struct {
		Version     string `json:"version"`
		Stopped     bool   `json:"controlStopped"`
		Storage     string `json:"storage"`
		Connections []struct {
			Name   string `json:"name"`
			Error  string `json:"error"`
			Models []any  `json:"models"`
		} `json:"connections"`
	}
	switch err := newAdmin(o.data).call(ctx, "GET", "/api/state", nil, &state); {
	case err != nil:
		findings = append(findings, finding{"daemon", "missing", err.Error(), "start it with lomi serve"})
	default:
		findings = append(findings, finding{"daemon", "ok", "version " + state.Version + " answers", ""})
		if state.Storage != "" {
			findings = append(findings, finding{"ledger", "warning", state.Storage, "agent control stays off until this is mended"})
		}
		for _, c := range state.Connections {
			f := finding{"model connection " + c.Name, "ok", strconv.Itoa(len(c.Models)) + " models", ""}
			if c.Error != "" {
				f = finding{f.Name, "missing", c.Error, "start the engine, or connect another with lomi model connect"}
			} else if len(c.Models) == 0 {
				f.State, f.Fix = "warning", "fetch one: lomi model pull ollama/qwen3:4b"
			}
			findings = append(findings, f)
		}
	}
	s := sub{options: o, env: e}
	return s.show(findings, len(findings), "", []string{"WHAT", "STATE", "DETAIL", "FIX"}, func(i int) []string {
		f := findings[i]
		return []string{f.Name, f.State, f.Detail, f.Fix}
	})
}
