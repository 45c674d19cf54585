//! The C ABI of gleed.
#![no_std]
