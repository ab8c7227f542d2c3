//! TRUNCATE: new, empty files, so that a rollback brings the rows back.

use niwaki_catalog::{Oid, RelationDefinition, RelationKind, RelationStats};
use niwaki_sql::SqlError;
use niwaki_sql::utility::Name;
use niwaki_storage::RelFileId;
use niwaki_txn::TableLockMode;

use super::Definer;
use crate::Result;
use crate::session::Session;

impl Definer<'_> {
    pub(super) fn truncate(&mut self, names: &[Name], restart_identity: bool) -> Result<()> {
        let mut done: Vec<Oid> = Vec::new();
        for name in names {
            let relation = self.session.lock_by_name(name, TableLockMode::AccessExclusive)?;
            if relation.kind != RelationKind::Table {
                return Err(SqlError::new(
                    "42809",
                    format!("\"{}\" is not a table", relation.name),
                ));
            }
            self.refuse_pending(&relation, "TRUNCATE")?;
            if done.contains(&relation.oid) {
                continue;
            }
            done.push(relation.oid);
            let mut files = vec![relation.oid];
            files.extend(relation.indexes.iter().map(|i| i.oid));
            if restart_identity {
                files.extend(relation.columns.iter().filter_map(|c| c.sequence));
            }
            for oid in files {
                let mut definition = self.current(oid)?.definition.clone();
                definition.stats = RelationStats::default();
                self.session.renew_file(definition)?;
            }
            self.session.note_created(relation.oid);
        }
        Ok(())
    }
}

impl Session {
    /// Gives a relation new, empty files. The old ones go when the transaction commits.
    pub(super) fn renew_file(&mut self, mut definition: RelationDefinition) -> Result<()> {
        self.drop_file(&definition)?;
        definition.file = self.new_file(definition.logged)?;
        definition.values = None;
        if definition.kind == RelationKind::Table {
            let (table, file) = (u64::from(definition.oid.0), RelFileId(definition.file));
            self.engine().note_emptied(table, file);
        }
        self.allot_values(&mut definition)?;
        self.update_definition(definition)
    }
}
