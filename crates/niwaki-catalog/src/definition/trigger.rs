//! Stored definitions of row triggers (`docs/internals/format.md`, catalog).

use serde::{Deserialize, Serialize};

use crate::definition::omitted::is_false;
use crate::rows::oid::Oid;

/// Time of a trigger relative to the change of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TriggerTime {
    /// BEFORE: the trigger may change the row or skip it.
    Before,
    /// AFTER: the trigger fires at the end of the statement.
    After,
}

impl TriggerTime {
    /// Returns the word of statements, and of `TG_WHEN`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        }
    }
}

/// A change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerEvent {
    /// INSERT.
    Insert,
    /// DELETE.
    Delete,
    /// UPDATE.
    Update,
}

impl TriggerEvent {
    /// All events, in the order in which PostgreSQL shows them.
    pub const ALL: [Self; 3] = [Self::Insert, Self::Delete, Self::Update];

    /// Returns the word of statements, and of `TG_OP`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
        }
    }

    /// Returns the event's bit in `pg_trigger.tgtype`.
    pub fn bit(self) -> i16 {
        match self {
            Self::Insert => 4,
            Self::Delete => 8,
            Self::Update => 16,
        }
    }
}

/// Sessions in which a trigger fires: PostgreSQL's `tgenabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TriggerMode {
    /// All sessions but those that replay changes of another database.
    #[default]
    #[serde(rename = "O")]
    Origin,
    /// No session.
    #[serde(rename = "D")]
    Disabled,
    /// Only sessions that replay; there are none.
    #[serde(rename = "R")]
    Replica,
    /// All sessions.
    #[serde(rename = "A")]
    Always,
}

impl TriggerMode {
    /// Returns PostgreSQL's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Origin => "O",
            Self::Disabled => "D",
            Self::Replica => "R",
            Self::Always => "A",
        }
    }

    /// Decides whether the trigger ever fires.
    pub fn fires(self) -> bool {
        matches!(self, Self::Origin | Self::Always)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_origin(mode: &TriggerMode) -> bool {
    *mode == TriggerMode::Origin
}

/// A row trigger, as stored with its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The trigger's number.
    pub oid: Oid,
    /// Name, unique among the table's triggers.
    pub name: String,
    /// The function: a user's, or one of PostgreSQL's by its number in PostgreSQL.
    pub function: Oid,
    /// BEFORE or AFTER.
    pub time: TriggerTime,
    /// INSERT.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insert: bool,
    /// DELETE.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete: bool,
    /// UPDATE.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update: bool,
    /// UPDATE OF: positions of columns, in the order of the statement. Empty: an update of any
    /// column.
    #[serde(rename = "of", default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<u16>,
    /// SQL text of WHEN, over the rows `old` and `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Arguments, which the function finds in `TG_ARGV`.
    #[serde(rename = "args", default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The trigger of the partitioned parent that created this one.
    #[serde(rename = "part", default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Oid>,
    /// ENABLE, DISABLE.
    #[serde(default, skip_serializing_if = "is_origin")]
    pub mode: TriggerMode,
    /// COMMENT ON TRIGGER.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Trigger {
    /// Decides whether the trigger is for this event.
    pub fn is_for(&self, event: TriggerEvent) -> bool {
        match event {
            TriggerEvent::Insert => self.insert,
            TriggerEvent::Delete => self.delete,
            TriggerEvent::Update => self.update,
        }
    }

    /// Iterates over the trigger's events, in PostgreSQL's order.
    pub fn events(&self) -> impl Iterator<Item = TriggerEvent> {
        TriggerEvent::ALL.into_iter().filter(|event| self.is_for(*event))
    }

    /// Returns `pg_trigger.tgtype`: the bits for row level, time and events.
    pub fn type_bits(&self) -> i16 {
        const FOR_EACH_ROW: i16 = 1;
        const BEFORE: i16 = 2;
        let time = if self.time == TriggerTime::Before { BEFORE } else { 0 };
        self.events().fold(FOR_EACH_ROW | time, |bits, event| bits | event.bit())
    }
}
