//! Looks numbers up, in memory and in a table, and within their bounds.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx))]

/// What the host launches.
#[cfg(target_arch = "nvptx64")]
mod entries {
    use core::arch::nvptx::{_block_dim_x, _block_idx_x, _thread_idx_x};

    fn thread() -> usize {
        unsafe { _block_idx_x() as usize * _block_dim_x() as usize + _thread_idx_x() as usize }
    }

    #[no_mangle]
    pub unsafe extern "ptx-kernel" fn look_up(out: *mut f32, index: *const u32, x: *const f32, n: u64, factor: f32) {
        let x = unsafe { core::slice::from_raw_parts(x, n as usize) };
        unsafe { *out.add(thread()) = factor * x[*index.add(thread()) as usize] };
    }

    #[no_mangle]
    pub unsafe extern "ptx-kernel" fn of_table(out: *mut f32, index: *const u32) {
        unsafe { *out.add(thread()) = rust_nvptx_table::at(*index.add(thread()) as usize) };
    }
}
