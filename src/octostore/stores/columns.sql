-- The columns of tables, in the order of the model; every store in a database has the same.

-- name: job_columns
-- The columns of a job, in the order of the model: the job's own, then its claim's.
job_id, status, created_at, available_at, attempts, last_outcome, error, note, result_seq,
queue, kind, priority, max_attempts, enqueued_seq, payload_seq, history,
owner, principal, fencing_token, ttl_ms, lock_delay_ms, claimed_at, heartbeat_at, expires_at, session_id, metadata,
lease_id, request_id, is_lock, holder, is_replayed, was_done, heartbeat_number, checkpoint_number, progress

-- name: session_columns
-- The columns of a session, in the order of the model.
session_id, agent, principal, status, ttl_ms, opened_at, heartbeat_at, expires_at, resumed, context_seq, lease_id,
request_id, phase, offered, note, in_flight, giver_lease_id, is_replayed, save_number

-- name: request_columns
-- The columns of an ended request, in the order of the model.
principal, request_id, job_id, queue, session_id, how, ended_at, owner, claimed_at, fencing_token, attempt

-- name: token_columns
-- The columns of a token, in the order of the model.
token_id, principal, scopes, prefix, created_at, expires_at, revoked_at, digest

-- name: event_columns
-- The columns of an event, in the order of the model.
seq, at, type, actor, job_id, queue, session_id, details
