-- Every statement that the PostgreSQL store runs. Each has a name and a line that says what it is for; {name} stands for
-- the text of another one, {schema} for the schema that holds our tables. `now` of a transaction is a setting of it: read
-- once, after the lock, from the database's clock.

-- name: now
-- The moment of this transaction.
current_setting('octostore.now')::bigint

-- name: begin
-- To write. What is read after the lock must not be from before it, whatever the database's default is.
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: begin_reading
-- To read, one state of everything.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
-- All of it, or the end of a transaction that changed nothing.
COMMIT

-- name: limits
-- How long this transaction may take and be kept waiting, so that a process that stands still holds up nobody for long.
-- And how it is planned: once for all values, which would take longer than the rest, and by indexes however small the
-- tables were then. For the transaction only: the connection may be somebody else's next (PgBouncer).
SELECT set_config('lock_timeout', %(lock)s, true), set_config('statement_timeout', %(statement)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)

-- name: plan_again
-- What was planned for tables that have grown since.
DISCARD PLANS

-- name: lock
-- Be the only one who writes, but not for long. Then, as below, where the store stands, and the time. Whoever vanishes
-- while it sends something does not count as idle; from 17 on PostgreSQL can limit the whole transaction, which begins
-- with the lock.
WITH locked AS MATERIALIZED (SELECT seq, now FROM {schema}.counters FOR UPDATE)
SELECT seq, set_config('octostore.now', greatest(now,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))::text, true)::bigint,
    CASE WHEN current_setting('server_version_num')::integer >= 170000
        THEN set_config('transaction_timeout', %(transaction)s, true) END
FROM locked

-- name: counters
-- Where the store stands, and the time: that of the database unless one is given, and never before the last.
SELECT seq, set_config('octostore.now', greatest(now,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))::text, true)::bigint
FROM {schema}.counters

-- name: save_counters
-- Where the store stands after this transaction.
UPDATE {schema}.counters SET seq = %(seq)s, now = %(now)s

-- name: mark_batch
-- That this batch has been carried out.
INSERT INTO {schema}.writers (writer_id, batch, at) VALUES (%(writer)s, %(batch)s, {now})
ON CONFLICT (writer_id) DO UPDATE SET batch = excluded.batch, at = excluded.at

-- name: last_batch
-- The last batch of a writer that was carried out. To be asked with the lock, which its transaction had.
SELECT batch FROM {schema}.writers WHERE writer_id = %(writer)s

-- name: forget_writers
-- Those of whom nothing was heard for long.
DELETE FROM {schema}.writers WHERE at < {now} - %(age)s

-- name: notify
-- Wake those who wait, wherever they are.
SELECT pg_notify(%(channel)s, '')

-- name: documents_of_job
-- What a job brings with it: payload, result and checkpoint.
(SELECT body FROM {schema}.documents WHERE seq = payload_seq), (SELECT body FROM {schema}.documents WHERE seq = result_seq),
(SELECT data FROM {schema}.checkpoints WHERE checkpoints.job_id = jobs.job_id)

-- name: jobs_with_documents
-- Jobs by their names, with what they bring with them.
SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs WHERE job_id = ANY(%(jobs)s::text[])

-- name: jobs
-- Jobs by their names.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id = ANY(%(jobs)s::text[])

-- name: claims_of_sessions
-- The live claims bound to sessions.
SELECT {job_columns} FROM {schema}.jobs WHERE session_id = ANY(%(sessions)s::text[]) ORDER BY job_id

-- name: expired_claims
-- The claims that have run out, oldest first.
SELECT {job_columns} FROM {schema}.jobs WHERE expires_at <= {now} ORDER BY expires_at, fencing_token LIMIT %(limit)s

-- name: expired_sessions
-- The sessions that have run out, oldest first.
SELECT session_id FROM {schema}.sessions
WHERE status = 'open' AND expires_at <= {now} ORDER BY expires_at, session_id LIMIT %(limit)s

