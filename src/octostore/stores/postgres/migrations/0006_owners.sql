-- A session belongs to its principal, which is part of its key: `principal/id`. Earlier log
-- entries keep the plain id, which belonged to one principal forever. Older versions would not find their sessions.
UPDATE {schema}.sessions SET session_id = principal || '/' || session_id;
UPDATE {schema}.jobs SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;
UPDATE {schema}.ended_requests SET session_id = principal || '/' || session_id WHERE session_id IS NOT NULL;

-- Writing to a session needs its lease, except for lock clients' sessions, which name no agent and so have their principal's name.
ALTER TABLE {schema}.sessions ADD COLUMN without_lease boolean NOT NULL DEFAULT false;
UPDATE {schema}.sessions SET without_lease = true WHERE agent = principal;

-- The last context of each session, for the owner who resumes it; earlier contexts are no longer kept.
CREATE TABLE {schema}.contexts (
    session_id text COLLATE "C" PRIMARY KEY,
    data       bytea NOT NULL
);
INSERT INTO {schema}.contexts
SELECT session_id, body FROM {schema}.sessions JOIN {schema}.documents ON seq = context_seq;
ALTER TABLE {schema}.documents DISABLE TRIGGER documents_are_append_only;
DELETE FROM {schema}.documents WHERE seq IN (SELECT seq FROM {schema}.events WHERE type = 'session_saved');
ALTER TABLE {schema}.documents ENABLE TRIGGER documents_are_append_only;

-- The process that made a claim, so that people can find it.
ALTER TABLE {schema}.jobs
    ADD COLUMN host text,
    ADD COLUMN pid  bigint;

-- A request to the owner to stop. Older versions would leave it for the next owner, so they must not use this schema.
ALTER TABLE {schema}.jobs ADD COLUMN stop_request bytea;

-- How long the owner may go without reporting progress, when it last did, and when the log last called it stuck.
ALTER TABLE {schema}.jobs
    ADD COLUMN max_silence_ms   bigint,
    ADD COLUMN last_progress_at bigint,
    ADD COLUMN stuck_at         bigint;

-- Who enqueued a job, and how many queued jobs each principal has: stored, since counting a million is slow. Local use
-- without a token ('local') has no limit, and is not counted.
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

-- A session's claims with news for its owner's next keepalive.
CREATE INDEX jobs_with_news ON {schema}.jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
