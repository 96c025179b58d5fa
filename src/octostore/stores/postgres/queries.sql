-- What only PostgreSQL understands; everything else is in the file both databases share. `now` is a transaction-local
-- setting: read once from the database's clock, after taking the lock.

-- name: now
-- The moment of this transaction.
current_setting('octostore.now')::bigint

-- name: unindexed
-- Not needed: PostgreSQL chooses the right index on its own.

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
-- Condition on a job: its name is not in this JSON list (NULL: no list).
(%(loaded)s::jsonb IS NULL OR job_id <> ALL (ARRAY(SELECT jsonb_array_elements_text(%(loaded)s::jsonb))))

-- name: queue_by_bytes
-- Sort by bytes, as names do everywhere.
queue COLLATE "C"

-- name: begin
-- Start writing. Reads after the lock must not see an older snapshot, whatever the database's default is.
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: begin_reading
-- Start reading one snapshot of everything.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
-- Commit, or end a transaction that changed nothing.
COMMIT

-- name: limits
-- How long this transaction may run and wait, so that a stalled process does not block the others for long. Also how it is
-- planned: once for all values, because planning would take longer than the rest, and by index however small the tables
-- were at the time. For this transaction only: a pooler may hand the connection to another client next (PgBouncer).
SELECT set_config('lock_timeout', %(lock)s, true), set_config('statement_timeout', %(statement)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)

-- name: plan_again
-- Discard plans that were made for smaller tables.
DISCARD PLANS

-- name: lock
-- Become the only writer, for a bounded time, and read the counters and the time. A client that vanishes while sending does
-- not count as idle; from version 17, PostgreSQL can limit the whole transaction, which begins with the lock.
WITH locked AS MATERIALIZED (SELECT seq, now, store_id FROM {schema}.counters FOR UPDATE)
SELECT seq, store_id, set_config('octostore.now', greatest(now,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))::text, true)::bigint,
    CASE WHEN current_setting('server_version_num')::integer >= 170000
        THEN set_config('transaction_timeout', %(transaction)s, true) END
FROM locked

-- name: counters
-- The store's position and id, and the time: the database's, or a given one; never before the last.
SELECT seq, store_id, set_config('octostore.now', greatest(now,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))::text, true)::bigint
FROM {schema}.counters

-- name: save_counters
-- The store's position after this transaction.
UPDATE {schema}.counters SET seq = %(seq)s, now = %(now)s

-- name: mark_batch
-- Record that this batch was committed.
INSERT INTO {schema}.writers (writer_id, batch, at) VALUES (%(writer)s, %(batch)s, {now})
ON CONFLICT (writer_id) DO UPDATE SET batch = excluded.batch, at = excluded.at

-- name: last_batch
-- The last batch a writer committed. Query it while holding the lock, which its transaction held.
SELECT batch FROM {schema}.writers WHERE writer_id = %(writer)s

-- name: forget_writers
-- Writers that have been silent for a long time.
DELETE FROM {schema}.writers WHERE at < {now} - %(age)s

-- name: notify
-- Wake waiters in every process.
SELECT pg_notify(%(channel)s, '')

-- name: last_ends
-- The newest events after a given one that ended claims on these jobs (a JSON list of names).
SELECT found.* FROM jsonb_array_elements_text(%(names)s::jsonb) AS wanted(name) CROSS JOIN LATERAL (
    SELECT {event_columns} FROM {schema}.events WHERE job_id = wanted.name AND seq > %(after)s AND type IN ({ends})
    ORDER BY seq DESC LIMIT {ends_limit}) found

-- name: next_ends
-- The next event after a given one that ended a claim on a job.
SELECT found.* FROM unnest(%s::text[], %s::bigint[]) AS wanted(name, after) CROSS JOIN LATERAL (
    SELECT {event_columns} FROM {schema}.events WHERE job_id = wanted.name AND seq > wanted.after AND type IN ({ends})
    ORDER BY seq LIMIT 1) found

-- name: names_in_flight
-- The jobs that sessions held when they were lost; a condition follows.
SELECT jsonb_array_elements_text(convert_from(in_flight, 'UTF8')::jsonb) FROM {schema}.sessions WHERE true

-- name: expired_in_queues
-- Expired claims in these queues, in case there are more than one sweep covers.
SELECT found.* FROM unnest(%s::text[]) AS wanted(name) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE queue = wanted.name AND status = 'claimed' AND {has_expired}
    ORDER BY job_id LIMIT {sweep_limit}) found

-- name: expired_of_principals
-- Expired locks, or other claims, of principals.
SELECT found.* FROM unnest(%s::text[], %s::boolean[]) AS wanted(name, locks) CROSS JOIN LATERAL (
    SELECT {job_columns} FROM {schema}.jobs WHERE principal = wanted.name AND is_lock = wanted.locks AND {has_expired}
    ORDER BY job_id LIMIT {sweep_limit}) found

-- name: claims_of_principals
-- How many locks, or other claims, principals have.
SELECT wanted.name, wanted.locks,
    (SELECT count(*) FROM {schema}.jobs j WHERE j.principal = wanted.name AND j.is_lock = wanted.locks)
FROM unnest(%s::text[], %s::boolean[]) AS wanted(name, locks)

-- name: sessions_of_principals
-- How many live sessions principals have.
SELECT wanted.name, (
    SELECT count(*) FROM {schema}.sessions s
    WHERE s.principal = wanted.name AND s.status = 'open' AND s.expires_at > {now})
FROM unnest(%s::text[]) AS wanted(name)

-- name: jobs_of_requests
-- The live claims on queued jobs that these requests made. `|| ''` keeps the planner off the indexes that start with the
-- other columns.
SELECT {job_columns} FROM {schema}.jobs
WHERE (principal || '', request_id, queue || '') IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))
    AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- The ended claims and sessions of requests, oldest first.
SELECT {request_columns} FROM {schema}.ended_requests
WHERE (principal, request_id) IN (SELECT * FROM unnest(%s::text[], %s::text[])) ORDER BY number

-- name: line
-- The due jobs of a queue, in claim order.
{priorities}
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND priority = p.level AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: line_of_kind
-- Like `line`, for one kind of job.
{priorities_of_kind}
SELECT found.* FROM priorities p CROSS JOIN LATERAL (
    SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
    WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s AND priority = p.level AND available_at <= {now}
    ORDER BY available_at, enqueued_seq LIMIT %(count)s) found
LIMIT %(count)s

-- name: list_expired
-- Jobs whose claims have expired, by name: by now, they may have any status.
SELECT {job_columns} FROM {schema}.jobs
WHERE status = 'claimed' AND {has_expired} AND (queue = %(queue)s OR %(queue)s IS NULL)
    AND job_id >= %(first)s AND job_id < %(last)s
ORDER BY job_id LIMIT %(limit)s

-- name: renew_jobs
-- The columns a heartbeat changes, named as in an upsert's `excluded`.
UPDATE {schema}.jobs SET {renewal_changes} FROM ({renewal_values}) AS excluded({renewal_columns})
WHERE jobs.job_id = excluded.job_id

-- name: remember_requests
-- Requests whose claims or sessions have ended, appended in order. The newest number is looked up once per principal: a
-- lookup per row would scan the rows just inserted.
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