-- name: claims_of_expired_sessions
-- The claims bound to them, in the same order.
SELECT {job_columns} FROM (
    SELECT j.*, s.expires_at AS session_expires_at
    FROM (SELECT session_id AS ended, expires_at FROM {schema}.sessions WHERE status = 'open' AND expires_at <= {now}
          ORDER BY expires_at, session_id LIMIT %(limit)s) s
    JOIN {schema}.jobs j ON j.session_id = s.ended
) found ORDER BY session_expires_at, session_id, job_id LIMIT %(limit)s

-- name: has_run_out
-- Of a job: its claim has run out, by itself or with its session.
(expires_at <= {now} OR session_id IN (SELECT session_id FROM {schema}.sessions WHERE status = 'open' AND expires_at <= {now}))

-- name: expired_in_queues
-- The claims of queues that have run out, for when these are so many that the sweep did not get to all of them.
SELECT found.* FROM unnest(%(queues)s::text[]) AS wanted(name) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE queue = wanted.name AND status = 'claimed' AND {has_run_out}
    ORDER BY job_id LIMIT %(limit)s) found

-- name: expired_of_principals
-- The same for the locks, or other claims, of principals.
SELECT found.* FROM unnest(%(principals)s::text[], %(locks)s::boolean[]) AS wanted(name, locks) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE principal = wanted.name AND is_lock = wanted.locks AND {has_run_out}
    ORDER BY job_id LIMIT %(limit)s) found

-- name: claims_of_principals
-- How many locks, or other claims, principals have.
SELECT wanted.name, wanted.locks,
    (SELECT count(*) FROM {schema}.jobs j WHERE j.principal = wanted.name AND j.is_lock = wanted.locks)
FROM unnest(%(principals)s::text[], %(locks)s::boolean[]) AS wanted(name, locks)

-- name: jobs_of_requests
-- The live claims on queues' jobs that requests made.
SELECT {job_columns} FROM {schema}.jobs
WHERE (principal, request_id, queue) IN (SELECT * FROM unnest(%(principals)s::text[], %(requests)s::text[], %(queues)s::text[]))
    AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- What requests had that has ended, oldest first.
SELECT {request_columns} FROM {schema}.ended_requests
WHERE (principal, request_id) IN (SELECT * FROM unnest(%(principals)s::text[], %(requests)s::text[])) ORDER BY number

-- name: line
-- The jobs of a queue that are due, in the order in which they are to be claimed; priority by priority, so as never to
-- walk through those not due yet.
WITH RECURSIVE priorities AS (
    SELECT min(priority) AS priority FROM {schema}.jobs WHERE status = 'queued' AND queue = %(queue)s
    UNION ALL
    SELECT (SELECT min(j.priority) FROM {schema}.jobs j
            WHERE j.status = 'queued' AND j.queue = %(queue)s AND j.priority > p.priority)
    FROM priorities p WHERE p.priority IS NOT NULL
)
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND priority = p.priority AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: line_of_kind
-- The same for one kind of job.
WITH RECURSIVE priorities AS (
    SELECT min(priority) AS priority FROM {schema}.jobs WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s
    UNION ALL
    SELECT (SELECT min(j.priority) FROM {schema}.jobs j
            WHERE j.status = 'queued' AND j.queue = %(queue)s AND j.kind = %(kind)s AND j.priority > p.priority)
    FROM priorities p WHERE p.priority IS NOT NULL
)
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s AND priority = p.priority AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: line_by_name
-- The same for the jobs whose names are in a range, and of one kind or any (NULL). Found by name: what others have in
-- the queue must not slow down somebody who may only see a part of it.
SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
WHERE queue = %(queue)s AND status = 'queued' AND job_id >= %(first)s AND job_id < %(last)s
    AND (%(kind)s::text IS NULL OR kind = %(kind)s) AND available_at <= {now}
ORDER BY priority, available_at, enqueued_seq LIMIT %(count)s

