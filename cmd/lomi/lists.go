package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sub is a command of the form `lomi NAME WORD ...`, parsed.
type sub struct {
	*options
	env   env
	admin *admin
	word  string   // list, approve, …
	args  []string // after it
}

// parseSub reads a command's flags and its first word, which says what to do.
func parseSub(name string, e env, args []string, more func(*flag.FlagSet)) (sub, error) {
	fs, o := flags(name, e)
	if more != nil {
		more(fs)
	}
	words, err := parse(fs, o, e, args)
	if err != nil {
		return sub{}, err
	}
	s := sub{options: o, env: e, admin: newAdmin(o.data), word: "list"}
	if len(words) > 0 {
		s.word, s.args = words[0], words[1:]
	}
	return s, nil
}

// id is the one argument of a word that takes one.
func (s sub) id(what string) (string, error) {
	if len(s.args) != 1 {
		return "", usagef("name one %s", what)
	}
	return s.args[0], nil
}

func (s sub) unknown(name, words string) error {
	return usagef("lomi %s has no %q", name, s.word).withHint("lomi " + name + " takes: " + words)
}

// done says what a command did, for a person; scripts have the exit code.
func (s sub) done(text string) error {
	if !s.json {
		fmt.Fprintln(s.env.stdout, text)
	}
	return nil
}

type pairingRow struct {
	ID      string    `json:"id"`
	Label   string    `json:"label"`
	Hash    string    `json:"certificateSha256"`
	PID     int       `json:"pid"`
	Expires time.Time `json:"expires"`
}

func pair(ctx context.Context, e env, args []string) error {
	var scopes, domains, workspaces, origins, policy string
	s, err := parseSub("pair", e, args, func(fs *flag.FlagSet) {
		fs.StringVar(&scopes, "scopes", "", "scopes to allow")
		fs.StringVar(&domains, "domains", "", "whole domains to allow")
		fs.StringVar(&workspaces, "workspaces", "", "workspaces to allow")
		fs.StringVar(&origins, "origins", "", "origins that the browser may open without asking")
		fs.StringVar(&policy, "policy", "", "grant, ask_for_risk or ask_always")
	})
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		var answer struct {
			Pairings []pairingRow `json:"pairings"`
		}
		if err := s.admin.call(ctx, "GET", "/api/pairings", nil, &answer); err != nil {
			return err
		}
		return s.show(answer, len(answer.Pairings), "nobody waits to connect", []string{"ID", "CLIENT", "PID", "CERTIFICATE", "SECONDS LEFT"}, func(i int) []string {
			p := answer.Pairings[i]
			return []string{p.ID, p.Label, strconv.Itoa(p.PID), p.Hash[:min(16, len(p.Hash))], strconv.Itoa(int(time.Until(p.Expires).Seconds()))}
		})
	case "approve":
		id, err := s.id("pairing")
		if err != nil {
			return err
		}
		if scopes == "" && domains == "" {
			domains = "terminal,browser"
		}
		body := map[string]any{"scopes": list(scopes), "domains": list(domains), "workspaces": list(workspaces), "origins": list(origins), "policy": policy}
		if err := s.admin.call(ctx, "POST", "/api/pairings/"+url.PathEscape(id)+"/approve", trim(body), nil); err != nil {
			return err
		}
		return s.done("approved: it may connect now")
	case "reject":
		id, err := s.id("pairing")
		if err != nil {
			return err
		}
		if err := s.admin.call(ctx, "POST", "/api/pairings/"+url.PathEscape(id)+"/reject", nil, nil); err != nil {
			return err
		}
		return s.done("rejected")
	}
	return s.unknown("pair", "list, approve ID, reject ID")
}

// trim drops what a person did not say.
func trim(body map[string]any) map[string]any {
	for k, v := range body {
		if v == "" {
			delete(body, k)
		} else if l, ok := v.([]string); ok && len(l) == 0 {
			delete(body, k)
		}
	}
	return body
}

// show prints a list: as JSON what the daemon said, or a table for a person.
func (s sub) show(answer any, n int, empty string, header []string, row func(i int) []string) error {
	if s.json {
		return printJSON(s.env.stdout, answer)
	}
	if n == 0 {
		fmt.Fprintln(s.env.stdout, empty)
		return nil
	}
	rows := make([][]string, n)
	for i := range n {
		rows[i] = row(i)
	}
	return table(s.env.stdout, header, rows)
}

type approvalRow struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Label   string    `json:"label"`
	Tool    string    `json:"tool"`
	Summary string    `json:"summary"`
	Reason  string    `json:"reason"`
	Command string    `json:"command,omitempty"` // whole; the summary may be cut
	Origin  string    `json:"origin,omitempty"`
	Expires time.Time `json:"expires"`
}

// what is everything that a yes allows.
func (a approvalRow) what() string {
	if a.Command == "" {
		return a.Summary
	}
	return "run: " + exact(a.Command)
}

