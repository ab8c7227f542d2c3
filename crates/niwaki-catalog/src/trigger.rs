//! Stored definitions of row triggers (`docs/format.md`, catalog).

use serde::{Deserialize, Serialize};

use crate::definition::{Oid, is_false};

/// When a trigger is fired, seen from the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TriggerTime {
    /// BEFORE: it may change the row, or leave it out.
    Before,
    /// AFTER: when the statement has ended.
    After,
}

impl TriggerTime {
    /// The word of statements, and of `TG_WHEN`.
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
    /// INSERT
    Insert,
    /// DELETE
    Delete,
    /// UPDATE
    Update,
}

impl TriggerEvent {
    /// All of them, in the order in which PostgreSQL shows them.
    pub const ALL: [Self; 3] = [Self::Insert, Self::Delete, Self::Update];

    /// The word of statements, and of `TG_OP`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
        }
    }

    /// Its bit in `pg_trigger.tgtype`.
    pub fn bit(self) -> i16 {
        match self {
            Self::Insert => 4,
            Self::Delete => 8,
            Self::Update => 16,
        }
    }
}

/// In which sessions a trigger is fired: PostgreSQL's `tgenabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TriggerMode {
    /// In all that do not replay what happened elsewhere.
    #[default]
    #[serde(rename = "O")]
    Origin,
    /// In none.
    #[serde(rename = "D")]
    Disabled,
    /// In those alone that replay; there are none.
    #[serde(rename = "R")]
    Replica,
    /// In all.
    #[serde(rename = "A")]
    Always,
}

impl TriggerMode {
    /// PostgreSQL's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Origin => "O",
            Self::Disabled => "D",
            Self::Replica => "R",
            Self::Always => "A",
        }
    }

    /// Whether it is fired at all.
    pub fn fires(self) -> bool {
        matches!(self, Self::Origin | Self::Always)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_origin(mode: &TriggerMode) -> bool {
    *mode == TriggerMode::Origin
}

/// A row trigger, as its table's definition has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Its number.
    pub oid: Oid,
    /// Name, unique among the table's triggers.
    pub name: String,
    /// The function: a user's, or one of PostgreSQL's by its number there.
    pub function: Oid,
    /// BEFORE or AFTER.
    pub time: TriggerTime,
    /// INSERT
    #[serde(default, skip_serializing_if = "is_false")]
    pub insert: bool,
    /// DELETE
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete: bool,
    /// UPDATE
    #[serde(default, skip_serializing_if = "is_false")]
    pub update: bool,
    /// UPDATE OF: positions of columns, in the order of the statement; empty: whatever is updated.
    #[serde(rename = "of", default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<u16>,
    /// SQL text of WHEN, over the rows `old` and `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What the function finds in `TG_ARGV`.
    #[serde(rename = "args", default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The trigger of the partitioned table above that this one was made for.
    #[serde(rename = "part", default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Oid>,
    /// ENABLE, DISABLE
    #[serde(default, skip_serializing_if = "is_origin")]
    pub mode: TriggerMode,
    /// COMMENT ON TRIGGER
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Trigger {
    /// Whether it is for this change.
    pub fn is_for(&self, event: TriggerEvent) -> bool {
        match event {
            TriggerEvent::Insert => self.insert,
            TriggerEvent::Delete => self.delete,
            TriggerEvent::Update => self.update,
        }
    }

    /// Its changes, in PostgreSQL's order.
    pub fn events(&self) -> impl Iterator<Item = TriggerEvent> {
        TriggerEvent::ALL.into_iter().filter(|event| self.is_for(*event))
    }

    /// `pg_trigger.tgtype`: for each row, its time, its changes.
    pub fn type_bits(&self) -> i16 {
        const FOR_EACH_ROW: i16 = 1;
        const BEFORE: i16 = 2;
        let time = if self.time == TriggerTime::Before { BEFORE } else { 0 };
        self.events().fold(FOR_EACH_ROW | time, |bits, event| bits | event.bit())
    }
}
