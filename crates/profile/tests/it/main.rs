//! Tests profiles of a process with a known workload: this one.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

use narthex_profile::{HeapView, Profile, ProfileError, cpu, fuzz, heap};
use narthex_testkit::{TempDir, alloc::Counting, mutate::Mutator, tool};
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[inline(never)]
fn a_hot_function(rounds: u64) -> u64 {
    let mut x = rounds;
    for _ in 0..rounds {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).rotate_left(7) ^ rounds);
    }
    x
}

#[inline(never)]
fn its_caller(calls: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        sum = sum.wrapping_add(a_hot_function(100_000));
        calls.fetch_add(1, Ordering::Relaxed);
    }
    sum
}

/// Profiles a thread until it has done enough work, on any machine.
fn busy_profile() -> Profile {
    const ENOUGH: u64 = 1500;
    let (calls, stop) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (of_thread, stop_thread) = (Arc::clone(&calls), Arc::clone(&stop));
    let worker = thread::spawn(move || its_caller(&of_thread, &stop_thread));
    let done = || calls.load(Ordering::Relaxed) >= ENOUGH;
    let profile = cpu(Duration::from_secs(120), &done).unwrap();
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    profile
}

/// A single test, because the timer and the handler belong to the process.
#[test]
fn a_busy_function_is_found_with_its_callers() {
    let profile = busy_profile();
    let stacks = profile.by_name();
    let all: u64 = stacks.iter().map(|(_, count)| count).sum();
    let calls = |stack: &[String]| {
        stack
            .windows(2)
            .any(|pair| pair[0].ends_with("its_caller") && pair[1].ends_with("a_hot_function"))
    };
    let hot: u64 = stacks
        .iter()
        .filter(|(stack, _)| calls(stack))
        .map(|(_, count)| count)
        .sum();
    // Other tests run in this process meanwhile.
    assert!(hot * 10 > all, "{hot} of {all} samples: {stacks:?}");
    let rooted = stacks.iter().any(|(stack, _)| {
        calls(stack)
            && stack.iter().any(|name| {
                name.contains("thread_start")
                    || name.contains("start_thread")
                    || name.contains("thread::")
            })
    });
    assert!(
        rooted,
        "no stack reaches the thread's beginning: {stacks:?}"
    );

    let svg = profile.to_svg();
    assert!(svg.starts_with("<?xml") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a_hot_function"));
    assert!(!svg.contains("<script"));

    let text = top(&profile.to_pprof(), &["-cum"]);
    assert!(text.contains("Type: cpu"), "{text}");
    assert!(text.contains("a_hot_function"), "{text}");

    one_at_a_time();
}

/// Returns the output of `go tool pprof -top` for a profile.
fn top(profile: &[u8], flags: &[&str]) -> String {
    let dir = TempDir::new("profile");
    let path = dir.write("profile.pb", profile);
    let top = Command::new(tool("go", "golang"))
        .args(["tool", "pprof", "-top", "-nodecount=200", "-nodefraction=0"])
        .args(flags)
        .arg(&path)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&top.stderr);
    assert!(top.status.success(), "{error}");
    String::from_utf8_lossy(&top.stdout).into_owned()
}

#[test]
fn a_dump_of_the_heap_has_names_and_sizes() {
    // A return address is after the call: use the function's beginning plus one.
    let address = a_hot_function as *const () as u64 + 1;
    let dump = format!(
        "heap_v2/1\n  t*: 2: 3145728 [4: 7340032]\n@ {address:#x} 0x2\n  t*: 2: 3145728 [4: 7340032]\n"
    );
    let profile = heap(&dump).unwrap();
    let live = top(&profile.to_pprof(HeapView::InUse), &[]);
    assert!(live.contains("Type: inuse_space"), "{live}");
    assert!(
        live.contains("a_hot_function") && live.contains("3MB"),
        "{live}"
    );
    let ever = top(&profile.to_pprof(HeapView::Allocated), &[]);
    assert!(
        ever.contains("Type: alloc_space") && ever.contains("7MB"),
        "{ever}"
    );
    let count = top(
        &profile.to_pprof(HeapView::InUse),
        &["-sample_index=alloc_objects"],
    );
    assert!(count.contains("Type: alloc_objects"), "{count}");
    let picture = profile.to_svg(HeapView::InUse);
    assert!(picture.contains("Heap: 3.1 MB in use") && picture.contains("a_hot_function"));
    let error = heap("heap profile: none").unwrap_err();
    assert_eq!(
        error.to_string(),
        "heap dump, line 1: no heap_v2 with a rate"
    );
}

#[test]
fn mutated_dumps_are_read_or_refused() {
    let dump =
        b"heap_v2/1\n  t*: 2: 3145728 [4: 7340032]\n@ 0x1001 0x2\n  t*: 2: 3145728 [4: 7340032]\n";
    Mutator::new(0x4ea9).run(&[dump], 20_000, fuzz::fuzz_heap);
}

fn one_at_a_time() {
    let (begun, first) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let of_thread = Arc::clone(&stop);
    let running = thread::spawn(move || {
        cpu(Duration::from_secs(60), &|| {
            // The receiver is gone after the first time.
            let _ = begun.send(());
            of_thread.load(Ordering::Relaxed)
        })
    });
    first.recv().unwrap();
    let error = cpu(Duration::from_secs(1), &|| false).unwrap_err();
    assert!(matches!(error, ProfileError::Busy), "{error}");
    assert_eq!(error.to_string(), "cpu profiling already in use");
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap();
}

#[test]
fn mutated_files_are_no_programs() {
    // The smallest file with a segment, and with an invalid offset of the section headers.
    let mut file = vec![0; 64 + 56 + 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[32] = 64;
    file[54] = 56;
    file[56] = 1;
    file[40] = 120;
    file[58] = 64;
    file[60] = 1;
    file[64] = 1;
    Mutator::new(0xe1f).run(&[&file], 20_000, fuzz::fuzz_elf);
}