func approve(ctx context.Context, e env, args []string) error {
	s, err := parseSub("approve", e, args, nil)
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		var answer struct {
			Approvals []approvalRow `json:"approvals"`
		}
		if err := s.admin.call(ctx, "GET", "/api/approvals", nil, &answer); err != nil {
			return err
		}
		return s.show(answer, len(answer.Approvals), "nothing waits for an answer", []string{"ID", "CLIENT", "KIND", "WHAT", "SECONDS LEFT"}, func(i int) []string {
			a := answer.Approvals[i]
			return []string{a.ID, a.Label, a.Kind, a.what(), strconv.Itoa(int(time.Until(a.Expires).Seconds()))}
		})
	case "yes", "no":
		id, err := s.id("approval")
		if err != nil {
			return err
		}
		if err := s.admin.call(ctx, "POST", "/api/approvals/"+url.PathEscape(id), map[string]string{"answer": s.word}, nil); err != nil {
			return err
		}
		return s.done("answered " + s.word)
	}
	return s.unknown("approve", "list, yes ID, no ID")
}

type sessionRow struct {
	ID      string    `json:"id"`
	Label   string    `json:"label"`
	PID     int       `json:"pid"`
	Policy  string    `json:"policy"`
	Opened  time.Time `json:"opened"`
	Scopes  []string  `json:"scopes"`
	Origins []string  `json:"origins"`
	Leases  []string  `json:"leases"`
	Running int       `json:"running"`
}

func session(ctx context.Context, e env, args []string) error {
	s, err := parseSub("session", e, args, nil)
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		var answer struct {
			Sessions []sessionRow `json:"sessions"`
		}
		if err := s.admin.call(ctx, "GET", "/api/sessions", nil, &answer); err != nil {
			return err
		}
		return s.show(answer, len(answer.Sessions), "nothing is connected", []string{"ID", "CLIENT", "POLICY", "SCOPES", "HOLDS", "SINCE"}, func(i int) []string {
			r := answer.Sessions[i]
			return []string{r.ID, r.Label, r.Policy, strconv.Itoa(len(r.Scopes)), strings.Join(r.Leases, " "), when(r.Opened)}
		})
	case "revoke":
		id, err := s.id("session")
		if err != nil {
			return err
		}
		if err := s.admin.call(ctx, "POST", "/api/sessions/"+url.PathEscape(id)+"/revoke", nil, nil); err != nil {
			return err
		}
		return s.done("revoked")
	case "policy":
		if len(s.args) != 2 {
			return usagef("name a session and a policy")
		}
		if err := s.admin.call(ctx, "POST", "/api/sessions/"+url.PathEscape(s.args[0])+"/policy", map[string]string{"policy": s.args[1]}, nil); err != nil {
			return err
		}
		return s.done("changed")
	case "stop", "resume":
		if err := s.admin.call(ctx, "POST", "/api/control/"+s.word, nil, nil); err != nil {
			return err
		}
		if s.word == "stop" {
			return s.done("every session is revoked and agent control is off; lomi session resume turns it on")
		}
		return s.done("agent control is on")
	}
	return s.unknown("session", "list, revoke ID, policy ID NAME, stop, resume")
}

type receiptRow struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Label   string    `json:"label,omitempty"`
	Tool    string    `json:"tool"`
	Summary string    `json:"summary"`
	State   string    `json:"state"`
	Effect  string    `json:"effect"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Result  any       `json:"result,omitempty"`
}

func receipt(ctx context.Context, e env, args []string) error {
	var of, state string
	limit := 50
	s, err := parseSub("receipt", e, args, func(fs *flag.FlagSet) {
		fs.StringVar(&of, "session", "", "only of this session")
		fs.StringVar(&state, "state", "", "only in this state")
		fs.IntVar(&limit, "limit", limit, "at most so many, 1 to 500")
	})
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		var answer struct {
			Receipts []receiptRow `json:"receipts"`
		}
		query := url.Values{"session": {of}, "state": {state}, "limit": {strconv.Itoa(limit)}}
		if err := s.admin.call(ctx, "GET", "/api/receipts?"+query.Encode(), nil, &answer); err != nil {
			return err
		}
		return s.show(answer, len(answer.Receipts), "no receipts", []string{"ID", "WHEN", "TOOL", "STATE", "EFFECT", "WHAT"}, func(i int) []string {
			r := answer.Receipts[i]
			return []string{r.ID, when(r.Created), r.Tool, r.State, r.Effect, r.Summary}
		})
	case "show":
		id, err := s.id("receipt")
		if err != nil {
			return err
		}
		var r receiptRow
		if err := s.admin.call(ctx, "GET", "/api/receipts/"+url.PathEscape(id), nil, &r); err != nil {
			return err
		}
		if s.json {
			return printJSON(e.stdout, r)
		}
		rows := [][]string{{"receipt", r.ID}, {"tool", r.Tool}, {"what", r.Summary}, {"state", r.State}, {"effect", r.Effect},
			{"session", strings.TrimSpace(r.Session + " " + r.Label)}, {"created", when(r.Created)}, {"updated", when(r.Updated)}}
		if r.Code != "" || r.Message != "" {
			rows = append(rows, []string{"why", strings.TrimSpace(r.Code + " " + r.Message)})
		}
		return table(e.stdout, []string{"FIELD", "VALUE"}, rows)
	}
	return s.unknown("receipt", "list, show ID")
}
