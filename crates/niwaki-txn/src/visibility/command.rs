//! Command numbers decide which of its own changes a statement of a transaction sees.

use niwaki_env::hash::HashMap;

use crate::error::{Error, Result};

/// Number of a command in its transaction, from 0. A command sees the writes of earlier commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommandId(pub u32);

/// The command field of a tuple header. Only the transaction that wrote the field can interpret it.
///
/// The field holds the number of the command that inserted the version, or of the one that deleted
/// it. With `combo`, the field holds a combo number instead: one transaction did both, and only
/// that transaction knows the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TupleCid {
    /// The field's value.
    pub raw: u32,
    /// The header's COMBO flag.
    pub combo: bool,
}

/// The (insert, delete) pairs behind combo numbers. Most transactions have none.
#[derive(Debug, Default)]
pub(crate) struct ComboTable {
    pairs: Vec<(CommandId, CommandId)>,
    numbers: HashMap<(CommandId, CommandId), u32>,
}

impl ComboTable {
    /// Returns the number that stands for "inserted by `insert`, deleted by `delete`".
    pub(crate) fn number(&mut self, insert: CommandId, delete: CommandId) -> Result<u32> {
        if let Some(&number) = self.numbers.get(&(insert, delete)) {
            return Ok(number);
        }
        let number = u32::try_from(self.pairs.len()).map_err(|_| Error::TooManyCommands)?;
        self.pairs.push((insert, delete));
        self.numbers.insert((insert, delete), number);
        debug_assert_eq!(self.pairs.len(), self.numbers.len(), "two numbers stand for one pair");
        Ok(number)
    }

    /// Returns the pair that `number` stands for.
    pub(crate) fn pair(&self, number: u32) -> Option<(CommandId, CommandId)> {
        self.pairs.get(usize::try_from(number).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_keeps_its_number() {
        let mut table = ComboTable::default();
        let first = table.number(CommandId(1), CommandId(2)).unwrap();
        let second = table.number(CommandId(1), CommandId(3)).unwrap();
        assert_ne!(first, second);
        assert_eq!(table.number(CommandId(1), CommandId(2)).unwrap(), first);
        assert_eq!(table.pair(second), Some((CommandId(1), CommandId(3))));
        assert_eq!(table.pair(2), None);
    }
}
