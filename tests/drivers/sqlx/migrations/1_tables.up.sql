-- Enumerated and composite types, keys, checks, an identity, a generated column.
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (value < 10);

CREATE TABLE owners (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    born date
);

CREATE TABLE items (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner bigint REFERENCES owners ON DELETE CASCADE,
    title varchar(40) NOT NULL,
    price numeric(12, 2) NOT NULL DEFAULT 0 CHECK (price >= 0),
    doubled numeric(14, 2) GENERATED ALWAYS AS (price * 2) STORED,
    state mood NOT NULL DEFAULT 'fine',
    states mood[],
    size pair,
    rank small,
    data jsonb NOT NULL DEFAULT '{}',
    tags text[] NOT NULL DEFAULT '{}',
    made timestamptz NOT NULL DEFAULT '2024-01-01 00:00:00+00'
);
CREATE INDEX items_owner ON items (owner) INCLUDE (title) WHERE price > 0;
