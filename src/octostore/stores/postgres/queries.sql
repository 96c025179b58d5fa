-- What PostgreSQL alone understands; all others are in the file that both databases share. `now` of a transaction is a
-- setting of it: read once, after the lock, from the database's clock.

-- name: now
-- The moment of this transaction.
current_setting('octostore.now')::bigint

-- name: unindexed
-- PostgreSQL finds by itself which index not to use.

-- name: later
-- The later of two moments.
greatest

-- name: jobs_in_line
-- The jobs that wait.
{schema}.jobs

-- name: jobs_in_line_by_kind
-- The same.
{schema}.jobs

-- name: jobs_by_status
-- All jobs.
{schema}.jobs

-- name: not_loaded
-- Of a job: it is not among those whose names are given, as JSON, if there are any (NULL).
(%(loaded)s::jsonb IS NULL OR job_id <> ALL (ARRAY(SELECT jsonb_array_elements_text(%(loaded)s::jsonb))))

-- name: queue_by_bytes
-- As names sort everywhere.
queue COLLATE "C"

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
WITH locked AS MATERIALIZED (SELECT seq, now, store_id FROM {schema}.counters FOR UPDATE)
SELECT seq, store_id, set_config('octostore.now', greatest(now,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))::text, true)::bigint,
    CASE WHEN current_setting('server_version_num')::integer >= 170000
        THEN set_config('transaction_timeout', %(transaction)s, true) END
FROM locked

-- name: counters
-- Where the store stands, which it is, and the time: that of the database unless one is given, and never before the last.
SELECT seq, store_id, set_config('octostore.now', greatest(now,
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

-- name: last_ends
-- The last events after one with which claims on jobs ended, whose names are given as JSON.
SELECT found.* FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted(name) CROSS JOIN LATERAL (
    SELECT {event_columns} FROM {schema}.events WHERE job_id = wanted.name AND seq > %(after)s AND type IN ({ends})
    ORDER BY seq DESC LIMIT {ends_limit}) found

-- name: next_ends
-- The next event after one with which a claim on a job ended.
SELECT found.* FROM unnest(%s::text[], %s::bigint[]) AS wanted(name, after) CROSS JOIN LATERAL (
    SELECT {event_columns} FROM {schema}.events WHERE job_id = wanted.name AND seq > wanted.after AND type IN ({ends})
    ORDER BY seq LIMIT 1) found

-- name: names_in_flight
-- The jobs that sessions were working on when they were lost; for a condition to follow.
SELECT jsonb_array_elements_text(convert_from(in_flight, 'UTF8')::jsonb) FROM {schema}.sessions WHERE true

-- name: expired_in_queues
-- The claims of queues that have run out, for when these are so many that the sweep did not get to all of them.
SELECT found.* FROM unnest(%s::text[]) AS wanted(name) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE queue = wanted.name AND status = 'claimed' AND {has_run_out}
    ORDER BY job_id LIMIT {sweep_limit}) found

-- name: expired_of_principals
-- The same for the locks, or other claims, of principals.
SELECT found.* FROM unnest(%s::text[], %s::boolean[]) AS wanted(name, locks) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE principal = wanted.name AND is_lock = wanted.locks AND {has_run_out}
    ORDER BY job_id LIMIT {sweep_limit}) found

-- name: claims_of_principals
-- How many locks, or other claims, principals have.
SELECT wanted.name, wanted.locks,
    (SELECT count(*) FROM {schema}.jobs j WHERE j.principal = wanted.name AND j.is_lock = wanted.locks)
FROM unnest(%s::text[], %s::boolean[]) AS wanted(name, locks)

-- name: sessions_of_principals
-- How many sessions of principals are alive.
SELECT wanted.name, (
    SELECT count(*) FROM {schema}.sessions s
    WHERE s.principal = wanted.name AND s.status = 'open' AND s.expires_at > {now})
FROM unnest(%s::text[]) AS wanted(name)

-- name: jobs_of_requests
-- The live claims on queues' jobs that requests made. `|| ''` keeps the indexes that begin with the others out of it.
SELECT {job_columns} FROM {schema}.jobs
WHERE (principal || '', request_id, queue || '') IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))
    AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- What requests had that has ended, oldest first.
SELECT {request_columns} FROM {schema}.ended_requests
WHERE (principal, request_id) IN (SELECT * FROM unnest(%s::text[], %s::text[])) ORDER BY number

-- name: line
-- The jobs of a queue that are due, in the order in which they are to be claimed.
{priorities}
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND priority = p.level AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: line_of_kind
-- The same for one kind of job.
{priorities_of_kind}
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s AND priority = p.level AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: list_expired
-- Jobs whose claim has run out, by name: they may be listed under any status by now.
SELECT {job_columns} FROM {schema}.jobs
WHERE status = 'claimed' AND {has_run_out} AND (queue = %(queue)s OR %(queue)s IS NULL)
    AND job_id >= %(first)s AND job_id < %(last)s
ORDER BY job_id LIMIT %(limit)s

-- name: renew_jobs
-- What heartbeats change. Their values go by the name that `changes` of an upsert have.
UPDATE {schema}.jobs SET {renewal_changes} FROM ({renewal_values}) AS excluded({renewal_columns})
WHERE jobs.job_id = excluded.job_id

-- name: remember_requests
-- Requests whose claims or sessions have ended: the newest of their principals, in the order in which they did. What the
-- newest was is looked up once for each principal: again for each row, it would wade through those just inserted.
WITH ended AS (SELECT * FROM ({request_values} WITH ORDINALITY) AS ended({request_columns}, place)),
newest AS MATERIALIZED (
    SELECT principal, (
        SELECT coalesce(max(number), 0) FROM {schema}.ended_requests known WHERE known.principal = whose.principal
    ) AS number
    FROM (SELECT DISTINCT principal FROM ended) whose
)
INSERT INTO {schema}.ended_requests (number, {request_columns})
SELECT newest.number + row_number() OVER (PARTITION BY principal ORDER BY place), {request_columns}
FROM ended JOIN newest USING (principal)
