//! The memory of the pool: frames for pages, without the files and the log behind them.
//!
//! The order: the bytes (`arena`), the state of a frame (`frame`), the table that finds frames by
//! the page's name (`table`), the counts of uses (`frequency`), and the copies that are read
//! optimistically (`optimistic`), and a page as the log sees it (`log_target`).

pub(crate) mod arena;
pub(crate) mod frame;
pub(crate) mod frequency;
pub(crate) mod log_target;
pub(crate) mod optimistic;
pub(crate) mod table;
