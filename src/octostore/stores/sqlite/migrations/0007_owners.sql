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
);
INSERT INTO principals
SELECT enqueued_by, count(*) FROM jobs
WHERE status = 'queued' AND enqueued_by IS NOT NULL AND enqueued_by <> 'local' GROUP BY enqueued_by;
CREATE INDEX sessions_open_by_principal ON sessions (principal) WHERE status = 'open';

-- Those of a session whose owner may have to be told something with its keepalive.
CREATE INDEX jobs_with_news ON jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
