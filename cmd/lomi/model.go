package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"lomi/models/ollama"
)

// modelConnection is one connection of the list.
type modelConnection struct {
	Name          string      `json:"name"`
	Kind          string      `json:"kind"`
	BaseURL       string      `json:"baseURL,omitempty"`
	LeavesMachine bool        `json:"leavesMachine"`
	Error         string      `json:"error,omitempty"`
	Models        []modelInfo `json:"models"`
}

type modelInfo struct {
	Name     string `json:"name"`
	Window   int    `json:"window"`
	Tools    bool   `json:"tools"`
	Thinking bool   `json:"thinking"`
	Vision   bool   `json:"vision"`
	Loaded   bool   `json:"loaded,omitempty"`
	Note     string `json:"note,omitempty"`
}

func (m modelInfo) can() string {
	var can []string
	for name, yes := range map[string]bool{"tools": m.Tools, "thinking": m.Thinking, "vision": m.Vision} {
		if yes {
			can = append(can, name)
		}
	}
	return strings.Join(can, " ")
}

func model(ctx context.Context, e env, args []string) error {
	var kind, base, mode string
	var keyStdin bool
	s, err := parseSub("model", e, args, func(fs *flag.FlagSet) {
		fs.StringVar(&kind, "kind", "openai-compatible", "openai, openai-compatible or ollama")
		fs.StringVar(&base, "url", "", "the server's `address`")
		fs.StringVar(&mode, "key-mode", "", "where to keep the key: system or session")
		fs.BoolVar(&keyStdin, "key-stdin", false, "read the key from standard input")
	})
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		return listModels(ctx, s)
	case "show":
		return showModel(ctx, s)
	case "pull":
		return pullModel(ctx, s)
	case "connect":
		name, err := s.id("connection")
		if err != nil {
			return err
		}
		body := map[string]any{"name": name, "kind": kind, "baseURL": base, "keyMode": mode}
		if keyStdin {
			raw, err := io.ReadAll(io.LimitReader(e.stdin, 8193))
			if err != nil {
				return failf("reading the key: %v", err)
			}
			body["key"] = strings.TrimSpace(string(raw))
		}
		var answer struct {
			KeyMode string `json:"keyMode"`
		}
		if err := s.admin.call(ctx, "POST", "/api/models/connect", trim(body), &answer); err != nil {
			return err
		}
		where := map[string]string{"none": "", "session": "; its key is kept until Lomi stops", "system": "; its key is in the system's key store"}
		return s.done("connected" + where[answer.KeyMode])
	case "disconnect":
		name, err := s.id("connection")
		if err != nil {
			return err
		}
		if err := s.admin.call(ctx, "DELETE", "/api/models/connections/"+url.PathEscape(name), nil, nil); err != nil {
			return err
		}
		return s.done("disconnected")
	}
	return s.unknown("model", "list, show NAME, pull NAME, connect NAME, disconnect NAME")
}

func listModels(ctx context.Context, s sub) error {
	var answer struct {
		Connections []modelConnection `json:"connections"`
	}
	if err := s.admin.call(ctx, "GET", "/api/models", nil, &answer); err != nil {
		return err
	}
	var rows [][]string
	for _, c := range answer.Connections {
		where := ""
		if c.LeavesMachine {
			where = "leaves this machine"
		}
		if len(c.Models) == 0 {
			note := c.Error
			if note == "" && c.Kind == "ollama" {
				note = "has no model yet: lomi model pull " + c.Name + "/qwen3:4b"
			}
			rows = append(rows, []string{c.Name + "/", "-", "", note})
		}
		for _, m := range c.Models {
			note := strings.TrimSpace(strings.Join([]string{where, m.Note}, " "))
			rows = append(rows, []string{c.Name + "/" + m.Name, strconv.Itoa(m.Window), m.can(), note})
		}
	}
	return s.show(answer, len(rows), "no connections", []string{"MODEL", "WINDOW", "CAN", "NOTE"}, func(i int) []string { return rows[i] })
}

func showModel(ctx context.Context, s sub) error {
	name, err := s.id("model, as CONNECTION/MODEL")
	if err != nil {
		return err
	}
	var answer struct {
		Model string    `json:"model"`
		Info  modelInfo `json:"info"`
	}
	if err := s.admin.call(ctx, "GET", "/api/models/show?name="+url.QueryEscape(name), nil, &answer); err != nil {
		return err
	}
	if s.json {
		return printJSON(s.env.stdout, answer)
	}
	rows := [][]string{{"model", answer.Model}, {"window", strconv.Itoa(answer.Info.Window)}, {"can", answer.Info.can()}}
	if answer.Info.Note != "" {
		rows = append(rows, []string{"note", answer.Info.Note})
	}
	return table(s.env.stdout, []string{"FIELD", "VALUE"}, rows)
}

// pullModel fetches a model of the local Ollama; it needs no daemon.
func pullModel(ctx context.Context, s sub) error {
	name, err := s.id("model, as ollama/MODEL")
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(name, "ollama/")
	if !ok {
		return usagef("only models of ollama can be pulled").withHint("lomi model pull ollama/qwen3:4b")
	}
	engine, err := ollama.New(ollama.Config{Address: ollama.AddressFromEnv(s.env.getenv)})
	if err != nil {
		return err
	}
	last := ""
	for p, err := range engine.Pull(ctx, name) {
		if err != nil {
			return err
		}
		line := p.Status
		if p.Total > 0 {
			line += fmt.Sprintf(" %d %%", 100*p.Completed/p.Total)
		}
		if line != last {
			fmt.Fprintln(s.env.stdout, plain(line))
			last = line
		}
	}
	return nil
}
