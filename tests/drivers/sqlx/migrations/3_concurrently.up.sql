-- no-transaction
CREATE INDEX CONCURRENTLY items_title ON items (lower(title));
