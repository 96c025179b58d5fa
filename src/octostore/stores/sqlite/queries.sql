-- Every statement that the SQLite store runs. Each has a name and a line that says what it is for;
-- {name} stands for the text of another one, or for the columns of a table (`columns.sql`).

-- name: counters
-- Where the store stands.
SELECT seq, now, boot_id, counted_ms FROM counters

-- name: save_counters
-- Where the store stands after this transaction.
UPDATE counters SET seq = ?, now = ?, boot_id = ?, counted_ms = ?

-- name: job
-- A job by its name.
SELECT {job_columns} FROM jobs WHERE job_id = ?

-- name: checkpoint
-- What the last owner of a job left.
SELECT data FROM checkpoints WHERE job_id = ?

-- name: document
-- The payload, result or context that an event brought.
SELECT body FROM documents WHERE seq = ?

-- name: session
-- A session by its id.
SELECT {session_columns} FROM sessions WHERE session_id = ?

-- name: claims_of_session
-- The live claims bound to a session.
SELECT {job_columns} FROM jobs WHERE session_id = ? ORDER BY job_id LIMIT ?

-- name: queue
-- A queue's limit.
SELECT max_claimed FROM queues WHERE name = ?

-- name: claimed_in_queue
-- How many jobs of a queue are claimed.
SELECT count(*) FROM jobs WHERE queue = ? AND status = 'claimed'

-- name: claims_of_principal
-- How many locks, or other claims, a principal has.
SELECT count(*) FROM jobs WHERE principal = ? AND is_lock = ?

-- name: expired_claims
-- The claims that have run out, oldest first.
SELECT {job_columns} FROM jobs WHERE expires_at <= ? ORDER BY expires_at, fencing_token LIMIT ?

-- name: expired_sessions
-- The sessions that have run out, oldest first.
SELECT {session_columns} FROM sessions
WHERE status = 'open' AND expires_at <= ? ORDER BY expires_at, session_id LIMIT ?

-- name: expired_in_queue
-- The claims of a queue that have run out, for when these are so many that the sweep did not get to all of them.
SELECT {job_columns} FROM jobs
WHERE queue = ?1 AND status = 'claimed'
    AND (expires_at <= ?2 OR session_id IN (SELECT session_id FROM sessions WHERE status = 'open' AND expires_at <= ?2))
ORDER BY job_id LIMIT ?3

-- name: expired_of_principal
-- The same for the locks, or other claims, of a principal.
SELECT {job_columns} FROM jobs
WHERE principal = ?1 AND is_lock = ?2
    AND (expires_at <= ?3 OR session_id IN (SELECT session_id FROM sessions WHERE status = 'open' AND expires_at <= ?3))
ORDER BY job_id LIMIT ?4

-- name: job_of_request
-- The live claim on a queue's job that a request made.
SELECT {job_columns} FROM jobs
WHERE principal = ? AND request_id = ? AND queue = ? AND request_id IS NOT NULL AND queue IS NOT NULL

-- name: ended_requests
-- What a request had that has ended, oldest first.
SELECT {request_columns} FROM ended_requests INDEXED BY ended_requests_by_id
WHERE principal = ? AND request_id = ? ORDER BY number

-- name: next_priority
-- The first priority above a given one at which jobs of a queue wait.
SELECT min(priority) FROM jobs WHERE status = 'queued' AND queue = ? AND priority > ?

-- name: next_priority_of_kind
-- The same for one kind of job.
SELECT min(priority) FROM jobs WHERE status = 'queued' AND queue = ? AND kind = ? AND priority > ?

-- name: line
-- The jobs of a queue that are due, at one priority, in the order in which they are to be claimed.
SELECT {job_columns} FROM jobs
WHERE status = 'queued' AND queue = ? AND priority = ? AND available_at <= ?
ORDER BY available_at, enqueued_seq LIMIT ?

-- name: line_of_kind
-- The same for one kind of job.
SELECT {job_columns} FROM jobs
WHERE status = 'queued' AND queue = ? AND kind = ? AND priority = ? AND available_at <= ?
ORDER BY available_at, enqueued_seq LIMIT ?

-- name: line_by_name
-- The same for the jobs whose names are in a range, and of one kind or any (NULL). Found by name: what others have in
-- the queue must not slow down somebody who may only see a part of it.
SELECT {job_columns} FROM jobs
WHERE queue = ?1 AND status = 'queued' AND job_id >= ?2 AND job_id < ?3
    AND (?4 IS NULL OR kind = ?4) AND available_at <= ?5
