//! Requests smaller than a block, and across the edges of blocks, cold and warm.

use e2e::{Image, Stack, StackSettings, nbdsh, scenario};

#[test]
fn sectors_within_and_across_blocks_are_right_cold_and_warm() {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let expected = lab.path("expected.raw");
        std::fs::copy(stack.image.path(), &expected)?;
        let script = format!(
            r"
import random
model = bytearray(open('{}', 'rb').read(4 << 20))
dice = random.Random(11)
for turn in range(1500):
    length = 512 * dice.choice((1, 1, 2, 3, 7, 8, 9, 16, 33))
    offset = 512 * dice.randrange((len(model) - length) // 512)
    what = dice.randrange(8)
    if what < 4:
        assert h.pread(length, offset) == model[offset:offset + length], (turn, offset, length)
    elif what < 7:
        data = bytes([dice.randrange(256)]) * length
        h.pwrite(data, offset)
        model[offset:offset + length] = data
    else:
        h.zero(length, offset)
        model[offset:offset + length] = bytes(length)
assert h.pread(len(model), 0) == model
",
            expected.display()
        );
        nbdsh(Some(&stack.uri()), &script)?;
        stack.check_disk_equals_origin(lab)
    });
}

#[test]
fn the_image_is_what_its_formula_says() {
    // The other tests rely on it: no two blocks of an image are alike.
    assert_ne!(Image::word(0), Image::word(4096));
    assert_ne!(Image::word(8), Image::word(4104));
}
