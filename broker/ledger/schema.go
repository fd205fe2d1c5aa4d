package ledger

// applicationID is "LmCt": control.sqlite3 is never opened as another store.
const applicationID = 0x4c6d4374

// migrations returns the schema, one step a version. Times are nanoseconds
// since 1970, zero for "not yet".
func migrations() []string { return []string{schemaReceipts + schemaJournal + schemaRest} }

const schemaReceipts = `
CREATE TABLE store(
	one INTEGER PRIMARY KEY CHECK (one = 1),
	id TEXT NOT NULL,
	created INTEGER NOT NULL
) STRICT;

CREATE TABLE epochs(
	id TEXT PRIMARY KEY,
	pairing TEXT NOT NULL,
	instance TEXT NOT NULL,
	started INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	ended INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE receipts(
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	pairing TEXT NOT NULL,
	epoch TEXT NOT NULL,
	project TEXT NOT NULL,
	tool TEXT NOT NULL,
	request_key TEXT NOT NULL,
	session TEXT NOT NULL,
	workspace TEXT NOT NULL,
	target TEXT NOT NULL,
	fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
	summary TEXT NOT NULL,
	state TEXT NOT NULL,
	effect TEXT NOT NULL,
	result BLOB,
	result_hash BLOB,
	dropped INTEGER NOT NULL DEFAULT 0,
	code TEXT NOT NULL DEFAULT '',
	message TEXT NOT NULL DEFAULT '',
	created INTEGER NOT NULL,
	updated INTEGER NOT NULL,
	dispatched INTEGER NOT NULL DEFAULT 0,
	completed INTEGER NOT NULL DEFAULT 0,
	first_read INTEGER NOT NULL DEFAULT 0,
	retain_until INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	first_seq INTEGER NOT NULL,
	last_seq INTEGER NOT NULL,
	UNIQUE(pairing, epoch, project, tool, request_key)
) STRICT;
CREATE INDEX receipts_session ON receipts(session, n);
CREATE INDEX receipts_unsettled ON receipts(n)
	WHERE state IN ('queued', 'awaiting_user', 'running', 'cancelling');
CREATE INDEX receipts_read ON receipts(first_read) WHERE first_read > 0 AND dropped = 0;
`

const schemaJournal = `
CREATE TABLE journal(
	seq INTEGER PRIMARY KEY,
	kind TEXT NOT NULL CHECK (kind IN ('transition', 'carried', 'pruned')),
	receipt TEXT NOT NULL,
	from_state TEXT NOT NULL,
	to_state TEXT NOT NULL,
	effect TEXT NOT NULL,
	fingerprint BLOB NOT NULL,
	result_hash BLOB NOT NULL,
	time INTEGER NOT NULL,
	first INTEGER NOT NULL,
	last INTEGER NOT NULL,
	prev BLOB NOT NULL CHECK (length(prev) = 32),
	hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE TRIGGER journal_is_append_only BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
`

const schemaRest = `
CREATE TABLE artifacts(
	id TEXT PRIMARY KEY,
	class TEXT NOT NULL,
	owner TEXT NOT NULL,
	project TEXT NOT NULL,
	receipt TEXT NOT NULL,
	source TEXT NOT NULL,
	media_type TEXT NOT NULL,
	ready INTEGER NOT NULL DEFAULT 0,
	bytes INTEGER NOT NULL,
	hash BLOB,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT;

CREATE TABLE audit(
	id INTEGER PRIMARY KEY,
	time INTEGER NOT NULL,
	kind TEXT NOT NULL,
	pairing TEXT NOT NULL,
	session TEXT NOT NULL,
	tool TEXT NOT NULL,
	code TEXT NOT NULL,
	detail TEXT NOT NULL,
	count INTEGER NOT NULL
) STRICT;
`
