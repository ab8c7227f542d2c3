//! CREATE SEQUENCE and ALTER SEQUENCE.

use niwaki_catalog::{Oid, Relation, RelationDefinition, RelationKind, SequenceDefinition};
use niwaki_sql::utility::{Name, Persistence, SequenceOptions};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::TypeOid;

use crate::definer::{Definer, wrong_kind};

impl Definer<'_> {
    pub(crate) fn create_sequence(
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
        let owner = self.owner(options, schema)?;
        let logged = self.is_logged(schema, persistence);
        self.add_sequence(schema, &name.name, options, logged, owner.flatten())?;
        Ok(())
    }

    /// Stores a new sequence.
    pub(crate) fn add_sequence(
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
            file,
            logged,
            sequence: Some(sequence),
            ..RelationDefinition::new(oid, schema, name.to_owned(), RelationKind::Sequence)
        })?;
        Ok(oid)
    }

    pub(crate) fn alter_sequence(
        &mut self,
        name: &Name,
        options: &SequenceOptions,
        if_exists: bool,
    ) -> Result<()> {
        let found = self.lock_relation(name, "relation", lock_for(options), if_exists)?;
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

    /// Runs ALTER SEQUENCE, also for a sequence that belongs to a column.
    pub(crate) fn change_sequence(
        &mut self,
        relation: &Relation,
        options: &SequenceOptions,
    ) -> Result<()> {
        // A transaction that has drawn from the sequence goes on drawing by the old definition
        // until it ends. The lock waits for that end.
        self.lock(relation.oid, lock_for(options))?;
        let relation = &*self.current(relation.oid)?;
        let Some(old) = relation.sequence.as_ref() else {
            return Err(wrong_kind(relation, RelationKind::Sequence));
        };
        let mut sequence = defined(options, Some(old))?;
        sequence.owned_by = self.owner(options, relation.schema)?.unwrap_or(old.owned_by);
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
            // The new file lets a rollback restore the old position.
            self.drop_file(&definition)?;
            definition.file = self.new_file(definition.logged)?;
        }
        self.update(definition)?;
        // Numbers logged ahead of those given out follow the old increment.
        let relation = self.current(oid)?;
        if let Some(handle) = &relation.number_generator {
            handle.setval(self.transaction()?, last, called)?;
        }
        Ok(())
    }

    /// Reads OWNED BY for a sequence in this schema. `None`: not given. `Some(None)`: NONE.
    #[expect(clippy::option_option, reason = "nothing said, said NONE, said a column")]
    fn owner(
        &mut self,
        options: &SequenceOptions,
        schema: Oid,
    ) -> Result<Option<Option<(Oid, u16)>>> {
        let Some(owned_by) = &options.owned_by else { return Ok(None) };
        let Some((table, column)) = owned_by else { return Ok(Some(None)) };
        let relation = self.session.lock_by_name(table, TableLockMode::AccessShare)?;
        if relation.schema != schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new("55000", message));
        }
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

/// Returns the lock of ALTER SEQUENCE. It keeps other sessions from drawing. They may still read
/// the sequence, unless it gets another file.
fn lock_for(options: &SequenceOptions) -> TableLockMode {
    match options.restart {
        Some(_) => TableLockMode::AccessExclusive,
        None => TableLockMode::ShareRowExclusive,
    }
}

/// Returns the least and the greatest value of a sequence's type.
fn bounds(type_oid: u32) -> (i64, i64) {
    match TypeOid(type_oid) {
        TypeOid::INT2 => (i16::MIN.into(), i16::MAX.into()),
        TypeOid::INT4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns the definition that options make, over defaults or an earlier definition.
fn defined(
    options: &SequenceOptions,
    old: Option<&SequenceDefinition>,
) -> Result<SequenceDefinition> {
    let type_oid = options.type_oid.or(old.map(|o| o.type_oid)).unwrap_or(TypeOid::INT8.0);
    let (least, greatest) = bounds(type_oid);
    let increment = options.increment.or(old.map(|o| o.increment)).unwrap_or(1);
    // With the type, a bound equal to the old type's bound changes. A chosen bound stays.
    let retyped = old.filter(|_| options.type_oid.is_some());
    let no_least = retyped.is_some_and(|o| o.minimum == bounds(o.type_oid).0);
    let no_greatest = retyped.is_some_and(|o| o.maximum == bounds(o.type_oid).1);
    let maximum = match options.maximum {
        Some(given) => given,
        None => old.map(|o| o.maximum).filter(|_| !no_greatest),
    }
    .unwrap_or(if increment > 0 || no_greatest { greatest } else { -1 });
    let minimum = match options.minimum {
        Some(given) => given,
        None => old.map(|o| o.minimum).filter(|_| !no_least),
    }
    .unwrap_or(if increment < 0 || no_least { least } else { 1 });
    let invalid = |message: String| Err(SqlError::new("22023", message));
    for (word, value) in [("MAXVALUE", maximum), ("MINVALUE", minimum)] {
        if value > greatest || value < least {
            let kind = niwaki_sql::types::format_oid(TypeOid(type_oid));
            let message = format!("{word} ({value}) is out of range for sequence data type {kind}");
            return invalid(message);
        }
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
