//! Programs below valgrind, on a kernel that seems older than it is.
//!
//! Since Linux 6.4 a program may ask for its auxiliary vector again, and then follows it to pages that valgrind has taken
//! away. Refused, it reads a file instead, which valgrind shows to it with its own content.
//!
//! **Invariant:** what runs between fork and exec allocates nothing.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// An instruction of a filter of system calls, `struct sock_filter`.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    instructions: *const Instruction,
}

/// `prctl`'s number.
const PRCTL: u32 = if cfg!(target_arch = "x86_64") {
    157
} else {
    167
};

/// Refuses `prctl(PR_GET_AUXV)` as an older kernel does, and allows everything else.
static FILTER: [Instruction; 6] = {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PR_GET_AUXV: u32 = 0x4155_5856;
    const ALLOW: u32 = 0x7fff_0000;
    const FAIL: u32 = 0x0005_0000;
    const EINVAL: u32 = 22;
    const fn instruction(code: u16, if_false: u8, operand: u32) -> Instruction {
        Instruction {
            code,
            if_true: 0,
            if_false,
            operand,
        }
    }
    [
        instruction(LOAD, 0, 0),
        instruction(IF_EQUAL, 3, PRCTL),
        // The first argument's lower half.
        instruction(LOAD, 0, 16),
        instruction(IF_EQUAL, 1, PR_GET_AUXV),
        instruction(RETURN, 0, FAIL | EINVAL),
        instruction(RETURN, 0, ALLOW),
    ]
};

unsafe extern "C" {
    fn prctl(option: i32, ...) -> i32;
}

/// Has the command's program, and all that it starts, run with the filter.
pub(crate) fn refuse_auxv(command: &mut Command) {
    // SAFETY: the closure makes system calls only, on constants.
    unsafe { command.pre_exec(install) };
}

fn install() -> io::Result<()> {
    const PR_SET_SECCOMP: i32 = 22;
    const PR_SET_NO_NEW_PRIVS: i32 = 38;
    const SECCOMP_MODE_FILTER: u64 = 2;
    let program = Program {
        len: FILTER.len() as u16,
        instructions: FILTER.as_ptr(),
    };
    let zero = 0_u64;
    // SAFETY: plain integers.
    if unsafe { prctl(PR_SET_NO_NEW_PRIVS, 1_u64, zero, zero, zero) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its instructions live until the call returns, which copies them.
    if unsafe { prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
