-- The statements that both databases understand. Each has a name and a line that says what it is for; {name} includes
-- another statement, from here or from the database's own file. %(name)s is a value, or with ANY several; %s are the values
-- of a row. {now} is the moment of the transaction.

-- name: save_queues
-- The settings of queues.
INSERT INTO {schema}.queues ({queue_columns}) {queue_values} ON CONFLICT (name) DO UPDATE SET {queue_changes}

-- name: count_queued
-- Change the number of jobs that principals have queued.
INSERT INTO {schema}.principals AS known ({principal_columns}) {principal_values}
ON CONFLICT (principal) DO UPDATE SET queued = known.queued + excluded.queued

-- name: save_jobs
-- New and changed jobs.
INSERT INTO {schema}.jobs ({job_columns}) {job_values} ON CONFLICT (job_id) DO UPDATE SET {job_changes}

-- name: save_sessions
-- New and changed sessions.
INSERT INTO {schema}.sessions ({session_columns}) {session_values} ON CONFLICT (session_id) DO UPDATE SET {session_changes}

-- name: save_tokens
-- New and changed tokens.
INSERT INTO {schema}.tokens ({token_columns}) {token_values}

-- name: drop_tokens
-- Tokens about to be saved: within a batch, one may have taken over the digest of another.
DELETE FROM {schema}.tokens WHERE token_id = ANY(%(tokens)s)

-- name: save_checkpoints
-- State that owners save for their successors.
INSERT INTO {schema}.checkpoints ({checkpoint_columns}) {checkpoint_values}
ON CONFLICT (job_id) DO UPDATE SET {checkpoint_changes}

-- name: drop_checkpoints
-- The jobs are done; their next run starts from scratch.
DELETE FROM {schema}.checkpoints WHERE job_id = ANY(%(jobs)s)

-- name: save_contexts
-- The contexts of sessions; each replaces the one before.
INSERT INTO {schema}.contexts ({context_columns}) {context_values}
ON CONFLICT (session_id) DO UPDATE SET {context_changes}

-- name: append_events
-- New lines of the log.
INSERT INTO {schema}.events ({event_columns}) {event_values}

-- name: append_documents
-- Documents that came with events.
INSERT INTO {schema}.documents ({document_columns}) {document_values}

-- name: forget_requests
-- Old requests of a principal, far enough behind its newest; a few at a time, oldest first. They are numbered without
-- gaps. The `+` keeps the planner from using the other limit's index: most rows it allows are not old enough.
DELETE FROM {schema}.ended_requests WHERE principal = %(principal)s AND ended_at < {now} - %(age)s
    AND number >= (SELECT min(number) FROM {schema}.ended_requests WHERE principal = %(principal)s)
    AND number < (SELECT min(number) FROM {schema}.ended_requests WHERE principal = %(principal)s) + %(limit)s
    AND +number <= (SELECT max(number) FROM {schema}.ended_requests WHERE principal = %(principal)s) - %(kept)s

-- name: jobs
-- Jobs by name.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id = ANY(%(jobs)s)

-- name: claimed_jobs
-- Those of these jobs that are claimed.
SELECT {job_columns} FROM {jobs_by_status} WHERE status = 'claimed' AND job_id = ANY(%(jobs)s)

-- name: documents_of_job
-- A job's payload, result and checkpoint.
(SELECT body FROM {schema}.documents WHERE seq = payload_seq), (SELECT body FROM {schema}.documents WHERE seq = result_seq),
(SELECT data FROM {schema}.checkpoints WHERE checkpoints.job_id = jobs.job_id)

-- name: jobs_with_documents
-- Jobs by name, with their documents.
SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs WHERE job_id = ANY(%(jobs)s)

-- name: documents
-- Payloads and results, by the event they came with.
SELECT {document_columns} FROM {schema}.documents WHERE seq = ANY(%(seqs)s)

-- name: checkpoints
-- The last checkpoints of jobs.
SELECT {checkpoint_columns} FROM {schema}.checkpoints WHERE job_id = ANY(%(jobs)s)

-- name: sessions
-- Sessions by id, with their contexts.
SELECT {session_columns}, (SELECT data FROM {schema}.contexts WHERE contexts.session_id = sessions.session_id)
FROM {schema}.sessions WHERE session_id = ANY(%(sessions)s)

-- name: sessions_alone
-- Sessions by id, without their contexts.
SELECT {session_columns} FROM {schema}.sessions WHERE session_id = ANY(%(sessions)s)

