-- Moments (_at) are milliseconds since 1970, durations (_ms) milliseconds. JSON is kept as UTF-8 in BLOBs.

-- The store's position: the last event's seq, the latest moment used (time never runs backwards), and the reading of the
-- monotonic clock at that moment, with the boot it belongs to.
CREATE TABLE counters (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    seq        INTEGER NOT NULL,
    now        INTEGER NOT NULL,
    boot_id    TEXT    NOT NULL,
    counted_ms INTEGER NOT NULL
) STRICT;
INSERT INTO counters VALUES (1, 0, 0, '', 0);

-- A job: a name, at most one live claim (the columns from owner on, NULL while there is none), and a history.
CREATE TABLE jobs (
    job_id        TEXT    NOT NULL UNIQUE,
    status        TEXT    NOT NULL CHECK (status IN ('free', 'queued', 'claimed', 'done', 'dead')),
    created_at    INTEGER NOT NULL,
    available_at  INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    last_outcome  TEXT,
    error         TEXT,
    note          TEXT,
    result_seq    INTEGER,
    queue         TEXT,
    kind          TEXT,
    priority      INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,
    enqueued_seq  INTEGER NOT NULL,
    payload_seq   INTEGER,
    history       BLOB    NOT NULL,
    owner         TEXT,
    principal     TEXT,
    fencing_token INTEGER,
    ttl_ms        INTEGER,
    lock_delay_ms INTEGER,
    claimed_at    INTEGER,
    heartbeat_at  INTEGER,
    expires_at    INTEGER,
    session_id    TEXT,
    metadata      BLOB,
    lease_id      TEXT,
    request_id    TEXT,
    progress      BLOB,
    CHECK ((status = 'claimed') = (lease_id IS NOT NULL))
) STRICT;
CREATE INDEX jobs_by_status ON jobs (status, job_id);
CREATE INDEX jobs_by_queue ON jobs (queue, status, job_id) WHERE queue IS NOT NULL;
CREATE INDEX jobs_in_line ON jobs (queue, priority, available_at, enqueued_seq) WHERE status = 'queued';
CREATE INDEX jobs_in_line_by_kind ON jobs (queue, kind, priority, available_at, enqueued_seq) WHERE status = 'queued';
CREATE INDEX jobs_by_expiry ON jobs (expires_at, fencing_token) WHERE expires_at IS NOT NULL;
CREATE INDEX jobs_by_session ON jobs (session_id, job_id) WHERE session_id IS NOT NULL;
CREATE INDEX jobs_by_request ON jobs (principal, request_id, queue) WHERE request_id IS NOT NULL AND queue IS NOT NULL;

-- What the last owner left for its successor.
CREATE TABLE checkpoints (
    job_id TEXT NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

-- A worker's own heartbeat.
CREATE TABLE sessions (
    session_id   TEXT    NOT NULL PRIMARY KEY,
    agent        TEXT    NOT NULL,
    principal    TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('open', 'closed', 'expired')),
    ttl_ms       INTEGER NOT NULL,
    opened_at    INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    resumed      INTEGER NOT NULL,
    context_seq  INTEGER,
    lease_id     TEXT    NOT NULL,
    request_id   TEXT
) STRICT;
CREATE INDEX sessions_by_expiry ON sessions (expires_at, session_id) WHERE status = 'open';

-- Queues that have a limit.
CREATE TABLE queues (
    name        TEXT NOT NULL PRIMARY KEY,
    max_claimed INTEGER
) STRICT;

-- The append-only log, and the documents (payload, result, session context) that events brought.
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    job_id     TEXT,
    queue      TEXT,
    session_id TEXT,
    details    BLOB    NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job_id, seq) WHERE job_id IS NOT NULL;

CREATE TABLE documents (
    seq  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TRIGGER events_are_not_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
-- REPLACE deletes without asking the trigger above.
CREATE TRIGGER events_only_grow BEFORE INSERT ON events
WHEN NEW.seq <= (SELECT max(seq) FROM events)
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER documents_are_not_updated BEFORE UPDATE ON documents
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER documents_are_not_deleted BEFORE DELETE ON documents
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER documents_only_grow BEFORE INSERT ON documents
WHEN NEW.seq <= (SELECT max(seq) FROM documents)
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
