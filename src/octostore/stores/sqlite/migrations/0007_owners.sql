-- A session belongs to its principal, which is part of its key: `principal/id`. Earlier log
-- entries keep the plain id, which belonged to one principal forever.
UPDATE sessions SET session_id = principal || '/' || session_id;
UPDATE jobs SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;
UPDATE ended_requests SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;

-- Writing to a session needs its lease, except for lock clients' sessions, which name no agent and so have their principal's name.
ALTER TABLE sessions ADD COLUMN without_lease INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET without_lease = 1 WHERE agent = principal;

-- The last context of each session, for the owner who resumes it; earlier contexts are no longer kept.
CREATE TABLE contexts (
    session_id TEXT NOT NULL PRIMARY KEY,
    data       BLOB NOT NULL
) STRICT;
INSERT INTO contexts SELECT session_id, body FROM sessions JOIN documents ON seq = context_seq;
DROP TRIGGER documents_are_not_deleted;
DELETE FROM documents WHERE seq IN (SELECT seq FROM events WHERE type = 'session_saved');
CREATE TRIGGER documents_are_not_deleted BEFORE DELETE ON documents
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

-- The process that made a claim, so that people can find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;

-- A request to the owner to stop.
ALTER TABLE jobs ADD COLUMN stop_request BLOB;

-- How long the owner may go without reporting progress, when it last did, and when the log last called it stuck.
ALTER TABLE jobs ADD COLUMN max_silence_ms INTEGER;
ALTER TABLE jobs ADD COLUMN last_progress_at INTEGER;
ALTER TABLE jobs ADD COLUMN stuck_at INTEGER;

-- Who enqueued a job, and how many queued jobs each principal has: stored, since counting a million is slow. Local use
-- without a token ('local') has no limit, and is not counted.
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

-- A session's claims with news for its owner's next keepalive.
CREATE INDEX jobs_with_news ON jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
