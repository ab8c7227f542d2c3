//! Sequences.

use niwaki_catalog::{
    Oid, Relation, RelationDefinition, RelationKind, RelationOptions, RelationStats,
    SequenceDefinition,
};
use niwaki_sql::SqlError;
use niwaki_sql::utility::{Name, Persistence, SequenceOptions};
use niwaki_txn::TableLockMode;
use niwaki_types::TypeOid;

use super::{Definer, wrong_kind};
use crate::Result;

impl Definer<'_> {
    pub(super) fn create_sequence(
        &mut self,
        name: &Name,
        options: &SequenceOptions,
        if_not_exists: bool,
        persistence: Persistence,
    ) -> Result<()> {
        let schema = self.creation_schema(name, persistence)?;
        if !self.name_is_free(schema, &name.name, if_not_exists)? {
            return Ok(());
        }
        let owner = self.owner(options)?;
        let logged = self.is_logged(schema, persistence);
        self.add_sequence(schema, &name.name, options, logged, owner.flatten())?;
        Ok(())
    }

    /// Stores a new sequence.
    pub(super) fn add_sequence(
        &mut self,
        schema: Oid,
        name: &str,
        options: &SequenceOptions,
        logged: bool,
        owned_by: Option<(Oid, u16)>,
    ) -> Result<Oid> {
        let oid = self.session.new_oid();
        let mut sequence = defined(options, None)?;
        sequence.owned_by = owned_by;
        let file = self.new_file(logged)?;
        self.create(RelationDefinition {
            oid,
            schema,
            name: name.to_owned(),
            kind: RelationKind::Sequence,
            file,
            values: None,
            logged,
            columns: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            comment: None,
            options: RelationOptions::default(),
            index: None,
            sequence: Some(sequence),
            query: None,
            partition_key: None,
            partition_of: None,
            stats: RelationStats::default(),
        })?;
        Ok(oid)
    }

    pub(super) fn alter_sequence(
        &mut self,
        name: &Name,
        options: &SequenceOptions,
        if_exists: bool,
    ) -> Result<()> {
        let found =
            self.lock_relation(name, "relation", TableLockMode::AccessExclusive, if_exists)?;
        let Some(relation) = found else { return Ok(()) };
        if let Some(old) = &relation.sequence
            && options.owned_by.is_some()
            && let Some((table, position)) = old.owned_by
            && let Some(owner) = self.state().relation(table)
            && owner.columns.get(usize::from(position)).is_some_and(|c| c.identity.is_some())
        {
            let message = "cannot change ownership of identity sequence";
            let detail =
                format!("Sequence \"{}\" is linked to table \"{}\".", relation.name, owner.name);
            return Err(SqlError::new("0A000", message).with_detail(detail));
        }
        self.change_sequence(&relation, options)
    }

    /// ALTER SEQUENCE of a sequence that is locked, or whose table is.
    pub(super) fn change_sequence(
        &mut self,
        relation: &Relation,
        options: &SequenceOptions,
    ) -> Result<()> {
        let Some(old) = relation.sequence.as_ref() else {
            return Err(wrong_kind(relation, RelationKind::Sequence));
        };
        let mut sequence = defined(options, Some(old))?;
        sequence.owned_by = self.owner(options)?.unwrap_or(old.owned_by);
        let handle = relation
            .number_generator
            .as_ref()
            .ok_or_else(|| SqlError::internal("a sequence without its numbers"))?;
        let (mut last, mut called) = handle.state()?;
        let mut definition = relation.definition.clone();
        let restarted = options.restart.is_some();
        if let Some(restart) = options.restart {
            last = restart.unwrap_or(sequence.start);
            called = false;
        }
        if last < sequence.minimum {
            return Err(SqlError::new(
                "22023",
                format!(
                    "RESTART value ({last}) cannot be less than MINVALUE ({})",
                    sequence.minimum
                ),
            ));
        }
        if last > sequence.maximum {
            return Err(SqlError::new(
                "22023",
                format!(
                    "RESTART value ({last}) cannot be greater than MAXVALUE ({})",
                    sequence.maximum
                ),
            ));
        }
        definition.sequence = Some(sequence);
        let oid = definition.oid;
        if restarted {
            // A new file, so that a rollback brings the old position back.
            self.drop_file(&definition)?;
            definition.file = self.new_file(definition.logged)?;
        }
        self.update(definition)?;
        if restarted {
            let relation = self.current(oid)?;
            if let Some(handle) = &relation.number_generator {
                handle.setval(self.transaction()?, last, called)?;
            }
        }
        Ok(())
    }

    /// What OWNED BY says: `None` nothing, `Some(None)` NONE.
    #[expect(clippy::option_option, reason = "nothing said, said NONE, said a column")]
    fn owner(&mut self, options: &SequenceOptions) -> Result<Option<Option<(Oid, u16)>>> {
        let Some(owned_by) = &options.owned_by else { return Ok(None) };
        let Some((table, column)) = owned_by else { return Ok(Some(None)) };
        let relation = self.session.lock_by_name(table, TableLockMode::AccessShare)?;
        let position = relation.column_position(column).ok_or_else(|| {
            SqlError::new(
                "42703",
                format!("column \"{column}\" of relation \"{}\" does not exist", relation.name),
            )
        })?;
        let position = u16::try_from(position).map_err(|_| SqlError::internal("column number"))?;
        Ok(Some(Some((relation.oid, position))))
    }
}

/// The definition that options make, over defaults or an earlier definition.
fn defined(
    options: &SequenceOptions,
    old: Option<&SequenceDefinition>,
) -> Result<SequenceDefinition> {
    let type_oid = options.type_oid.or(old.map(|o| o.type_oid)).unwrap_or(TypeOid::INT8.0);
    let (least, greatest) = match TypeOid(type_oid) {
        TypeOid::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        TypeOid::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let increment = options.increment.or(old.map(|o| o.increment)).unwrap_or(1);
    let retyped = old.is_some_and(|o| o.type_oid != type_oid);
    let kept = |value: Option<i64>| if retyped { None } else { value };
    let maximum = match options.maximum {
        Some(given) => given,
        None => kept(old.map(|o| o.maximum)),
    }
    .unwrap_or(if increment > 0 { greatest } else { -1 });
    let minimum = match options.minimum {
        Some(given) => given,
        None => kept(old.map(|o| o.minimum)),
    }
    .unwrap_or(if increment > 0 { 1 } else { least });
    let invalid = |message: String| Err(SqlError::new("22023", message));
    if maximum > greatest || maximum < least {
        return invalid(format!("MAXVALUE ({maximum}) is out of range for sequence data type"));
    }
    if minimum > greatest || minimum < least {
        return invalid(format!("MINVALUE ({minimum}) is out of range for sequence data type"));
    }
    if minimum >= maximum {
        return invalid(format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})"));
    }
    let start = options.start.or(old.map(|o| o.start)).unwrap_or(if increment > 0 {
        minimum
    } else {
        maximum
    });
    if start < minimum {
        return invalid(format!("START value ({start}) cannot be less than MINVALUE ({minimum})"));
    }
    if start > maximum {
        return invalid(format!(
            "START value ({start}) cannot be greater than MAXVALUE ({maximum})"
        ));
    }
    Ok(SequenceDefinition {
        type_oid,
        start,
        increment,
        minimum,
        maximum,
        cycle: options.cycle.or(old.map(|o| o.cycle)).unwrap_or(false),
        cache: options.cache.or(old.map(|o| o.cache)).unwrap_or(1),
        owned_by: None,
    })
}
