-- A session belongs to its principal, which is part of its key: `principal/id`. What the log has of earlier ones stays as
-- it is; each of these ids was one principal's for ever.
UPDATE sessions SET session_id = principal || '/' || session_id;
UPDATE jobs SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;
UPDATE ended_requests SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;

-- Only its lease can write to a session, unless it is a lock client's, which gave no agent and so got its principal's name.
ALTER TABLE sessions ADD COLUMN without_lease INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET without_lease = 1 WHERE agent = principal;

-- What sessions leave for whoever resumes them: the last context of each, and no longer all there ever were.
CREATE TABLE contexts (
    session_id TEXT NOT NULL PRIMARY KEY,
    data       BLOB NOT NULL
) STRICT;
INSERT INTO contexts SELECT session_id, body FROM sessions JOIN documents ON seq = context_seq;
DROP TRIGGER documents_are_not_deleted;
DELETE FROM documents WHERE seq IN (SELECT seq FROM events WHERE type = 'session_saved');
CREATE TRIGGER documents_are_not_deleted BEFORE DELETE ON documents
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

-- Which process made a claim, for people who have to find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;

-- What an owner is asked: to stop.
ALTER TABLE jobs ADD COLUMN stop_request BLOB;

-- For how long its owner may go without reporting progress, since when it has, and when the log last said that it was stuck.
ALTER TABLE jobs ADD COLUMN max_silence_ms INTEGER;
ALTER TABLE jobs ADD COLUMN last_progress_at INTEGER;
ALTER TABLE jobs ADD COLUMN stuck_at INTEGER;

-- Who enqueued a job, and how many of each one's jobs are queued: a number, since counting a million takes too long. Those who
-- need no token ('local') have no limit, and are not counted.
ALTER TABLE jobs ADD COLUMN enqueued_by TEXT;
UPDATE jobs SET enqueued_by = (SELECT actor FROM events WHERE seq = enqueued_seq) WHERE queue IS NOT NULL;
CREATE TABLE principals (
    principal TEXT    NOT NULL PRIMARY KEY,
    queued    INTEGER NOT NULL
) STRICT;
INSERT INTO principals
SELECT enqueued_by, count(*) FROM jobs
WHERE status = 'queued' AND enqueued_by IS NOT NULL AND enqueued_by <> 'local' GROUP BY enqueued_by;
CREATE INDEX sessions_open_by_principal ON sessions (principal, expires_at) WHERE status = 'open';

-- Those of a session whose owner may have to be told something with its keepalive.
CREATE INDEX jobs_with_news ON jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
