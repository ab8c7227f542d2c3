//! Statements through the library, end to end.

use niwaki::{ColumnInfo, Database, Datum, ResultSink, RowSink, Session, SqlError, TypeOid};

/// Collects everything a client would see, as lines of text.
#[derive(Default)]
struct Transcript {
    lines: Vec<String>,
    types: Vec<TypeOid>,
    input: Vec<u8>,
}

impl RowSink for Transcript {
    fn row(&mut self, row: &[Datum]) -> niwaki::Result<()> {
        let settings = niwaki::TextSettings::default();
        let values: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(i, v)| match v {
                Datum::Null => "NULL".to_owned(),
                v => {
                    let oid = self.types.get(i).copied().unwrap_or(TypeOid::TEXT);
                    niwaki_types::to_text(v, oid, &settings)
                }
            })
            .collect();
        self.lines.push(values.join("|"));
        Ok(())
    }
}

impl ResultSink for Transcript {
    fn columns(&mut self, columns: &[ColumnInfo]) -> niwaki::Result<()> {
        self.types = columns.iter().map(ColumnInfo::oid).collect();
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.lines.push(tag.to_owned());
    }
    fn empty_query(&mut self) {
        self.lines.push("(empty)".to_owned());
    }
    fn notice(&mut self, notice: &SqlError) {
        self.lines.push(format!("{}: {}", notice.severity.as_str(), notice.message));
    }
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, columns: usize) -> niwaki::Result<()> {
        self.lines.push(format!("copy in {columns}"));
        Ok(())
    }
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> niwaki::Result<bool> {
        buffer.append(&mut self.input);
        Ok(false)
    }
    fn copy_out_begin(&mut self, columns: usize) -> niwaki::Result<()> {
        self.lines.push(format!("copy out {columns}"));
        Ok(())
    }
    fn copy_out(&mut self, line: &[u8]) -> niwaki::Result<()> {
        self.lines.push(String::from_utf8_lossy(line).trim_end().to_owned());
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

/// Runs a query string; an error becomes the last line, as `ERROR 23505: message`.
fn run(session: &mut Session, sql: &str) -> Vec<String> {
    run_copy(session, sql, "")
}

fn run_copy(session: &mut Session, sql: &str, input: &str) -> Vec<String> {
    let mut transcript = Transcript { input: input.as_bytes().to_vec(), ..Transcript::default() };
    if let Err(error) = session.simple_query(sql, &mut transcript) {
        session.error();
        let mut line = format!("ERROR {}: {}", error.sqlstate, error.message);
        for extra in [&error.detail, &error.context].into_iter().flatten() {
            line.push_str(" / ");
            line.push_str(extra);
        }
        transcript.lines.push(line);
    }
    transcript.lines
}

fn database() -> Database {
    Database::in_memory().unwrap()
}

#[test]
fn create_insert_select() {
    let db = database();
    let mut s = db.session();
    assert_eq!(
        run(
            &mut s,
            "create table t (a int primary key, b text not null default 'x', c bigserial);
             insert into t (a) values (1), (2); insert into t values (3, 'y', 10);
             select * from t order by a"
        ),
        ["CREATE TABLE", "INSERT 0 2", "INSERT 0 1", "1|x|1", "2|x|2", "3|y|10", "SELECT 3"]
    );
    assert_eq!(
        run(&mut s, "insert into t (a) values (1)"),
        [
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\" / Key (a)=(1) already exists."
        ]
    );
    assert_eq!(
        run(&mut s, "update t set b = 'z' where a = 2; select b from t where a = 2"),
        ["UPDATE 1", "z", "SELECT 1"]
    );
    assert_eq!(
        run(&mut s, "delete from t where a > 1; select count(*) from t"),
        ["DELETE 2", "1", "SELECT 1"]
    );
}