-- name: context_sizes
-- The sizes of contexts in bytes. Neither database reads the contexts for this.
SELECT session_id, length(data) FROM {schema}.contexts WHERE session_id = ANY(%(sessions)s)

-- name: claims_of_sessions
-- The live claims bound to sessions.
SELECT {job_columns} FROM {schema}.jobs WHERE session_id = ANY(%(sessions)s)

-- name: claims_beside
-- The live claims bound to the same sessions as the claims on these jobs.
SELECT {job_columns} FROM {schema}.jobs
WHERE session_id IN (SELECT session_id FROM {schema}.jobs WHERE job_id = ANY(%(jobs)s))

-- name: news_of_sessions
-- Live claims bound to sessions whose owner was asked to stop, or may have to learn that it is stuck.
SELECT {job_columns} FROM {schema}.jobs WHERE session_id = ANY(%(sessions)s)
    AND (stop_request IS NOT NULL OR max_silence_ms IS NOT NULL)

-- name: jobs_in_flight
-- The jobs that sessions held when they were lost.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id IN ({names_in_flight} AND session_id = ANY(%(sessions)s))

-- name: queues
-- Queues that are limited or paused, and how many of their jobs are claimed.
SELECT name, max_claimed, pause, (SELECT count(*) FROM {schema}.jobs WHERE queue = name AND status = 'claimed')
FROM {schema}.queues WHERE name = ANY(%(names)s) AND (max_claimed IS NOT NULL OR pause IS NOT NULL)

-- name: claimed_in_queues
-- How many jobs of these queues are claimed; no row for a queue without any.
SELECT queue, count(*) FROM {schema}.jobs WHERE queue = ANY(%(names)s) AND status = 'claimed' GROUP BY queue

-- name: expired_claims
-- Expired claims, oldest first.
SELECT {job_columns} FROM {schema}.jobs WHERE expires_at <= {now} ORDER BY expires_at, fencing_token LIMIT %(limit)s

-- name: expired_sessions
-- Expired sessions, oldest first.
SELECT session_id FROM {schema}.sessions
WHERE status = 'open' AND expires_at <= {now} ORDER BY expires_at, session_id LIMIT %(limit)s

-- name: claims_of_expired_sessions
-- The claims bound to expired sessions, in the same order.
SELECT {job_columns} FROM (
    SELECT j.*, s.expires_at AS session_expires_at
    FROM (SELECT session_id AS ended, expires_at FROM {schema}.sessions WHERE status = 'open' AND expires_at <= {now}
          ORDER BY expires_at, session_id LIMIT %(limit)s) s
    JOIN {schema}.jobs j ON j.session_id = s.ended
) found ORDER BY session_expires_at, session_id, job_id LIMIT %(limit)s

-- name: has_expired
-- Condition on a job: its claim has expired, by itself or with its session.
(expires_at <= {now} OR session_id IN (SELECT session_id FROM {schema}.sessions WHERE status = 'open' AND expires_at <= {now}))

-- name: priorities
-- The priorities at which jobs of a queue wait, lowest first: reading the queue priority by priority never scans jobs
-- that are not due yet.
WITH RECURSIVE priorities(level) AS (
    SELECT min(priority) FROM {schema}.jobs WHERE status = 'queued' AND queue = %(queue)s
    UNION ALL
    SELECT (SELECT min(j.priority) FROM {schema}.jobs j
            WHERE j.status = 'queued' AND j.queue = %(queue)s AND j.priority > p.level)
    FROM priorities p WHERE p.level IS NOT NULL
)

-- name: priorities_of_kind
-- Like `priorities`, for one kind of job.
WITH RECURSIVE priorities(level) AS (
    SELECT min(priority) FROM {schema}.jobs WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s
    UNION ALL
    SELECT (SELECT min(j.priority) FROM {schema}.jobs j
            WHERE j.status = 'queued' AND j.queue = %(queue)s AND j.kind = %(kind)s AND j.priority > p.level)
    FROM priorities p WHERE p.level IS NOT NULL
)

-- name: line_by_name
-- The due jobs of a queue in claim order, with names in a range, of one kind or any (NULL). Searched by name: other
-- principals' jobs in the queue must not slow down a caller whose token covers only a prefix.
SELECT {job_columns}, {documents_of_job} FROM {schema}.jobs
WHERE queue = %(queue)s AND status = 'queued' AND job_id >= %(first)s AND job_id < %(last)s
    AND (kind = %(kind)s OR %(kind)s IS NULL) AND available_at <= {now}
