-- Sessions are kept forever, so an index finds ended ones for listing. Open sessions are not in it, so a keepalive writes
-- to no additional index.

CREATE INDEX sessions_ended ON sessions (status, session_id) WHERE status <> 'open';
CREATE INDEX sessions_ended_by_principal ON sessions (principal, status, session_id) WHERE status <> 'open';
