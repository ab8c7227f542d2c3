//! Divides a matched text among the parts of an expression, so that groups match as in PostgreSQL.
//!
//! Consecutive parts without groups and with the same preference, the longest or the shortest text,
//! form one part. The other parts form a binary tree. In the tree, the left side chooses first and
//! the right side must match the rest.

use niwaki_parse::error::Result;

use super::automaton::{Budget, INSTRUCTIONS_MAX, Program};
use super::invalid;
use super::syntax::{Node, Parsed};

/// Byte positions of the groups that took part; group 1 comes first.
pub(super) type Spans = Vec<Option<(usize, usize)>>;

/// An expression, ready to be matched.
#[derive(Debug)]
pub(super) struct Plan {
    root: Part,
    groups: usize,
    fold: bool,
    ascii: bool,
}

#[derive(Debug)]
struct Part {
    kind: Kind,
    program: Program,
    /// True to prefer the shortest text.
    shortest: bool,
}

#[derive(Debug)]
enum Kind {
    /// A part with no group inside that matters.
    Plain,
    /// A part that matches the same text as the inner part.
    Whole(Box<Part>),
    Concat(Box<Part>, Box<Part>),
    Alternatives(Vec<Part>),
    Capture(usize, Box<Part>),
    /// A repeated part. Groups inside show what the last repetition gave them, or nothing.
    Iterate {
        part: Box<Part>,
        min: usize,
        max: usize,
        groups: Vec<usize>,
    },
    Back {
        number: usize,
        min: usize,
        max: usize,
    },
}

/// The preference and the content of a part.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
struct Traits {
    /// True if a part inside prefers the longest text.
    longer: bool,
    /// True if a part inside prefers the shortest text.
    shorter: bool,
    /// The preference of the part as a whole: the longest text (true), the shortest, or none.
    longest: Option<bool>,
    captures: bool,
    refers: bool,
}

impl Traits {
    fn wanting(longest: Option<bool>) -> Self {
        let (longer, shorter) = (longest == Some(true), longest == Some(false));
        Self { longer, shorter, longest, ..Self::default() }
    }

    fn of(node: &Node) -> Self {
        match node {
            Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Look { .. } => Self::default(),
            Node::Back(_) => Self { refers: true, ..Self::default() },
            Node::Capture(_, inside) => Self { captures: true, ..Self::of(inside) },
            Node::Cat(parts) => {
                parts.iter().fold(Self::default(), |sum, part| sum.join(Self::of(part)))
            }
            Node::Alt(parts) => {
                let first = Self::wanting(Some(true));
                parts.iter().fold(first, |sum, part| sum.join(Self::of(part)))
            }
            Node::Repeat { node, longest, .. } => Self::wanting(*longest).join(Self::of(node)),
        }
    }

    /// Joins the traits of two consecutive parts: the first preference decides.
    fn join(self, other: Self) -> Self {
        Self {
            longer: self.longer || other.longer,
            shorter: self.shorter || other.shorter,
            longest: self.longest.or(other.longest),
            captures: self.captures || other.captures,
            refers: self.refers || other.refers,
        }
    }

    /// Decides whether the inside of a part matters, and not only its whole text.
    fn is_of_interest(self) -> bool {
        self.captures || self.refers
    }

    fn is_separate(self) -> bool {
        self.is_of_interest() || (self.longer && self.shorter)
    }
}

/// Builds the tree of parts.
struct Builder<'n> {
    /// The contents of groups, by number.
    groups: Vec<Option<&'n Node>>,
    /// Instructions of all parts so far.
    instructions: usize,
}

impl<'n> Builder<'n> {
    fn collect(&mut self, node: &'n Node) {
        match node {
            Node::Capture(number, inside) => {
                if let Some(place) = self.groups.get_mut(*number) {
                    *place = Some(inside);
                }
                self.collect(inside);
            }
            Node::Cat(parts) | Node::Alt(parts) => {
                for part in parts {
                    self.collect(part);
                }
            }
            Node::Repeat { node, .. } => self.collect(node),
            Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Look { .. } | Node::Back(_) => {}
        }
    }

    fn part(&mut self, node: &Node, kind: Kind) -> Result<Part> {
        let program = Program::new(node, &self.groups)?;
        self.instructions += program.len();
        if self.instructions > INSTRUCTIONS_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        Ok(Part { kind, program, shortest: Traits::of(node).longest == Some(false) })
    }

    fn build(&mut self, node: &Node) -> Result<Part> {
        if !Traits::of(node).is_of_interest() {
            return self.part(node, Kind::Plain);
        }
        let kind = match node {
            Node::Cat(parts) => return self.sequence(parts),
            Node::Capture(number, inside) => Kind::Capture(*number, Box::new(self.build(inside)?)),
            Node::Alt(parts) => Kind::Alternatives(
                parts.iter().map(|part| self.build(part)).collect::<Result<Vec<Part>>>()?,
            ),
            Node::Back(number) => Kind::Back { number: *number, min: 1, max: 1 },
            Node::Repeat { node: inside, min, max, longest } => {
                self.repeat(inside, *min, *max, *longest)?
            }
            Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Look { .. } => Kind::Plain,
        };
        self.part(node, kind)
    }