ORDER BY priority, available_at, enqueued_seq LIMIT ?6

-- name: next_due
-- When the next job of a queue is due, at one priority.
SELECT min(available_at) FROM jobs WHERE status = 'queued' AND queue = ? AND priority = ? AND available_at > ?

-- name: next_claim_expiry
-- When the next claim runs out unless it is renewed.
SELECT min(expires_at) FROM jobs WHERE expires_at > ?

-- name: next_session_expiry
-- When the next session runs out unless it is kept alive.
SELECT min(expires_at) FROM sessions WHERE status = 'open' AND expires_at > ?

-- name: list_jobs
-- Jobs by name, from one name up to before another.
SELECT {job_columns} FROM jobs WHERE job_id >= ? AND job_id < ? ORDER BY job_id LIMIT ?

-- name: list_jobs_by_status
-- The same for one status.
SELECT {job_columns} FROM jobs
WHERE status = ? AND job_id >= ? AND job_id < ? ORDER BY job_id LIMIT ?

-- name: list_jobs_by_queue
-- The same for one queue and status.
SELECT {job_columns} FROM jobs
WHERE queue = ? AND status = ? AND job_id >= ? AND job_id < ? ORDER BY job_id LIMIT ?

-- name: list_expired_claims
-- Jobs whose claim has run out, by name: they may be listed under any status by now. Found by expiry (the + keeps the
-- planner from walking through all names), because those not written down yet are few.
SELECT {job_columns} FROM jobs
WHERE expires_at <= ?1 AND (?2 IS NULL OR queue = ?2) AND +job_id >= ?3 AND +job_id < ?4 ORDER BY +job_id LIMIT ?5

-- name: list_expired_with_session
-- The same for claims that have run out with their session.
SELECT {job_columns} FROM jobs
WHERE session_id IN (SELECT session_id FROM sessions WHERE status = 'open' AND expires_at <= ?1)
    AND (?2 IS NULL OR queue = ?2) AND +job_id >= ?3 AND +job_id < ?4 ORDER BY +job_id LIMIT ?5

-- name: list_sessions
-- Sessions by id, after one.
SELECT {session_columns} FROM sessions WHERE session_id > ? ORDER BY session_id LIMIT ?

-- name: list_ended_sessions
-- The same for those of one status other than open. That it is another has to be said, or the index is not used.
SELECT {session_columns} FROM sessions
WHERE status <> 'open' AND status = ? AND session_id > ? ORDER BY session_id LIMIT ?

-- name: list_ended_sessions_by_principal
-- The same for one principal.
SELECT {session_columns} FROM sessions
WHERE status <> 'open' AND principal = ? AND status = ? AND session_id > ? ORDER BY session_id LIMIT ?

-- name: list_open_sessions
-- Sessions that are alive, of one principal or anybody (NULL), by id. Found by expiry, because those that have ended
-- are many more.
SELECT {session_columns} FROM sessions
WHERE status = 'open' AND expires_at > ?1 AND (?2 IS NULL OR principal = ?2) AND +session_id > ?3
ORDER BY +session_id LIMIT ?4

-- name: list_expired_sessions
-- The same for those that have run out, but are not written down as expired yet.
SELECT {session_columns} FROM sessions
WHERE status = 'open' AND expires_at <= ?1 AND (?2 IS NULL OR principal = ?2) AND +session_id > ?3
ORDER BY +session_id LIMIT ?4

-- name: list_events
-- The log after an event.
SELECT {event_columns} FROM events WHERE seq > ? ORDER BY seq LIMIT ?

-- name: list_events_by_job
-- The story of one job after an event.
SELECT {event_columns} FROM events WHERE job_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: list_events_by_session
-- The story of one session after an event.
SELECT {event_columns} FROM events WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: token
-- A token by its id.
SELECT {token_columns} FROM tokens WHERE token_id = ?

-- name: token_by_digest
-- A token by its secret.
SELECT {token_columns} FROM tokens WHERE digest = ?

-- name: list_tokens
-- All tokens.
SELECT {token_columns} FROM tokens ORDER BY created_at DESC, token_id

-- name: store_key
-- The secret from which pseudonyms are made.
SELECT key FROM store_key

-- name: claimed_jobs
-- How many jobs are claimed, also those whose claim has run out.
SELECT count(*) FROM jobs WHERE status = 'claimed'