ORDER BY priority, available_at, enqueued_seq LIMIT %(count)s

-- name: next_expiry
-- When the next claim or session expires.
SELECT min(at) FROM (
    SELECT min(expires_at) AS at FROM {schema}.jobs WHERE expires_at > {now}
    UNION ALL
    SELECT min(expires_at) FROM {schema}.sessions WHERE status = 'open' AND expires_at > {now}) moments

-- name: waiting
-- How many waiting jobs of a queue are due, and since when; how many are not, and when the first will be. Up to a limit per
-- priority. Here and below, without jobs that the transaction has loaded, because it knows their current state.
{priorities}
SELECT CAST(sum(ready) AS bigint), min(since), CAST(sum(later) AS bigint), min(due_at) FROM (SELECT
    (SELECT count(*) FROM (SELECT 1 FROM {jobs_in_line} WHERE status = 'queued' AND queue = %(queue)s
        AND priority = p.level AND available_at <= {now} AND {not_loaded} LIMIT %(most)s) due) AS ready,
    (SELECT available_at FROM {jobs_in_line} WHERE status = 'queued' AND queue = %(queue)s
        AND priority = p.level AND available_at <= {now} AND {not_loaded} ORDER BY available_at LIMIT 1) AS since,
    (SELECT count(*) FROM (SELECT 1 FROM {jobs_in_line} WHERE status = 'queued' AND queue = %(queue)s
        AND priority = p.level AND available_at > {now} AND {not_loaded} LIMIT %(most)s) not_due) AS later,
    (SELECT available_at FROM {jobs_in_line} WHERE status = 'queued' AND queue = %(queue)s
        AND priority = p.level AND available_at > {now} AND {not_loaded} ORDER BY available_at LIMIT 1) AS due_at
    FROM priorities p WHERE p.level IS NOT NULL) levels

-- name: waiting_of_kind
-- Like `waiting`, for one kind of job.
{priorities_of_kind}
SELECT CAST(sum(ready) AS bigint), min(since), CAST(sum(later) AS bigint), min(due_at) FROM (SELECT
    (SELECT count(*) FROM (SELECT 1 FROM {jobs_in_line_by_kind} WHERE status = 'queued' AND queue = %(queue)s
        AND kind = %(kind)s AND priority = p.level AND available_at <= {now} AND {not_loaded} LIMIT %(most)s) due) AS ready,
    (SELECT available_at FROM {jobs_in_line_by_kind} WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s
        AND priority = p.level AND available_at <= {now} AND {not_loaded} ORDER BY available_at LIMIT 1) AS since,
    (SELECT count(*) FROM (SELECT 1 FROM {jobs_in_line_by_kind} WHERE status = 'queued' AND queue = %(queue)s
        AND kind = %(kind)s AND priority = p.level AND available_at > {now} AND {not_loaded} LIMIT %(most)s) not_due) AS later,
    (SELECT available_at FROM {jobs_in_line_by_kind} WHERE status = 'queued' AND queue = %(queue)s AND kind = %(kind)s
        AND priority = p.level AND available_at > {now} AND {not_loaded} ORDER BY available_at LIMIT 1) AS due_at
    FROM priorities p WHERE p.level IS NOT NULL) levels

-- name: waiting_by_name
-- Like `waiting`, for names in a range, and one kind or any (NULL). Searched by name, like `line_by_name`.
SELECT count(*) FILTER (WHERE available_at <= {now}), min(available_at) FILTER (WHERE available_at <= {now}),
    count(*) FILTER (WHERE available_at > {now}), min(available_at) FILTER (WHERE available_at > {now})
FROM {schema}.jobs WHERE queue = %(queue)s AND status = 'queued' AND job_id >= %(first)s AND job_id < %(last)s
    AND (kind = %(kind)s OR %(kind)s IS NULL) AND {not_loaded}

-- name: not_waiting
-- How many jobs of a queue, with names in a range, are claimed, dead and done; each up to a limit.
SELECT (SELECT count(*) FROM (SELECT 1 FROM {schema}.jobs WHERE queue = %(queue)s AND status = 'claimed'
        AND job_id >= %(first)s AND job_id < %(last)s AND {not_loaded} LIMIT %(most)s) claimed),
    (SELECT count(*) FROM (SELECT 1 FROM {schema}.jobs WHERE queue = %(queue)s AND status = 'dead'
        AND job_id >= %(first)s AND job_id < %(last)s AND {not_loaded} LIMIT %(most)s) dead),
    (SELECT count(*) FROM (SELECT 1 FROM {schema}.jobs WHERE queue = %(queue)s AND status = 'done'
        AND job_id >= %(first)s AND job_id < %(last)s AND {not_loaded} LIMIT %(most)s) done)