    fn repeat(
        &mut self,
        inside: &Node,
        min: u32,
        max: Option<u32>,
        longest: Option<bool>,
    ) -> Result<Kind> {
        let count = |number: u32| number as usize;
        let limit = max.map_or(usize::MAX, count);
        if let Node::Back(number) = inside {
            return Ok(Kind::Back { number: *number, min: count(min), max: limit });
        }
        let part = Box::new(self.build(inside)?);
        if min == 1 && max == Some(1) {
            return Ok(Kind::Whole(part));
        }
        if min > 0 && !Traits::of(inside).refers {
            // Groups keep their last match, so only the last repetition matters.
            let before = Node::Repeat {
                node: Box::new(inside.clone()),
                min: min - 1,
                max: max.map(|max| max - 1),
                longest,
            };
            let before = self.part(&before, Kind::Plain)?;
            return Ok(Kind::Concat(Box::new(before), part));
        }
        let mut groups = Vec::new();
        collect_groups(inside, &mut groups);
        Ok(Kind::Iterate { part, min: count(min), max: limit, groups })
    }

    /// Builds consecutive parts from the last to the first: long sequences must not nest calls.
    fn sequence(&mut self, parts: &[Node]) -> Result<Part> {
        let whole = |parts: &[Node]| Node::Cat(parts.to_vec());
        // Each separate part, with the start of the run of other parts before it.
        let mut pieces = Vec::new();
        let (mut start, mut run) = (0, Traits::default());
        for (at, part) in parts.iter().enumerate() {
            run = run.join(Traits::of(part));
            if run.is_separate() {
                pieces.push((start, at));
                (start, run) = (at + 1, Traits::default());
            }
        }
        let mut right = match &parts[start..] {
            [] => None,
            rest => Some(self.part(&whole(rest), Kind::Plain)?),
        };
        for (start, at) in pieces.into_iter().rev() {
            let item = self.build(&parts[at])?;
            let mut joined = match right {
                None => item,
                Some(rest) => {
                    self.part(&whole(&parts[at..]), Kind::Concat(Box::new(item), Box::new(rest)))?
                }
            };
            if start < at {
                let left = self.part(&whole(&parts[start..at]), Kind::Plain)?;
                let kind = Kind::Concat(Box::new(left), Box::new(joined));
                joined = self.part(&whole(&parts[start..]), kind)?;
            }
            right = Some(joined);
        }
        match right {
            Some(part) => Ok(part),
            None => self.part(&Node::Empty, Kind::Plain),
        }
    }
}

/// Collects the numbers of the groups in a node.
fn collect_groups(node: &Node, groups: &mut Vec<usize>) {
    match node {
        Node::Capture(number, inside) => {
            groups.push(*number);
            collect_groups(inside, groups);
        }
        Node::Cat(parts) | Node::Alt(parts) => {
            parts.iter().for_each(|part| collect_groups(part, groups));
        }
        Node::Repeat { node, .. } => collect_groups(node, groups),
        Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Look { .. } | Node::Back(_) => {}
    }
}

impl Plan {
    pub(super) fn new(parsed: &Parsed) -> Result<Self> {
        let mut builder = Builder { groups: vec![None; parsed.groups + 1], instructions: 0 };
        builder.collect(&parsed.root);
        let root = builder.build(&parsed.root)?;
        Ok(Self { root, groups: parsed.groups, fold: parsed.fold, ascii: parsed.ascii })
    }

    /// Returns the end of the match that begins at byte `start`, and its groups.
    pub(super) fn match_at(
        &self,
        text: &str,
        start: usize,
        budget: &mut Budget,
    ) -> Result<Option<(usize, Spans)>> {
        let mut search = Search {
            text,
            fold: self.fold,
            ascii: self.ascii,
            spans: vec![None; self.groups],
            budget,
        };
        let mut ends = self.root.program.ends(text, start, text.len(), search.budget)?;
        if !self.root.shortest {
            ends.reverse();
        }
        for end in ends {
            if search.dissect(&self.root, start, end)? {
                return Ok(Some((end, search.spans)));
            }
        }
        Ok(None)
    }
}

struct Search<'s> {
    text: &'s str,
    fold: bool,
    ascii: bool,
    spans: Spans,
    budget: &'s mut Budget,
}

