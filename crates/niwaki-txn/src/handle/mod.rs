//! The handles: the manager, its sessions, the table of their locks, and transactions.
//!
//! Manager, session and lock table own each other: a session keeps its manager, the manager knows
//! its sessions and owns the lock table, and a lock knows the sessions that hold it or wait for it.
//! Operations on them lie in the wings after this one.
//!
//! The order: time slices of the processor (`time_slice`); sessions (`session`, `registry`), locks
//! (`lock_entry`, `page_locks`, `lock_table`) and the manager (`manager`), which name each other;
//! the signal that ends a wait (`signal`), transactions (`transaction`), and the view of one
//! statement (`view`).

pub(crate) mod lock_entry;
pub(crate) mod lock_table;
pub(crate) mod manager;
pub(crate) mod page_locks;
pub(crate) mod registry;
pub(crate) mod session;
pub(crate) mod signal;
pub(crate) mod time_slice;
pub(crate) mod transaction;
pub(crate) mod view;