-- name: claims_in_queue
-- The first claims of a queue by name, and the kinds of their jobs.
SELECT job_id, owner, kind FROM {schema}.jobs WHERE queue = %(queue)s AND status = 'claimed'
    AND job_id >= %(first)s AND job_id < %(last)s AND {not_loaded} ORDER BY job_id LIMIT %(most)s

-- name: queue_names
-- Queues with jobs whose names are in a range; for the range of all names, also those that are limited or paused. The ones
-- in which most jobs wait, out of a limited number by name. Each name is found from the one before.
WITH RECURSIVE found(queue, place) AS (
    SELECT min(queue), 1 FROM {schema}.jobs WHERE queue IS NOT NULL
    UNION ALL
    SELECT (SELECT min(j.queue) FROM {schema}.jobs j WHERE j.queue > f.queue), f.place + 1
    FROM found f WHERE f.queue IS NOT NULL AND f.place < %(looked_at)s
)
SELECT queue FROM (
    SELECT queue, (SELECT count(*) FROM (SELECT 1 FROM {schema}.jobs j WHERE j.queue = every.queue
        AND j.status = 'queued' AND j.job_id >= %(first)s AND j.job_id < %(last)s LIMIT %(most)s) waiting) AS depth
    FROM (
        SELECT queue FROM found WHERE queue IS NOT NULL AND (%(first)s = '' OR EXISTS (
            SELECT 1 FROM {schema}.jobs j WHERE j.queue = found.queue
            AND j.status IN ('queued', 'claimed', 'dead', 'done') AND j.job_id >= %(first)s AND j.job_id < %(last)s))
        UNION
        SELECT name FROM {schema}.queues
        WHERE (max_claimed IS NOT NULL OR pause IS NOT NULL) AND %(first)s = '') every) counted
ORDER BY depth DESC, {queue_by_bytes} LIMIT %(limit)s

-- name: happened_in_queues
-- What happened in queues after an event, to jobs with names in a range: how often per time bucket, and when last.
-- Everything before a moment is in the bucket of that moment.
SELECT queue, type, {later}(at, %(before)s) / %(bucket)s AS bucket, count(*), max(at) FROM {schema}.events
WHERE seq > %(after)s AND queue IS NOT NULL AND type IN ('enqueued', 'claimed', 'done', 'failed', 'expired') AND {in_span}
GROUP BY queue, type, bucket

-- name: moment_of_event
-- When an event happened.
SELECT at FROM {schema}.events WHERE seq = %(seq)s

-- name: tokens
-- Tokens by id.
SELECT {token_columns} FROM {schema}.tokens WHERE token_id = ANY(%(tokens)s)

-- name: queued_of_principals
-- How many jobs principals have queued.
SELECT {principal_columns} FROM {schema}.principals WHERE principal = ANY(%(principals)s)

-- name: tokens_by_digest
-- Tokens by digest.
SELECT {token_columns} FROM {schema}.tokens WHERE digest = ANY(%(digests)s)

-- name: list_tokens
-- All tokens.
SELECT {token_columns} FROM {schema}.tokens ORDER BY created_at DESC, token_id

-- name: store_key
-- The secret that pseudonyms are derived from.
SELECT key FROM {schema}.store_key

-- name: list_jobs
-- Jobs by name, from one name up to, but excluding, another.
SELECT {job_columns} FROM {schema}.jobs WHERE job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id LIMIT %(limit)s

-- name: names_from
-- Only the names of these jobs.
SELECT job_id FROM {schema}.jobs WHERE job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id LIMIT %(limit)s

-- name: names_before
-- Like `names_from`, in the other direction.
SELECT job_id FROM {schema}.jobs WHERE job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id DESC LIMIT %(limit)s

-- name: list_jobs_by_status
-- Like `list_jobs`, for one status.
SELECT {job_columns} FROM {schema}.jobs
WHERE status = %(status)s AND job_id >= %(first)s AND job_id < %(last)s ORDER BY job_id LIMIT %(limit)s

