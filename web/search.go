package web

import (
	"context"
	"time"
)

// Hit is an event of a conversation that holds what was searched for.
type Hit struct {
	Conversation string    `json:"conversation"`
	Title        string    `json:"title"`
	Seq          int64     `json:"seq"`
	Time         time.Time `json:"time"`
	Snippet      string    `json:"snippet"`
}

type searchAnswer struct {
	Hits []Hit `json:"hits"`
}

// maxHits bounds what a search shows; a person narrows the words instead.
const maxHits = 50

func (s *Server) search(ctx context.Context, c call[none]) (searchAnswer, error) {
	text := c.query("q")
	if text == "" {
		return searchAnswer{}, badRequest("q: say what to search for.")
	}
	hits, err := s.cfg.Search(ctx, text, maxHits)
	if hits == nil {
		hits = []Hit{}
	}
	return searchAnswer{hits}, err
}
