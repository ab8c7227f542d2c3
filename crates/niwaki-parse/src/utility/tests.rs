use niwaki_vacuum::IndexCleanup;

use super::*;
use crate::parse::parse;

fn one(sql: &str) -> crate::error::Result<Utility> {
    let statements = parse(sql).expect("syntax");
    read(&statements[0].node, sql).map(|u| u.expect("a utility statement"))
}

fn refused(sql: &str) -> (&'static str, String) {
    let e = one(sql).expect_err(sql);
    (e.sqlstate, e.message.clone())
}

#[test]
fn create_table_with_everything() {
    let Utility::CreateTable(t) = one(
        "create unlogged table if not exists s.t (id bigserial primary key, a varchar(10) not null
         default 'x' || 'y', b numeric(10,2) check (b > 0), c int generated always as identity (start 5),
         constraint u unique (a, b) include (c)) with (fillfactor=70, heap_only_updates=off)",
    )
    .unwrap() else {
        panic!()
    };
    assert_eq!(t.name.schema.as_deref(), Some("s"));
    assert!(t.if_not_exists && t.persistence == Persistence::Unlogged);
    assert_eq!(t.columns.len(), 4);
    assert!(t.columns[0].serial && t.columns[0].not_null);
    assert_eq!(t.columns[1].default.as_deref(), Some("'x' || 'y'"));
    assert_eq!(t.columns[1].column_type.typmod, 14);
    assert_eq!(t.columns[2].column_type.typmod, ((10 << 16) | 2) + 4);
    assert_eq!(t.columns[3].identity.as_ref().unwrap().1.start, Some(5));
    assert_eq!(t.constraints.len(), 3);
    assert_eq!(
        t.constraints[1].kind,
        ConstraintSpecKind::Check {
            expression: "b > 0".to_owned(),
            column: Some("b".to_owned()),
            no_inherit: false,
        }
    );
    assert_eq!(
        t.options,
        [
            ("fillfactor".to_owned(), Some("70".to_owned())),
            ("heap_only_updates".to_owned(), Some("off".to_owned()))
        ]
    );
}

#[test]
fn temporary_relations() {
    for (sql, on_commit) in [
        ("create temp table t (a int)", None),
        (
            "create local temporary table pg_temp.t (a int) on commit delete rows",
            Some(OnCommit::DeleteRows),
        ),
        ("create table pg_temp.t (a int) on commit drop", Some(OnCommit::Drop)),
    ] {
        let Ok(Utility::CreateTable(t)) = one(sql) else { panic!("{sql}") };
        assert_eq!((t.persistence, t.on_commit), (Persistence::Temporary, on_commit), "{sql}");
    }
    let sequence = one("create temp sequence s");
    assert!(matches!(
        sequence,
        Ok(Utility::CreateSequence { persistence: Persistence::Temporary, .. })
    ));
}

#[test]
fn what_is_missing_is_named() {
    for (sql, named) in [
        (
            "create table t (a int generated always as (1) virtual)",
            "generated column that is not STORED",
        ),
        ("create table t (a int) inherits (u)", "INHERITS"),
        ("create index on t using gin (a)", "index method \"gin\""),
        ("begin isolation level serializable", "isolation level SERIALIZABLE"),
        ("vacuum full t", "VACUUM FULL"),
        ("create table t (a xml)", "type xml"),
    ] {
        let (sqlstate, message) = refused(sql);
        assert_eq!(
            (sqlstate, message),
            ("0A000", format!("{named} is not supported yet")),
            "{sql}"
        );
    }
}

#[test]
fn transaction_commands() {
    use TransactionCommand as T;
    let get = |sql| match one(sql).unwrap() {
        Utility::Transaction(t) => t,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        get("start transaction isolation level repeatable read, read only"),
        T::Begin {
            modes: TransactionModes {
                repeatable_read: Some(true),
                read_only: Some(true),
                deferrable: None,
            },
            start: true
        }
    );
    assert_eq!(get("begin"), T::Begin { modes: TransactionModes::default(), start: false });
    assert_eq!(get("end"), T::Commit { chain: false });
    assert_eq!(get("abort and chain"), T::Rollback { chain: true });
    assert_eq!(get("rollback to a"), T::RollbackTo("a".to_owned()));
}

#[test]
fn settings_and_maintenance() {
    let set = |sql| match one(sql).unwrap() {
        Utility::Set(s) => s,
        other => panic!("{other:?}"),
    };
    let value = |name: &str, value: &str, local| SetCommand::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        local,
    };
    assert_eq!(set("set local work_mem = '1MB'"), value("work_mem", "1MB", true));
    assert_eq!(set("set enable_seqscan = off"), value("enable_seqscan", "off", false));
    assert_eq!(set("set search_path = a, \"B\""), value("search_path", "a, \"B\"", false));
    assert_eq!(set("set extra_float_digits = 0"), value("extra_float_digits", "0", false));
    assert_eq!(set("set time zone 'UTC'"), value("timezone", "UTC", false));
    let vacuum = |sql| match one(sql).unwrap() {
        Utility::Vacuum(v) => v,
        other => panic!("{other:?}"),
    };
    let v = vacuum("vacuum (analyze, index_cleanup off, freeze) a, b");
    assert!(v.vacuum && v.analyze && v.freeze);
    assert_eq!((v.index_cleanup, v.truncate, v.targets.len()), (Some(IndexCleanup::Off), None, 2));
    assert_eq!(vacuum("vacuum (truncate) a").truncate, Some(true));
    assert_eq!(vacuum("vacuum (truncate off) a").truncate, Some(false));
    assert_eq!(refused("vacuum (nonsense) t").0, "42601");
}

#[test]
fn copy_options_are_checked() {
    let Utility::Copy(c) =
        one("copy t (a, b) from stdin with (freeze, delimiter '|', null '')").unwrap()
    else {
        panic!()
    };
    assert_eq!(
        c.options,
        CopyOptions {
            delimiter: b'|',
            null: String::new(),
            freeze: true,
            ..CopyOptions::default()
        }
    );
    let Utility::Copy(c) = one("copy t from stdin with freeze").unwrap() else { panic!() };
    assert!(c.options.freeze);
    assert!(matches!(
        one("copy (select 1) to stdout").unwrap(),
        Utility::Copy(c) if matches!(c.source, CopySource::Query(_))
    ));
    assert_eq!(refused("copy t to stdout (delimiter 'ab')").0, "0A000");
    assert_eq!(refused("copy t to stdout (delimiter 'a')").0, "22023");
}
