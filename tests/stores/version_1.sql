-- What a store with schema version 1 wrote: a task that ann has claimed for a minute, with a checkpoint, and a job that
-- bob has released.

UPDATE counters SET seq = 4, now = 1800000002000, boot_id = 'manual', counted_ms = 0;

INSERT INTO jobs VALUES (
    'held', 'claimed', 1800000000000, 1800000000000, 0, NULL, NULL, NULL, NULL,
    'default', 'build', 5, 5, 1, 1, CAST('[]' AS BLOB),
    'ann', 'local', 2, 60000, 0, 1800000001000, 1800000001000, 1800000061000, NULL, CAST('{"pr":7}' AS BLOB),
    'lease-1', 'r', NULL
);
INSERT INTO jobs VALUES (
    'free', 'free', 1800000001000, 1800000002000, 0, 'released', NULL, 'bye', NULL,
    NULL, NULL, 0, 0, 0, NULL, CAST('[{"owner":"bob","fencing_token":3,"attempt":1,"claimed_at":1800000001000,'
        || '"ended_at":1800000002000,"how":"released","status":"free","available_at":1800000002000,"note":"bye",'
        || '"lease_id":"lease-2"}]' AS BLOB),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL
);

INSERT INTO checkpoints VALUES ('held', CAST('{"step":3}' AS BLOB));

INSERT INTO events VALUES (
    1, 1800000000000, 'enqueued', 'local', 'held', 'default', NULL,
    CAST('{"kind":"build","queue":"default","priority":5,"available_at":1800000000000,"max_attempts":5,'
        || '"status":"queued","has_payload":true}' AS BLOB)
);
INSERT INTO events VALUES (
    2, 1800000001000, 'claimed', 'local', 'held', 'default', NULL,
    CAST('{"owner":"ann","attempt":1,"ttl_ms":60000,"expires_at":1800000061000,"metadata":{"pr":7}}' AS BLOB)
);
INSERT INTO events VALUES (
    3, 1800000001000, 'claimed', 'local', 'free', NULL, NULL,
    CAST('{"owner":"bob","attempt":1,"ttl_ms":120000,"expires_at":1800000121000}' AS BLOB)
);
INSERT INTO events VALUES (
    4, 1800000002000, 'released', 'local', 'free', NULL, NULL,
    CAST('{"owner":"bob","fencing_token":3,"attempt":1,"claimed_at":1800000001000,"heartbeat_at":1800000001000,'
        || '"status":"free","available_at":1800000002000,"attempts":0,"ended_at":1800000002000,"note":"bye"}' AS BLOB)
);

INSERT INTO documents VALUES (1, CAST('{"n":1}' AS BLOB));
