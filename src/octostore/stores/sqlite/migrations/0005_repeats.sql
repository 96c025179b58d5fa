-- For calls that arrive again: who holds a lock, whether a claim or session was returned more than once, the state it was
-- claimed from, and the newest of its owner's numbered writes.
ALTER TABLE jobs ADD COLUMN holder TEXT;
ALTER TABLE jobs ADD COLUMN is_replayed INTEGER;
ALTER TABLE jobs ADD COLUMN was_done INTEGER;
ALTER TABLE jobs ADD COLUMN heartbeat_number INTEGER;
ALTER TABLE jobs ADD COLUMN checkpoint_number INTEGER;
ALTER TABLE sessions ADD COLUMN is_replayed INTEGER;
ALTER TABLE sessions ADD COLUMN save_number INTEGER;

-- Request ids whose claim or session has ended: they must not get it once more. Each principal's are numbered, so that it
-- is known without counting which of them are the newest.
CREATE TABLE ended_requests (
    principal     TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    request_id    TEXT    NOT NULL,
    job_id        TEXT,
    queue         TEXT,
    session_id    TEXT,
    how           TEXT    NOT NULL,
    ended_at      INTEGER NOT NULL,
    owner         TEXT    NOT NULL,
    claimed_at    INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    PRIMARY KEY (principal, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_requests_by_id ON ended_requests (request_id, principal);
