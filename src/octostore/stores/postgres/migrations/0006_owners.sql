-- A session belongs to its principal, which is part of its key: `principal/id`. What the log has of earlier ones stays as
-- it is; each of these ids was one principal's for ever. Whoever does not know this would not find its sessions.
UPDATE {schema}.sessions SET session_id = principal || '/' || session_id;
UPDATE {schema}.jobs SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;
UPDATE {schema}.ended_requests SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;

-- Only its lease can write to a session, unless it is a lock client's, which gave no agent and so got its principal's name.
ALTER TABLE {schema}.sessions ADD COLUMN without_lease boolean NOT NULL DEFAULT false;
UPDATE {schema}.sessions SET without_lease = true WHERE agent = principal;

-- What sessions leave for whoever resumes them: the last context of each, and no longer all there ever were.
CREATE TABLE {schema}.contexts (
    session_id text COLLATE "C" PRIMARY KEY,
    data       bytea NOT NULL
);
INSERT INTO {schema}.contexts
SELECT session_id, body FROM {schema}.sessions JOIN {schema}.documents ON seq = context_seq;
ALTER TABLE {schema}.documents DISABLE TRIGGER documents_are_append_only;
DELETE FROM {schema}.documents WHERE seq IN (SELECT seq FROM {schema}.events WHERE type = 'session_saved');
ALTER TABLE {schema}.documents ENABLE TRIGGER documents_are_append_only;

-- Which process made a claim, for people who have to find it.
ALTER TABLE {schema}.jobs
    ADD COLUMN host text,
    ADD COLUMN pid  bigint;

-- What an owner is asked: to stop. Whoever does not know this column would leave it to the next owner, and must not work
-- with it.
ALTER TABLE {schema}.jobs ADD COLUMN stop_request bytea;

-- For how long its owner may go without reporting progress, since when it has, and when the log last said that it was stuck.
ALTER TABLE {schema}.jobs
    ADD COLUMN max_silence_ms   bigint,
    ADD COLUMN last_progress_at bigint,
    ADD COLUMN stuck_at         bigint;

-- Who enqueued a job, and how many of each one's jobs are queued: a number, since counting a million takes too long. Those who
-- need no token ('local') have no limit, and are not counted.
ALTER TABLE {schema}.jobs ADD COLUMN enqueued_by text;
UPDATE {schema}.jobs SET enqueued_by = (SELECT actor FROM {schema}.events WHERE seq = enqueued_seq) WHERE queue IS NOT NULL;
CREATE TABLE {schema}.principals (
    principal text   NOT NULL PRIMARY KEY,
    queued    bigint NOT NULL
);
INSERT INTO {schema}.principals
SELECT enqueued_by, count(*) FROM {schema}.jobs
WHERE status = 'queued' AND enqueued_by IS NOT NULL AND enqueued_by <> 'local' GROUP BY enqueued_by;
CREATE INDEX sessions_open_by_principal ON {schema}.sessions (principal, expires_at) WHERE status = 'open';

-- Those of a session whose owner may have to be told something with its keepalive.
CREATE INDEX jobs_with_news ON {schema}.jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
