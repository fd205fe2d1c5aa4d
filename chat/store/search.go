package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxText is how much of one event is searched: a longer one is a file or
	// an output, whose beginning is enough to find it again.
	maxText = 64 << 10
	// maxQuery bounds a search text, and maxTerms its words.
	maxQuery = 512
	maxTerms = 16
	// maxHits is the largest page of Search.
	maxHits = 100
	// scanned bounds how many events are read for words that the index does
	// not know, those of one or two characters.
	scanned = 5000
	// trigram is the shortest word that the index can look up.
	trigram = 3
	// around is how many bytes of text stand before and behind a hit.
	around = 80
)

// Hit is an event whose text holds every word of a search.
type Hit struct {
	Conversation string
	Title        string
	Seq          int64
	Time         time.Time
	Snippet      string // plain text around the first word
}

// Search finds the events that hold every word of text, in any case and as a
// part of a longer word too, the newest first; at most limit of them, 100
// being the most and what zero means. The text is taken literally: nothing in
// it is an operator. The index does not know words of one or two characters:
// with such a word, the newest 5000 texts that hold the others are looked at.
func (s *Store) Search(ctx context.Context, text string, limit int) ([]Hit, error) {
	if limit <= 0 || limit > maxHits {
		limit = maxHits
	}
	if len(text) > maxQuery || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("searching: %w: a search is text of at most %d bytes", ErrInvalid, maxQuery)
	}
	terms := strings.Fields(text)
	if len(terms) > maxTerms {
		return nil, fmt.Errorf("searching: %w: more than %d words", ErrInvalid, maxTerms)
	}
	if len(terms) == 0 {
		return nil, nil
	}
	var match []string
	var short []string
	for _, term := range terms {
		if utf8.RuneCountInString(term) < trigram {
			short = append(short, strings.ToLower(term))
			continue
		}
		match = append(match, `"`+strings.ReplaceAll(term, `"`, `""`)+`"`)
	}
	query, args := searchAll, []any{scanned}
	if len(match) > 0 {
		query, args = searchIndex, []any{strings.Join(match, " "), scanned}
	}
	return s.hits(ctx, query, args, terms, short, limit)
}

const (
	searchColumns = `SELECT c.id, c.title, e.seq, e.kind, e.time, e.data FROM `
	searchIndex   = searchColumns + `texts JOIN events AS e ON e.id = texts.rowid
		JOIN conversations AS c ON c.n = e.conversation WHERE texts MATCH ? ORDER BY texts.rowid DESC LIMIT ?`
	searchAll = searchColumns + `events AS e JOIN conversations AS c ON c.n = e.conversation
		WHERE e.indexed = 1 ORDER BY e.id DESC LIMIT ?`
)

func (s *Store) hits(ctx context.Context, query string, args []any, terms, short []string, limit int) ([]Hit, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	defer rows.Close()
	var hits []Hit
	for len(hits) < limit && rows.Next() {
		var hit Hit
		var kind string
		var at int64
		var data []byte
		if err := rows.Scan(&hit.Conversation, &hit.Title, &hit.Seq, &kind, &at, &data); err != nil {
			return nil, fmt.Errorf("searching: %w", err)
		}
		text := clip(s.config.Text(kind, data), maxText)
		if !holds(strings.ToLower(text), short) {
			continue
		}
		hit.Time, hit.Snippet = time.Unix(0, at).UTC(), snippet(text, terms)
		hits = append(hits, hit)
	}
	return hits, wrap("searching", rows.Err())
}

func holds(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// snippet is a line of text around the first word that is found in it as it
// stands; the index also folds accents, and then it is the beginning.
func snippet(text string, terms []string) string {
	lower := strings.ToLower(text)
	at := 0
	if len(lower) == len(text) { // else the offsets differ
		for _, term := range terms {
			if i := strings.Index(lower, strings.ToLower(term)); i >= 0 {
				at = i
				break
			}
		}
	}
	start := max(0, at-around)
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	part := clip(text[start:], 2*around)
	line := strings.Join(strings.Fields(part), " ")
	if start > 0 {
		line = "…" + line
	}
	if start+len(part) < len(text) {
		line += "…"
	}
	return line
}

// clip cuts a text to at most limit bytes, at a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// textParts takes the text of a message that is made of parts.
func textParts(_ string, data json.RawMessage) string {
	var message struct {
		Parts []struct {
			Kind string `json:"kind"`
			Text string `json:"text"`
		} `json:"parts"`
	}
	if json.Unmarshal(data, &message) != nil {
		return "" // another shape: nothing to find in it
	}
	var texts []string
	for _, part := range message.Parts {
		if part.Kind == "text" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}
