-- For calls that arrive again: who holds a lock, whether a claim or session was returned more than once, the state it was
-- claimed from, and the newest of its owner's numbered writes. Older versions would leave stale values of an earlier claim
-- behind, so they must not use this schema.
ALTER TABLE {schema}.jobs
    ADD COLUMN holder            text,
    ADD COLUMN is_replayed       boolean,
    ADD COLUMN was_done          boolean,
    ADD COLUMN heartbeat_number  bigint,
    ADD COLUMN checkpoint_number bigint;
ALTER TABLE {schema}.sessions
    ADD COLUMN is_replayed boolean,
    ADD COLUMN save_number bigint;

-- Request ids whose claim or session has ended: they must not get it once more. Each principal's are numbered, so that it
-- is known without counting which of them are the newest.
CREATE TABLE {schema}.ended_requests (
    principal     text   NOT NULL,
    number        bigint NOT NULL,
    request_id    text   NOT NULL,
    job_id        text,
    queue         text,
    session_id    text,
    how           text   NOT NULL,
    ended_at      bigint NOT NULL,
    owner         text   NOT NULL,
    claimed_at    bigint NOT NULL,
    fencing_token bigint NOT NULL,
    attempt       integer NOT NULL,
    PRIMARY KEY (principal, number)
);
CREATE INDEX ended_requests_by_id ON {schema}.ended_requests (request_id, principal);
