//! Pins of pages: finding a page in the pool, or reading it in.

use scopeguard::ScopeGuard;

use super::guard::Pin;
use super::pool::BufferPool;
use crate::error::Result;
use crate::frames::frame::{LOADING, PIN_MASK, Tag, USED, VALID, assert_state};
use crate::ids::PageId;
use crate::page::Page;

impl BufferPool {
    /// Pins a page, and reads the page in when it is not in the pool. Of several threads that want
    /// a page, one reads and the others wait for it.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the page does not exist, fails its checksum or its
    /// structure is damaged; [`crate::Error::Io`]; [`crate::Error::NoBuffers`] when every frame
    /// stays pinned. Also errors of writing an evicted page.
    #[inline]
    pub fn pin(&self, id: PageId) -> Result<Pin<'_>> {
        let tag = Tag::of(id);
        if niwaki_env::sometimes!(1, 32) {
            self.write_any();
        }
        if let Some(pin) = self.pin_resident(tag) {
            return Ok(pin);
        }
        self.pin_slowly(tag, false)
    }

    /// Pins a page if it is in the pool.
    pub fn pin_if_resident(&self, id: PageId) -> Option<Pin<'_>> {
        self.pin_resident(Tag::of(id))
    }

    /// Pins a page that redo will overwrite as a whole. A torn page on disk reads as zeros here.
    pub(crate) fn pin_to_rewrite(&self, id: PageId) -> Result<Pin<'_>> {
        self.pin_slowly(Tag::of(id), true)
    }

    /// Pins a page if it is in the pool, without waiting.
    #[inline]
    pub(super) fn pin_resident(&self, tag: Tag) -> Option<Pin<'_>> {
        let index = self.table.guess(&self.frames, tag)?;
        // The pin's locked instruction would make the first access to the page wait for the frame.
        self.arena.prefetch(index as usize);
        let frame = &self.frames[index as usize];
        let before = frame.try_pin_to_use()?;
        // From here on the pin keeps the name.
        let pin = Pin::new(self, frame, index);
        if frame.tag() != tag {
            return None;
        }
        frame.count_hit();
        if before & USED == 0 {
            self.frequencies.count(tag);
        }
        Some(pin)
    }

    #[cold]
    fn pin_slowly(&self, tag: Tag, rewrite: bool) -> Result<Pin<'_>> {
        // Ends: every round returns, finds a page that another thread has put there, or has waited
        // for a failed read. If that read's error lasts, the next round meets it itself.
        loop {
            let partition = self.table.lock(tag);
            let found = self.table.find(&self.frames, tag);
            if let Some(index) = found {
                let pin = self.pin_listed(index);
                drop(partition);
                if let Some(pin) = self.wait_until_read(pin, index) {
                    return Ok(pin);
                }
                continue;
            }
            drop(partition);
            let index = self.claim_frame()?;
            if self.begin_load(tag, index) {
                return self.load(tag, index, rewrite);
            }
        }
    }

    /// Pins a frame that is in the table; the caller holds the partition's lock.
    fn pin_listed(&self, index: u32) -> Pin<'_> {
        let frame = &self.frames[index as usize];
        frame.pin_again();
        Pin::new(self, frame, index)
    }

    fn wait_until_read<'p>(&'p self, pin: Pin<'p>, index: u32) -> Option<Pin<'p>> {
        let frame = &self.frames[index as usize];
        let state = self.wait_until_loaded(index, frame.tag());
        assert_state(state);
        debug_assert!(state & PIN_MASK > 0, "{pin:?}: the pin is not counted");
        debug_assert!(state & LOADING == 0, "{pin:?}: the frame was renamed in spite of the pin");
        if state & VALID == 0 {
            return None;
        }
        frame.count_hit();
        Some(pin)
    }

    /// Reads the page of a frame that this thread put into the table as LOADING.
    fn load(&self, tag: Tag, index: u32, rewrite: bool) -> Result<Pin<'_>> {
        let frame = &self.frames[index as usize];
        // SAFETY: the frame is LOADING and this thread set that: other threads wait until the read
        // is over.
        let page = unsafe { self.page_mut(index) };
        let pin = Pin::new(self, frame, index);
        // Threads that wait for the end of this read must not wait for ever.
        let panicked = scopeguard::guard((), |()| self.end_load(tag, index, false));
        let read = self.read_page(tag.id(), page, rewrite);
        ScopeGuard::into_inner(panicked);
        self.end_load(tag, index, read.is_ok());
        read.map(|()| pin)
    }

    fn read_page(&self, id: PageId, page: &mut Page, rewrite: bool) -> Result<()> {
        let fork = self.files.fork(id.file, id.fork)?;
        self.files.read(&fork, id, page)?;
        self.accept(id, page, rewrite)
    }
}
