-- What the role that uses a store needs, and no more: {role}, in the schema {schema}. The log can be added to and read.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE
    ON {schema}.jobs, {schema}.checkpoints, {schema}.sessions, {schema}.contexts, {schema}.queues, {schema}.tokens,
        {schema}.writers, {schema}.ended_requests, {schema}.principals
    TO {role};
GRANT SELECT, UPDATE ON {schema}.counters TO {role};
GRANT SELECT, INSERT ON {schema}.events, {schema}.documents TO {role};
GRANT SELECT ON {schema}.store_key, {schema}.migrations TO {role};
