-- What only SQLite understands, or runs faster; everything else is in the file both databases share.

-- name: now
-- The moment of this transaction is a parameter of each statement that needs it.
%(now)s

-- name: unindexed
-- In front of a column, keeps the planner from using its index.
+

-- name: later
-- The later of two moments.
max

-- name: jobs_in_line
-- The jobs that wait, from an index: done jobs, and their rows, are far more numerous.
{schema}.jobs INDEXED BY jobs_in_line

-- name: jobs_in_line_by_kind
-- Like `jobs_in_line`, by kind.
{schema}.jobs INDEXED BY jobs_in_line_by_kind

-- name: jobs_by_status
-- All jobs by status, from an index: rows with another status are not read.
{schema}.jobs INDEXED BY jobs_by_status

-- name: not_loaded
-- Condition on a job: its name is not in this JSON list. Without one (NULL), its row is not read.
(%(loaded)s IS NULL OR job_id NOT IN (SELECT value FROM json_each(%(loaded)s)))

-- name: queue_by_bytes
-- Sort by bytes, as names do everywhere.
queue

-- name: counters
-- The store's position and id, and when the next claim or session expires (without any: in hundreds of millions of
-- years).
SELECT seq, now, boot_id, counted_ms, store_id, is_open, min(
    coalesce((SELECT min(expires_at) FROM {schema}.jobs WHERE expires_at IS NOT NULL), 9223372036854775807),
    coalesce((SELECT min(expires_at) FROM {schema}.sessions WHERE status = 'open'), 9223372036854775807))
FROM {schema}.counters

-- name: save_counters
-- The store's position after this transaction.
UPDATE {schema}.counters SET seq = %(seq)s, now = %(now)s, boot_id = %(boot_id)s, counted_ms = %(counted_ms)s, is_open = 1

-- name: is_open
-- Whether the database would be incomplete without its -wal.
SELECT is_open FROM {schema}.counters

-- name: note_closed
-- Record that it is complete, once the -wal has been checkpointed.
UPDATE {schema}.counters SET is_open = 0

-- name: last_ends
-- The newest events after a given one that ended claims on these jobs (a JSON list of names). One statement for all:
-- otherwise the list of types would be rebuilt for each.
SELECT {event_columns} FROM {schema}.events WHERE seq IN (
    SELECT ended.seq FROM json_each(%(names)s) wanted CROSS JOIN {schema}.events ended ON ended.seq IN (
        SELECT e.seq FROM {schema}.events e WHERE e.job_id = wanted.value AND e.seq > %(after)s AND e.type IN ({ends})
        ORDER BY e.seq DESC LIMIT {ends_limit}))

-- name: next_ends
-- The next event after a given one that ended a claim on a job.
SELECT {event_columns} FROM {schema}.events WHERE job_id = %s AND seq > %s AND type IN ({ends}) ORDER BY seq LIMIT 1

-- name: names_in_flight
-- The jobs that sessions held when they were lost; a condition follows.
SELECT lost.value FROM {schema}.sessions, json_each(CAST(in_flight AS text)) lost WHERE true

-- name: expired_in_queues
-- Expired claims in a queue, in case there are more than one sweep covers.
SELECT {job_columns} FROM {schema}.jobs WHERE queue = %s AND status = 'claimed' AND {has_expired}
ORDER BY job_id LIMIT {sweep_limit}

-- name: expired_of_principals
-- Expired locks, or other claims, of a principal.
SELECT {job_columns} FROM {schema}.jobs WHERE principal = %s AND is_lock = %s AND {has_expired}
ORDER BY job_id LIMIT {sweep_limit}

-- name: claims_of_principals
-- How many locks, or other claims, a principal has.
SELECT ?1, ?2, count(*) FROM {schema}.jobs WHERE principal = ?1 AND is_lock = ?2

-- name: sessions_of_principals
-- How many live sessions a principal has.
SELECT ?1, count(*) FROM {schema}.sessions WHERE principal = ?1 AND status = 'open' AND expires_at > {now}

-- name: jobs_of_requests
-- The live claim on a queued job that this request made.
SELECT {job_columns} FROM {schema}.jobs
WHERE principal = %s AND request_id = %s AND queue = %s AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- The ended claims and sessions of a request, oldest first.
SELECT {request_columns} FROM {schema}.ended_requests INDEXED BY ended_requests_by_id
WHERE principal = %s AND request_id = %s ORDER BY number

-- name: in_line
-- The jobs of each priority in turn: an inner loop over an index keeps both orders.
SELECT {job_columns}, {documents_of_job} FROM priorities p CROSS JOIN {schema}.jobs

-- name: line
-- The due jobs of a queue, in claim order.
{priorities} {in_line} INDEXED BY jobs_in_line
WHERE status = 'queued' AND queue = %(queue)s AND priority = p.level AND available_at <= {now} LIMIT %(count)s

-- name: line_of_kind
-- Like `line`, for one kind of job.
{priorities_of_kind} {in_line} INDEXED BY jobs_in_line_by_kind
WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s AND priority = p.level AND available_at <= {now}
LIMIT %(count)s

-- name: list_expired
-- Jobs whose claims have expired, by name: by now, they may have any status. Searched by expiry, because few expiries
-- are unrecorded.
SELECT {job_columns} FROM {schema}.jobs WHERE rowid IN (
        SELECT rowid FROM {schema}.jobs WHERE expires_at <= {now}
        UNION ALL
        SELECT j.rowid FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at <= {now})
    AND (queue = %(queue)s OR %(queue)s IS NULL) AND +job_id >= %(first)s AND +job_id < %(last)s
ORDER BY +job_id LIMIT %(limit)s

-- name: renew_jobs
-- The columns a heartbeat changes. Saving the whole row would write to every index.
UPDATE {schema}.jobs SET {renewal_sets} WHERE job_id = ?1

-- name: remember_requests
-- A request whose claim or session has ended, appended as the newest of its principal.
INSERT INTO {schema}.ended_requests ({request_columns}, number)
VALUES ({request_places}, (SELECT coalesce(max(number), 0) + 1 FROM {schema}.ended_requests WHERE principal = ?1))
