//! Bytes of one simulated file, in chunks that copies share until one of them writes.

use std::sync::Arc;

/// Bytes of a chunk: one page, so that reading a page is one copy.
const CHUNK: usize = 8192;

/// A file's bytes. Cloning costs one pointer per chunk, so that thousands of crash images of one
/// database are affordable.
///
/// Bytes past `len` inside the last chunk are zero, so that growing shows zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    len: u64,
    /// `None` reads as zeros.
    chunks: Vec<Option<Arc<[u8; CHUNK]>>>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let Some(available) = self.len.checked_sub(offset) else { return 0 };
        let wanted = buf.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < wanted {
            let (index, at) = place(offset + done as u64);
            let count = (CHUNK - at).min(wanted - done);
            let target = &mut buf[done..done + count];
            match self.chunks.get(index).and_then(Option::as_ref) {
                Some(chunk) => target.copy_from_slice(&chunk[at..at + count]),
                None => target.fill(0),
            }
            done += count;
        }
        wanted
    }

    pub(super) fn write_at(&mut self, buf: &[u8], offset: u64) {
        if buf.is_empty() {
            return;
        }
        let end = offset + buf.len() as u64;
        if end > self.len {
            self.set_len(end);
        }
        let mut done = 0;
        while done < buf.len() {
            let (index, at) = place(offset + done as u64);
            let count = (CHUNK - at).min(buf.len() - done);
            let chunk = self.chunks[index].get_or_insert_with(|| Arc::new([0; CHUNK]));
            Arc::make_mut(chunk)[at..at + count].copy_from_slice(&buf[done..done + count]);
            done += count;
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let (index, at) = place(len);
        let chunks = index + usize::from(at > 0);
        self.chunks.resize(chunks, None);
        if len < self.len
            && at > 0
            && let Some(Some(last)) = self.chunks.last_mut()
        {
            Arc::make_mut(last)[at..].fill(0);
        }
        self.len = len;
    }

    /// Returns all bytes at once.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut all = vec![0; usize::try_from(self.len).expect("a file that fits in memory")];
        let read = self.read_at(&mut all, 0);
        debug_assert_eq!(read, all.len());
        all
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        if self.len != other.len {
            return false;
        }
        self.chunks.iter().zip(&other.chunks).all(|pair| match pair {
            (None, None) => true,
            (Some(one), None) | (None, Some(one)) => one.iter().all(|byte| *byte == 0),
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a[..] == b[..],
        })
    }
}

fn place(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).expect("a file that fits in memory");
    (offset / CHUNK, offset % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_vector() {
        let mut plain: Vec<u8> = Vec::new();
        let mut content = Content::default();
        let mut state = 7_u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        for round in 0..2000_u32 {
            let offset = next(40_000);
            match next(3) {
                0 => {
                    let len = next(40_000) as usize;
                    plain.resize(len, 0);
                    content.set_len(len as u64);
                }
                1 => {
                    let bytes = vec![round as u8 | 1; next(20_000) as usize];
                    let end = offset as usize + bytes.len();
                    if !bytes.is_empty() && end > plain.len() {
                        plain.resize(end, 0);
                    }
                    if !bytes.is_empty() {
                        plain[offset as usize..end].copy_from_slice(&bytes);
                    }
                    content.write_at(&bytes, offset);
                }
                _ => {
                    let mut buf = vec![9; next(20_000) as usize];
                    let read = content.read_at(&mut buf, offset);
                    let from = (offset as usize).min(plain.len());
                    let to = (from + buf.len()).min(plain.len());
                    assert_eq!(&buf[..read], &plain[from..to]);
                }
            }
            assert_eq!(content.len(), plain.len() as u64);
        }
        assert_eq!(content.to_vec(), plain);
    }

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut first = Content::default();
        first.write_at(&[1; 10_000], 0);
        let copy = first.clone();
        first.write_at(&[2; 10], 5);
        assert_eq!(copy.to_vec(), vec![1; 10_000]);
        assert!(copy != first);
    }
}