-- name: list_jobs_by_queue
-- Like `list_jobs`, for one queue and status.
SELECT {job_columns} FROM {schema}.jobs
WHERE queue = %(queue)s AND status = %(status)s AND job_id >= %(first)s AND job_id < %(last)s
ORDER BY job_id LIMIT %(limit)s

-- name: in_span
-- Condition on a job: its name is in a range. For the range of all names, its row is not read.
(%(first)s = '' OR (job_id >= %(first)s AND job_id < %(last)s))

-- name: list_ready
-- The jobs of a queue that were due at a moment, in order, after one of them.
SELECT {job_columns} FROM {jobs_in_line} WHERE status = 'queued' AND queue = %(queue)s
    AND (priority, available_at, enqueued_seq) > (%(one)s, %(two)s, %(three)s)
    AND available_at <= %(moment)s AND {in_span}
ORDER BY priority, available_at, enqueued_seq LIMIT %(limit)s

-- name: list_later
-- Those that were not due, in order of time. The index has them by priority, so all that wait are sorted, but by index
-- columns only; rows are read for the page alone.
SELECT {job_columns} FROM (
    SELECT available_at AS due_at, priority AS level, enqueued_seq AS number FROM {jobs_in_line}
    WHERE status = 'queued' AND queue = %(queue)s AND available_at > %(moment)s
        AND (available_at, priority, enqueued_seq) > (%(one)s, %(two)s, %(three)s) AND {in_span}
    ORDER BY available_at, priority, enqueued_seq LIMIT %(limit)s) found
JOIN {schema}.jobs ON status = 'queued' AND queue = %(queue)s
    AND priority = level AND available_at = due_at AND enqueued_seq = number
ORDER BY due_at, level, number

-- name: count_claimed
-- How many jobs with names in a range are claimed.
SELECT count(*) FROM {schema}.jobs WHERE status = 'claimed' AND job_id >= %(first)s AND job_id < %(last)s

-- name: list_sessions
-- Sessions by id, after one.
SELECT {session_columns} FROM {schema}.sessions WHERE session_id > %(after)s ORDER BY session_id LIMIT %(limit)s

-- name: list_ended_sessions
-- Like `list_sessions`, for one status other than open. Saying so explicitly makes the planner use the index.
SELECT {session_columns} FROM {schema}.sessions
WHERE status <> 'open' AND status = %(status)s AND session_id > %(after)s ORDER BY session_id LIMIT %(limit)s

-- name: list_ended_sessions_by_principal
-- Like `list_ended_sessions`, for one principal.
SELECT {session_columns} FROM {schema}.sessions
WHERE status <> 'open' AND principal = %(principal)s AND status = %(status)s AND session_id > %(after)s
ORDER BY session_id LIMIT %(limit)s

-- name: list_open_sessions
-- Live sessions of one principal or any (NULL), by id. Searched by expiry, because ended sessions are far more
-- numerous.
SELECT {session_columns} FROM {schema}.sessions
WHERE status = 'open' AND expires_at > {now} AND (principal = %(principal)s OR %(principal)s IS NULL)
    AND {unindexed}session_id > %(after)s
ORDER BY {unindexed}session_id LIMIT %(limit)s

-- name: list_expired_sessions
-- Expired sessions whose expiry is not recorded yet.
SELECT {session_columns} FROM {schema}.sessions
WHERE status = 'open' AND expires_at <= {now} AND (principal = %(principal)s OR %(principal)s IS NULL)
    AND {unindexed}session_id > %(after)s
ORDER BY {unindexed}session_id LIMIT %(limit)s

-- name: last_event_before
-- The seq of the last event before a moment, or 0. It needs no index by time: time never runs backwards in the log, so
-- this is a binary search.
WITH RECURSIVE span(first, length) AS (
    SELECT CAST(0 AS bigint), seq FROM {schema}.counters
    UNION ALL
    SELECT first + CASE WHEN %(moment)s > (SELECT at FROM {schema}.events WHERE seq >= first + (length + 1) / 2
        ORDER BY seq LIMIT 1) THEN (length + 1) / 2 ELSE 0 END, length / 2
    FROM span WHERE length > 0
)
SELECT first FROM span WHERE length = 0

-- name: list_events
-- The log after an event.
SELECT {event_columns} FROM {schema}.events WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: list_events_by_job
-- The events of one job, after an event.
SELECT {event_columns} FROM {schema}.events WHERE job_id = %(job)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: list_events_by_session
-- The events of one session, after an event.
SELECT {event_columns} FROM {schema}.events
WHERE session_id = %(session)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: events_at
-- Events by seq.
SELECT {event_columns} FROM {schema}.events WHERE seq = ANY(%(seqs)s)

