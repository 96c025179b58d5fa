-- Moments (_at) are milliseconds since 1970, durations (_ms) milliseconds. JSON is kept as UTF-8 in bytea. Names sort by
-- their bytes ("C"), as they do in every other store.

-- The store's position: the last event's seq, and the latest moment used (time never runs backwards). Every
-- writing transaction locks this row first, so that commits become visible in the order of seq.
CREATE TABLE {schema}.counters (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq      bigint NOT NULL,
    now      bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO {schema}.counters (seq, now) VALUES (0, 0);

-- A job: a name, at most one live claim (the columns from owner on, NULL while there is none), and a history.
CREATE TABLE {schema}.jobs (
    job_id        text COLLATE "C" PRIMARY KEY,
    status        text    NOT NULL CHECK (status IN ('free', 'queued', 'claimed', 'done', 'dead')),
    created_at    bigint  NOT NULL,
    available_at  bigint  NOT NULL,
    attempts      integer NOT NULL,
    last_outcome  text,
    error         text,
    note          text,
    result_seq    bigint,
    queue         text,
    kind          text,
    priority      integer NOT NULL,
    max_attempts  integer NOT NULL,
    enqueued_seq  bigint  NOT NULL,
    payload_seq   bigint,
    history       bytea   NOT NULL,
    owner         text,
    principal     text,
    fencing_token bigint,
    ttl_ms        bigint,
    lock_delay_ms bigint,
    claimed_at    bigint,
    heartbeat_at  bigint,
    expires_at    bigint,
    session_id    text COLLATE "C",
    metadata      bytea,
    lease_id      text,
    request_id    text,
    is_lock       boolean,
    progress      bytea,
    CHECK ((status = 'claimed') = (lease_id IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX jobs_by_status ON {schema}.jobs (status, job_id);
CREATE INDEX jobs_by_queue ON {schema}.jobs (queue, status, job_id) WHERE queue IS NOT NULL;
CREATE INDEX jobs_in_line ON {schema}.jobs (queue, priority, available_at, enqueued_seq) WHERE status = 'queued';
CREATE INDEX jobs_in_line_by_kind ON {schema}.jobs (queue, kind, priority, available_at, enqueued_seq)
    WHERE status = 'queued';
CREATE INDEX jobs_by_expiry ON {schema}.jobs (expires_at, fencing_token) WHERE expires_at IS NOT NULL;
CREATE INDEX jobs_by_session ON {schema}.jobs (session_id, job_id) WHERE session_id IS NOT NULL;
CREATE INDEX jobs_by_request ON {schema}.jobs (principal, request_id, queue)
    WHERE request_id IS NOT NULL AND queue IS NOT NULL;
CREATE INDEX jobs_by_principal ON {schema}.jobs (principal, is_lock) WHERE principal IS NOT NULL;

-- What the last owner left for its successor.
CREATE TABLE {schema}.checkpoints (
    job_id text COLLATE "C" PRIMARY KEY,
    data   bytea NOT NULL
);

-- A worker's own heartbeat.
CREATE TABLE {schema}.sessions (
    session_id   text COLLATE "C" PRIMARY KEY,
    agent        text    NOT NULL,
    principal    text    NOT NULL,
    status       text    NOT NULL CHECK (status IN ('open', 'closed', 'expired')),
    ttl_ms       bigint  NOT NULL,
    opened_at    bigint  NOT NULL,
    heartbeat_at bigint  NOT NULL,
    expires_at   bigint  NOT NULL,
    resumed      boolean NOT NULL,
    context_seq  bigint,
    lease_id     text    NOT NULL,
    request_id   text
) WITH (fillfactor = 70);
CREATE INDEX sessions_by_expiry ON {schema}.sessions (expires_at, session_id) WHERE status = 'open';
CREATE INDEX sessions_ended ON {schema}.sessions (status, session_id) WHERE status <> 'open';
CREATE INDEX sessions_ended_by_principal ON {schema}.sessions (principal, status, session_id) WHERE status <> 'open';

-- Queues that have a limit.
CREATE TABLE {schema}.queues (
    name        text PRIMARY KEY,
    max_claimed integer
);

-- Who may use the store through a server; and the secret from which pseudonyms are made.
CREATE TABLE {schema}.tokens (
    token_id   text COLLATE "C" PRIMARY KEY,
    principal  text   NOT NULL,
    scopes     text   NOT NULL,
    prefix     text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    digest     bytea  NOT NULL UNIQUE
);
CREATE TABLE {schema}.store_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    key      bytea NOT NULL
);
INSERT INTO {schema}.store_key (key) VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- The append-only log, and the documents (payload, result, session context) that events brought.
CREATE TABLE {schema}.events (
    seq        bigint PRIMARY KEY,
    at         bigint NOT NULL,
    type       text   NOT NULL,
    actor      text   NOT NULL,
    job_id     text COLLATE "C",
    queue      text,
    session_id text,
    details    bytea  NOT NULL
);
CREATE INDEX events_by_job ON {schema}.events (job_id, seq) WHERE job_id IS NOT NULL;
CREATE TABLE {schema}.documents (
    seq  bigint PRIMARY KEY,
    body bytea NOT NULL
);

CREATE FUNCTION {schema}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the event log is append-only'; END $$;
CREATE TRIGGER events_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.events
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_change();
CREATE TRIGGER documents_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.documents
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_change();

-- The last batch of each process that writes: when a connection breaks during COMMIT, this tells what became of it.
CREATE TABLE {schema}.writers (
    writer_id uuid PRIMARY KEY,
    batch     bigint NOT NULL,
    at        bigint NOT NULL
);

-- After restoring a backup: continue with numbers that were never used (docs/decisions/0018). `ahead` must exceed what
-- was written since the backup. Returns the seq of the event that records it.
CREATE FUNCTION {schema}.resume_after_restore(ahead bigint DEFAULT 1000000000) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last   {schema}.counters;
    moment bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    IF ahead IS NULL OR ahead < 1 THEN
        RAISE EXCEPTION 'the store cannot go back: ahead must be at least 1';
    END IF;
    SELECT * INTO last FROM {schema}.counters FOR UPDATE;
    UPDATE {schema}.counters SET seq = last.seq + ahead, now = greatest(last.now, moment);
    INSERT INTO {schema}.events (seq, at, type, actor, details)
    VALUES (last.seq + ahead, greatest(last.now, moment), 'restored', 'octostore',
        convert_to(json_build_object('after', last.seq)::text, 'UTF8'));
    PERFORM pg_notify('{schema}', '');
    RETURN last.seq + ahead;
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.resume_after_restore FROM PUBLIC;
