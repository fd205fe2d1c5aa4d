package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// filled is a history of messages of a hundred words.
func filled(b *testing.B, messages int) *Store {
	b.Helper()
	s := opened(b)
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		word := make([]byte, 3+random.IntN(8))
		for j := range word {
			word[j] = byte('a' + random.IntN(26))
		}
		words[i] = string(word)
	}
	for at := 0; at < messages; at += 500 {
		events := make([]Event, 500)
		for i := range events {
			var text strings.Builder
			for range 100 {
				text.WriteString(words[random.IntN(len(words))])
				text.WriteByte(' ')
			}
			events[i] = message(text.String())
		}
		events[0].Seq = 1
		add(b, s, fmt.Sprint("c", at), events...)
	}
	add(b, s, "needle", numbered(1, "here is the extraordinary needle"))
	return s
}

// BenchmarkSearch looks for one message among 20,000, and for a word that is
// in about every twentieth.
func BenchmarkSearch(b *testing.B) {
	s := filled(b, 20_000)
	common := ""
	events, err := s.Read(b.Context(), "c0", 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	common = strings.Fields(textParts("", events[0].Data))[0]
	for name, query := range map[string]string{"rare": "extraordinary needle", "common": common, "short": "zq"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(context.Background(), query, 20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenConversation reads a log of 2,000 messages.
func BenchmarkOpenConversation(b *testing.B) {
	s := opened(b)
	first := numbered(1, strings.Repeat("word ", 100))
	add(b, s, "c", first)
	for range 4 {
		events := make([]Event, 500)
		for i := range events {
			events[i] = message(strings.Repeat("word ", 100))
		}
		add(b, s, "c", events...)
	}
	for b.Loop() {
		for after := int64(0); ; {
			events, err := s.Read(context.Background(), "c", after, 500)
			if err != nil {
				b.Fatal(err)
			}
			if len(events) < 500 {
				break
			}
			after = events[len(events)-1].Seq
		}
	}
}

// BenchmarkAppend is one durable event.
func BenchmarkAppend(b *testing.B) {
	s := opened(b)
	add(b, s, "c", numbered(1, "first"))
	for b.Loop() {
		add(b, s, "c", message("a message of some words, as people write them"))
	}
}
