//! One sample: what the signal handler copies and the unwinder reads.

/// Bytes of stack copied per sample.
pub(crate) const STACK_BYTES: usize = 64 << 10;

/// Registers at the moment of a signal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    /// The link register.
    #[cfg(target_arch = "aarch64")]
    pub(crate) lr: u64,
}

/// Registers and the top of a stack.
pub(crate) struct Sample {
    pub(crate) registers: Registers,
    /// Number of bytes of `stack` copied, from the stack pointer on.
    pub(crate) len: usize,
    pub(crate) stack: [u8; STACK_BYTES],
}
