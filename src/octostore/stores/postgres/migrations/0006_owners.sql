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

-- Those of a session whose owner may have to be told something with its keepalive.
CREATE INDEX jobs_with_news ON {schema}.jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
