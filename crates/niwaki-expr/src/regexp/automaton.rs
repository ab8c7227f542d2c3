//! Finds the possible ends of a part of an expression, following all ways through it at once,
//! character by character.

use std::rc::Rc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::work;

use super::chars::{CharSet, is_word};
use super::invalid;
use super::syntax::{Assertion, Node};

/// The most instructions of all parts of one expression; PostgreSQL has a limit of the same kind.
pub(super) const INSTRUCTIONS_MAX: usize = 200_000;
/// The most steps of one search.
const STEPS_MAX: u64 = 1_000_000_000;

/// The remaining steps of a search.
#[derive(Debug)]
pub(super) struct Budget {
    steps: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: STEPS_MAX }
    }
}

impl Budget {
    pub(super) fn spend(&mut self, steps: usize) -> Result<()> {
        work::tick(steps)?;
        match self.steps.checked_sub(steps as u64) {
            Some(rest) => {
                self.steps = rest;
                Ok(())
            }
            None => Err(SqlError::new("54000", "regular expression takes too many steps")),
        }
    }
}

#[derive(Debug)]
enum Instruction {
    Set(Rc<CharSet>),
    Split(usize, usize),
    Jump(usize),
    Assert(Assertion),
    Look { ahead: bool, negated: bool, program: Program },
    End,
}