-- name: run_out
-- How many claims have run out, by themselves or with their session, and are not written down yet; how many of them on
-- jobs of a queue, and since when the first of these.
SELECT count(*), count(queue), min(CASE WHEN queue IS NOT NULL THEN ended_at END) FROM (
    SELECT queue, expires_at AS ended_at FROM jobs WHERE expires_at <= ?1
    UNION ALL
    SELECT j.queue, s.expires_at FROM sessions s JOIN jobs j ON j.session_id = s.session_id
    WHERE s.status = 'open' AND s.expires_at <= ?1 AND j.expires_at IS NULL)

-- name: late_claims
-- How many of them are late: by themselves, or because their session is.
SELECT (SELECT count(*) FROM jobs WHERE expires_at > ?1 AND ?1 - heartbeat_at > ttl_ms * ?2)
    + (SELECT count(*) FROM sessions s JOIN jobs j ON j.session_id = s.session_id
        WHERE s.status = 'open' AND s.expires_at > ?1 AND j.expires_at IS NULL
            AND ?1 - max(s.heartbeat_at, j.heartbeat_at) > s.ttl_ms * ?2)

-- name: dead_jobs
-- How many jobs are dead.
SELECT count(*) FROM jobs WHERE status = 'dead'

-- name: open_sessions
-- How many sessions are alive.
SELECT count(*) FROM sessions WHERE status = 'open' AND expires_at > ?

-- name: queued_jobs
-- How many jobs wait, in the queues in which most do. From the line itself: those done, and their rows, are many more.
SELECT queue, count(*) AS depth FROM jobs INDEXED BY jobs_in_line
WHERE status = 'queued' GROUP BY queue ORDER BY depth DESC, queue LIMIT ?

-- name: waiting_jobs
-- How many jobs wait in all, and since when the first of them could have been claimed.
SELECT count(*), min(CASE WHEN available_at <= ? THEN available_at END) FROM jobs INDEXED BY jobs_in_line
WHERE status = 'queued'

-- name: taken_back
-- How many claims were taken back after a moment.
SELECT count(*) FROM events WHERE type IN ('expired', 'force_released') AND at > ?

-- name: save_job
-- A job that is new or has changed.
INSERT INTO jobs ({job_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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

-- name: renew_job
-- What a heartbeat changes. Saving the whole row would write to every index that it is in.
UPDATE jobs SET ttl_ms = ?, heartbeat_at = ?, expires_at = ?, progress = ?, heartbeat_number = ?, checkpoint_number = ?
WHERE job_id = ?

-- name: save_session
-- A session that is new or has changed.
INSERT INTO sessions ({session_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    agent = excluded.agent, principal = excluded.principal, status = excluded.status, ttl_ms = excluded.ttl_ms,
    opened_at = excluded.opened_at, heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
    resumed = excluded.resumed, context_seq = excluded.context_seq, lease_id = excluded.lease_id,
    request_id = excluded.request_id, phase = excluded.phase, offered = excluded.offered, note = excluded.note,
    in_flight = excluded.in_flight, giver_lease_id = excluded.giver_lease_id, is_replayed = excluded.is_replayed,
    save_number = excluded.save_number

-- name: remember_request
-- A request whose claim or session has ended: the newest of its principal.
INSERT INTO ended_requests (number, {request_columns})
SELECT coalesce(max(number), 0) + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM ended_requests WHERE principal = ?1

-- name: forget_requests
-- Those of a principal that are old, and far enough from the newest; a few at a time, from the oldest on.
DELETE FROM ended_requests WHERE principal = ?1 AND ended_at < ?3 AND number IN (
    SELECT number FROM ended_requests WHERE principal = ?1
        AND number <= (SELECT max(number) FROM ended_requests WHERE principal = ?1) - ?2 ORDER BY number LIMIT ?4)

-- name: drop_token
-- A token that is about to be saved.
DELETE FROM tokens WHERE token_id = ?

-- name: save_token
-- A token that is new or has changed.
INSERT INTO tokens ({token_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_queue
-- A queue's limit.
INSERT INTO queues (name, max_claimed) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET max_claimed = excluded.max_claimed

-- name: save_checkpoint
-- What the owner of a job leaves for its successor.
INSERT INTO checkpoints (job_id, data) VALUES (?, ?) ON CONFLICT (job_id) DO UPDATE SET data = excluded.data

-- name: drop_checkpoint
-- The job is done; its next run starts afresh.
DELETE FROM checkpoints WHERE job_id = ?

-- name: append_event
-- One line of the log.
INSERT INTO events ({event_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: append_document
-- What an event brought.
INSERT INTO documents (seq, body) VALUES (?, ?)
