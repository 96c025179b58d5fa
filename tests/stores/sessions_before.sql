-- Contents of a store that identified a session by its id alone (SQLite schema 6, PostgreSQL schema 5): ann, an agent of the
-- principal ci, has the session `main` with a job and two contexts, the second of which is current; a lock client has
-- another session; and one opened directly on the file was closed. {blob:…} is text as bytes.

UPDATE {schema}.counters SET seq = 7, now = 1800000000000;

INSERT INTO {schema}.sessions (session_id, agent, principal, status, ttl_ms, opened_at, heartbeat_at, expires_at, resumed,
    context_seq, lease_id, request_id) VALUES
    ('main', 'ann', 'ci', 'open', 60000, 1800000000000, 1800000000000, 1800000060000, false, 3, 'lease-1', NULL),
    ('lock', 'deployer', 'deployer', 'open', 60000, 1800000000000, 1800000000000, 1800000060000, false, NULL, 'lease-2', NULL),
    ('home', 'me', 'local', 'closed', 60000, 1800000000000, 1800000000000, 1800000000000, false, NULL, 'lease-3', 'r');

INSERT INTO {schema}.jobs (job_id, status, created_at, available_at, attempts, priority, max_attempts, enqueued_seq, history,
    owner, principal, fencing_token, ttl_ms, lock_delay_ms, claimed_at, heartbeat_at, session_id, lease_id, is_lock) VALUES
    ('build', 'claimed', 1800000000000, 0, 0, 0, 0, 0, {blob:[]},
     'ann', 'ci', 4, 60000, 0, 1800000000000, 1800000000000, 'main', 'lease-4', false);

INSERT INTO {schema}.ended_requests (principal, number, request_id, session_id, how, ended_at, owner, claimed_at,
    fencing_token, attempt) VALUES
    ('local', 1, 'r', 'home', 'closed', 1800000000000, 'me', 1800000000000, 0, 0);

INSERT INTO {schema}.events (seq, at, type, actor, job_id, session_id, details) VALUES
    (1, 1800000000000, 'session_opened', 'ci', NULL, 'main',
     {blob:{"agent":"ann","ttl_ms":60000,"expires_at":1800000060000}}),
    (2, 1800000000000, 'session_saved', 'ci', NULL, 'main', {blob:{"context_bytes":5,"agent":"ann"}}),
    (3, 1800000000000, 'session_saved', 'ci', NULL, 'main', {blob:{"context_bytes":5,"agent":"ann"}}),
    (4, 1800000000000, 'claimed', 'ci', 'build', 'main', {blob:{"owner":"ann","attempt":1,"ttl_ms":60000}}),
    (5, 1800000000000, 'session_opened', 'deployer', NULL, 'lock',
     {blob:{"agent":"deployer","ttl_ms":60000,"expires_at":1800000060000}}),
    (6, 1800000000000, 'session_opened', 'local', NULL, 'home',
     {blob:{"agent":"me","ttl_ms":60000,"expires_at":1800000060000}}),
    (7, 1800000000000, 'session_closed', 'local', NULL, 'home', {blob:{"agent":"me","ended_at":1800000000000}});

INSERT INTO {schema}.documents (seq, body) VALUES (2, {blob:"old"}), (3, {blob:"new"});
