package store

// applicationID is "LmHi".
const applicationID = 0x4c6d4869

// migrations returns the schema, one step a version. The texts of the index
// are not kept a second time: a hit's text is made from its event again.
// Trigrams find parts of words and text in scripts without blanks.
func migrations() []string {
	return []string{`
CREATE TABLE conversations(
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	title TEXT NOT NULL,
	project TEXT NOT NULL,
	model TEXT NOT NULL,
	settings TEXT NOT NULL,
	last_seq INTEGER NOT NULL DEFAULT 0,
	created INTEGER NOT NULL,
	updated INTEGER NOT NULL
) STRICT;
CREATE INDEX conversations_updated ON conversations(updated, n);

CREATE TABLE events(
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	conversation INTEGER NOT NULL REFERENCES conversations(n),
	seq INTEGER NOT NULL CHECK (seq > 0),
	kind TEXT NOT NULL,
	time INTEGER NOT NULL,
	data TEXT NOT NULL,
	indexed INTEGER NOT NULL,
	UNIQUE(conversation, seq)
) STRICT;
CREATE INDEX events_indexed ON events(id) WHERE indexed = 1;
CREATE TRIGGER events_are_append_only BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE VIRTUAL TABLE texts USING fts5(
	text, content = '', contentless_delete = 1,
	tokenize = 'trigram case_sensitive 0 remove_diacritics 1'
);
`}
}