-- name: look_again
-- When something in a queue may become claimable although nobody writes: a job becomes due, or a lease runs out.
WITH RECURSIVE priorities AS (
    SELECT min(priority) AS priority FROM {schema}.jobs WHERE status = 'queued' AND queue = %(queue)s
    UNION ALL
    SELECT (SELECT min(j.priority) FROM {schema}.jobs j
            WHERE j.status = 'queued' AND j.queue = %(queue)s AND j.priority > p.priority)
    FROM priorities p WHERE p.priority IS NOT NULL
)
SELECT least(
    (SELECT min(expires_at) FROM {schema}.jobs WHERE expires_at > {now}),
    (SELECT min(expires_at) FROM {schema}.sessions WHERE status = 'open' AND expires_at > {now}),
    (SELECT min(due.at) FROM priorities p CROSS JOIN LATERAL (
        SELECT min(available_at) AS at FROM {schema}.jobs
        WHERE status = 'queued' AND queue = %(queue)s AND priority = p.priority AND available_at > {now}) due))

-- name: sessions
-- Sessions by their ids, each with its context.
SELECT {session_columns}, (SELECT body FROM {schema}.documents d WHERE d.seq = context_seq)
FROM {schema}.sessions WHERE session_id = ANY(%(sessions)s::text[])

-- name: jobs_in_flight
-- What sessions were working on when they were lost.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id IN (
    SELECT jsonb_array_elements_text(convert_from(in_flight, 'UTF8')::jsonb)
    FROM {schema}.sessions WHERE session_id = ANY(%(sessions)s::text[]))

-- name: queues
-- The limits of queues, and how many of their jobs are claimed, where that matters.
SELECT wanted.name, q.max_claimed, CASE WHEN q.max_claimed IS NOT NULL OR wanted.counted THEN
    (SELECT count(*) FROM {schema}.jobs j WHERE j.queue = wanted.name AND j.status = 'claimed') END
FROM unnest(%(names)s::text[], %(counted)s::boolean[]) AS wanted(name, counted)
LEFT JOIN {schema}.queues q ON q.name = wanted.name

-- name: documents
-- The payloads and results that events brought.
SELECT seq, body FROM {schema}.documents WHERE seq = ANY(%(seqs)s::bigint[])

-- name: checkpoints
-- What the last owners of jobs left.
SELECT job_id, data FROM {schema}.checkpoints WHERE job_id = ANY(%(jobs)s::text[])

-- name: tokens
-- Tokens by their ids or secrets.
SELECT {token_columns} FROM {schema}.tokens WHERE token_id = ANY(%(tokens)s::text[]) OR digest = ANY(%(digests)s::bytea[])

-- name: list_jobs
-- Jobs by name, from one name up to before another.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id LIMIT %(limit)s

-- name: list_jobs_by_status
-- The same for one status.
SELECT {job_columns} FROM {schema}.jobs
WHERE status = %(status)s AND job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id LIMIT %(limit)s

-- name: list_jobs_by_queue
-- The same for one queue and status.
SELECT {job_columns} FROM {schema}.jobs
WHERE queue = %(queue)s AND status = %(status)s AND job_id >= %(first)s AND job_id < %(last)s
ORDER BY job_id LIMIT %(limit)s

