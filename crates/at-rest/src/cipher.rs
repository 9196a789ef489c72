//! AES-256-XTS over blocks (IEEE 1619-2018): the block is the data unit, its number the tweak.

use block_io::{BlockCipher, PAGE_BYTES};
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::sha::Sha256;
use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU64;
use units::BlockIndex;

/// Bytes of a data key: two AES-256 keys.
const KEY_BYTES: usize = 64;

/// What a disk's blocks are encrypted with. Wiped when it is dropped.
pub struct DataKey(pub(crate) [u8; KEY_BYTES]);

impl DataKey {
    pub(crate) const BYTES: usize = KEY_BYTES;

    /// A new key from the system's dice.
    ///
    /// # Errors
    /// What the library said.
    pub(crate) fn draw() -> Result<Self, ErrorStack> {
        let mut key = [0; KEY_BYTES];
        loop {
            openssl::rand::rand_priv_bytes(&mut key)?;
            // Two equal halves would be no XTS; nobody will ever see it.
            if key[..KEY_BYTES / 2] != key[KEY_BYTES / 2..] {
                return Ok(Self(key));
            }
        }
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

impl Drop for DataKey {
    fn drop(&mut self) {
        self.0.fill(0);
        // Keeps the stores from being taken for useless.
        std::hint::black_box(&self.0);
    }
}

/// A disk's cipher. Keys are expanded once.
pub struct XtsCipher {
    work: RefCell<Work>,
    tag: NonZeroU64,
}

/// What the library works with.
struct Work {
    encrypt: CipherCtx,
    decrypt: CipherCtx,
    /// It writes beside its input.
    scratch: Box<[u8; PAGE_BYTES]>,
}

impl XtsCipher {
    /// The cipher of a data key.
    ///
    /// # Errors
    /// What the library said: it has no AES-XTS, or no memory.
    ///
    /// # Panics
    /// Never: a hash is long enough for a tag.
    pub fn new(key: &DataKey) -> Result<Self, ErrorStack> {
        let cipher = Some(Cipher::aes_256_xts());
        let mut encrypt = CipherCtx::new()?;
        encrypt.encrypt_init(cipher, Some(&key.0), None)?;
        let mut decrypt = CipherCtx::new()?;
        decrypt.decrypt_init(cipher, Some(&key.0), None)?;
        let mut hash = Sha256::new();
        hash.update(b"hearth: the tag of a data key");
        hash.update(&key.0);
        let tag = *hash.finish().first_chunk().expect("a hash has 32 bytes");
        Ok(Self {
            work: RefCell::new(Work {
                encrypt,
                decrypt,
                scratch: Box::new([0; PAGE_BYTES]),
            }),
            tag: NonZeroU64::new(u64::from_le_bytes(tag)).unwrap_or(NonZeroU64::MIN),
        })
    }
}

fn tweak(block: BlockIndex) -> [u8; 16] {
    u128::from(block.get()).to_le_bytes()
}

/// Why nothing is returned where the library could say no: every argument has its right length,
/// and neither memory nor randomness is asked for.
const CANNOT_FAIL: &str = "a block of the right length is encrypted and decrypted";

impl BlockCipher for XtsCipher {
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are encrypted whole");
        let Work {
            encrypt, scratch, ..
        } = &mut *self.work.borrow_mut();
        encrypt
            .encrypt_init(None, None, Some(&tweak(block)))
            .expect(CANNOT_FAIL);
        // Nothing is left to be padded, so there is nothing to finish.
        let done = encrypt.cipher_update(bytes, Some(&mut scratch[..]));
        assert_eq!(done.expect(CANNOT_FAIL), PAGE_BYTES);
        bytes.copy_from_slice(&scratch[..]);
    }

    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are decrypted whole");
        let Work {
            decrypt, scratch, ..
        } = &mut *self.work.borrow_mut();
        decrypt
            .decrypt_init(None, None, Some(&tweak(block)))
            .expect(CANNOT_FAIL);
        let done = decrypt.cipher_update(bytes, Some(&mut scratch[..]));
        assert_eq!(done.expect(CANNOT_FAIL), PAGE_BYTES);
        bytes.copy_from_slice(&scratch[..]);
    }

    fn tag(&self) -> NonZeroU64 {
        self.tag
    }
}

impl fmt::Debug for XtsCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("XtsCipher(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// IEEE 1619-2018, annex B, vector 10: AES-256, a data unit of 512 bytes with number 0xff.
    /// Its first bytes are those of a longer unit's, since XTS goes on block by block.
    #[test]
    fn the_standards_vector_comes_out() {
        let mut key = [0; KEY_BYTES];
        key[..32].copy_from_slice(&hex(
            "2718281828459045235360287471352662497757247093699959574966967627",
        ));
        key[32..].copy_from_slice(&hex(
            "3141592653589793238462643383279502884197169399375105820974944592",
        ));
        let cipher = XtsCipher::new(&DataKey(key)).unwrap();
        let mut bytes: Vec<u8> = (0..PAGE_BYTES)
            .map(|i| (i % 256).to_le_bytes()[0])
            .collect();
        cipher.encrypt(BlockIndex::new(0xff), &mut bytes);
        assert_eq!(bytes[..16], hex("1c3b3a102f770386e4836c99e370cf9b"));
    }

    proptest! {
        #[test]
        fn what_is_encrypted_comes_back_and_only_at_its_block(
            block in 0_u64..1 << 36,
            other in 0_u64..1 << 36,
            byte: u8,
        ) {
            let cipher = XtsCipher::new(&DataKey::draw().unwrap()).unwrap();
            let plain = vec![byte; PAGE_BYTES];
            let mut bytes = plain.clone();
            cipher.encrypt(BlockIndex::new(block), &mut bytes);
            prop_assert_ne!(&bytes, &plain);
            let mut elsewhere = bytes.clone();
            cipher.decrypt(BlockIndex::new(other), &mut elsewhere);
            prop_assert_eq!(elsewhere == plain, block == other);
            cipher.decrypt(BlockIndex::new(block), &mut bytes);
            prop_assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn two_keys_have_two_tags_and_one_key_has_one() {
        let (a, b) = (DataKey::draw().unwrap(), DataKey::draw().unwrap());
        let tag = |key| XtsCipher::new(key).unwrap().tag();
        assert_eq!(tag(&a), tag(&a));
        assert_ne!(tag(&a), tag(&b));
    }
}
