//! Implements PostgreSQL's regular expressions ("advanced regular expressions").
//!
//! A match follows PostgreSQL's rules, not those rules that Perl has. A match begins as early as
//! possible. Then a greedy expression takes the longest text and a non-greedy one the shortest,
//! whatever the order of its alternatives. Then the parts divide that text, each by its own
//! preference, earlier parts first.
//!
//! `syntax` reads an expression, `automaton` finds the possible ends of its parts, `dissect`
//! divides a matched text among the parts. The `regex` crate decides in linear time whether and
//! where a match begins, wherever the crate can express the expression. It cannot express
//! lookaround assertions and back references.

mod automaton;
mod chars;
mod dissect;
mod syntax;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use niwaki_env::memory;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::work;
use regex::{Regex, RegexBuilder};

use automaton::Budget;
use dissect::{Plan, Spans};
pub use syntax::Options;

/// Bytes of memory that the `regex` crate may take for one expression; beyond this size, this
/// module finds matches without it.
const REGEX_BYTES_MAX: usize = 10 << 20;

/// The longest expression that is compiled, in bytes. (PostgreSQL limits the states of its
/// automaton. That allows about 40,000 letters, and more bytes if classes have long names.)
const PATTERN_BYTES_MAX: usize = 250_000;

/// Bytes of memory that compiling takes for each byte of an expression, at most.
const COMPILED_BYTES: usize = 1 << 10;

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    plan: Plan,
    /// Finds the beginnings of matches, if the `regex` crate can express the expression.
    finder: Option<Regex>,
    /// The number of capturing groups.
    groups: usize,
}

/// A match: byte positions of the whole and of each group that took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// The groups; group 1 comes first.
    pub groups: Vec<Option<(usize, usize)>>,
}

#[cold]
fn invalid(reason: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {reason}"))
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// `2201B` for a bad or very long expression; 53200 where there is no memory to compile it;
    /// `0A000` for basic and extended (POSIX) expressions.
    pub fn new(pattern: &str, options: &Options) -> Result<Self> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        // Compiling itself asks for no memory, so the room is checked before.
        memory::room(pattern.len() * COMPILED_BYTES)?;
        let parsed = syntax::parse(pattern, options)?;
        let finder = parsed.translated.as_deref().and_then(|text| {
            // An expression too large for the `regex` crate is matched in the slower way.
            RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).nest_limit(500).build().ok()
        });
        let plan = Plan::new(&parsed)?;
        Ok(Self { plan, finder, groups: parsed.groups })
    }

    /// Decides whether any part of the text matches.
    ///
    /// # Errors
    /// `54000` when the search takes too many steps.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.finder {
            Some(finder) => Ok(finder.is_match(text)),
            None => Ok(self.find(text, 0)?.is_some()),
        }
    }

    /// Returns the first match that begins at byte `from` or later. Assertions see the text before
    /// `from`.
    ///
    /// # Errors
    /// `54000` when the search takes too many steps.
    pub fn find(&self, text: &str, from: usize) -> Result<Option<Match>> {
        let mut budget = Budget::default();
        let mut start = from;
        loop {
            if let Some(finder) = &self.finder {
                // The `regex` crate is not interrupted: it reads the text once at most.
                let found = finder.find_at(text, start).map(|found| found.start());
                work::tick(found.unwrap_or(text.len()).saturating_sub(start))?;
                match found {
                    Some(found) => start = found,
                    None => return Ok(None),
                }
            }
            if let Some((end, spans)) = self.plan.match_at(text, start, &mut budget)? {
                return Ok(Some(self.matched(start, end, spans)));
            }
            match text.get(start..).and_then(|rest| rest.chars().next()) {
                Some(character) => start += character.len_utf8(),
                None => return Ok(None),
            }
        }
    }

    fn matched(&self, start: usize, end: usize, spans: Spans) -> Match {
        let mut groups = spans;
        groups.resize(self.groups, None);
        Match { start, end, groups }
    }

    /// Returns all matches from byte `from` on that do not overlap. An empty match right after
    /// another match counts, unless `no_degenerate`. That flag also leaves out empty matches at
    /// both ends of the text.
    ///
    /// # Errors
    /// `54000` when the search takes too many steps.
    pub fn find_all(
        &self,
        text: &str,
        from: usize,
        no_degenerate: bool,
        mut each: impl FnMut(Match) -> bool,
    ) -> Result<()> {
        let mut at = from;
        let mut previous_end = 0;
        while at <= text.len() {
            let Some(found) = self.find(text, at)? else { return Ok(()) };
            let (start, end) = (found.start, found.end);
            work::tick(work::VALUE_UNITS)?;
            let wanted = !no_degenerate || (start < text.len() && end > previous_end);
            if wanted {
                if !each(found) {
                    return Ok(());
                }
                previous_end = end;
            }
            at = end;
            if start == end {
                match text.get(end..).and_then(|rest| rest.chars().next()) {
                    Some(character) => at += character.len_utf8(),
                    None => return Ok(()),
                }
            }
        }
        Ok(())
    }
}

/// The number of compiled expressions that a thread keeps.
const CACHE_ENTRIES: usize = 32;

type Cache = RefCell<Vec<(String, Options, Rc<Expression>)>>;

niwaki_env::thread_local! {
    static CACHE: Cache = const { RefCell::new(Vec::new()) };
}

/// Compiles an expression, or takes it from this thread's cache.
///
/// # Errors
/// Errors of [`Expression::new`].
pub fn compile(pattern: &str, options: &Options) -> Result<Rc<Expression>> {
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|(p, o, _)| p == pattern && o == options) {
            // The most recently used expression stays first.
            cache[..=at].rotate_right(1);
            return Ok(Rc::clone(&cache[0].2));
        }
        let compiled = Rc::new(Expression::new(pattern, options)?);
        cache.truncate(CACHE_ENTRIES - 1);
        cache.insert(0, (pattern.to_owned(), *options, Rc::clone(&compiled)));
        Ok(compiled)
    })
}