-- name: live_claims
-- Claims by name, with what decides whether and where they are shown; of one queue and owner, or any (NULL). A bound
-- claim lives with its session.
SELECT jobs.job_id, jobs.status, jobs.claimed_at, coalesce(jobs.expires_at, s.expires_at),
    CASE WHEN jobs.expires_at IS NULL THEN s.ttl_ms ELSE jobs.ttl_ms END, jobs.max_silence_ms, jobs.last_progress_at, jobs.stop_request IS NOT NULL
FROM {schema}.jobs LEFT JOIN {schema}.sessions s ON s.session_id = jobs.session_id
WHERE jobs.status = 'claimed' AND jobs.job_id >= %(first)s AND jobs.job_id < %(last)s
    AND (jobs.queue = %(queue)s OR %(queue)s IS NULL) AND (jobs.owner = %(owner)s OR %(owner)s IS NULL)
ORDER BY jobs.job_id LIMIT %(limit)s

-- name: newest_losses
-- The newest events since a moment with which owners lost claims.
SELECT {event_columns} FROM {schema}.events
WHERE type IN ('expired', 'force_released') AND at >= %(since)s ORDER BY at DESC LIMIT %(limit)s

-- name: newest_events
-- The end of the log. Filters apply to these few events, without any index.
(SELECT {event_columns} FROM {schema}.events ORDER BY seq DESC LIMIT %(limit)s) newest

-- name: newest_ends
-- The ends of claims among the newest events, on jobs with names in a range.
SELECT * FROM {newest_events} WHERE type IN ({ends}) AND job_id >= %(first)s AND job_id < %(last)s

-- name: looked_at
-- Among the newest events: when one of these jobs was last claimed, how many events there are, and when the first happened.
SELECT max(at) FILTER (WHERE type = 'claimed' AND job_id >= %(first)s AND job_id < %(last)s), count(*), min(at)
FROM {newest_events}

-- name: figures
-- How many jobs are claimed, late (themselves, or their session) and stuck; how many jobs are dead, sessions live, and
-- claims recently lost; how many jobs wait, and since when the first could have been claimed; how many claims have expired
-- without being recorded, how many of them in queues, and since when.
SELECT (SELECT count(*) FROM {schema}.jobs WHERE status = 'claimed'), live.late, live.stuck,
    (SELECT count(*) FROM {schema}.jobs WHERE status = 'dead'),
    (SELECT count(*) FROM {schema}.sessions WHERE status = 'open' AND expires_at > {now}),
    (SELECT count(*) FROM {schema}.events WHERE type IN ('expired', 'force_released') AND at > {now} - {lately_ms}),
    waiting.number, waiting.due_at, expired.number, expired.of_queues, expired.ended_at
FROM (SELECT count(*) AS number, min(available_at) FILTER (WHERE available_at <= {now}) AS due_at
    FROM {jobs_in_line} WHERE status = 'queued') waiting,
    (SELECT count(*) FILTER (WHERE {now} >= expires_at - ttl_ms / {beats_per_ttl}) AS late,
        count(*) FILTER (WHERE {now} - last_progress_at >= max_silence_ms) AS stuck FROM (
        SELECT expires_at, ttl_ms, last_progress_at, max_silence_ms FROM {schema}.jobs WHERE expires_at > {now}
        UNION ALL
        SELECT s.expires_at, s.ttl_ms, j.last_progress_at, j.max_silence_ms
        FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at > {now} AND j.expires_at IS NULL) claims) live,
    (SELECT count(*) AS number, count(queue) AS of_queues, min(ended_at) FILTER (WHERE queue IS NOT NULL) AS ended_at FROM (
        SELECT queue, expires_at AS ended_at FROM {schema}.jobs WHERE expires_at <= {now}
        UNION ALL
        SELECT j.queue, s.expires_at FROM {schema}.sessions s JOIN {schema}.jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at <= {now} AND j.expires_at IS NULL) ended) expired

-- name: queued_jobs
-- The longest queues, and how many jobs wait in each.
SELECT queue, count(*) AS depth FROM {jobs_in_line}
WHERE status = 'queued' GROUP BY queue ORDER BY depth DESC, {queue_by_bytes} LIMIT %(limit)s
