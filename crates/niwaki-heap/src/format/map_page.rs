//! Pages of the visibility map, and the log's description of their changes
//! (`docs/internals/format.md`).
#![deny(clippy::indexing_slicing)]

use niwaki_env::invariant;
use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Csn};

use crate::format::change::Fields;

/// The map's statement about a heap page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageVisibility {
    /// The map makes no statement.
    #[default]
    Unknown = 0,
    /// Every version on the page is visible to every snapshot, present and future. No line pointer
    /// is DEAD, and no root is mixed.
    AllVisible = 1,
    /// In addition, no version names a transaction.
    AllFrozen = 3,
}

/// Number of bits of a heap page.
pub(crate) const BITS: u32 = 2;

impl PageVisibility {
    /// Returns the state that these bits mean; `None` for bits that are never written.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Unknown,
            1 => Self::AllVisible,
            3 => Self::AllFrozen,
            _ => return None,
        })
    }
}

const BLOCKS_PER_BYTE: u32 = u8::BITS / BITS;
const MASK: u8 = 3;
const _: () = assert!(MASK as u32 == (1 << BITS) - 1);
const _: () = assert!(BLOCKS_PER_BYTE * BITS == u8::BITS);
const _: () = assert!(PageVisibility::AllFrozen as u8 <= MASK);
// A page that is all-frozen is all-visible too.
const _: () = assert!(PageVisibility::AllFrozen as u8 & PageVisibility::AllVisible as u8 != 0);

/// Number of heap pages that one page of the map describes.
pub const BLOCKS_PER_VISIBILITY_PAGE: u32 = (PAGE_SIZE - HEADER_SIZE) as u32 * BLOCKS_PER_BYTE;

/// Returns the map's page that describes a heap page.
pub(crate) fn number(block: u32) -> BlockNumber {
    let number = BlockNumber(block / BLOCKS_PER_VISIBILITY_PAGE);
    debug_assert!(first(number) <= block, "page {number} of the map begins behind {block}");
    number
}

/// Returns the first heap page that a page of the map describes.
pub(crate) fn first(number: BlockNumber) -> u32 {
    number.0.saturating_mul(BLOCKS_PER_VISIBILITY_PAGE)
}

fn place(block: u32) -> (usize, u32) {
    let block = block % BLOCKS_PER_VISIBILITY_PAGE;
    let (byte, shift) = ((block / BLOCKS_PER_BYTE) as usize, BITS * (block % BLOCKS_PER_BYTE));
    debug_assert!(byte < PAGE_SIZE - HEADER_SIZE, "byte {byte} lies behind the page");
    debug_assert!(shift + BITS <= u8::BITS, "the bits of a page lie in one byte");
    (byte, shift)
}

/// Returns the bits of a heap page on its page of the map.
pub(crate) fn bits(page: &Page, block: u32) -> u8 {
    let (byte, shift) = place(block);
    page.raw().get(byte).map_or(0, |byte| byte >> shift & MASK)
}

/// Returns the state that a heap page's bits mean; invalid bits mean nothing.
pub(crate) fn get(page: &Page, block: u32) -> PageVisibility {
    PageVisibility::from_bits(bits(page, block)).unwrap_or_default()
}

fn set(page: &mut Page, block: u32, to: PageVisibility) {
    let (byte, shift) = place(block);
    if let Some(byte) = page.raw_mut().get_mut(byte) {
        *byte = *byte & !(MASK << shift) | (to as u8) << shift;
    }
    invariant!(V1, get(page, block) == to, "the state of page {block} reads back");
}

/// A change of one heap page's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetBits {
    pub(crate) block: u32,
    pub(crate) to: PageVisibility,
    /// The newest commit that inserted a version on the page, if the bits say that all snapshots
    /// see the page. A standby's snapshot from before that commit does not see everything
    /// (rule `map-record`).
    pub(crate) newest: Csn,
}

impl SetBits {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.to as u8);
        out.extend_from_slice(&self.block.to_le_bytes());
        if self.to != PageVisibility::Unknown {
            out.extend_from_slice(&self.newest.0.to_le_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let to = PageVisibility::from_bits(fields.u8()?)?;
        let block = fields.u32()?;
        let newest = match to {
            PageVisibility::Unknown => Csn(0),
            PageVisibility::AllVisible | PageVisibility::AllFrozen => Csn(fields.u64()?),
        };
        Some(Self { block, to, newest })
    }

    pub(crate) fn apply(&self, page: &mut Page) {
        set(page, self.block, self.to);
    }
}

/// Makes the changes of a record to the map's page `here`. Returns `None` when they cannot be read,
/// or belong to another page.
pub(crate) fn redo(page: &mut Page, here: BlockNumber, data: &[u8]) -> Option<()> {
    let mut fields = Fields(data);
    while !fields.0.is_empty() {
        let change = SetBits::decode(&mut fields).filter(|change| number(change.block) == here)?;
        change.apply(page);
    }
    Some(())
}
