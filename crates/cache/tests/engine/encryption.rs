//! Disks whose blocks lie encrypted on flash: read back, moved, recovered, and given to nobody who
//! has another key.

use crate::rig::{Rig, page};
use block_io::BlockCipher;
use cache::{
    Borrowed, ControlError, LoanRequest, NotLent, OfDirty, ShippedWhat, WriteBack, WritePolicy,
};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, DiskId, Duration, Offset};

/// Enough to tell plain bytes from encrypted ones, one block from another, and keys apart.
struct Xor(u8);

impl Xor {
    fn turn(&self, block: BlockIndex, bytes: &mut [u8]) {
        let mask = self.0 ^ block.get().to_le_bytes()[0];
        for byte in bytes {
            *byte ^= mask;
        }
    }
}

impl BlockCipher for Xor {
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.turn(block, bytes);
    }

    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.turn(block, bytes);
    }

    fn tag(&self) -> NonZeroU64 {
        NonZeroU64::new(self.0.into()).unwrap()
    }
}

fn lazy() -> WriteBack {
    WriteBack {
        age_max: Duration::from_secs(1000),
        idle_after: Duration::from_secs(1000),
        ..WriteBack::default()
    }
}

impl Rig {
    fn give_key(&mut self, key: u8) {
        let disk = DiskId::from_u128(1);
        self.cache_mut().set_cipher(disk, Some(Box::new(Xor(key))));
    }

    fn encrypted(key: u8, policy: WritePolicy) -> Self {
        let mut rig = Self::bare(Bytes::mib(4));
        rig.give_key(key);
        rig.attach(policy, lazy()).unwrap();
        rig
    }
}

#[test]
fn nothing_of_the_guest_lies_plainly_on_flash_and_everything_is_read_back() {
    let mut rig = Rig::encrypted(0x80, WritePolicy::Back);
    for block in 0..40 {
        rig.write(block, 7);
        // Still in the open chunk.
        assert_eq!(rig.read(block), Ok(page(7)));
    }
    rig.flush();
    assert!(!rig.has_on_flash(&page(7)));
    assert!(rig.has_on_flash(&page(7 ^ 0x80 ^ 3)), "block 3, encrypted");
    assert_eq!(rig.read(3), Ok(page(7)));
    // A part of a block is merged with the plain bytes of the rest.
    rig.write_at(Offset::new(3 * 4096 + 512), &[9; 512]);
    let three = rig.read(3).unwrap();
    assert_eq!((three[0], three[512], three[1024]), (7, 9, 7));
    rig.destage();
    assert_eq!(rig.origin_block(3), three);
    assert_eq!(rig.origin_block(39), page(7));
    assert_eq!(rig.read(39), Ok(page(7)), "a clean block now");
}

/// What another host gets of a block.
fn lent(rig: &mut Rig, block: u64) -> Result<Vec<u8>, NotLent> {
    let (disk, first, count) = (DiskId::from_u128(1), BlockIndex::new(block), 1);
    match rig.lend(LoanRequest::Blocks { disk, first, count })? {
        Borrowed::Blocks(bytes) => Ok(bytes.iter().flat_map(|slice| slice.to_vec()).collect()),
        other => panic!("a block has bytes, not {other:?}"),
    }
}

#[test]
fn what_is_lent_to_another_host_is_plain_wherever_it_lies() {
    let mut rig = Rig::encrypted(0x80, WritePolicy::Through);
    rig.fill_origin(5, 7);
    assert_eq!(rig.read(5), Ok(page(7)));
    assert_eq!(lent(&mut rig, 5), Ok(page(7)), "from the open chunk");
    rig.pass(Duration::from_secs(2));
    assert!(rig.has_on_flash(&page(7 ^ 0x80 ^ 5)));
    assert_eq!(lent(&mut rig, 5), Ok(page(7)), "from flash");
    rig.detach(OfDirty::Flush).unwrap();
    assert_eq!(lent(&mut rig, 5), Err(NotLent), "its key has gone with it");
    let disk = DiskId::from_u128(1);
    rig.cache_mut().lend_with(disk, Box::new(Xor(0x81)));
    assert_eq!(lent(&mut rig, 5), Err(NotLent), "another key");
    rig.cache_mut().lend_with(disk, Box::new(Xor(0x80)));
    assert_eq!(lent(&mut rig, 5), Ok(page(7)));
}

#[test]
fn what_is_shipped_to_another_host_is_plain_wherever_it_lies() {
    let mut rig = Rig::encrypted(0x80, WritePolicy::Back);
    let shipped = |rig: &mut Rig| {
        let mut records = rig.records(0).unwrap().records;
        match records.pop().unwrap().what {
            ShippedWhat::Block { bytes, .. } => bytes,
            ShippedWhat::Erased(erased) => panic!("a block was written, not {erased:?}"),
        }
    };
    rig.hold_flash_writes = true;
    rig.write(3, 7);
    assert_eq!(shipped(&mut rig), page(7), "from memory");
    rig.hold_flash_writes = false;
    rig.free();
    rig.flush();
    assert!(rig.has_on_flash(&page(7 ^ 0x80 ^ 3)));
    assert_eq!(shipped(&mut rig), page(7), "from flash");
}

#[test]
fn fills_are_encrypted_too() {
    let mut rig = Rig::encrypted(0x80, WritePolicy::Through);
    rig.fill_origin(5, 7);
    assert_eq!(rig.read(5), Ok(page(7)));
    assert_eq!(rig.read(5), Ok(page(7)), "from the open chunk");
    rig.pass(Duration::from_secs(2));
    assert!(!rig.has_on_flash(&page(7)) && rig.has_on_flash(&page(7 ^ 0x80 ^ 5)));
    rig.fill_origin(5, 8);
    assert_eq!(rig.read(5), Ok(page(7)), "from flash");
}

#[test]
fn dirty_blocks_are_found_after_a_power_cut_with_the_key_and_refused_without() {
    let mut rig = Rig::encrypted(0x80, WritePolicy::Back);
    rig.write(3, 7);
    rig.flush();
    rig.power_cut_of_nothing();
    for key in [None, Some(0x81)] {
        if let Some(key) = key {
            rig.give_key(key);
        }
        let refused = rig.attach(WritePolicy::Back, lazy());
        assert_eq!(refused, Err(ControlError::OtherKey));
    }
    rig.give_key(0x80);
    rig.attach(WritePolicy::Back, lazy()).unwrap();
    assert_eq!(rig.read(3), Ok(page(7)));
    rig.destage();
    assert_eq!(rig.origin_block(3), page(7));
}

#[test]
fn clean_blocks_under_another_key_are_dropped() {
    for key in [None, Some(0x81)] {
        let mut rig = Rig::encrypted(0x80, WritePolicy::Through);
        rig.fill_origin(5, 7);
        rig.read(5).unwrap();
        rig.detach(OfDirty::Refuse).unwrap();
        rig.fill_origin(5, 8);
        if let Some(key) = key {
            rig.give_key(key);
        }
        rig.attach(WritePolicy::Through, lazy()).unwrap();
        assert_eq!(
            rig.read(5),
            Ok(page(8)),
            "from the origin, not decrypted wrongly"
        );
    }
}