/// A part of an expression as instructions.
#[derive(Debug)]
pub(super) struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    /// Compiles a part. `groups` are the contents of groups that back references stand for; the
    /// dissection checks later that the texts are equal.
    pub(super) fn new(node: &Node, groups: &[Option<&Node>]) -> Result<Self> {
        let mut program = Self { instructions: Vec::new() };
        program.add(node, groups)?;
        program.push(Instruction::End)?;
        Ok(program)
    }

    /// Returns the number of instructions.
    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    fn push(&mut self, instruction: Instruction) -> Result<usize> {
        if self.instructions.len() >= INSTRUCTIONS_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() - 1)
    }

    fn next(&self) -> usize {
        self.instructions.len()
    }

    fn add(&mut self, node: &Node, groups: &[Option<&Node>]) -> Result<()> {
        match node {
            Node::Empty => {}
            Node::Set(set) => {
                self.push(Instruction::Set(Rc::clone(set)))?;
            }
            Node::Assert(assertion) => {
                self.push(Instruction::Assert(*assertion))?;
            }
            Node::Look { ahead, negated, node } => {
                let program = Self::new(node, groups)?;
                self.push(Instruction::Look { ahead: *ahead, negated: *negated, program })?;
            }
            Node::Back(number) => {
                if let Some(Some(group)) = groups.get(*number) {
                    self.add(group, groups)?;
                }
            }
            Node::Capture(_, inside) => self.add(inside, groups)?,
            Node::Cat(parts) => {
                for part in parts {
                    self.add(part, groups)?;
                }
            }
            Node::Alt(parts) => self.add_alternatives(parts, groups)?,
            Node::Repeat { node, min, max, .. } => self.add_repeat(node, *min, *max, groups)?,
        }
        Ok(())
    }

    fn add_alternatives(&mut self, parts: &[Node], groups: &[Option<&Node>]) -> Result<()> {
        let mut jumps = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number + 1 == parts.len() {
                self.add(part, groups)?;
                break;
            }
            let split = self.push(Instruction::Split(0, 0))?;
            self.add(part, groups)?;
            jumps.push(self.push(Instruction::Jump(0))?);
            let next = self.next();
            self.instructions[split] = Instruction::Split(split + 1, next);
        }
        let end = self.next();
        for jump in jumps {
            self.instructions[jump] = Instruction::Jump(end);
        }
        Ok(())
    }

    fn add_repeat(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        groups: &[Option<&Node>],
    ) -> Result<()> {
        for _ in 0..min {
            self.add(node, groups)?;
        }
        match max {
            None => {
                let split = self.push(Instruction::Split(0, 0))?;
                self.add(node, groups)?;
                self.push(Instruction::Jump(split))?;
                let next = self.next();
                self.instructions[split] = Instruction::Split(split + 1, next);
            }
            Some(max) => {
                let mut splits = Vec::new();
                for _ in min..max {
                    splits.push(self.push(Instruction::Split(0, 0))?);
                    self.add(node, groups)?;
                }
                let end = self.next();
                for split in splits {
                    self.instructions[split] = Instruction::Split(split + 1, end);
                }
            }
        }
        Ok(())
    }

    /// Returns the ends, in order and at most `limit`, of all matches of this part that begin at
    /// `start`.
    pub(super) fn ends(
        &self,
        text: &str,
        start: usize,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<usize>> {
        let mut ends = Vec::new();
        self.run(text, start, limit, budget, |end| {
            ends.push(end);
            true
        })?;
        Ok(ends)
    }

    /// Decides whether this part matches exactly from `start` to `end`.
    pub(super) fn spans(
        &self,
        text: &str,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Result<bool> {
        let mut found = false;
        self.run(text, start, end, budget, |at| {
            found = at == end;
            true
        })?;
        Ok(found)
    }

    /// Decides whether any match begins at `start`.
    fn begins(&self, text: &str, start: usize, budget: &mut Budget) -> Result<bool> {
        let mut found = false;
        self.run(text, start, text.len(), budget, |_| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Calls `at_end` for each end until `at_end` returns false.
    fn run(
        &self,
        text: &str,
        start: usize,
        limit: usize,
        budget: &mut Budget,
        mut at_end: impl FnMut(usize) -> bool,
    ) -> Result<()> {
        let mut seen = vec![usize::MAX; self.instructions.len()];
        let mut current = Vec::new();
        let mut following = Vec::new();
        let mut at = start;
        // `seen` holds the position at which each instruction was last reached.
        let mut ended = self.reach(0, text, at, &mut seen, &mut current, budget)?;
        let mut rest = text.get(start..limit).unwrap_or_default().chars();
        loop {
            if ended && !at_end(at) {
                return Ok(());
            }
            if current.is_empty() {
                return Ok(());
            }
            let Some(character) = rest.next() else { return Ok(()) };
            budget.spend(current.len())?;
            at += character.len_utf8();
            ended = false;
            for number in current.drain(..) {
                if let Some(Instruction::Set(set)) = self.instructions.get(number)
                    && set.contains(character)
                {
                    ended |= self.reach(number + 1, text, at, &mut seen, &mut following, budget)?;
                }
            }
            std::mem::swap(&mut current, &mut following);
        }
    }

    /// Adds the instructions that can be reached without a character; returns whether the end is
    /// among them.
    fn reach(
        &self,
        first: usize,
        text: &str,
        at: usize,
        seen: &mut [usize],
        sets: &mut Vec<usize>,
        budget: &mut Budget,
    ) -> Result<bool> {
        let mut ended = false;
        let mut pending = vec![first];
        while let Some(number) = pending.pop() {
            let (Some(mark), Some(instruction)) =
                (seen.get_mut(number), self.instructions.get(number))
            else {
                continue;
            };
            if *mark == at {
                continue;
            }
            *mark = at;
            budget.spend(1)?;
            match instruction {
                Instruction::Set(_) => sets.push(number),
                Instruction::Split(one, other) => pending.extend([*other, *one]),
                Instruction::Jump(to) => pending.push(*to),
                Instruction::Assert(assertion) => {
                    if holds(*assertion, text, at) {
                        pending.push(number + 1);
                    }
                }
                Instruction::Look { ahead, negated, program } => {
                    let found = if *ahead {
                        program.begins(text, at, budget)?
                    } else {
                        program.lies_before(text, at, budget)?
                    };
                    if found != *negated {
                        pending.push(number + 1);
                    }
                }
                Instruction::End => ended = true,
            }
        }
        Ok(ended)
    }

    /// Decides whether some match ends at `end`.
    fn lies_before(&self, text: &str, end: usize, budget: &mut Budget) -> Result<bool> {
        let before = text.get(..end).unwrap_or_default();
        // The nearest beginnings come first: most such conditions are short.
        let starts = std::iter::once(end).chain(before.char_indices().rev().map(|(at, _)| at));
        for start in starts {
            if self.spans(text, start, end, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn holds(assertion: Assertion, text: &str, at: usize) -> bool {
    let before = || text.get(..at).and_then(|part| part.chars().next_back());
    let after = || text.get(at..).and_then(|part| part.chars().next());
    let word = |c: Option<char>, ascii| c.is_some_and(|c| is_word(c, ascii));
    match assertion {
        Assertion::TextStart => at == 0,
        Assertion::TextEnd => at == text.len(),
        Assertion::LineStart => at == 0 || before() == Some('\n'),
        Assertion::LineEnd => at == text.len() || after() == Some('\n'),
        Assertion::WordStart { ascii } => !word(before(), ascii) && word(after(), ascii),
        Assertion::WordEnd { ascii } => word(before(), ascii) && !word(after(), ascii),
        Assertion::WordEdge { ascii } => word(before(), ascii) != word(after(), ascii),
        Assertion::NotWordEdge { ascii } => word(before(), ascii) == word(after(), ascii),
    }
}
