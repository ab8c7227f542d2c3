"""createdb, dropdb, psql and pg_dump of PostgreSQL 15 with several databases: what frameworks do before their tests and behind them."""

import os
import re
import subprocess


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    print(f"$ {' '.join(command)}")
    # Where it connected to; the versions in a dump's comments, and the random word that psql is given.
    text = re.sub(r"connection to server .* failed", "connection failed", done.stdout + done.stderr)
    text = re.sub(r"^(-- Dumped (from|by)|\\(un)?restrict ).*\n", "", text, flags=re.M)
    print(text, end="" if text.endswith("\n") or not text else "\n")
    if done.returncode != 0:
        print(f"exit code {done.returncode}")
    return done.stdout


def psql(database, *statements):
    return run("psql", "-X", "-d", database, *(x for sql in statements for x in ("-c", sql)))


LIST = "select datname, datallowconn, datconnlimit, datistemplate, shobj_description(oid, 'pg_database') as said from pg_database where datname !~ '^template' order by 1"


def main():
    run("createdb", "shop")
    run("createdb", "shop")
    run("createdb", "-E", "UTF8", "-T", "template0", "--lc-collate=C", "--lc-ctype=C", "other", "of another kind")
    psql("postgres", LIST)
    psql("shop", "create table t (a int primary key, b text)", "insert into t values (1, 'x')", "select current_database(), count(*) from t")
    psql("other", "select * from t")
    psql("other", "create table t (c int)", "select table_catalog, table_name, column_name from information_schema.columns where table_schema = 'public'")
    psql("shop", "\\d t", "\\c other", "\\d t", "\\c nowhere")
    psql("shop", "drop database shop")
    psql("postgres", "begin", "create database inner_one")
    psql("postgres", "create database a encoding 'unicode' connection limit 5", "alter database a allow_connections false", "alter database a set work_mem to '5MB'", "alter database a is_template true", LIST)
    psql("a", "select 1")
    psql("postgres", "drop database a", "alter database a is_template false", "alter database a rename to b", "alter database shop rename to b", "alter database b rename to postgres", LIST)
    psql("postgres", "select d.datname, s.setconfig from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase", "alter database b reset work_mem")
    run("createdb", "-T", "shop", "shop_2")
    psql("shop_2", "select * from t", "insert into t values (2, 'y')")
    psql("shop", "select * from t")
    text = run("pg_dump", "--create", "shop")
    assert "CREATE DATABASE shop" in text
    run("dropdb", "shop")
    run("dropdb", "shop")
    run("dropdb", "--if-exists", "shop")
    run("dropdb", "--force", "other")
    run("dropdb", "b")
    run("dropdb", "shop_2")
    psql("postgres", LIST)


main()
