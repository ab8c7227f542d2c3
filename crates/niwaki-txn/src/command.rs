//! Command numbers: which of a transaction's own changes a statement sees.

use niwaki_env::hash::HashMap;

use crate::error::{Error, Result};

/// Number of a command in its transaction, from 0. A command sees what earlier ones wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommandId(pub u32);

/// The command field of a tuple header: the number of the command that inserted the version, or of
/// the one that deleted it, or, with `combo`, of a pair that only the transaction knows, because it
/// did both. It means something to the transaction that wrote it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TupleCid {
    /// The field's value.
    pub raw: u32,
    /// The header's COMBO flag.
    pub combo: bool,
}

/// The pairs behind combo numbers. Most transactions have none.
#[derive(Debug, Default)]
pub(crate) struct ComboTable {
    pairs: Vec<(CommandId, CommandId)>,
    numbers: HashMap<(CommandId, CommandId), u32>,
}

impl ComboTable {
    /// The number that stands for "inserted by `insert`, deleted by `delete`".
    pub(crate) fn number(&mut self, insert: CommandId, delete: CommandId) -> Result<u32> {
        if let Some(&number) = self.numbers.get(&(insert, delete)) {
            return Ok(number);
        }
        let number = u32::try_from(self.pairs.len()).map_err(|_| Error::TooManyCommands)?;
        self.pairs.push((insert, delete));
        self.numbers.insert((insert, delete), number);
        Ok(number)
    }

    /// The pair that `number` stands for.
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
