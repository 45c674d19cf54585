//! Miri knows few instructions beside those of plain Rust. So only the scalar level is available, and the library does
//! not ask the processor.

use gleed::kernels::Level;

#[test]
fn only_the_scalar_level_is_there() {
    assert_eq!(Level::detect(), Level::SCALAR);
    assert_eq!(Level::available().count(), 1);
    assert!(!Level::allow_amx());
}
