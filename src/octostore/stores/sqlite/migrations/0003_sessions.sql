-- Sessions are kept for ever, so those that have ended are found by an index when they are listed. Those that are open
-- are not in it: keeping one alive writes to no more indexes than before.

CREATE INDEX sessions_ended ON sessions (status, session_id) WHERE status <> 'open';
CREATE INDEX sessions_ended_by_principal ON sessions (principal, status, session_id) WHERE status <> 'open';