-- name: list_expired
-- Jobs whose claim has run out, by name: they may be listed under any status by now.
SELECT {job_columns} FROM {schema}.jobs
WHERE status = 'claimed' AND {has_run_out} AND (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND job_id >= %(first)s AND job_id < %(last)s
ORDER BY job_id LIMIT %(limit)s

-- name: list_sessions
-- Sessions by id, after one.
SELECT {session_columns} FROM {schema}.sessions WHERE session_id > %(after)s ORDER BY session_id LIMIT %(limit)s

-- name: list_ended_sessions
-- The same for those of one status other than open, of one principal or anybody (NULL).
SELECT {session_columns} FROM {schema}.sessions
WHERE status <> 'open' AND status = %(status)s AND (%(principal)s::text IS NULL OR principal = %(principal)s)
    AND session_id > %(after)s
ORDER BY session_id LIMIT %(limit)s

-- name: list_open_sessions
-- Sessions that are alive, of one principal or anybody (NULL), by id.
SELECT {session_columns} FROM {schema}.sessions
WHERE status = 'open' AND expires_at > {now} AND (%(principal)s::text IS NULL OR principal = %(principal)s)
    AND session_id > %(after)s
ORDER BY session_id LIMIT %(limit)s

-- name: list_expired_sessions
-- The same for those that have run out, but are not written down as expired yet.
SELECT {session_columns} FROM {schema}.sessions
WHERE status = 'open' AND expires_at <= {now} AND (%(principal)s::text IS NULL OR principal = %(principal)s)
    AND session_id > %(after)s
ORDER BY session_id LIMIT %(limit)s

-- name: list_events
-- The log after an event.
SELECT {event_columns} FROM {schema}.events WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: list_events_by_job
-- The story of one job after an event.
SELECT {event_columns} FROM {schema}.events WHERE job_id = %(job)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: list_events_by_session
-- The story of one session after an event.
SELECT {event_columns} FROM {schema}.events
WHERE session_id = %(session)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: list_tokens
-- All tokens.
SELECT {token_columns} FROM {schema}.tokens ORDER BY created_at DESC, token_id

-- name: store_key
-- The secret from which pseudonyms are made.
SELECT key FROM {schema}.store_key

-- name: figures
-- How many jobs are claimed, and late (by themselves, or because their session is); how many jobs are dead, sessions
-- alive, and claims were taken back of late; how many jobs wait, and since when the first could have been claimed; how
-- many claims have run out and are not written down yet, how many of them in queues, and since when the first of these.
SELECT (SELECT count(*) FROM {schema}.jobs WHERE status = 'claimed'),
    (SELECT count(*) FROM {schema}.jobs WHERE expires_at > {now} AND {now} - heartbeat_at > ttl_ms * %(late_share)s::double precision)
        + (SELECT count(*) FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
            WHERE s.status = 'open' AND s.expires_at > {now} AND j.expires_at IS NULL
                AND {now} - greatest(s.heartbeat_at, j.heartbeat_at) > s.ttl_ms * %(late_share)s::double precision),
    (SELECT count(*) FROM {schema}.jobs WHERE status = 'dead'),
    (SELECT count(*) FROM {schema}.sessions WHERE status = 'open' AND expires_at > {now}),
    (SELECT count(*) FROM {schema}.events WHERE type IN ('expired', 'force_released') AND at > {now} - %(lately)s::bigint),
    waiting.number, waiting.due_at, run_out.number, run_out.of_queues, run_out.ended_at
FROM (SELECT count(*) AS number, min(available_at) FILTER (WHERE available_at <= {now}) AS due_at
    FROM {schema}.jobs WHERE status = 'queued') waiting,
    (SELECT count(*) AS number, count(queue) AS of_queues, min(ended_at) FILTER (WHERE queue IS NOT NULL) AS ended_at FROM (
        SELECT queue, expires_at AS ended_at FROM {schema}.jobs WHERE expires_at <= {now}
        UNION ALL
        SELECT j.queue, s.expires_at FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at <= {now} AND j.expires_at IS NULL) ended) run_out

-- name: queued_jobs
-- How many jobs wait, in the queues in which most do.
SELECT queue, count(*) AS depth FROM {schema}.jobs
WHERE status = 'queued' GROUP BY queue ORDER BY depth DESC, queue COLLATE "C" LIMIT %(limit)s

-- name: save_jobs
-- Jobs that are new or have changed.
INSERT INTO {schema}.jobs ({job_columns})
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::text[],
    %s::bigint[], %s::text[], %s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::bigint[], %s::bytea[],
    %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::text[], %s::bytea[], %s::text[], %s::text[], %s::boolean[], %s::text[],
    %s::boolean[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bytea[])
ON CONFLICT (job_id) DO UPDATE SET
    status = excluded.status, available_at = excluded.available_at, attempts = excluded.attempts,
    last_outcome = excluded.last_outcome, error = excluded.error, note = excluded.note,
    result_seq = excluded.result_seq, queue = excluded.queue, kind = excluded.kind, priority = excluded.priority,
    max_attempts = excluded.max_attempts, enqueued_seq = excluded.enqueued_seq, payload_seq = excluded.payload_seq,
    history = excluded.history, owner = excluded.owner, principal = excluded.principal,
    fencing_token = excluded.fencing_token, ttl_ms = excluded.ttl_ms, lock_delay_ms = excluded.lock_delay_ms,
    claimed_at = excluded.claimed_at, heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
    session_id = excluded.session_id, metadata = excluded.metadata, lease_id = excluded.lease_id,
    request_id = excluded.request_id, is_lock = excluded.is_lock, holder = excluded.holder,
    is_replayed = excluded.is_replayed, was_done = excluded.was_done, heartbeat_number = excluded.heartbeat_number,
    checkpoint_number = excluded.checkpoint_number, progress = excluded.progress

-- name: renew_jobs
-- What heartbeats change.
UPDATE {schema}.jobs SET ttl_ms = beat.ttl_ms, heartbeat_at = beat.heartbeat_at, expires_at = beat.expires_at,
    progress = beat.progress, heartbeat_number = beat.heartbeat_number, checkpoint_number = beat.checkpoint_number
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::bigint[], %s::text[])
    AS beat(ttl_ms, heartbeat_at, expires_at, progress, heartbeat_number, checkpoint_number, job_id)