impl Search<'_> {
    /// Sets the spans of the groups inside a part whose program matches from `begin` to `end`.
    /// False when back references forbid the match; then no group is changed.
    fn dissect(&mut self, part: &Part, begin: usize, end: usize) -> Result<bool> {
        match &part.kind {
            Kind::Plain => Ok(true),
            Kind::Whole(inside) => self.dissect(inside, begin, end),
            Kind::Capture(number, inside) => {
                let found = self.dissect(inside, begin, end)?;
                if found && let Some(span) = self.spans.get_mut(number - 1) {
                    *span = Some((begin, end));
                }
                Ok(found)
            }
            Kind::Concat(left, right) => {
                let mut middles = left.program.ends(self.text, begin, end, self.budget)?;
                if !left.shortest {
                    middles.reverse();
                }
                for middle in middles {
                    if !right.program.spans(self.text, middle, end, self.budget)? {
                        continue;
                    }
                    let before = self.spans.clone();
                    if self.dissect(left, begin, middle)? && self.dissect(right, middle, end)? {
                        return Ok(true);
                    }
                    self.spans = before;
                }
                Ok(false)
            }
            Kind::Alternatives(parts) => {
                for part in parts {
                    if part.program.spans(self.text, begin, end, self.budget)?
                        && self.dissect(part, begin, end)?
                    {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Kind::Iterate { part, min, max, groups } => {
                self.iterate(part, *min, *max, groups, begin, end)
            }
            Kind::Back { number, min, max } => Ok(self.repeats(*number, *min, *max, begin, end)),
        }
    }

    /// Decides whether the text from `begin` to `end` repeats the match of group `number` `min` to
    /// `max` times.
    fn repeats(&self, number: usize, min: usize, max: usize, begin: usize, end: usize) -> bool {
        let Some(Some((from, to))) = self.spans.get(number - 1) else { return false };
        let lower = |part: Option<&str>| -> Vec<char> {
            let characters = part.unwrap_or_default().chars();
            if self.fold {
                let lower = |c: char| {
                    if self.ascii {
                        c.to_ascii_lowercase()
                    } else {
                        c.to_lowercase().next().unwrap_or(c)
                    }
                };
                characters.map(lower).collect()
            } else {
                characters.collect()
            }
        };
        let (wanted, found) = (lower(self.text.get(*from..*to)), lower(self.text.get(begin..end)));
        if found.is_empty() {
            return min == 0 || wanted.is_empty();
        }
        if wanted.is_empty() || !found.len().is_multiple_of(wanted.len()) {
            return false;
        }
        let count = found.len() / wanted.len();
        (min..=max).contains(&count) && found.chunks(wanted.len()).all(|chunk| chunk == wanted)
    }

    /// Divides a text among repetitions of a part. Each repetition takes the text that it prefers;
    /// the first repetition chooses first.
    fn iterate(
        &mut self,
        part: &Part,
        min: usize,
        max: usize,
        groups: &[usize],
        begin: usize,
        end: usize,
    ) -> Result<bool> {
        if begin == end && min == 0 {
            // If the part matches the empty text, one repetition gives its groups their spans.
            // Otherwise, or if the part prefers the shortest text, there is no repetition.
            if !part.shortest && part.program.spans(self.text, begin, end, self.budget)? {
                self.dissect(part, begin, end)?;
            }
            return Ok(true);
        }
        let least = min.max(1);
        let most = max.max(least);
        // The start of each repetition with its remaining possible ends; the best end comes last.
        let mut levels: Vec<(usize, Vec<usize>)> = Vec::new();
        levels.push((begin, self.choices(part, begin, end)?));
        // The ends chosen so far.
        let mut chosen: Vec<usize> = Vec::new();
        while let Some((start, choices)) = levels.last_mut() {
            let start = *start;
            let Some(choice) = choices.pop() else {
                levels.pop();
                continue;
            };
            let number = levels.len();
            chosen.truncate(number - 1);
            chosen.push(choice);
            if choice != end {
                // An empty repetition only helps to reach the least number of repetitions.
                let left = self.text.get(choice..end).map_or(0, |rest| rest.chars().count());
                let empty = choice == start && (number >= least || least - number < left);
                if number < most && !empty {
                    levels.push((choice, self.choices(part, choice, end)?));
                }
                continue;
            }
            if number < least {
                if begin == end {
                    levels.push((choice, self.choices(part, choice, end)?));
                }
                continue;
            }
            let before = self.spans.clone();
            let mut from = begin;
            let mut all = true;
            for to in &chosen {
                for group in groups {
                    if let Some(span) = self.spans.get_mut(group - 1) {
                        *span = None;
                    }
                }
                if !self.dissect(part, from, *to)? {
                    all = false;
                    break;
                }
                from = *to;
            }
            if all {
                return Ok(true);
            }
            self.spans = before;
        }
        Ok(false)
    }

    fn choices(&mut self, part: &Part, begin: usize, end: usize) -> Result<Vec<usize>> {
        let mut ends = part.program.ends(self.text, begin, end, self.budget)?;
        if part.shortest {
            ends.reverse();
        }
        Ok(ends)
    }
}
