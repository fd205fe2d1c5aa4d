package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// conversationRow is one conversation of a list.
type conversationRow struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Model       string    `json:"model"`
	ProjectPath string    `json:"projectPath"`
	Turn        string    `json:"turn,omitempty"`
	LastSeq     int64     `json:"lastSeq"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// logPage is how many events are read at once.
const logPage = 500

func conversation(ctx context.Context, e env, args []string) error {
	s, err := parseSub("conversation", e, args, nil)
	if err != nil {
		return err
	}
	switch s.word {
	case "list":
		var answer struct {
			Conversations []conversationRow `json:"conversations"`
		}
		if err := s.admin.call(ctx, "GET", "/api/conversations", nil, &answer); err != nil {
			return err
		}
		return s.show(answer, len(answer.Conversations), "no conversations", []string{"ID", "UPDATED", "MODEL", "PROJECT", "TITLE"}, func(i int) []string {
			c := answer.Conversations[i]
			return []string{c.ID, when(c.UpdatedAt), c.Model, c.ProjectPath, c.Title}
		})
	case "show":
		id, err := s.id("conversation")
		if err != nil {
			return err
		}
		return showConversation(ctx, s, id)
	case "search":
		return searchConversations(ctx, s)
	case "delete":
		id, err := s.id("conversation")
		if err != nil {
			return err
		}
		if err := s.admin.call(ctx, "DELETE", "/api/conversations/"+url.PathEscape(id), nil, nil); err != nil {
			return err
		}
		return s.done("deleted")
	}
	return s.unknown("conversation", "list, show ID, search TEXT, delete ID")
}

// showConversation prints a whole log: its events as JSON, or what was said
// and done for a person.
func showConversation(ctx context.Context, s sub, id string) error {
	var about conversationRow
	path := "/api/conversations/" + url.PathEscape(id)
	if err := s.admin.call(ctx, "GET", path, nil, &about); err != nil {
		return err
	}
	var all []json.RawMessage
	show := &plainPrinter{out: s.env.stdout, err: s.env.stdout}
	for after := int64(0); ; {
		var page struct {
			Events []json.RawMessage `json:"events"`
		}
		if err := s.admin.call(ctx, "GET", path+"/events?after="+strconv.FormatInt(after, 10)+"&limit="+strconv.Itoa(logPage), nil, &page); err != nil {
			return err
		}
		for _, raw := range page.Events {
			var one event
			if err := json.Unmarshal(raw, &one); err != nil {
				return fmt.Errorf("reading an event: %w", err)
			}
			after = one.Seq
			if s.json {
				all = append(all, raw)
				continue
			}
			if err := show.past(one); err != nil {
				return err
			}
		}
		if len(page.Events) < logPage {
			break
		}
	}
	if s.json {
		return printJSON(s.env.stdout, map[string]any{"conversation": about, "events": all})
	}
	return nil
}

// past prints an event of a log that is read afterwards: what the person said
// is shown too.
func (p *plainPrinter) past(e event) error {
	switch e.Kind {
	case "approval.requested": // its end is what counts by now
		return nil
	case "approval.settled":
		var a struct{ Outcome string }
		if err := json.Unmarshal(e.Data, &a); err != nil {
			return fmt.Errorf("reading a decision: %w", err)
		}
		fmt.Fprintln(p.out, "? "+plain(a.Outcome))
		return nil
	case "message.added":
	default:
		return p.show(frame{Event: &e})
	}
	var m struct {
		Parts []struct{ Text string }
	}
	if err := json.Unmarshal(e.Data, &m); err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	for _, part := range m.Parts {
		fmt.Fprintln(p.out, "> "+plainText(part.Text))
	}
	return nil
}

func searchConversations(ctx context.Context, s sub) error {
	if len(s.args) == 0 {
		return usagef("say what to search for")
	}
	var answer struct {
		Hits []struct {
			Conversation string    `json:"conversation"`
			Title        string    `json:"title"`
			Seq          int64     `json:"seq"`
			Time         time.Time `json:"time"`
			Snippet      string    `json:"snippet"`
		} `json:"hits"`
	}
	if err := s.admin.call(ctx, "GET", "/api/search?q="+url.QueryEscape(strings.Join(s.args, " ")), nil, &answer); err != nil {
		return err
	}
	return s.show(answer, len(answer.Hits), "nothing found", []string{"CONVERSATION", "WHEN", "TITLE", "TEXT"}, func(i int) []string {
		h := answer.Hits[i]
		return []string{h.Conversation, when(h.Time), h.Title, h.Snippet}
	})
}

func open(ctx context.Context, e env, args []string) error {
	fs, o := flags("open", e)
	revoke := fs.Bool("revoke", false, "end the login of every page first")
	words, err := parse(fs, o, e, args)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return usagef("lomi open takes no word %q", words[0])
	}
	var answer struct {
		URL string `json:"url"`
	}
	if *revoke {
		if err := newAdmin(o.data).call(ctx, "POST", "/api/logins/revoke", nil, nil); err != nil {
			return err
		}
		fmt.Fprintln(e.stderr, "Every older login has ended; open pages have to log in again.")
	}
	if err := newAdmin(o.data).call(ctx, "POST", "/api/login-links", nil, &answer); err != nil {
		return err
	}
	if o.json {
		return printJSON(e.stdout, answer)
	}
	fmt.Fprintln(e.stdout, answer.URL)
	return nil
}