WHERE jobs.job_id = beat.job_id

-- name: save_sessions
-- Sessions that are new or have changed.
INSERT INTO {schema}.sessions ({session_columns})
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::boolean[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::text[], %s::bytea[], %s::text[],
    %s::boolean[], %s::bigint[])
ON CONFLICT (session_id) DO UPDATE SET
    agent = excluded.agent, principal = excluded.principal, status = excluded.status, ttl_ms = excluded.ttl_ms,
    opened_at = excluded.opened_at, heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
    resumed = excluded.resumed, context_seq = excluded.context_seq, lease_id = excluded.lease_id,
    request_id = excluded.request_id, phase = excluded.phase, offered = excluded.offered, note = excluded.note,
    in_flight = excluded.in_flight, giver_lease_id = excluded.giver_lease_id, is_replayed = excluded.is_replayed,
    save_number = excluded.save_number

-- name: remember_requests
-- Requests whose claims or sessions have ended: the newest of their principals, in the order in which they did.
INSERT INTO {schema}.ended_requests (number, {request_columns})
SELECT (SELECT coalesce(max(number), 0) FROM {schema}.ended_requests known WHERE known.principal = ended.principal)
    + row_number() OVER (PARTITION BY ended.principal ORDER BY ended.place), {request_columns}
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[],
    %s::bigint[], %s::integer[]) WITH ORDINALITY
    AS ended(principal, request_id, job_id, queue, session_id, how, ended_at, owner, claimed_at, fencing_token, attempt, place)

-- name: forget_requests
-- Those of a principal that are old, and far enough from the newest; a few at a time, from the oldest on.
DELETE FROM {schema}.ended_requests WHERE principal = %(principal)s AND ended_at < {now} - %(age)s AND number IN (
    SELECT number FROM {schema}.ended_requests WHERE principal = %(principal)s
        AND number <= (SELECT max(number) FROM {schema}.ended_requests WHERE principal = %(principal)s) - %(kept)s
    ORDER BY number LIMIT %(limit)s)

-- name: drop_tokens
-- Tokens that are about to be saved: of two in a batch, one may have got the digest that the other had.
DELETE FROM {schema}.tokens WHERE token_id = ANY(%s::text[])

-- name: save_tokens
-- Tokens that are new or have changed.
INSERT INTO {schema}.tokens ({token_columns})
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])

-- name: save_queues
-- The limits of queues.
INSERT INTO {schema}.queues (name, max_claimed) SELECT * FROM unnest(%s::text[], %s::integer[])
ON CONFLICT (name) DO UPDATE SET max_claimed = excluded.max_claimed

-- name: save_checkpoints
-- What the owners of jobs leave for their successors.
INSERT INTO {schema}.checkpoints (job_id, data) SELECT * FROM unnest(%s::text[], %s::bytea[])
ON CONFLICT (job_id) DO UPDATE SET data = excluded.data

-- name: drop_checkpoints
-- The jobs are done; their next run starts afresh.
DELETE FROM {schema}.checkpoints WHERE job_id = ANY(%s::text[])

-- name: append_events
-- Lines of the log.
INSERT INTO {schema}.events ({event_columns})
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[])

-- name: append_documents
-- What events brought.
INSERT INTO {schema}.documents (seq, body) SELECT * FROM unnest(%s::bigint[], %s::bytea[])
