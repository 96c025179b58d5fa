-- Whether a queue is paused: since when, by whom and why, as JSON; NULL if it is not.
ALTER TABLE queues ADD COLUMN pause BLOB;
