-- What SQLite alone understands, or is faster with; all others are in the file that both databases share.

-- name: now
-- The moment of this transaction is a value of each statement that asks for it.
%(now)s

-- name: unindexed
-- Before a column, keeps the planner from using its index.
+

-- name: later
-- The later of two moments.
max

-- name: jobs_in_line
-- The jobs that wait, without looking at their rows: those done, and their rows, are many more.
{schema}.jobs INDEXED BY jobs_in_line

-- name: jobs_in_line_by_kind
-- The same, by kind.
{schema}.jobs INDEXED BY jobs_in_line_by_kind

-- name: jobs_by_status
-- The same for all jobs: the rows of those with another status are not looked at.
{schema}.jobs INDEXED BY jobs_by_status

-- name: not_loaded
-- Of a job: it is not among those whose names are given, as JSON. Without any (NULL) its row is not looked at.
(%(loaded)s IS NULL OR job_id NOT IN (SELECT value FROM json_each(%(loaded)s)))

-- name: queue_by_bytes
-- As names sort everywhere.
queue

-- name: counters
-- Where the store stands, which it is, and when the next claim or session runs out (without any, in some hundred million
-- years).
SELECT seq, now, boot_id, counted_ms, store_id, is_open, min(
    coalesce((SELECT min(expires_at) FROM {schema}.jobs WHERE expires_at IS NOT NULL), 9223372036854775807),
    coalesce((SELECT min(expires_at) FROM {schema}.sessions WHERE status = 'open'), 9223372036854775807))
FROM {schema}.counters

-- name: save_counters
-- Where the store stands after this transaction.
UPDATE {schema}.counters SET seq = %(seq)s, now = %(now)s, boot_id = %(boot_id)s, counted_ms = %(counted_ms)s, is_open = 1

-- name: is_open
-- Whether the database without its -wal would lack something.
SELECT is_open FROM {schema}.counters

-- name: note_closed
-- That it would not, once the -wal has been copied into it.
UPDATE {schema}.counters SET is_open = 0

-- name: last_ends
-- The last events after one with which claims on jobs ended, whose names are given as JSON. All in one statement: the list of
-- types would be made anew for each.
SELECT {event_columns} FROM {schema}.events WHERE seq IN (
    SELECT ended.seq FROM json_each(%(names)s) wanted CROSS JOIN {schema}.events ended ON ended.seq IN (
        SELECT e.seq FROM {schema}.events e WHERE e.job_id = wanted.value AND e.seq > %(after)s AND e.type IN ({ends})
        ORDER BY e.seq DESC LIMIT {ends_limit}))

-- name: next_ends
-- The next event after one with which a claim on a job ended.
SELECT {event_columns} FROM {schema}.events WHERE job_id = %s AND seq > %s AND type IN ({ends}) ORDER BY seq LIMIT 1

-- name: names_in_flight
-- The jobs that sessions were working on when they were lost; for a condition to follow.
SELECT lost.value FROM {schema}.sessions, json_each(CAST(in_flight AS text)) lost WHERE true

-- name: expired_in_queues
-- The claims of a queue that have run out, for when these are so many that the sweep did not get to all of them.
SELECT {job_columns} FROM {schema}.jobs WHERE queue = %s AND status = 'claimed' AND {has_run_out}
ORDER BY job_id LIMIT {sweep_limit}

-- name: expired_of_principals
-- The same for the locks, or other claims, of a principal.
SELECT {job_columns} FROM {schema}.jobs WHERE principal = %s AND is_lock = %s AND {has_run_out}
ORDER BY job_id LIMIT {sweep_limit}

-- name: claims_of_principals
-- How many locks, or other claims, a principal has.
SELECT ?1, ?2, count(*) FROM {schema}.jobs WHERE principal = ?1 AND is_lock = ?2

-- name: sessions_of_principals
-- How many sessions of a principal are alive.
SELECT ?1, count(*) FROM {schema}.sessions WHERE principal = ?1 AND status = 'open' AND expires_at > {now}

-- name: jobs_of_requests
-- The live claim on a queue's job that a request made.
SELECT {job_columns} FROM {schema}.jobs
WHERE principal = %s AND request_id = %s AND queue = %s AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- What a request had that has ended, oldest first.
SELECT {request_columns} FROM {schema}.ended_requests INDEXED BY ended_requests_by_id
WHERE principal = %s AND request_id = %s ORDER BY number

-- name: in_line
-- The jobs of the priorities, one after the other: an inner loop over an index keeps the order of both.
SELECT {job_columns}, {documents_of_job} FROM priorities p CROSS JOIN {schema}.jobs

-- name: line
-- The jobs of a queue that are due, in the order in which they are to be claimed.
{priorities} {in_line} INDEXED BY jobs_in_line
WHERE status = 'queued' AND queue = %(queue)s AND priority = p.level AND available_at <= {now} LIMIT %(count)s

-- name: line_of_kind
-- The same for one kind of job.
{priorities_of_kind} {in_line} INDEXED BY jobs_in_line_by_kind
WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s AND priority = p.level AND available_at <= {now}
LIMIT %(count)s

-- name: list_expired
-- Jobs whose claim has run out, by name: they may be listed under any status by now. Found by expiry, because those not
-- written down yet are few.
SELECT {job_columns} FROM {schema}.jobs WHERE rowid IN (
        SELECT rowid FROM {schema}.jobs WHERE expires_at <= {now}
        UNION ALL
        SELECT j.rowid FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at <= {now})
    AND (queue = %(queue)s OR %(queue)s IS NULL) AND +job_id >= %(first)s AND +job_id < %(last)s
ORDER BY +job_id LIMIT %(limit)s

-- name: renew_jobs
-- What a heartbeat changes. Saving the whole row would write to every index that it is in.
UPDATE {schema}.jobs SET {renewal_sets} WHERE job_id = ?1

-- name: remember_requests
-- A request whose claim or session has ended: the newest of its principal.
INSERT INTO {schema}.ended_requests ({request_columns}, number)
VALUES ({request_places}, (SELECT coalesce(max(number), 0) + 1 FROM {schema}.ended_requests WHERE principal = ?1))
