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
