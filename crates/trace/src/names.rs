//! The volumes of formats that name them in every record: found again by the bytes of the name.

use units::Map;

use crate::decode::Out;
use crate::record::VolumeIndex;

/// Volumes by the bytes that name them in the trace.
#[derive(Default)]
pub(crate) struct VolumeNames {
    known: Map<Box<[u8]>, VolumeIndex>,
    /// Neighbours are often of one volume.
    last: Option<(Box<[u8]>, VolumeIndex)>,
}

impl VolumeNames {
    /// The volume of these bytes; `split` makes VM and volume name of them when they are new.
    #[inline]
    pub(crate) fn get(
        &mut self,
        bytes: &[u8],
        out: &mut Out<'_>,
        split: impl FnOnce(&[u8]) -> (String, String),
    ) -> VolumeIndex {
        match &self.last {
            Some((last, index)) if **last == *bytes => *index,
            _ => self.find(bytes, out, split),
        }
    }

    fn find(
        &mut self,
        bytes: &[u8],
        out: &mut Out<'_>,
        split: impl FnOnce(&[u8]) -> (String, String),
    ) -> VolumeIndex {
        let known = self.known.get(bytes).copied();
        let index = known.unwrap_or_else(|| {
            let (vm, name) = split(bytes);
            let index = out.volume(vm, name);
            self.known.insert(bytes.into(), index);
            index
        });
        match &mut self.last {
            Some((last, place)) if last.len() == bytes.len() => {
                last.copy_from_slice(bytes);
                *place = index;
            }
            last => *last = Some((bytes.into(), index)),
        }
        index
    }
}

/// A volume that is only a name.
pub(crate) fn unowned(bytes: &[u8]) -> (String, String) {
    (String::new(), printable(bytes))
}

/// Bytes as a name.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
